"""A2C or PPO on a MuJoCo task, evaluated along the way.

    python examples/mujoco_pg.py --env_id HalfCheetah-v5 --algo ppo

Observations are normalised by their running statistics, returns by their deviation. Episodes that
a time limit truncates are valued by a bootstrap value.
"""

import argparse
from collections.abc import Callable
from typing import Any

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

COMMON: dict[str, Any] = dict(
    gae_lambda=0.95, entropy_loss_coeff=0.0, normalize_advantage=True, normalize_return=True
)
# Steps per iteration, environments, and how to learn from them.
SETTINGS: dict[str, tuple[int, int, Callable[[], PolicyGradientAlgo]]] = {
    "a2c": (16, 8, lambda: A2C(learning_rate=3e-4, clip_grad_norm=0.5, **COMMON)),
    "ppo": (
        2048,
        1,
        lambda: PPO(learning_rate=3e-4, minibatches=32, epochs=10, ratio_clip=0.2, **COMMON),
    ),
}


def build_and_train(
    env_id: str = "HalfCheetah-v5",
    algo: str = "ppo",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 1e6,
    log_interval_steps: float = 2e4,
    seed: int | None = None,
    log_dir: str = "mujoco_pg",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    batch_T, batch_B, make_algo = SETTINGS[algo]
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id=env_id),
        batch_T=batch_T,
        batch_B=batch_B,
        max_decorrelation_steps=0,
        record_next_observation=True,  # Whose value stands for what a time limit cut.
        eval_n_envs=5,
        eval_max_steps=5 * 1001,
        eval_max_trajectories=10,
    )
    runner = MinibatchRlEval(
        algo=make_algo(),
        agent=MujocoFfAgent(model_kwargs=dict(normalize_observation=True), greedy_eval=True),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx, master_torch_threads=1),
        seed=seed,
    )
    config = dict(env_id=env_id, algo=algo)
    with logger_context(
        log_dir, run_ID, f"{algo}_{env_id}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env_id", default="HalfCheetah-v5", help="continuous actions")
    parser.add_argument("--algo", default="ppo", choices=SETTINGS)
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_steps", type=float, default=1e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=2e4, help="between log rows")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="mujoco_pg", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
