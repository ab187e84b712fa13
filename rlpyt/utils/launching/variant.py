"""A path of rlpyt 0.1.2: everything here is in :mod:`rlpyt.experiments.sweeps.variant`."""

from rlpyt.experiments.sweeps.variant import *
