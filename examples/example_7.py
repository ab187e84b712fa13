"""R2D1 on an Atari game: recurrent replay, with asynchronous alternating sampling.

    python examples/example_7.py --game pong --cuda_idx 0 --sample_cuda_idx 1 2

The optimizer trains in this process. Beside it one action server for each ``--sample_cuda_idx``, or
one on the CPU, acts for its share of the games: for one half while its workers step the other. The
games explore with different epsilons, which end between 0.1 and 0.0005; in evaluation it is 0.001.
"""

import argparse
from collections.abc import Sequence

from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1AlternatingAgent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.async_rl import AsyncRlEval
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    sample_cuda_idx: Sequence[int | None] = (),
    n_workers: int = 2,
    batch_B: int = 32,
    n_sequences: int = 64,
    n_steps: float = 100e6,
    log_interval_steps: float = 1e4,
    replay_size: float = 1e6,
    min_steps_learn: float = 1e5,
    seed: int | None = None,
    log_dir: str = "example_7",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    sampler = AsyncAlternatingSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game, clip_reward=False, episodic_lives=False),
        batch_T=40,  # As many as there are between two stored recurrent states.
        batch_B=batch_B,
        max_decorrelation_steps=1000,
        eval_n_envs=4,
        eval_max_steps=4 * 1500,  # Longer games do not count: the longest have 27,000 steps.
    )
    runner = AsyncRlEval(
        algo=R2D1(  # Sequences of 40 steps to warm up the state, and 80 to train on.
            batch_B=n_sequences, replay_size=replay_size, min_steps_learn=min_steps_learn
        ),
        agent=AtariR2d1AlternatingAgent(eps_final=0.1, eps_final_min=0.0005),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(
            optimizer=[dict(cuda_idx=cuda_idx)],
            sampler=[dict(workers_cpus=n_workers, cuda_idx=i) for i in sample_cuda_idx or [None]],
        ),
        seed=seed,
    )
    with logger_context(
        log_dir, run_ID, "r2d1_" + game, dict(game=game), snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument(
        "--cuda_idx", type=int, default=None, help="GPU to train on; CPU by default"
    )
    parser.add_argument("--sample_cuda_idx", type=int, nargs="*", default=(), help="gpus to act on")
    parser.add_argument("--n_workers", type=int, default=2, help="for each server, an even number")
    parser.add_argument("--batch_B", type=int, default=32, help="games at a time, an even number")
    parser.add_argument("--n_sequences", type=int, default=64, help="in an update")
    parser.add_argument("--n_steps", type=float, default=100e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--replay_size", type=float, default=1e6, help="transitions")
    parser.add_argument("--min_steps_learn", type=float, default=1e5, help="before training")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_7", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
