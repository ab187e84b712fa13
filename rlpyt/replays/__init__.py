"""Replay buffers, which store samples and draw random batches from them.

A buffer's class names its parts (``base`` explains how they compose). Where to look:

* The public classes: ``non_sequence`` draws single transitions, ``sequence`` sequences; each has
  the modules ``uniform`` and ``prioritized`` (how to choose), ``n_step`` (what a batch holds),
  ``frame`` (images stored once, and stacked when they are read) and ``time_limit``;
  ``non_sequence.hindsight`` replaces goals by goals that were reached later.
* How to store: ``n_step`` (rows, their returns and timeouts), with the cursor and the rows that may
  be drawn in ``_window``; ``frame`` (every image once); ``async_`` (buffers that processes share).
* Priorities: ``priorities`` (draws of transitions or sequences), with priorities that follow the
  cursor in ``sum_tree``, over ``_tree`` (sums over leaves).
* ``_store``: rows in host memory or on a device, written and read in the same way. A buffer has one
  store, chosen by its constructor. ``_memory``: how large arrays are allocated and reused.
"""
