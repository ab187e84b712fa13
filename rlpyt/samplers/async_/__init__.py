"""Samplers in a process apart from the one that trains; they fill two batches in turn.

* ``base``: the half that the runner's process starts, and the double buffer.
* ``serial_sampler``, ``cpu_sampler``: as the synchronous samplers of these names.
* ``gpu_sampler``: starts action servers, and each of these its workers; ``alternating_sampler``
  with two halves of workers.
* ``action_server``: chooses actions; ``collectors``: step environments in the workers.
"""
