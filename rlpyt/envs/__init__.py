"""Environments: numpy in, numpy out; vector environments on a device take and return tensors.

* ``base``: the interface, :class:`~rlpyt.envs.base.Env`; ``check`` tests whether a class follows
  it.
* ``gym``: gymnasium and gym environments, and tasks without velocities; ``gym_schema`` is its
  variant, which keeps the layouts of info in a dictionary. ``_info`` turns info dictionaries into
  records; ``gym_state`` saves and restores the state of an environment and its wrappers.
* ``vector``: gymnasium vector environments, for the vector sampler; ``envpool``: EnvPool's vector
  environments.
* ``device``: vector environments of tensors, such as simulators on a GPU; ``control``: CartPole and
  Pendulum in torch; ``jax``: Brax and gymnax; ``isaac`` and ``maniskill``: tasks of Isaac Lab and
  of ManiSkill.
* ``masks``: action masks, copied from the info into observations.
* ``atari``: Atari games, one at a time and vectorized.
* ``toy``: small deterministic environments for tests and examples.
"""
