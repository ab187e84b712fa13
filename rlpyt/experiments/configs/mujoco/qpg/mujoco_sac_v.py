"""SAC with a state-value network on MuJoCo tasks."""

from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import serial_config
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["sac_1M_serial"] = serial_config(
    "sac_v",
    eval_n_envs=4,
    batch_size=256,
    replay_ratio=256,
    target_update_tau=0.005,
    target_update_interval=1,
    learning_rate=3e-4,
    reward_scale=5,
    policy_output_regularization=1e-3,
    bootstrap_timelimit=False,
)
configs["sac_serial_bstl"] = changed(configs["sac_1M_serial"], algo=dict(bootstrap_timelimit=True))
configs["async_gpu"] = changed(
    configs["sac_serial_bstl"],
    roles=dict(sampler="gpu", runner="async"),
    sampler=dict(batch_T=5, batch_B=3),
)
