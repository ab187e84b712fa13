"""Samplers in a process apart from the one that trains; they fill two batches in turn.

* ``base``: the half that the runner's process starts, and the double buffer.
* ``serial_sampler``, ``cpu_sampler``: as the synchronous samplers of these names.
* ``gpu_sampler``: starts action servers, each of which has a ``GpuSampler`` over a part of the
  batch; ``alternating_sampler``: each has an ``AlternatingSampler``.
* ``action_server``, ``collectors``: further names of the synchronous ones.
"""
