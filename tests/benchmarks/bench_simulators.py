"""Speed of simulators in JAX: environment steps per second of CPU time, alone and with an agent.

`PYTHONPATH=. python tests/benchmarks/bench_simulators.py [NAME...] [--envs 64 1024]`, where NAME is
such as gymnax:CartPole-v1. The time of all threads counts, without that of compilation.
"""

import argparse
import time

import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.experiments.catalog import ENVIRONMENTS, find_environment, load
from rlpyt.samplers.vector.device import DeviceSampler
from rlpyt.utils.seed import set_seed


def speed(step, n_envs, seconds):
    """Return environment steps per second of CPU time."""
    step()  # Compiles.
    begin, n_steps = time.process_time(), 0
    while time.process_time() - begin < seconds:
        n_steps += step() * n_envs
    return n_steps / (time.process_time() - begin)


def measure(name, n_envs, batch_T, seconds):
    role, kwargs = find_environment(name)
    set_seed(0)
    EnvCls = load(ENVIRONMENTS[role][2])
    sampler = DeviceSampler(EnvCls, kwargs, batch_T, n_envs, max_decorrelation_steps=0)
    sampler.initialize(GenericFfAgent(), seed=0, bootstrap_value=True)
    env, action = sampler.env, sampler.env.sample_actions()
    raw = env.env
    array = raw._array(
        env.action_space.revert_tensors(action).int() if role == "gymnax" else action
    )

    def simulate():
        for _ in range(batch_T):
            raw._carried, raw._observation = step_alone(raw._carried, array)
        raw._observation.block_until_ready()
        return batch_T

    def step_alone(carried, actions):
        carried, results = raw._step(carried, actions)
        return carried, results[0]

    def step():
        for _ in range(batch_T):
            env.step(action)
        return batch_T

    def sample():
        sampler.obtain_samples(0)
        return batch_T

    alone, as_tensors, with_agent = (speed(f, n_envs, seconds) for f in (simulate, step, sample))
    tensor = raw._tensors(raw._observation)
    is_shared = tensor.data_ptr() == raw._observation.unsafe_buffer_pointer()
    sampler.shutdown()
    return alone, as_tensors, with_agent, is_shared


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["gymnax:CartPole-v1", "brax:halfcheetah"])
    parser.add_argument("--envs", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--batch-T", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("environment | environments | in JAX | as tensors | sampled by PPO's agent | shared")
    for name in arguments.names:
        for n_envs in arguments.envs:
            *speeds, is_shared = measure(name, n_envs, arguments.batch_T, arguments.seconds)
            print(name, n_envs, *(f"{each:.3g}" for each in speeds), is_shared, sep=" | ")


if __name__ == "__main__":
    main()
