"""PPO on any environment of gymnasium, without writing a model: it is made from the spaces.

    python examples/any_env_ppo.py --env_id CartPole-v1
    python examples/any_env_ppo.py --env_id Pendulum-v1 --recurrent

Observations may be vectors, images, choices, or dictionaries of them; actions may be choices, real
numbers, or dictionaries of them.
"""

import argparse

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    env_id: str = "CartPole-v1",
    recurrent: bool = False,
    run_ID: int = 0,
    n_steps: float = 200e3,
    log_interval_steps: float = 1e4,
    seed: int | None = None,
    log_dir: str = "any_env_ppo",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id=env_id),
        batch_T=128,
        batch_B=8,
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=5 * 1001,
        eval_max_trajectories=10,
    )
    algo = PPO(
        learning_rate=1e-3,
        gae_lambda=0.95,
        epochs=8,
        ratio_clip=0.2,
        normalize_advantage=True,
        normalize_return=True,
    )
    AgentCls = GenericLstmAgent if recurrent else GenericFfAgent
    runner = MinibatchRlEval(
        algo=algo,
        agent=AgentCls(model_kwargs=dict(normalize_observation=True), greedy_eval=True),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(master_torch_threads=1),
        seed=seed,
    )
    config = dict(env_id=env_id, recurrent=recurrent)
    with logger_context(
        log_dir, run_ID, f"ppo_{env_id}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env_id", default="CartPole-v1", help="any registered environment")
    parser.add_argument("--recurrent", action="store_true", help="an agent that remembers")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--n_steps", type=float, default=200e3, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="any_env_ppo", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
