"""Agents: an algorithm's networks, and how they act.

A public class fits one algorithm, model and kind of action; to bring your own model, pass
``ModelCls`` or override ``make_env_to_model_kwargs``. Where to look:

* ``base``: :class:`~rlpyt.agents.base.BaseAgent`, its devices, modes, state and shared memory, and
  mixins that keep a recurrent state between sampled steps; ``recurrent``: the forms of such states;
  ``masks``: action masks in observations.
* ``dqn``: ``dqn_agent`` (Q-values and target network) and its variants ``catdqn_agent``,
  ``qrdqn_agent``, ``iqn_agent``, ``r2d1_agent`` and ``pqn_agent``; ``epsilon_greedy`` (the
  schedule of random actions); ``atari`` for images, ``mlp_agent`` for vectors.
* ``pg``: ``base`` (policies for every kind of action, agents with and without recurrence);
  ``categorical`` and ``gaussian`` for one kind of action; ``atari`` and ``mujoco`` with their
  models; ``generic`` for any spaces.
* ``qpg``: ``actor_critic`` (several networks with target copies, action bounds);
  ``ddpg_agent``, ``td3_agent``, ``d4pg_agent``; ``sac_agent``, ``sac_v_agent``,
  ``sac_lstm_agent`` (recurrent), and ``sac_discrete_agent`` for discrete actions.
"""
