"""Runners: training loops, which connect sampler, agent and algorithm, log and save.

* In one process: ``minibatch_rl`` has the loop (``train``), its start (``startup``) and evaluation.
* In several processes that train together: ``sync_rl`` is rank 0 and starts the others;
  ``_sync_worker`` runs in the others; ``_process_group`` has the communication between them.
* Sampling and training at the same time: ``async_rl`` has the training loop, and ``rate_limiter``
  keeps it in step with the sampler; ``_async_run`` has the start and the end, ``_async_processes``
  the sampler, the memory copiers and the other optimizers.
* ``base`` has what surrounds each loop: callbacks, early stop, signals, shutdown after a failure.
* ``log`` keeps the counters and computes the values of a log row; every runner has one.
* ``checkpointing`` has the checkpoints of a run, and the signals that end it.
* ``callbacks`` are hooks for users; ``video`` records episodes, ``divergence`` saves what is needed
  to reproduce a failure.
* ``_checks`` validates settings before anything is started.
"""
