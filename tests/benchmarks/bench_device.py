"""PPO, DQN and SAC on a device: updates and steps of acting per second, eager and compiled.

    python tests/benchmarks/bench_device.py [--device cuda] [--algos ppo dqn sac] [--eager]
        [--json FILE]

Eager and compiled loops take turns, in slices of one run. A step of acting includes that of its
environment, on the CPU; an update includes its batch: drawing, moving, and the log's numbers coming
back, so that no work on the device is left when the clock stops. Compilation is not included.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs import gym
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import existing_device


def sampler(env_id: str, T: int, B: int) -> SerialSampler:
    return SerialSampler(gym.make, {"id": env_id}, batch_T=T, batch_B=B, max_decorrelation_steps=0)


# Algorithm, agent and sampler: 40 updates of 64 samples, 4 of 128, and 4 of 256 in an iteration.
WORKLOADS: dict[str, Callable[[], dict[str, Any]]] = {
    "ppo": lambda: {
        "algo": PPO(epochs=10, minibatches=4),
        "agent": GenericFfAgent(model_kwargs={"hidden_sizes": [64, 64]}),
        "sampler": sampler("CartPole-v1", T=32, B=8),
    },
    "dqn": lambda: {
        "algo": DQN(batch_size=128, replay_ratio=16, min_steps_learn=1e3, replay_size=1e5),
        "agent": MlpDqnAgent(model_kwargs={"hidden_sizes": [64, 64]}),
        "sampler": sampler("CartPole-v1", T=4, B=8),
    },
    "sac": lambda: {
        "algo": SAC(batch_size=256, replay_ratio=256, min_steps_learn=1e3, replay_size=1e5),
        "agent": SacAgent(model_kwargs={"hidden_sizes": [256, 256]}),
        "sampler": sampler("Pendulum-v1", T=4, B=1),
    },
}


class Loop:
    """A training loop that has learned for a while, and the speeds of its slices.

    Args:
        parts: algorithm, agent and sampler.
        device: device of the agent.
        compile: whether updates are compiled.
    """

    def __init__(self, parts: dict[str, Any], device: torch.device, compile: bool) -> None:
        affinity = {"cuda_idx": None if device.type == "cpu" else device, "master_torch_threads": 1}
        self.runner = MinibatchRl(
            **parts, n_steps=1e9, log_interval_steps=1e9, seed=0, affinity=affinity, compile=compile
        )
        self.runner.startup()
        self.itr = 0
        self.speeds: dict[str, list[float]] = {"updates/s": [], "steps/s": []}
        while self.runner.algo.update_counter < 20:
            self._iterate()

    def _iterate(self) -> tuple[float, float]:
        """Run one iteration; return the seconds of acting and of updates."""
        runner, start = self.runner, time.perf_counter()
        runner.agent.sample_mode(self.itr)
        samples, _ = runner.sampler.obtain_samples(self.itr)
        between = time.perf_counter()
        runner.agent.train_mode(self.itr)
        runner.algo.optimize_agent(self.itr, samples)
        self.itr += 1
        return between - start, time.perf_counter() - between

    def slice(self, seconds: float) -> None:
        """Run for some time."""
        before, acting, training, n = self.runner.algo.update_counter, 0.0, 0.0, 0
        while acting + training < seconds:
            seconds_to_act, seconds_to_train = self._iterate()
            acting, training, n = acting + seconds_to_act, training + seconds_to_train, n + 1
        updates = self.runner.algo.update_counter - before
        self.speeds["updates/s"].append(updates / training)
        self.speeds["steps/s"].append(n * self.runner.sampler.batch_spec.size / acting)


def run(name: str, device: torch.device, variants: list[str], args: Any) -> dict[str, Any]:
    loops = {x: Loop(WORKLOADS[name](), device, compile=x == "compiled") for x in variants}
    for _ in range(args.slices):
        for loop in loops.values():
            loop.slice(args.seconds)
    for loop in loops.values():
        loop.runner.shutdown()
    return {
        variant: {unit: statistics.median(x) for unit, x in loop.speeds.items()}
        for variant, loop in loops.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="device of the agent, such as cuda")
    parser.add_argument("--algos", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--eager", action="store_true", help="leave out compiled loops")
    parser.add_argument("--slices", type=int, default=5, help="slices of each loop")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--json", help="also write the result to this file")
    args = parser.parse_args()
    device = existing_device("device", args.device, "choose another")
    torch.manual_seed(0)
    variants = ["eager"] if args.eager else ["eager", "compiled"]
    results = {name: run(name, device, variants, args) for name in args.algos}
    machine = f"{platform.processor() or platform.machine()}, torch {torch.__version__}"
    if device.type == "cuda":
        machine = f"{torch.cuda.get_device_name(device)}, {machine}"
    print(f"\n{device}, {machine}; one torch thread; medians of {args.slices} slices")
    print(f"{'':6}{'':10}{'updates/s':>12}{'acting steps/s':>16}")
    for name, result in results.items():
        for variant, speeds in result.items():
            print(f"{name:6}{variant:10}{speeds['updates/s']:12.0f}{speeds['steps/s']:16.0f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"device": str(device), "machine": machine, "results": results}, file)


if __name__ == "__main__":
    main()
