"""Samplers, which step environments with an acting agent and return batches [T,B].

A sampler has a collector, which steps environments in one loop. Where to look:

* ``base``: the arguments of every sampler, their checks, and what the runner calls.
* ``buffer``: the batch and the inputs of the agent, allocated from an example; the batch is in
  shared memory if there are workers. ``collections``: its records, under their public path.
* ``collectors``: how environments begin and batches are filled; ``eval_collectors``: evaluation,
  whose limits are arguments of ``base``.
* ``_step_loop``: the loop itself, its source of actions, and the rules for the end of an episode;
  ``_batch_writer``: fast copies into the rows of a batch, checked by ``rlpyt.core.rows``;
  ``_env_states``: states of environments, if they have any.
* ``serial``: one process, the sampler to debug with. ``vector``: one process, with a vector
  environment that steps in one call; ``vector.device``: the same with tensors, on a device.
* ``parallel``: environments in worker processes; ``async_``: samplers in a process of their own.
"""
