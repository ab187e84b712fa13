"""Samplers in a separate process from training; they fill two batches in turn.

* ``base``: the half that the runner's process starts, and the double buffer.
* ``serial_sampler``, ``cpu_sampler``: like the synchronous samplers of these names.
* ``gpu_sampler``: starts action servers, each running a ``GpuSampler`` on its part of the batch;
  ``alternating_sampler``: the same with an ``AlternatingSampler``.
* ``action_server``: aliases of the synchronous servers. ``collectors``: the synchronous collectors,
  which also keep both batches.

The path of a batch: ``run_async_sampler`` in ``rlpyt.runners._async_processes`` chooses the free
batch by ``db_idx``. The sampler, or each of its workers (:mod:`rlpyt.samplers.parallel.worker`),
gives it to its collector, whose step loop (``rlpyt.samplers._step_loop``) writes the rows with
``rlpyt.samplers._batch_writer``. With action servers, the agent's choices reach the workers through
the step buffer; the server itself adds only the bootstrap value. Then ``memory_copier``, in the
same module as ``run_async_sampler``, appends the batch to the replay buffer.
"""
