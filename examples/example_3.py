"""A2C or PPO on an Atari game, with a feed-forward agent and a choice of samplers.

    python examples/example_3.py --algo ppo --sampler cpu --n_workers 4

serial: everything happens in this process. cpu: workers step the games and act. gpu: workers step,
and the agent acts here for all of them, on a GPU or the CPU. alternating: it does so for one half
while the other half steps. Performance is that of the last games that were played for training.
"""

import argparse
from typing import Any

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

SAMPLERS = dict(
    serial=SerialSampler, cpu=CpuSampler, gpu=GpuSampler, alternating=AlternatingSampler
)
# Steps per iteration of each environment, and how to learn from them.
SETTINGS: dict[str, Any] = {
    "a2c": (5, A2C, dict(learning_rate=3e-4)),
    "ppo": (64, PPO, dict(learning_rate=1e-3, gae_lambda=0.98)),
}


def build_and_train(
    game: str = "pong",
    algo: str = "a2c",
    sampler: str = "serial",
    n_workers: int = 2,
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 10e6,
    log_interval_steps: float = 1e4,
    batch_B: int = 16,
    seed: int | None = None,
    log_dir: str = "example_3",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    batch_T, AlgoCls, algo_kwargs = SETTINGS[algo]
    runner = MinibatchRl(
        algo=AlgoCls(**algo_kwargs),
        agent=AtariFfAgent(),
        sampler=SAMPLERS[sampler](
            EnvCls=AtariEnv,
            TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
            env_kwargs=dict(game=game),
            batch_T=batch_T,
            batch_B=batch_B,
            max_decorrelation_steps=400,  # Environments start at different points of the game.
        ),
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx, workers_cpus=n_workers),
        seed=seed,
    )
    config = dict(game=game, algo=algo, sampler=sampler)
    with logger_context(
        log_dir, run_ID, f"{algo}_{game}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--algo", default="a2c", choices=SETTINGS)
    parser.add_argument("--sampler", default="serial", choices=SAMPLERS)
    parser.add_argument("--n_workers", type=int, default=2, help="processes, unless serial")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_steps", type=float, default=10e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--batch_B", type=int, default=16, help="environments")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_3", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
