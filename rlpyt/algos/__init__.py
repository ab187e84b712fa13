"""Algorithms, which turn batches of experience into gradients.

- ``base``: the base class, with the one gradient update and its log. ``on_policy``: the loop over a
  sampler's batch. ``replay``: the update loop and the stored data of all algorithms with a replay
  buffer, which ``replay_buffers`` makes. ``sequences``: the same for recurrent agents.
- ``losses``: every loss as a pure function of tensors. ``rollouts``: where episodes begin and end
  in a batch, and its minibatches. ``statistics``: normalization, and statistics that are logged.
  ``checks``: validation of settings. ``health``: columns of the log on networks, updates and data.
  ``_optim``: optimizers and the transfer of their state. ``_compiled``: updates as one graph.
- ``dqn``: Q-learning for discrete actions (``dqn``, ``cat_dqn``, ``qr_dqn``, ``iqn``,
  ``munchausen``), for recurrent agents (``r2d1``), and without replay (``pqn``). ``pg``: policy
  gradient. ``qpg``: policy gradient through Q-functions, for continuous actions, with ensembles of
  critics (``sac_ensembles``), for discrete actions (``sac_discrete``), and for recurrent agents
  (``sac_lstm``).
- ``utils``: old import path of the formulas in :mod:`rlpyt.returns`.
"""
