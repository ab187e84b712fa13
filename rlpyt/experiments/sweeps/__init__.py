"""Sweeps: runs with different settings, started as processes with shares of the machine.

* ``command``: sweeps of ``rlpyt sweep``; ``slots``: shares of the machine for its runs.
* ``launch``: functions for programs, such as ``run_experiments``.
* ``sweep``: the execution of a sweep: skipping, starting and reporting runs. It starts each run
  through a pool (``pools``: the slots of this machine, Ray, SLURM).
* ``run``: one run: the guard process that starts its script, and its state on disk.
* ``variant``: settings of each run. ``spaces``: distributions of settings, grids and random draws.
  ``search``: trials that Optuna chooses.
* ``affinity``: CPUs and GPUs of a run, and the codes that pass them to a script.
  ``_placement`` divides cores and GPUs among runs.
* ``display``: the live table.

The path of a run: ``Sweep.work`` calls ``Sweep._start``, which gives the run's command to the
``start`` of the pool. The pool of this machine starts a guard by ``run.start``, which starts the
script; other pools call ``run.run_to_end`` where the run is placed. For ``rlpyt sweep`` the script
is :mod:`rlpyt.experiments.launched`, which calls
:func:`rlpyt.experiments.train.build_and_train`.
"""
