"""PPO on an Atari game in several processes, whose gradients are averaged.

    python examples/example_6.py --game pong --n_processes 2
    torchrun --nproc-per-node 2 examples/example_6.py --game pong

Each process has its own environments, and its own GPU if there are enough; otherwise all train on
the CPU. Sizes are those of one process: two collect, and train on, twice as much in an iteration.
By ``torchrun`` the processes may also be on several machines.
"""

import argparse
import os

import torch

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def make_affinity(n_processes: int) -> list[dict[str, int | None]]:
    """For each process, its own GPU, or for all of them the CPU with one thread."""
    if torch.cuda.device_count() >= n_processes:
        return [dict(cuda_idx=idx) for idx in range(n_processes)]
    return [dict(cuda_idx=None, master_torch_threads=1)] * n_processes


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    n_processes: int = 2,
    n_steps: float = 10e6,
    log_interval_steps: float = 1e4,
    batch_T: int = 64,
    batch_B: int = 8,
    seed: int | None = None,
    log_dir: str = "example_6",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps, over all processes."""
    n_processes = int(os.environ.get("LOCAL_WORLD_SIZE", n_processes))  # Set by torchrun.
    sampler = SerialSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game),
        batch_T=batch_T,
        batch_B=batch_B,  # In each process.
        max_decorrelation_steps=400,  # Environments start at different points of the game.
    )
    runner = SyncRl(
        algo=PPO(learning_rate=1e-3, gae_lambda=0.98),
        agent=AtariFfAgent(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=make_affinity(n_processes),
        seed=seed,
    )
    config = dict(game=game, n_processes=n_processes)
    with logger_context(
        log_dir, run_ID, f"ppo_sync_{game}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--n_processes", type=int, default=2, help="ignored under torchrun")
    parser.add_argument("--n_steps", type=float, default=10e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--batch_T", type=int, default=64, help="steps in an iteration")
    parser.add_argument("--batch_B", type=int, default=8, help="environments of each process")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_6", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
