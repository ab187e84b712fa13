"""SAC, TD3 or DDPG on a MuJoCo task.

    python examples/example_2.py --env_id HalfCheetah-v5 --algo td3

One environment, and one update after each of its steps. On one CPU core a million steps take some
hours; 3e5 show what an algorithm can do.
"""

import argparse

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.gym import make as gym_make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

ALGOS = {"sac": (SAC, SacAgent), "td3": (TD3, Td3Agent), "ddpg": (DDPG, DdpgAgent)}


def build_and_train(
    env_id: str = "Hopper-v5",
    algo: str = "sac",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    n_steps: float = 1e6,
    log_interval_steps: float = 1e4,
    min_steps_learn: float = 1e4,
    seed: int | None = None,
    log_dir: str = "example_2",
    resume: bool = False,
) -> None:
    """Train until ``n_steps`` environment steps."""
    AlgoCls, AgentCls = ALGOS[algo]
    sampler = SerialSampler(
        EnvCls=gym_make,
        env_kwargs=dict(id=env_id),
        eval_env_kwargs=dict(id=env_id),
        batch_T=1,  # One step per iteration,
        batch_B=1,  # of one environment.
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_max_steps=10 * 1000,
        eval_max_trajectories=10,
    )
    runner = MinibatchRlEval(
        algo=AlgoCls(min_steps_learn=min_steps_learn),  # More random until then.
        agent=AgentCls(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        affinity=dict(cuda_idx=cuda_idx),
        seed=seed,
    )
    config = dict(env_id=env_id, algo=algo)
    with logger_context(
        log_dir, run_ID, f"{algo}_{env_id}", config, snapshot_mode="last", resume=resume
    ):
        runner.train(resume="auto" if resume else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env_id", default="Hopper-v5", help="gymnasium task with real actions")
    parser.add_argument("--algo", default="sac", choices=sorted(ALGOS))
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU to use; CPU by default")
    parser.add_argument("--n_steps", type=float, default=1e6, help="environment steps")
    parser.add_argument("--log_interval_steps", type=float, default=1e4, help="between log rows")
    parser.add_argument("--min_steps_learn", type=float, default=1e4, help="steps before training")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    parser.add_argument(
        "--log_dir", default="example_2", help="directory of the log, below data/local"
    )
    parser.add_argument(
        "--resume", action="store_true", help="save checkpoints, and continue from the last"
    )
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
