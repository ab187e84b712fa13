"""The command ``rlpyt``, also as ``python -m rlpyt``."""

from rlpyt.processes.allocator import restart_faster


def main() -> None:
    """Run the command."""
    restart_faster()
    from rlpyt.experiments.command import main as command

    command(prog_name="rlpyt")


if __name__ == "__main__":
    main()
