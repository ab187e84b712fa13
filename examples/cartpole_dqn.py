"""DQN solves CartPole in about a minute, and draws its learning curve.

    python examples/cartpole_dqn.py

Shows how little a run needs: an environment by name, a sampler, an algorithm, an agent, a runner.
The run directory, printed at the end, holds ``progress.csv`` and the picture beside it.
"""

import argparse
from pathlib import Path

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.gym import make
from rlpyt.experiments.results.pictures import plot_learning_curves
from rlpyt.runners.callbacks import StopAtReturn
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    env_id: str = "CartPole-v1",
    run_ID: int = 0,
    n_steps: float = 100e3,
    stop_at_return: float = 475.0,
    seed: int | None = None,
    resume: bool = False,
) -> Path:
    """Train until the mean return of an evaluation is reached; return the run's directory."""
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id=env_id),
        batch_T=8,  # Eight steps per iteration,
        batch_B=4,  # of each of four environments.
        eval_n_envs=5,
        eval_env_kwargs=dict(id=env_id),
        eval_max_steps=5 * 500,
        eval_max_trajectories=20,
        max_decorrelation_steps=0,
    )
    algo = DQN(
        learning_rate=1e-3,
        batch_size=128,
        replay_size=100e3,
        min_steps_learn=1e3,
        replay_ratio=32,  # Each sample is trained on 32 times, on average.
        target_update_tau=0.02,  # The target network follows at every update.
        target_update_interval=1,
        n_step_return=3,
        eps_steps=8e3,
        double_dqn=True,
    )
    agent = MlpDqnAgent(model_kwargs=dict(hidden_sizes=[128, 128]), eps_final=0.02)
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
    name = "dqn_" + env_id
    with logger_context(
        "cartpole_dqn", run_ID, name, dict(env_id=env_id), snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)
        run_dir = Path(logger.get_snapshot_dir() or ".")
    picture = run_dir / "learning_curve.png"
    plot_learning_curves({"DQN": [run_dir / "progress.csv"]}, picture, title=env_id)
    print(f"\nLearning curve: {picture}\nTable:          {run_dir / 'progress.csv'}")
    return run_dir


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env_id", default="CartPole-v1", help="classic control, discrete actions")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--n_steps", type=float, default=100e3, help="environment steps, at most")
    parser.add_argument("--stop_at_return", type=float, default=475.0, help="mean, ends the run")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
