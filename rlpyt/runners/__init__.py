"""Runners: the training loops, which bring sampler, agent and algorithm together, log and save.

* In one process: ``minibatch_rl`` has the loop (``train``), its start (``startup``) and evaluation.
* In several processes that train together: ``sync_rl`` starts the others and is rank 0;
  ``_sync_worker`` runs in the others; ``_process_group`` is what they exchange.
* Sampling and training at the same time: ``async_rl`` has the loop of the process that trains,
  which ``rate_limiter`` keeps in step with the sampler; ``_async_run`` the start and the end;
  ``_async_processes`` the sampler, the memory copiers and the other optimizers.
* ``base`` surrounds each loop: callbacks, early stop, signals, and the end after a failure.
* ``log`` counts, and makes the values of a log row; every runner has one.
* ``checkpointing`` has the checkpoints of a run, and the signals that end it.
* ``callbacks`` are hooks for users; ``video`` has the one that records episodes, ``divergence`` the
  one that keeps what reproduces a failure.
* ``_checks`` validates settings before anything is started.
"""
