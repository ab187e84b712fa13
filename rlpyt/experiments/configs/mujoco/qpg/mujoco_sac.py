"""SAC on MuJoCo tasks, and its ensembles of critics: REDQ, DroQ, TQC and CrossQ."""

from rlpyt.experiments.configs import generic
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

configs["redq"] = changed(
    changed(configs["sac_serial_bstl"], **generic.REDQ),
    algo=dict(min_steps_learn=5e3),
    runner=dict(n_steps=3e5),
)
configs["droq"] = changed(configs["redq"], **generic.DROQ)
# Kuznetsov et al. 2020 drop 2 quantiles on most tasks, 5 on Hopper and none on HalfCheetah.
configs["tqc"] = changed(configs["sac_serial_bstl"], **generic.TQC)
# The settings of Bhatt et al. 2024.
configs["crossq"] = changed(
    changed(configs["sac_serial_bstl"], **generic.CROSSQ),
    agent=dict(q_model_kwargs=dict(hidden_sizes=[2048, 2048], batch_renorm=True)),
    algo=dict(min_steps_learn=5e3),
)
