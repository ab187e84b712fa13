"""A path of rlpyt 0.1.2: everything here is in :mod:`rlpyt.experiments.sweeps.affinity`."""

from rlpyt.experiments.sweeps.affinity import *
