"""Replay buffers: storage of what was sampled, and random batches of it.

A buffer's class names its parts (``base`` says how they compose). Where to look for what:

* The public classes: ``non_sequence`` draws single transitions, ``sequence`` sequences; each has
  the modules ``uniform``, ``prioritized``, ``frame`` and ``time_limit``, and in ``n_step`` what a
  batch holds.
* How to store: ``n_step`` (rows and their returns), made of ``_ring`` (rows of any record) and
  ``_window`` (which of them may be drawn now); ``frame``, made of ``_frames`` (every image once);
  ``_rnn_states``; ``_time_limits``; ``async_`` (shared by processes).
* How to choose: ``_prioritized``, made of ``sum_tree`` (priorities which follow the cursor),
  ``_tree`` (sums over leaves) and ``_input_priorities``; ``_sequences`` (where one may begin).
* How to read: ``_extract`` (entries at random places), ``_memory`` and ``_stream`` (fast copies).
"""
