"""Helpers that contain no reinforcement learning and start no processes.

* Nested arrays: ``collections`` (records of arrays, their methods in ``_array_fields``), ``buffer``
  (arrays by example, converted leaf by leaf), ``shared_array`` (memory that processes share),
  ``types`` (names for annotations).
* Tensors: ``tensor`` (selection, leading dimensions), ``jit`` (compiled loops).
* Runs: ``logging``, ``prog_bar``, ``seed`` (random generators and their states), ``files`` (written
  completely or not at all), ``torchrun`` (ranks of a process).
* Constructors: ``quick_args`` (arguments as attributes), ``names`` (misspelt or duplicate names).
* Paths of rlpyt 0.1.2 that nothing inside imports: ``array``, ``shmemarray``, ``synchronize``,
  ``launching``, ``logging.tabulate``; PPO re-exports one name from ``misc``.
"""
