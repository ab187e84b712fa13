"""Rainbow on an Atari game: every extension of DQN at once, each of them one argument.

    python examples/rainbow_pong.py --game pong --cuda_idx 0

Rainbow is categorical DQN with double Q-learning, prioritized replay, n-step returns, a dueling
network and noisy layers. The noise explores, so that there are no random actions: epsilon is 0.
"""

import argparse

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    game: str = "pong",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 50e6,
    log_interval_steps: float = 1e4,
    replay_size: float = 1e6,
    min_steps_learn: float = 20e3,
    seed: int | None = None,
    log_dir: str = "rainbow_pong",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps; settings follow arXiv:1710.02298, table 1."""
    sampler = SerialSampler(
        EnvCls=AtariEnv,
        TrajInfoCls=AtariTrajInfo,  # Also logs the game's score.
        env_kwargs=dict(game=game),
        eval_env_kwargs=dict(game=game),
        batch_T=4,  # Noise is drawn once per batch:
        batch_B=1,  # every four steps, as often as the network is trained.
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=5 * 1000,
        eval_max_trajectories=5,
    )
    algo = CategoricalDQN(
        V_min=-10,
        V_max=10,
        learning_rate=6.25e-5,
        optim_kwargs=dict(eps=1.5e-4),
        replay_size=replay_size,
        min_steps_learn=min_steps_learn,
        target_update_interval=2000,  # Updates: 8000 steps.
        double_dqn=True,
        n_step_return=3,
        prioritized_replay=True,
        pri_alpha=0.5,
        pri_beta_init=0.4,
        pri_beta_steps=n_steps,
    )
    agent = AtariCatDqnAgent(n_atoms=51, model_kwargs=dict(dueling=True, noisy=True))
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
        log_dir, run_ID, "rainbow_" + game, config, snapshot_mode="last", resume=resume
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
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--replay_size", type=float, default=1e6, help="transitions")
    parser.add_argument("--min_steps_learn", type=float, default=20e3, help="before training")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="rainbow_pong", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
