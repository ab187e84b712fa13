"""Samplers in a process apart from the one that trains; they fill two batches in turn.

* ``base``: the half that the runner's process starts, and the double buffer.
* ``serial_sampler``, ``cpu_sampler``: as the synchronous samplers of these names.
* ``gpu_sampler``: starts action servers, each of which has a ``GpuSampler`` over a part of the
  batch; ``alternating_sampler``: each has an ``AlternatingSampler``.
* ``action_server``, ``collectors``: further names of the synchronous ones.

The way of a batch: ``run_async_sampler`` of ``rlpyt.runners._async_processes`` chooses the free
half by ``db_idx``; each worker (:mod:`rlpyt.samplers.parallel.worker`) gives it to its collector,
whose step loop writes the rows; ``memory_copier`` appends them to the replay buffer.
"""
