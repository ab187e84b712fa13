"""Sweeps: runs with different settings, started as processes with shares of the machine.

* ``variant``: settings of each run.
* ``affinity``: CPUs and GPUs of a run, and the codes that hand them to a script. ``_codes`` reads
  and writes codes; ``_placement`` divides cores and GPUs among runs.
* ``exp_launcher``: starts the runs, as many at a time as there is room for.
"""
