"""Runners: the training loops, which bring sampler, agent and algorithm together, log and save.

``base`` holds what all runners share: callbacks, early stop and statistics. Where to look for what:

* In one process: ``minibatch_rl`` has the loop (``train``), its start (``startup``), evaluation and
  the log rows.
* In several processes that train together: ``sync_rl`` starts the others and is rank 0;
  ``_sync_worker`` runs in the others; ``_process_group`` is what they say to each other.
* Sampling and training at the same time: ``async_rl`` has the loop of the process that trains,
  which ``rate_limiter`` keeps in step with the sampler; ``_async_run`` the start, the end and the
  log; ``_async_processes`` the sampler, the memory copiers and the other optimizers.
* ``checkpointing`` has the checkpoints of a run, and the signals that end it.
* ``callbacks`` are hooks for users; ``video`` has the one that records episodes, ``divergence`` the
  one that keeps what reproduces a failure.
* ``_checks`` validates settings before anything is started.
"""
