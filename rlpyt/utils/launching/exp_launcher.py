"""A path of rlpyt 0.1.2: everything here is in :mod:`rlpyt.experiments.sweeps.launch`."""

from rlpyt.experiments.sweeps.launch import *
