"""Samplers whose environments are in worker processes.

* ``base``: starting, meeting and ending the workers, and the hooks by which samplers differ.
* ``worker``: the process of a worker.
* ``cpu``: workers in which the agent acts.
* ``gpu``: workers that only step; ``action_server`` chooses the actions for all of them.
* ``_division``: the share of each worker in environments and CPUs.
* ``_channels``: control, trajectory infos and states between sampler and workers.

Workers that die or hang are noticed by ``rlpyt.utils.processes.supervisor``. A sampler that starts
them again lets the new ones do the present task alone, after the others: ``base`` says how.
"""
