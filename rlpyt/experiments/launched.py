"""Script of a sweep over the configuration tables: pass its path to ``run_experiments``.

Its arguments are those of :func:`rlpyt.experiments.train.build_and_train`.
"""

import os
import sys

from rlpyt.experiments.train import build_and_train

if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # Classes of the user's own; the directory of this file has none.
    build_and_train(*sys.argv[1:])
