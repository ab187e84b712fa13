"""Sweeps: runs with different settings, started as processes with shares of the machine.

* ``command``: what ``rlpyt sweep`` launches; ``slots``: the shares of the machine that its runs
  have.
* ``launch``: what programs call, for a sweep and for a single run.
* ``sweep``: the sweep at work; what it skips, starts and reports when it is launched again.
* ``run``: one run, its guard process, and its state on disk.
* ``pools``: the slots of this machine, Ray, SLURM.
* ``variant``: settings of each run. ``spaces``: distributions of settings, grids and random draws.
  ``search``: trials that Optuna chooses.
* ``affinity``: CPUs and GPUs of a run, and the codes that hand them to a script. ``_codes`` reads
  and writes codes; ``_placement`` divides cores and GPUs among runs.
* ``display``: the live table.
"""
