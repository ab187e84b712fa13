"""Helpers that know nothing of reinforcement learning.

* Nested arrays: ``collections`` (records of arrays, with their methods in ``_array_fields`` and
  the schema style of old programs in ``_schema``), ``buffer`` (made by example, converted leaf by
  leaf), ``types`` (names for annotations).
* Tensors: ``tensor`` (selection, leading dimensions), ``unroll`` (recurrent networks over sequences
  in which episodes end), ``jit`` (compiled loops).
* Processes: ``processes`` (started, watched and synchronized), ``synchronize`` (queues, free
  ports), ``allocator`` (freed memory stays in the process).
* Runs: ``logging``, ``launching`` (CPUs and GPUs of a run, sweeps), ``results`` (statistics and
  pictures of finished runs), ``seed`` (random generators and their states), ``noise`` (random
  numbers for acting), ``checkpoints`` (states of runs on disk), ``files`` (whole or not at all),
  ``prog_bar``.
* ``quick_args``: constructors that store their arguments.
* Kept for programs written against rlpyt 0.1.2: ``array``, ``misc``, ``shmemarray``.
"""
