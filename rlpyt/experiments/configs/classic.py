"""Deep Q-learning on CartPole-v1, with nearly the same settings for the whole family.

Networks and the 128 updates after each 256 steps are those of RL Baselines3 Zoo for DQN. The
entries of ``generic`` learn more tasks, but do not stay at the maximum of this one.
"""

from rlpyt.experiments.configs import generic
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

_COMMON: Config = dict(
    agent=dict(eps_final=0.04),
    algo=dict(
        learning_rate=5e-4,
        batch_size=64,
        replay_ratio=32,
        target_update_tau=1,
        target_update_interval=128,
        eps_steps=8e3,
        bootstrap_timelimit=True,
    ),
    env=dict(id="CartPole-v1"),
    model=dict(hidden_sizes=[256, 256]),
    runner=dict(n_steps=5e4, log_interval_steps=5e3),
    sampler=dict(batch_T=256, batch_B=1, record_next_observation=True),
)
# The rate of the zoo, with which DQN, Munchausen DQN and IQN are not stable.
_HIGHER = dict(learning_rate=2.3e-3)

# With one-step returns, many agents leave the track in the end; of IQN's, more do with three steps.
configs["dqn"] = changed(generic.configs["dqn"], **_COMMON)
configs["munchausen_dqn"] = changed(configs["dqn"], **generic.MUNCHAUSEN["munchausen_dqn"])
configs["iqn"] = changed(
    configs["dqn"],
    roles=dict(algo="iqn"),
    algo=dict(n_tau=8, n_target_tau=8, double_dqn=False, n_step_return=1),
)
configs["qr_dqn"] = changed(
    configs["dqn"], roles=dict(algo="qr_dqn"), agent=dict(n_quantiles=50), algo=_HIGHER
)
# At a discount of 0.99, no return is greater than 100.
configs["cat_dqn"] = changed(
    configs["dqn"], roles=dict(algo="cat_dqn"), algo=dict(_HIGHER, V_min=0, V_max=100)
)
configs["rainbow"] = changed(
    configs["cat_dqn"],
    agent=dict(eps_final=0),  # Noisy layers explore.
    algo=dict(prioritized_replay=True, pri_beta_steps=5e4),
    model=dict(dueling=True, noisy=True),
)
