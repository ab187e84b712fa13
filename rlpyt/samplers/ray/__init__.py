"""Samplers whose environments are spread over a Ray cluster, in actors that each have an agent.

* ``sampler``: the synchronous sampler, whose batches are those of the serial sampler, and the base
  of both. ``async_sampler``: actors that do not wait for each other, for ``AsyncRl``.
* ``actor``: one actor, which has a serial or a vector sampler over its part of the batch, and what
  crosses the network: parameters, batches, trajectory infos. ``actors``: all of them, started,
  called, and restarted if they fail. ``states``: their states, divided among any number of actors.

Ray is imported when a sampler is initialized: ``pip install 'rlpyt[ray]'``.
"""
