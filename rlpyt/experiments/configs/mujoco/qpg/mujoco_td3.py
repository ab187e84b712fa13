"""TD3 on MuJoCo tasks."""

from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import serial_config
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

configs["td3_1M_serial"] = serial_config(
    "td3",
    eval_n_envs=6,
    batch_size=100,
    replay_ratio=100,
    target_update_tau=0.005,
    target_update_interval=2,
    policy_update_interval=2,
    mu_learning_rate=1e-3,
    q_learning_rate=1e-3,
    bootstrap_timelimit=False,
)
configs["td3_serial_bstl"] = changed(configs["td3_1M_serial"], algo=dict(bootstrap_timelimit=True))
configs["async_cpu"] = changed(
    configs["td3_serial_bstl"],
    roles=dict(sampler="cpu", runner="async"),
    sampler=dict(batch_T=5, batch_B=3),
)
