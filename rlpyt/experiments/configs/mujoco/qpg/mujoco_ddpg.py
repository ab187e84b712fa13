"""DDPG on MuJoCo tasks, with TD3's step sizes."""

from rlpyt.experiments.configs._changed import Config, changed
from rlpyt.experiments.configs.mujoco.qpg._base import serial_config

configs: dict[str, Config] = {}

configs["ddpg_from_td3_1M_serial"] = serial_config(
    eval_n_envs=5,
    batch_size=100,
    replay_ratio=100,
    target_update_tau=0.01,
    learning_rate=1e-3,
    q_learning_rate=1e-3,
    bootstrap_timelimit=False,
)
configs["ddpg_from_td3_1M_serial_bstl"] = changed(
    configs["ddpg_from_td3_1M_serial"], algo=dict(bootstrap_timelimit=True)
)
configs["async_serial"] = changed(configs["ddpg_from_td3_1M_serial_bstl"], sampler=dict(batch_T=5))
