"""DQN on an Atari game, sampling in one process and training in another.

    python examples/atari_dqn_async_serial.py --game pong

The sampler steps its environments in turn.
The optimizer trains in this process, on the CPU or on a GPU, from a replay buffer in shared memory,
and publishes its parameters; neither waits for the other's step, but both keep to the replay ratio.
"""

import argparse

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.async_rl import AsyncRlEval
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 50e6,
    log_interval_steps: float = 1e4,
    replay_size: float = 1e6,
    seed: int | None = None,
    log_dir: str = "atari_dqn_async_serial",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    sampler = AsyncSerialSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game),
        eval_env_kwargs=dict(game=game),
        batch_T=4,
        batch_B=2,
        max_decorrelation_steps=100,
        eval_n_envs=2,
        eval_max_steps=2 * 1500,
        eval_max_trajectories=4,
    )
    affinity = dict(optimizer=[dict(cuda_idx=cuda_idx)], sampler={})
    runner = AsyncRlEval(
        algo=DQN(min_steps_learn=1e3, replay_size=replay_size),
        agent=AtariDqnAgent(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=affinity,
        seed=seed,
    )
    config = dict(game=game)
    with logger_context(
        log_dir, run_ID, "async_serial_dqn_" + game, config, snapshot_mode="last", resume=resume
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
    parser.add_argument("--n_steps", type=float, default=50e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--replay_size", type=float, default=1e6, help="transitions")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="atari_dqn_async_serial", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
