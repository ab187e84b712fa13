"""A2C or PPO on an Atari game, with a recurrent agent that sees one frame at a time.

    python examples/example_4.py --game pong --algo ppo
    python examples/example_4.py --game pong --mid_batch_reset

Workers step the games, and the agent acts here for all of them, on a GPU or the CPU. When a game
ends within a batch, its environment waits for the next batch, and the rest of this one is blank.
With ``--mid_batch_reset`` a new game starts at once: there the agent remembers nothing, in training
as in acting, and every step is trained on.
"""

import argparse
from typing import Any

from rlpyt.agents.pg.atari import AtariLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.utils.logging.context import logger_context

# Steps per iteration of each environment, and how to learn from them.
SETTINGS: dict[str, Any] = {
    "a2c": (20, A2C, dict(learning_rate=3e-4)),
    "ppo": (64, PPO, dict(learning_rate=1e-3, gae_lambda=0.98)),
}


def build_and_train(
    game: str = "pong",
    algo: str = "a2c",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_workers: int = 2,
    mid_batch_reset: bool = False,
    n_steps: float = 10e6,
    log_interval_steps: float = 3e3,
    batch_B: int = 16,
    seed: int | None = None,
    log_dir: str = "example_4",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    batch_T, AlgoCls, algo_kwargs = SETTINGS[algo]
    sampler = GpuSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game, num_img_obs=1),  # The agent remembers earlier frames.
        CollectorCls=GpuResetCollector if mid_batch_reset else GpuWaitResetCollector,
        batch_T=batch_T,
        batch_B=batch_B,
        max_decorrelation_steps=400,  # Environments start at different points of the game.
    )
    runner = MinibatchRl(
        algo=AlgoCls(**algo_kwargs),
        agent=AtariLstmAgent(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx, workers_cpus=n_workers),
        seed=seed,
    )
    config = dict(game=game, algo=algo, mid_batch_reset=mid_batch_reset)
    with logger_context(
        log_dir, run_ID, f"{algo}_lstm_{game}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--algo", default="a2c", choices=SETTINGS)
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_workers", type=int, default=2, help="processes that step games")
    parser.add_argument("--mid_batch_reset", action="store_true", help="do not wait for the batch")
    parser.add_argument("--n_steps", type=float, default=10e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=3e3, help="between log rows")
    parser.add_argument("--batch_B", type=int, default=16, help="environments")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_4", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
