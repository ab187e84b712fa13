"""A2C and PPO: the whole training loop against its floor, measured in turn within one run.

    python tests/benchmarks/bench_pg.py [WORKLOAD ...] [--sampler cpu] [--rounds 5] [--json FILE]

The floor of one iteration is what no arrangement of code can avoid, run on the same machine in the
same minutes: B bare environments stepped in turn with the network's forward passes for acting
(which push each other out of the caches there as well), and the updates written out by hand
(forward, loss, backward, clip, fused Adam) on prepared batches. The emulator is bare, the
physics that of ``gymnasium.make``. Everything above the floor is the library's overhead. With
another sampler than the serial one, the floor of acting is that of ``bench_samplers.py``: the same
in as many processes on as many CPUs. Times of single pieces are of each alone, and are no sum.

    a2c_pong          T=5, B=16, one update per batch
    a2c_pong_32       the same with B=32
    ppo_pong          T=128, B=16, 4 epochs of 4 minibatches
    ppo_halfcheetah   T=2048, B=1, 10 epochs of 32 minibatches
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import bench_samplers
import torch
from bare import Actor, Alternate, BareCheetah, BarePong, seconds_per_call, trained

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs import gym
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

PONG = {"EnvCls": AtariEnv, "env_kwargs": {"game": "pong"}, "TrajInfoCls": AtariTrajInfo}
CHEETAH = {"EnvCls": gym.make, "env_kwargs": {"id": "HalfCheetah-v5"}}


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    make_algo: Callable[[], Any]
    make_agent: Callable[[], Any]
    env: dict[str, Any]
    T: int
    B: int
    n_updates: int
    batch_size: int
    itrs_per_round: int

    @property
    def is_pong(self) -> bool:
        return self.env is PONG


def ppo_pong() -> PPO:
    return PPO(gae_lambda=0.95, minibatches=4, epochs=4)


def ppo_halfcheetah() -> PPO:
    return PPO(
        learning_rate=3e-4,
        clip_grad_norm=1e6,
        entropy_loss_coeff=0.0,
        gae_lambda=0.95,
        minibatches=32,
        epochs=10,
        ratio_clip=0.2,
        normalize_advantage=True,
    )


WORKLOADS = {
    "a2c_pong": Workload(A2C, AtariFfAgent, PONG, 5, 16, 1, 80, 20),
    "a2c_pong_32": Workload(A2C, AtariFfAgent, PONG, 5, 32, 1, 160, 10),
    "ppo_pong": Workload(ppo_pong, AtariFfAgent, PONG, 128, 16, 16, 512, 1),
    "ppo_halfcheetah": Workload(ppo_halfcheetah, MujocoFfAgent, CHEETAH, 2048, 1, 320, 64, 1),
}


class Floor(Actor):
    """The unavoidable pieces of one iteration, with a network and environments of their own."""

    def __init__(self, workload: Workload, sampler: str, agent: Any) -> None:
        EnvCls = BarePong if workload.is_pong else BareCheetah
        self.SamplerCls, self.n_workers = bench_samplers.SAMPLERS[sampler]
        n_acting = self.n_workers if self.SamplerCls is CpuSampler else 1
        super().__init__(EnvCls, workload.B // n_acting, copy.deepcopy(agent.model))
        self.workload = workload
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5, fused=True)
        n = workload.batch_size
        self.batch = self.random_inputs(n)
        self.advantage, self.return_ = torch.randn(n), torch.randn(n)
        with torch.no_grad():
            *self.old_parameters, _ = self.model(*self.batch)
        self.action = self._random_actions(n)

    def _random_actions(self, n: int) -> torch.Tensor:
        return torch.randint(6, (n, 1)) if self.workload.is_pong else torch.randn(n, 6)

    def update(self) -> None:
        """One update, of the clipped surrogate or for A2C the plain one."""
        self.optimizer.zero_grad(set_to_none=True)
        *parameters, value = self.model(*self.batch)
        logli, entropy = self._logli_and_entropy(parameters)
        if self.workload.n_updates > 1:
            with torch.no_grad():
                old_logli, _ = self._logli_and_entropy(self.old_parameters)
            ratio = torch.exp(logli - old_logli)
            clipped = ratio.clamp(0.9, 1.1)
            pi_loss = -torch.min(ratio * self.advantage, clipped * self.advantage).mean()
        else:
            pi_loss = -(logli * self.advantage).mean()
        value_loss = 0.5 * ((value - self.return_) ** 2).mean()
        (pi_loss + value_loss - 0.01 * entropy).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def _logli_and_entropy(self, parameters: list[torch.Tensor]) -> tuple[Any, Any]:
        if self.workload.is_pong:
            log_p = torch.log(parameters[0] + 1e-8)
            entropy = -(parameters[0] * log_p).sum(-1).mean()
            return log_p.gather(1, self.action)[:, 0], entropy
        mean, log_std = parameters
        z = (self.action - mean) / torch.exp(log_std)
        logli = -(log_std + 0.5 * z**2).sum(-1) - 3 * math.log(2 * math.pi)
        return logli, log_std.sum(-1).mean()

    def measure(self) -> dict[str, float]:
        """Seconds of each piece, and of one iteration made of nothing else."""
        workload = self.workload
        pieces = {
            "env_step": seconds_per_call(self.envs[0].step, 200),
            "forward": seconds_per_call(self.forward, 20 if workload.is_pong else 300),
            "update": seconds_per_call(self.update, 4 if workload.is_pong else 100),
        }
        acting = workload.T * self._seconds_per_time_step()
        acting += pieces["forward"]  # The value of what follows the last step.
        return {**pieces, "floor": acting + workload.n_updates * pieces["update"]}

    def _seconds_per_time_step(self) -> float:
        """Of all environments, with the forward passes to act on them."""
        is_pong, T, B = self.workload.is_pong, self.workload.T, self.workload.B
        if not self.n_workers:
            return seconds_per_call(self.act, 20 if is_pong else 300)
        kind = bench_samplers.WORKLOADS["pong" if is_pong else "cheetah"]
        kind = kind._replace(batch_T=T, batch_B=B)
        return B / bench_samplers.floor_speed(kind, self.SamplerCls, self.n_workers, seconds=1.0)


def run(name: str, sampler: str, rounds: int, threads: int) -> dict[str, Any]:
    workload = WORKLOADS[name]
    SamplerCls, n_workers = bench_samplers.SAMPLERS[sampler]
    affinity: dict[str, Any] = {"master_torch_threads": threads}
    if n_workers:
        affinity["workers_cpus"] = bench_samplers.workers_cpus(n_workers)
    make_floor = partial(Floor, workload, sampler)
    runner = MinibatchRl(
        algo=workload.make_algo(),
        agent=workload.make_agent(),
        sampler=SamplerCls(
            **workload.env, batch_T=workload.T, batch_B=workload.B, max_decorrelation_steps=0
        ),
        n_steps=1e9,
        log_interval_steps=1e9,
        seed=0,
        affinity=affinity,
        callbacks=[Alternate(make_floor, rounds, workload.itrs_per_round)],
    )
    result = trained(runner)
    return {
        **result,
        "updates_per_second": workload.n_updates / result["seconds"]["iteration"],
        "steps_per_second": workload.T * workload.B / result["seconds"]["iteration"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="all, if none is named")
    parser.add_argument("--sampler", default="serial", choices=bench_samplers.SAMPLERS)
    parser.add_argument("--rounds", type=int, default=5, help="of loop and floor, in turn")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--json", help="also write the result to this file")
    args = parser.parse_args()
    machine = f"{platform.processor() or platform.machine()}, torch {torch.__version__}"
    sampler = bench_samplers.label(args.sampler)
    print(f"{machine}, {args.threads} torch thread(s), {sampler}, medians of {args.rounds} rounds")
    heads = ("env us", "forward us", "update ms", "floor ms", "loop ms", "share", "steps/s")
    print(f"{'':<16}" + "".join(f"{head:>12}" for head in heads))
    results = {}
    for name in args.workloads or WORKLOADS:
        results[name] = result = run(name, args.sampler, args.rounds, args.threads)
        seconds = result["seconds"]
        row = (
            1e6 * seconds["env_step"],
            1e6 * seconds["forward"],
            1e3 * seconds["update"],
            1e3 * seconds["floor"],
            1e3 * seconds["iteration"],
            100 * result["floor_share"],
            result["steps_per_second"],
        )
        print(f"{name:<16}" + "".join(f"{value:>12.2f}" for value in row), flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(
                {"machine": machine, "threads": args.threads, "sampler": sampler, **results},
                file,
                indent=2,
            )


if __name__ == "__main__":
    main()
