"""The log of a run: text, tables of numbers, parameters and snapshots.

* ``logger``: the functions that programs call; they stand in front of the current ``Logger`` of
  ``_logger``, which holds the state of a log and saves snapshots.
* ``context``: the directory of a run, and a log that is open for the length of the run.
* ``sinks``: receivers of lines, numbers and rows: console, text, csv, tensorboard, and your own.
* ``run_sinks``: sinks of one run: JSON lines, Weights & Biases, MLflow.
* ``console``: colours and tables of the terminal.
* Kept for programs written against rlpyt 0.1.2: ``tabulate``, most of ``console``.
"""
