"""Every algorithm on any environment, with settings for small tasks.

A run starts from here if only an algorithm and an environment are named.
"""

from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

_SMALL: Config = dict(
    agent={},
    env={},
    model={},
    optim={},
    runner=dict(n_steps=1e5, log_interval_steps=1e4),
    sampler=dict(max_decorrelation_steps=0),
)

# --- Deep Q-learning -----------------------------------------------------------------------------

configs["dqn"] = changed(
    _SMALL,
    roles=dict(algo="dqn"),
    agent=dict(eps_final=0.02),
    algo=dict(
        learning_rate=1e-3,
        batch_size=128,
        replay_size=1e5,
        min_steps_learn=1e3,
        replay_ratio=32,
        target_update_tau=0.02,
        target_update_interval=1,
        n_step_return=3,
        eps_steps=1e4,
        double_dqn=True,
    ),
    sampler=dict(batch_T=8, batch_B=4),
)
# Returns beyond V_min=-10 and V_max=10 are cut off, since the range depends on the task. A warning
# in the log suggests bounds.
configs["cat_dqn"] = changed(configs["dqn"], roles=dict(algo="cat_dqn"))
configs["rainbow"] = changed(
    configs["cat_dqn"],
    agent=dict(eps_final=0),  # Noisy layers explore.
    algo=dict(prioritized_replay=True, pri_beta_steps=1e5),
    model=dict(dueling=True, noisy=True),
)
for _key in ("qr_dqn", "iqn"):
    configs[_key] = changed(configs["dqn"], roles=dict(algo=_key))
MUNCHAUSEN: dict[str, Config] = {
    name: dict(roles=dict(algo=name), algo=dict(double_dqn=False, n_step_return=1))
    for name in ("munchausen_dqn", "munchausen_iqn")
}
for _key, _settings in MUNCHAUSEN.items():
    configs[_key] = changed(configs["dqn"], **_settings)
R2D1 = changed(
    _SMALL,
    roles=dict(algo="r2d1"),
    agent=dict(eps_final=0.02),
    algo=dict(
        learning_rate=1e-3,
        batch_T=16,
        batch_B=32,
        warmup_T=8,
        store_rnn_state_interval=8,
        min_steps_learn=1e3,
        n_step_return=3,
        eps_steps=1e4,
    ),
    sampler=dict(batch_T=16, batch_B=8),
)
# Learns CartPole without velocities; with priorities, or the paper's eps of 1e-3, much less.
configs["r2d1"] = changed(
    R2D1,
    algo=dict(
        discount=0.99,
        replay_size=3e5,
        replay_ratio=64,
        target_update_tau=0.01,
        target_update_interval=1,
        prioritized_replay=False,
        bootstrap_timelimit=True,
    ),
    optim=dict(eps=1e-5),
    runner=dict(n_steps=3e5),
    sampler=dict(record_next_observation=True),
)

configs["pqn"] = changed(
    _SMALL,
    roles=dict(algo="pqn"),
    agent=dict(eps_final=0.05),
    algo=dict(
        learning_rate=1e-3,
        q_lambda=0.95,
        minibatches=8,
        epochs=4,
        eps_steps=3e4,
        bootstrap_timelimit=True,
    ),
    model=dict(hidden_sizes=[128, 128]),
    runner=dict(n_steps=5e5),
    sampler=dict(batch_T=32, batch_B=16, record_next_observation=True),
)
configs["pqn_lstm"] = changed(
    configs["pqn"],
    roles=dict(agent="mlp_lstm"),
    algo=dict(minibatches=4),
    model=dict(lstm_size=128),
)

# --- Policy gradient -----------------------------------------------------------------------------

configs["a2c"] = changed(
    _SMALL,
    roles=dict(algo="a2c"),
    algo=dict(learning_rate=7e-4, gae_lambda=0.95, clip_grad_norm=0.5, normalize_return=True),
    runner=dict(n_steps=5e5),
    sampler=dict(batch_T=8, batch_B=16),
)
configs["ppo"] = changed(
    configs["a2c"],
    roles=dict(algo="ppo"),
    algo=dict(
        learning_rate=3e-4,
        minibatches=8,
        epochs=10,
        ratio_clip=0.2,
        normalize_advantage=True,
        entropy_loss_coeff=0.0,
    ),
    sampler=dict(batch_T=128, batch_B=8),
)
configs["ppo_rnd"] = changed(configs["ppo"], roles=dict(algo="ppo_rnd"))
configs["a2c_lstm"] = changed(configs["a2c"], roles=dict(agent="generic_lstm"))
# Solves CartPole without velocities in 1e5 steps; batches of 128 steps and 3e-4 do not.
configs["ppo_lstm"] = changed(
    configs["ppo"],
    roles=dict(agent="generic_lstm"),
    algo=dict(learning_rate=1e-3, minibatches=1),
    sampler=dict(batch_T=32),
)
configs["impala"] = changed(
    configs["a2c"],
    roles=dict(algo="impala", runner="async"),
    algo=dict(learning_rate=2e-3, gae_lambda=1),
    sampler=dict(batch_T=16, batch_B=8),
)

# --- Policy gradient through Q-functions ---------------------------------------------------------

configs["sac"] = changed(
    _SMALL,
    roles=dict(algo="sac"),
    algo=dict(min_steps_learn=1e3),
    sampler=dict(batch_T=1, batch_B=1),
)
configs["sac_lstm"] = changed(
    configs["sac"],
    roles=dict(algo="sac_lstm"),
    algo=dict(
        learning_rate=1e-3,
        batch_T=8,
        batch_B=32,
        warmup_T=4,
        store_rnn_state_interval=4,
        replay_size=1e5,
        replay_ratio=384,
        target_update_tau=0.02,
    ),
    sampler=dict(batch_T=4),
)
# At the paper's fraction of 0.98, the policy becomes nearly uniform if there are two actions.
configs["sac_discrete"] = changed(
    configs["sac"],
    roles=dict(algo="sac_discrete"),
    algo=dict(
        learning_rate=1e-3,
        batch_size=128,
        replay_size=1e5,
        replay_ratio=32,
        target_update_tau=0.02,
        n_step_return=3,
        target_entropy_fraction=0.5,
    ),
    model=dict(hidden_sizes=[128, 128]),
    sampler=dict(batch_T=8, batch_B=4),
)
# Twenty updates per step (Chen et al. 2021, table 2).
REDQ: Config = dict(
    roles=dict(algo="redq"),
    agent=dict(n_critics=10),
    algo=dict(replay_ratio=20 * 256),
)
DROQ: Config = dict(
    agent=dict(
        n_critics=2,
        q_model_kwargs=dict(hidden_sizes=[256, 256], layer_norm=True, dropout=0.01),
    )
)
TQC: Config = dict(
    roles=dict(algo="tqc"),
    agent=dict(n_critics=5, q_model_kwargs=dict(hidden_sizes=[512] * 3, n_quantiles=25)),
)
# The critics of Bhatt et al. 2024 have 2048 units in a layer, which are slow on a CPU.
CROSSQ: Config = dict(
    roles=dict(algo="crossq"),
    agent=dict(
        target_networks=False,
        q_model_kwargs=dict(hidden_sizes=[256, 256], batch_renorm=True),
    ),
    algo=dict(learning_rate=1e-3),
    model=dict(hidden_sizes=[256, 256], batch_renorm=True),
)
configs["redq"] = changed(configs["sac"], **REDQ)
configs["droq"] = changed(configs["redq"], **DROQ)
configs["tqc"] = changed(configs["sac"], **TQC)
configs["crossq"] = changed(configs["sac"], **CROSSQ)
# D4PG needs the range of returns, V_min to V_max, which depends on the task.
for _key in ("sac_v", "ddpg", "td3", "d4pg"):
    configs[_key] = changed(configs["sac"], roles=dict(algo=_key))
