"""A2C on an Atari game, with a recurrent agent and alternating sampling.

    python examples/example_5.py --game pong
    python examples/example_5.py --game pong --no_overlap

The games are in two halves, with as many workers each. While one half steps, the agent acts for the
other, on a GPU or the CPU. With ``--no_overlap`` a half starts to step only after the other has
finished, so that workers of both halves can share CPUs. A recurrent agent has a state for each half
and is therefore of another class; a feed-forward one is the same as ever (example_3.py).
"""

import argparse

from rlpyt.agents.pg.atari import AlternatingAtariLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_workers: int = 2,
    no_overlap: bool = False,
    n_steps: float = 10e6,
    log_interval_steps: float = 3e3,
    batch_B: int = 16,
    seed: int | None = None,
    log_dir: str = "example_5",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    SamplerCls = NoOverlapAlternatingSampler if no_overlap else AlternatingSampler
    sampler = SamplerCls(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game, num_img_obs=1),  # The agent remembers earlier frames.
        batch_T=20,
        batch_B=batch_B,
        max_decorrelation_steps=400,  # Environments start at different points of the game.
    )
    runner = MinibatchRl(
        algo=A2C(learning_rate=3e-4),
        agent=AlternatingAtariLstmAgent(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx, workers_cpus=n_workers),
        seed=seed,
    )
    config = dict(game=game, no_overlap=no_overlap)
    with logger_context(
        log_dir, run_ID, f"a2c_lstm_{game}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_workers", type=int, default=2, help="processes, an even number")
    parser.add_argument("--no_overlap", action="store_true", help="only one half works at a time")
    parser.add_argument("--n_steps", type=float, default=10e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=3e3, help="between log rows")
    parser.add_argument("--batch_B", type=int, default=16, help="environments, an even number")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_5", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
