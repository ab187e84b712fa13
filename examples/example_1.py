"""DQN on an Atari game, all in one process: the place to start reading.

    python examples/example_1.py --game pong

Agent and environment take turns in this process. The run prints a table at every log interval, and
writes ``progress.csv``, ``debug.log``, ``params.json`` and the last snapshot into its log
directory. Learning to play takes some hundred thousand steps.
"""

import argparse

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.models.autocast import Autocast
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 50e6,
    log_interval_steps: float = 1e3,
    replay_size: float = 1e6,
    seed: int | None = None,
    log_dir: str = "example_1",
    bfloat16: bool = False,
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    sampler = SerialSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game),
        eval_env_kwargs=dict(game=game),
        batch_T=4,  # Four steps per iteration,
        batch_B=1,  # of one environment.
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=5 * 1000,
        eval_max_trajectories=5,
    )
    algo = DQN(min_steps_learn=1e3, replay_size=replay_size)
    agent = AtariDqnAgent(ModelCls=Autocast(AtariDqnModel) if bfloat16 else AtariDqnModel)
    runner = MinibatchRlEval(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx),
        seed=seed,
    )
    config = dict(game=game)
    with logger_context(
        log_dir, run_ID, "dqn_" + game, config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--game", default="pong", help="Atari game, such as pong or breakout")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_steps", type=float, default=50e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e3, help="between log rows")
    parser.add_argument("--replay_size", type=float, default=1e6, help="transitions")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_1", help="directory of the log, below data/local"
    )
    parser.add_argument("--bfloat16", action="store_true", help="faster, in lower precision")
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
