"""Samplers whose environments are in worker processes.

* ``base``: what is shared with the workers, batches and evaluations, the end, and the hooks by
  which samplers differ.
* ``workers``: the workers as the sampler sees them: their start, tasks, restarts and states.
* ``worker``: the process of a worker.
* ``cpu``: workers in which the agent acts.
* ``gpu``: workers that only step; ``action_server`` chooses the actions for all of them.
* ``_division``: the share of each worker in environments and CPUs.
* ``_channels``: control, trajectory infos and states between sampler and workers.

Workers that die or hang are noticed by ``rlpyt.processes.supervisor``. A sampler that starts
them again lets the new ones do the present task alone, after the others (see ``workers``).
"""
