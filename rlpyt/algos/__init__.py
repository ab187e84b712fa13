"""Algorithms: batches of experience become gradients.

- ``base``: the base class, with the one gradient update and its log. ``replay``: the loop of
  updates of all algorithms with a replay buffer, and what they store.
- ``losses``: every loss as a pure function of tensors. ``checks``: checks of settings at set-up.
  ``_optim``: construction of optimizers and transfer of their state.
- ``dqn``: Q-learning of discrete actions (``dqn``, ``cat_dqn``, ``qr_dqn``, ``iqn``) and of
  recurrent agents (``r2d1``). ``pg``: policy gradient. ``qpg``: the same through Q-functions.
- ``utils``: former place of the formulas in :mod:`rlpyt.returns`.
"""
