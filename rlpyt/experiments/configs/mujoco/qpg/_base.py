"""What the Q-value policy gradient algorithms share on MuJoCo tasks."""

from __future__ import annotations

from rlpyt.experiments.configs._changed import Config


def serial_config(eval_n_envs: int, **algo: object) -> Config:
    """One environment, one step between updates, evaluation every 1e4 steps."""
    return dict(
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
