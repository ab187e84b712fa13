"""Helpers that know nothing of reinforcement learning, nor of the processes of a run.

* Nested arrays: ``collections`` (records of arrays, with their methods in ``_array_fields`` and
  the schema style of old programs in ``_schema``), ``buffer`` (made by example, converted leaf by
  leaf), ``shared_array`` (in memory that processes share), ``types`` (names for annotations).
* Tensors: ``tensor`` (selection, leading dimensions), ``jit`` (compiled loops).
* Runs: ``logging``, ``prog_bar``, ``seed`` (random generators and their states), ``files`` (whole
  or not at all), ``torchrun`` (ranks of a process).
* Constructors: ``quick_args`` (arguments stored as attributes), ``names`` (misspelt or given
  twice).
* Paths of rlpyt 0.1.2, which nothing inside imports: ``array``, ``shmemarray``, ``synchronize``,
  ``launching``, ``logging.tabulate``; of ``misc``, only PPO hands on one name.
"""
