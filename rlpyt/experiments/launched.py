"""Script of a sweep over the configuration tables: pass its path to ``run_experiments``.

See :func:`rlpyt.experiments.train.build_and_train` for its arguments.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

from rlpyt.experiments.train import build_and_train

if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # Classes of the user; the directory of this file has none.
    build_and_train(*sys.argv[1:])
    # Ended from here on, the run would count as interrupted, but could not resume.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log_dir, run_ID = sys.argv[2:4]
    shutil.rmtree(Path(log_dir, f"run_{run_ID}", "checkpoints"), ignore_errors=True)
