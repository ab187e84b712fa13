"""Environments: numpy in, numpy out; vector environments on a device take and return tensors.

* ``base``: the interface, :class:`~rlpyt.envs.base.Env`; ``check`` tests whether a class follows
  it.
* ``gym``: environments of gymnasium and gym, and tasks without velocities; ``gym_schema`` is its
  variant with the layouts of info in a dictionary. ``_info`` turns info dictionaries into records,
  ``_gym_state`` saves and restores the state of an environment and its wrappers.
* ``vector``: vector environments of gymnasium, for the vector sampler; ``envpool``: vector
  environments of EnvPool.
* ``device``: vector environments of tensors, such as simulators on a GPU; ``control``: CartPole and
  Pendulum in torch.
* ``masks``: action masks of an info, put into observations.
* ``atari``: Atari games, one at a time and vectorized.
* ``toy``: small deterministic environments for tests and examples.
"""
