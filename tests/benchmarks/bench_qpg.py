"""SAC and TD3 on HalfCheetah: the whole training loop against its floor, in turn within one run.

    python tests/benchmarks/bench_qpg.py [--algos sac td3] [--rounds 8] [--json FILE]

The floor of one iteration is what no arrangement of code can avoid: one step of the simulator, one
forward pass of the policy for acting, and one update of all networks written out in plain torch,
each run alone on the same machine in the same minutes. The loop is one environment step, then one
update with the default settings of the algorithm. Everything above the floor is the library's
overhead: drawing from replay, logging, checks.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import platform
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import torch
from bare import Alternate, seconds_per_call, trained

from rlpyt.envs import gym
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler

ENV_ID = "HalfCheetah-v5"
MIN_STEPS_LEARN = 1e3


class Floor:
    """The unavoidable pieces of one iteration, with networks and a simulator of their own."""

    def __init__(self, agent: Any, batch_size: int) -> None:
        self.agent = agent
        self.env = gymnasium.make(ENV_ID).unwrapped  # Without the checks of the wrappers.
        self.env.reset(seed=0)
        self.obs_size, self.A = 17, 6
        self.actions = np.random.default_rng(0).uniform(-1, 1, (64, self.A)).astype(np.float32)
        self.n = 0
        self.s, self.next_s = torch.randn(2, batch_size, self.obs_size)
        self.a = torch.rand(batch_size, self.A) * 2 - 1
        self.r = torch.randn(batch_size)
        self.one = torch.randn(1, self.obs_size)
        self.pi = self._copy("model")

    def _copy(self, name: str) -> torch.nn.Module:
        return copy.deepcopy(getattr(self.agent, name)).mlp

    def env_step(self) -> None:
        self.n += 1
        self.env.step(self.actions[self.n % len(self.actions)])
        if self.n % 1000 == 0:
            self.env.reset()

    @torch.no_grad()
    def forward(self) -> None:
        """One forward pass of the policy, batch 1, as for acting."""
        self.pi(self.one)

    def update(self) -> None:
        raise NotImplementedError

    def measure(self) -> dict[str, float]:
        """Seconds of each piece, and of one iteration made of nothing else."""
        pieces = {
            "env_step": seconds_per_call(self.env_step, 100),
            "forward": seconds_per_call(self.forward, 100),
            "update": seconds_per_call(self.update, 40),
        }
        return {**pieces, "floor": sum(pieces.values())}


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=3e-4, fused=True)


def values(q: torch.nn.Module, s: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    return q(torch.cat([s, a], dim=1)).squeeze(-1)


def minimize(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1e9)
    optimizer.step()


def freeze(models: Iterable[torch.nn.Module], is_frozen: bool) -> None:
    for model in models:
        model.requires_grad_(not is_frozen)


@torch.no_grad()
def track(target: torch.nn.Module, model: torch.nn.Module) -> None:
    for old, new in zip(target.parameters(), model.parameters(), strict=True):
        old.lerp_(new, 0.005)


class SacFloor(Floor):
    """One update: target, losses, and the steps of alpha, policy and both critics."""

    def __init__(self, agent: Any, batch_size: int) -> None:
        super().__init__(agent, batch_size)
        self.qs = [self._copy("q1_model"), self._copy("q2_model")]
        self.targets = [copy.deepcopy(q) for q in self.qs]
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.pi_optimizer = adam(self.pi)
        self.q_optimizers = [adam(q) for q in self.qs]
        self.alpha_optimizer = torch.optim.Adam([self.log_alpha], lr=3e-4, fused=True)

    def draw(self, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.pi(s).chunk(2, dim=-1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        u = mean + log_std.exp() * noise
        slope = 2 * (0.6931 - u - torch.nn.functional.softplus(-2 * u))
        return u.tanh(), -(log_std + 0.5 * noise**2 + slope + 0.9189).sum(-1)

    def update(self) -> None:
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            a, log_pi = self.draw(self.next_s)
            next_q = torch.min(*(values(q, self.next_s, a) for q in self.targets))
            y = self.r + 0.99 * (next_q - alpha * log_pi)
        q_losses = [0.5 * ((y - values(q, self.s, self.a)) ** 2).mean() for q in self.qs]
        a, log_pi = self.draw(self.s)
        freeze(self.qs, True)
        pi_loss = (alpha * log_pi - torch.min(*(values(q, self.s, a) for q in self.qs))).mean()
        freeze(self.qs, False)
        alpha_loss = -(self.log_alpha * (log_pi.detach() - self.A)).mean()
        minimize(alpha_loss, self.alpha_optimizer)
        minimize(pi_loss, self.pi_optimizer)
        for loss, optimizer in zip(q_losses, self.q_optimizers, strict=True):
            minimize(loss, optimizer)
        for target, q in zip(self.targets, self.qs, strict=True):
            track(target, q)


class Td3Floor(Floor):
    """One update of the critics, and at every second one also of policy and target copies."""

    def __init__(self, agent: Any, batch_size: int) -> None:
        super().__init__(agent, batch_size)
        self.qs = torch.nn.ModuleList([self._copy("q_model"), self._copy("q2_model")])
        self.target_qs, self.target_pi = copy.deepcopy(self.qs), copy.deepcopy(self.pi)
        self.pi_optimizer, self.q_optimizer = adam(self.pi), adam(self.qs)
        self.n_updates = 0

    def update(self) -> None:
        with torch.no_grad():
            a = self.target_pi(self.next_s).tanh()
            a = (a + (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)).clamp(-1, 1)
            y = self.r + 0.99 * torch.min(*(values(q, self.next_s, a) for q in self.target_qs))
        losses = [0.5 * ((y - values(q, self.s, self.a)) ** 2).mean() for q in self.qs]
        minimize(losses[0] + losses[1], self.q_optimizer)
        self.n_updates += 1
        if self.n_updates % 2:
            return
        freeze(self.qs, True)
        pi_loss = -values(self.qs[0], self.s, self.pi(self.s).tanh()).mean()
        freeze(self.qs, False)
        minimize(pi_loss, self.pi_optimizer)
        track(self.target_qs, self.qs)
        track(self.target_pi, self.pi)


# Module and class of the algorithm, the same of its agent, and its floor.
CASES: dict[str, tuple[str, str, type[Floor]]] = {
    "sac": ("algos.qpg.sac:SAC", "agents.qpg.sac_agent:SacAgent", SacFloor),
    "td3": ("algos.qpg.td3:TD3", "agents.qpg.td3_agent:Td3Agent", Td3Floor),
}


def load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(f"rlpyt.{module}"), name)


def run(name: str, rounds: int, itrs_per_round: int, threads: int) -> dict[str, Any]:
    algo_path, agent_path, FloorCls = CASES[name]
    algo = load(algo_path)(min_steps_learn=MIN_STEPS_LEARN)

    def make_floor(agent: Any) -> Floor:
        return FloorCls(agent, algo.batch_size)

    runner = MinibatchRl(
        algo=algo,
        agent=load(agent_path)(),
        sampler=SerialSampler(
            EnvCls=gym.make,
            env_kwargs={"id": ENV_ID},
            batch_T=1,
            batch_B=1,
            max_decorrelation_steps=0,
        ),
        n_steps=1e9,
        log_interval_steps=1e9,
        seed=0,
        affinity={"master_torch_threads": threads},
        callbacks=[Alternate(make_floor, rounds, itrs_per_round, warm_up_itrs=50)],
    )
    result = trained(runner)
    return {
        **result,
        "updates_per_second": 1 / result["seconds"]["iteration"],
        "threads": threads,
        "machine": f"{platform.processor() or platform.machine()}, torch {torch.__version__}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algos", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=8, help="of loop and floor, in turn")
    parser.add_argument("--itrs", type=int, default=100, help="iterations per round")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--json", help="also write the results to this file")
    args = parser.parse_args()
    results = {}
    for algo in args.algos:
        result = results[algo] = run(algo, args.rounds, args.itrs, args.threads)
        print(f"\n{algo} on {ENV_ID}, {result['machine']}, {args.threads} torch thread(s), medians")
        for name, seconds in result["seconds"].items():
            print(f"  {name:<12} {1e3 * seconds:9.3f} ms")
        low, high = result["floor_share_min_max"]
        share = result["floor_share"]
        print(f"  floor / loop {100 * share:8.1f} %   ({100 * low:.1f} to {100 * high:.1f})")
        print(f"  loop         {result['updates_per_second']:8.1f} updates/s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
