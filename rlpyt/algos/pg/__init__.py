"""Policy gradient algorithms, which train on a batch of the sampler, then discard it.

* ``base``: returns and advantages, the parts of the loss, the schedule of the learning rate.
* ``a2c``, ``ppo``: the loss and the update of each. ``impala``: A2C while another process samples.
* ``rnd``: a bonus for new observations, in front of either.
"""
