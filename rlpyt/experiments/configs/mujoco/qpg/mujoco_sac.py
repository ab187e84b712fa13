"""SAC on MuJoCo tasks, and its ensembles of critics: REDQ, DroQ, TQC and CrossQ."""

from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import serial_config
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["sac_1M_serial"] = serial_config(
    "sac",
    eval_n_envs=4,
    batch_size=256,
    replay_ratio=256,
    target_update_tau=0.005,
    target_update_interval=1,
    learning_rate=3e-4,
    target_entropy="auto",
    bootstrap_timelimit=False,
)
configs["sac_serial_bstl"] = changed(configs["sac_1M_serial"], algo=dict(bootstrap_timelimit=True))

# Twenty updates per step (Chen et al. 2021, table 2).
configs["redq"] = changed(
    configs["sac_serial_bstl"],
    agent=dict(n_critics=10),
    algo=dict(
        target_subset=2, policy_update_interval=20, replay_ratio=20 * 256, min_steps_learn=5e3
    ),
    runner=dict(n_steps=3e5),
)
configs["droq"] = changed(
    configs["redq"],
    agent=dict(
        n_critics=2,
        q_model_kwargs=dict(hidden_sizes=[256, 256], layer_norm=True, dropout=0.01),
    ),
)
# Kuznetsov et al. 2020 drop 2 quantiles on most tasks, 5 on Hopper and none on HalfCheetah.
configs["tqc"] = changed(
    configs["sac_serial_bstl"],
    agent=dict(n_critics=5, q_model_kwargs=dict(hidden_sizes=[512] * 3, n_quantiles=25)),
    algo=dict(dropped_quantiles=2),
)
# The settings of Bhatt et al. 2024.
configs["crossq"] = changed(
    configs["sac_serial_bstl"],
    agent=dict(
        target_networks=False,
        model_kwargs=dict(hidden_sizes=[256, 256], batch_renorm=True),
        q_model_kwargs=dict(hidden_sizes=[2048, 2048], batch_renorm=True),
    ),
    algo=dict(learning_rate=1e-3, policy_update_interval=3, min_steps_learn=5e3),
    optim=dict(betas=[0.5, 0.999]),
)
