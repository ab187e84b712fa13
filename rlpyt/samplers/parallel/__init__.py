"""Samplers whose environments are in worker processes.

* ``base``: what is shared with the workers, batches and evaluations, the shutdown, and the hooks in
  which samplers differ.
* ``workers``: the workers as the sampler sees them: their start, tasks, restarts and states.
* ``worker``: the process of a worker.
* ``cpu``: workers in which the agent acts.
* ``gpu``: workers that only step; ``action_server`` chooses the actions for all of them.
* ``old_arguments``: arguments of workers for hooks written for rlpyt 0.1.2.
* ``_division``: each worker's share of the environments and CPUs.
* ``_channels``: control, trajectory infos and states between sampler and workers.

``rlpyt.processes.supervisor`` notices workers that die or hang. If a sampler restarts them, the new
ones do the current task alone, after the others (see ``workers``).
"""
