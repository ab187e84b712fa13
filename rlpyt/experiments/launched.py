"""Script of a sweep over the configuration tables: pass its path to ``run_experiments``.

See :func:`rlpyt.experiments.train.build_and_train` for its arguments.
"""

import os
import sys

from rlpyt.experiments.train import build_and_train

if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # Classes of the user; the directory of this file has none.
    build_and_train(*sys.argv[1:])
