"""The log of a run: text, tables of numbers, parameters and snapshots.

* ``logger``: functions that programs call. They work on the current ``Logger``.
* ``log``: ``Logger``, the state of a log, and its snapshots.
* ``context``: the directory of a run, and a log that is open for the length of the run.
* ``sinks``: receivers: console, text, csv, JSON lines, tensorboard, and a base for your own.
* ``services``: sinks for Weights & Biases and MLflow.
* ``console``: colours and tables of the terminal.
* Kept for programs written for rlpyt 0.1.2: ``tabulate``, most of ``console``.
"""
