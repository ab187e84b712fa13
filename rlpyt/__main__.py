"""The command ``rlpyt`` as ``python -m rlpyt``."""

from rlpyt.experiments.command import main

if __name__ == "__main__":
    main(prog_name="rlpyt")
