"""DDPG on MuJoCo tasks, with TD3's step sizes."""

from __future__ import annotations

from rlpyt.experiments.sweeps.variant import Config, changed

configs: dict[str, Config] = {}


def serial_config(name: str, eval_n_envs: int, **algo: object) -> Config:
    """Return an entry of the algorithm ``name`` with one environment, one update per step.

    It is evaluated every 1e4 steps.
    """
    return dict(
        roles=dict(algo=name),
        agent={},
        algo=dict(algo),
        env=dict(id="Hopper-v5"),
        runner=dict(n_steps=1e6, log_interval_steps=1e4),
        sampler=dict(
            batch_T=1,
            batch_B=1,
            max_decorrelation_steps=0,
            eval_n_envs=eval_n_envs,
            eval_max_steps=int(51e3),
            eval_max_trajectories=50,
        ),
    )


configs["ddpg_from_td3_1M_serial"] = serial_config(
    "ddpg",
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
configs["async_serial"] = changed(
    configs["ddpg_from_td3_1M_serial_bstl"],
    roles=dict(sampler="serial", runner="async"),
    sampler=dict(batch_T=5),
)
