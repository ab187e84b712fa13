"""R2D1 learns to remember: the first step of a maze shows where to turn at its end.

    python examples/tmaze_r2d1.py

An agent without memory turns at random: its mean return is at most 0. The recurrent agent, trained
on replayed sequences from the states that it had when it acted, passes 0.75 within a minute.
"""

import argparse

from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import TMaze
from rlpyt.runners.callbacks import StopAtReturn
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    length: int = 5,
    run_ID: int = 0,
    n_steps: float = 40e3,
    stop_at_return: float = 0.75,
    seed: int | None = None,
    log_dir: str = "tmaze_r2d1",
    resume: bool = False,
) -> None:
    """Train until the mean return of an evaluation is reached."""
    sampler = SerialSampler(
        EnvCls=TMaze,
        env_kwargs=dict(length=length),
        batch_T=8,
        batch_B=8,
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_env_kwargs=dict(length=length),
        eval_max_steps=2e3,
        eval_max_trajectories=50,
    )
    algo = R2D1(
        discount=0.9,
        batch_T=16,  # Sequences of 16 steps,
        batch_B=16,  # as many in one update,
        warmup_T=0,  # trained on from their first step,
        store_rnn_state_interval=8,  # which is every eighth sampled one.
        n_step_return=5,
        min_steps_learn=1e3,
        replay_size=20e3,
        replay_ratio=24,
        target_update_interval=100,
        learning_rate=3e-3,
        delta_clip=1.0,
        eps_steps=3e3,
    )
    agent = MlpR2d1Agent(model_kwargs=dict(hidden_sizes=[32, 32], lstm_size=32), eps_final=0.05)
    runner = MinibatchRlEval(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(1e3, n_steps),
        seed=seed,
        # Networks this small run fastest on one thread.
        affinity=dict(master_torch_threads=1),
        callbacks=[StopAtReturn(stop_at_return)],
    )
    with logger_context(
        log_dir, run_ID, "r2d1_tmaze", dict(length=length), snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--length", type=int, default=5, help="steps to the end of the maze")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--n_steps", type=float, default=40e3, help="environment steps, at most")
    parser.add_argument("--stop_at_return", type=float, default=0.75, help="mean, ends the run")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="tmaze_r2d1", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
