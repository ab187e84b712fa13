"""D4PG on MuJoCo tasks, with returns of five steps."""

from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import serial_config
from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}

# The range of returns fits Hopper with a discount of 0.99.
configs["d4pg_1M_serial"] = serial_config(
    "d4pg",
    eval_n_envs=5,
    V_min=0,
    V_max=400,
    batch_size=256,
    replay_ratio=256,
    learning_rate=1e-4,
    q_learning_rate=1e-4,
    target_update_tau=0.005,
)
configs["async_cpu"] = changed(
    configs["d4pg_1M_serial"],
    roles=dict(sampler="cpu", runner="async"),
    sampler=dict(batch_T=5, batch_B=3),
)
