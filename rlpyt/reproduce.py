"""Reproduction of a run that diverged, from a bundle of ``DivergenceGuard``.

    python -m rlpyt.reproduce BUNDLE

Runs the recorded program again, which resumes from the checkpoint in the bundle and logs into
``reproduction`` beside it. Exits with code 0 if it fails with the same error, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlpyt.runners.divergence import BATCH, read_bundle
from rlpyt.utils.logging.context import REPRODUCED_BUNDLE, versions


def run_again(program: dict[str, Any]) -> None:
    """Run the recorded program in this process."""
    os.chdir(program["directory"])
    if program["module"] is not None:
        sys.argv = [program["module"], *program["arguments"]]
        sys.path.insert(0, program["directory"])
        runpy.run_module(program["module"], run_name="__main__", alter_sys=True)
    elif program["script"] is not None:
        sys.argv = [program["script"], *program["arguments"]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(program["script"])))
        runpy.run_path(program["script"], run_name="__main__")
    else:
        raise ValueError(
            "the run was started from an interactive session: there is no program to run again"
        )


def reproduce(bundle: str | os.PathLike[str]) -> bool:
    """Run the program of ``bundle`` again; return whether it failed with the same error."""
    path = Path(bundle).resolve()
    content = read_bundle(path)
    expected = content["error"]
    print(f"Iteration {content['itr']}, seed {content['seed']}: {expected['message']}")
    print(f"The batch is in {path / BATCH}: {content['batch']}.")
    for name, version in versions().items():
        if content["versions"].get(name) != version:
            print(f"WARNING: {name} was {content['versions'].get(name)}, and is {version} here.")
    os.environ[REPRODUCED_BUNDLE] = str(path)
    try:
        run_again(content["program"])
    except SystemExit as end:
        print(f"The program ended with exit code {end.code or 0}.")
    except Exception as error:
        traceback.print_exc()
        # The last line: before it a worker's error has its process id.
        messages = [text.strip().rpartition("\n")[2] for text in (str(error), expected["message"])]
        if type(error).__name__ == expected["type"] and messages[0] == messages[1]:
            print("Reproduced: the same error.")
            return True
        print(f"Not reproduced: another error than {expected['type']}: {expected['message']}")
        return False
    finally:
        del os.environ[REPRODUCED_BUNDLE]
    print("Not reproduced: the program ended without an error.")
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", help="directory divergence_... in the log of the run")
    given = parser.parse_args(arguments)
    try:
        return 0 if reproduce(given.bundle) else 1
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
