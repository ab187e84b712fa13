"""PPO solves CartPole with environments, acting and training on one device.

    python examples/cartpole_on_device.py --cuda_idx 0

The environments are written in torch; a simulator on the GPU takes their place through
``rlpyt.envs.device.DeviceEnvWrapper``. Without ``--cuda_idx`` everything is on the CPU.
"""

import argparse

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.control import make
from rlpyt.runners.callbacks import StopAtReturn
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.vector.device import DeviceSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    env_id: str = "CartPole-v1",
    run_ID: int = 0,
    cuda_idx: int | None = None,
    batch_B: int = 64,
    n_steps: float = 1e6,
    log_interval_steps: float = 2e4,
    stop_at_return: float = 475.0,
    seed: int | None = None,
) -> None:
    """Train until the mean return of an evaluation is reached."""
    device = "cpu" if cuda_idx is None else f"cuda:{cuda_idx}"
    sampler = DeviceSampler(
        EnvCls=make,
        env_kwargs=dict(id=env_id, device=device),
        batch_T=32,
        batch_B=batch_B,
        eval_n_envs=16,
        eval_n_episodes=32,
        max_decorrelation_steps=0,
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, discount=0.98, entropy_loss_coeff=0.0, minibatches=4),
        agent=GenericFfAgent(),
        sampler=sampler,
        n_steps=n_steps,
        log_interval_steps=min(log_interval_steps, n_steps),
        seed=seed,
        affinity=dict(cuda_idx=cuda_idx, master_torch_threads=1),
        callbacks=[StopAtReturn(stop_at_return)],
    )
    name = "ppo_" + env_id
    config = dict(env_id=env_id)
    with logger_context("cartpole_on_device", run_ID, name, config, snapshot_mode="last"):
        runner.train()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env_id", default="CartPole-v1", help="CartPole-v1 or Pendulum-v1")
    parser.add_argument("--run_ID", type=int, default=0, help="run identifier (logging)")
    parser.add_argument("--cuda_idx", type=int, default=None, help="GPU; the CPU by default")
    parser.add_argument("--batch_B", type=int, default=64, help="number of environments")
    parser.add_argument("--n_steps", type=float, default=1e6, help="environment steps, at most")
    parser.add_argument("--log_interval_steps", type=float, default=2e4, help="steps per log row")
    parser.add_argument("--stop_at_return", type=float, default=475.0, help="mean, ends the run")
    parser.add_argument("--seed", type=int, default=None, help="random by default")
    build_and_train(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
