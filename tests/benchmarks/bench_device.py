"""Environments, networks and loops on a device, eager and compiled, and loops of other libraries.

    python tests/benchmarks/bench_device.py [--device cuda] [--algos ppo dqn sac] [--eager]
        [--sections environments loops peers pong] [--json FILE]

What a table compares takes turns, in slices of one run. The ratio beside a speed is that to the
first row with this unit, in the same rounds. Compilation is not included.

* environments: steps of environments alone, in numpy and in torch, with actions drawn before; and
  of samplers, with an agent that acts on the device.
* loops: first the floor, which is the networks alone on random inputs: all passes of an update,
  forward and backward, and the pass to act. In the loops, a step of acting includes that of its
  environment, on the CPU; an update includes its batch: drawing, moving, and the log's numbers
  coming back, so that no work on the device is left when the clock stops.
* peers: PPO and SAC of TorchRL and Tianshou, if installed, with the same environments, networks,
  batches, optimizers and numbers of updates: ``pip install torchrl tianshou``.
* pong: whole loops on the Atari game, with one worker per CPU and 64 environments. Agents act on
  the CPU in the workers of the CPU sampler, otherwise on the device.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib import import_module, metadata, util
from itertools import cycle, product
from types import SimpleNamespace
from typing import Any

import gymnasium
import rlpyt_loops
import torch
from bare import Parts, calls_per_second

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.envs import control, gym
from rlpyt.models.mlp import MlpModel
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.device import DeviceSampler
from rlpyt.utils.buffer import existing_device

# Runs for some seconds, and returns speeds by their units.
Contestant = Callable[[float], dict[str, float]]

CARTPOLE = {"env_id": "CartPole-v1", "n_observed": 4, "n_actions": 2}
PENDULUM = {"env_id": "Pendulum-v1", "n_observed": 3, "n_actions": 1}
REPLAY = {"n_updates": 4, "replay_size": 100_000, "min_steps_learn": 1000}

# The same for all libraries. An iteration is T steps in B environments, then n_updates.
SETTINGS = {
    "ppo": SimpleNamespace(
        **CARTPOLE,
        T=32,
        B=8,
        n_updates=40,
        epochs=10,
        batch_size=64,
        hidden_sizes=[64, 64],
        learning_rate=1e-3,
        discount=0.99,
        gae_lambda=0.95,
        ratio_clip=0.2,
        entropy_loss_coeff=0.01,
        clip_grad_norm=0.5,
    ),
    "dqn": SimpleNamespace(**CARTPOLE, **REPLAY, T=4, B=8, batch_size=128, hidden_sizes=[64, 64]),
    "sac": SimpleNamespace(
        **PENDULUM,
        **REPLAY,
        T=4,
        B=1,
        batch_size=256,
        hidden_sizes=[256, 256],
        learning_rate=3e-4,
        discount=0.99,
        target_update_tau=0.005,
    ),
}

# Whether a library compiles; and the algorithms to compare.
LIBRARIES, COMPARED = {"rlpyt": True, "torchrl": True, "tianshou": False}, ("ppo", "sac")


def in_turn(title: str, contestants: dict[str, Contestant], args: Any) -> dict[str, Any]:
    """Print and return the median speeds, and ratios to the first, of each contestant."""
    for contestant in contestants.values():
        contestant(args.seconds)  # Compiles what is left to compile.
    rounds = [
        {name: contestant(args.seconds) for name, contestant in contestants.items()}
        for _ in range(args.slices)
    ]
    table: dict[str, Any] = {}
    print(f"\n{title}")
    for name, units in rounds[0].items():
        row = table[name] = {}
        for unit in units:
            first = next(other for other in rounds[0] if unit in rounds[0][other])
            speed = statistics.median(r[name][unit] for r in rounds)
            ratios = [r[name][unit] / r[first][unit] for r in rounds]
            low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
            row[unit] = {"speed": speed, "ratio": ratio, "quartiles": [low, high]}
        cells = (f"{x['speed']:10.0f} {unit} ({x['ratio']:.2f})" for unit, x in row.items())
        print(f"  {name:20}" + "".join(f"{cell:32}" for cell in cells))
    return table


# --- Environments ---------------------------------------------------------------------------------


def numpy_environments(env_id: str, B: int) -> Callable[[], None]:
    envs = [gymnasium.make(env_id) for _ in range(B)]
    for env in envs:
        env.reset(seed=0)
    actions = cycle([envs[0].action_space.sample() for _ in range(64)])

    def step() -> None:
        for env in envs:
            _, _, terminated, truncated, _ = env.step(next(actions))
            if terminated or truncated:
                env.reset()

    return step


def torch_environments(env_id: str, B: int, device: torch.device) -> Callable[[], Any]:
    env = control.make(env_id, num_envs=B, device=device)
    env.reset()
    actions = cycle([env.sample_actions() for _ in range(64)])
    return lambda: env.step(next(actions))


def sampling(sampler: Any, device: torch.device) -> Callable[[], Any]:
    agent = GenericFfAgent()
    sampler.initialize(agent, affinity={}, seed=0)
    agent.to_device(device)
    return lambda: sampler.obtain_samples(0)


def environments(device: torch.device, args: Any) -> dict[str, Any]:
    def stepping(work: Callable[[], Any], n_steps: int) -> Contestant:
        return lambda seconds: {"steps/s": n_steps * calls_per_second(work, seconds, device)}

    tables = {}
    for id, B in product(("CartPole-v1", "Pendulum-v1"), (8, 512)):
        sizes = {"batch_T": 32, "batch_B": B, "max_decorrelation_steps": 0}
        serial = SerialSampler(gym.make, {"id": id}, **sizes)
        on_device = DeviceSampler(control.make, {"id": id, "device": device}, **sizes)
        contestants = {
            "numpy environments": stepping(numpy_environments(id, B), B),
            "torch environments": stepping(torch_environments(id, B, device), B),
            "serial sampler": stepping(sampling(serial, device), 32 * B),
            "device sampler": stepping(sampling(on_device, device), 32 * B),
        }
        tables[f"{id}, B={B}"] = in_turn(f"{id}, B={B}", contestants, args)
    return tables


# --- Networks and loops ---------------------------------------------------------------------------


def network(name: str, device: torch.device, is_compiled: bool) -> Contestant:
    """Return the networks of an algorithm alone, whose first is the actor."""
    s = SETTINGS[name]
    n, A = s.n_observed, s.n_actions
    sizes = {"ppo": [(n, A), (n, 1)], "dqn": [(n, A)], "sac": [(n, 2 * A), *[(n + A, 1)] * 2]}
    Nonlinearity = torch.nn.Tanh if name == "ppo" else torch.nn.ReLU
    mlps = (MlpModel(i, s.hidden_sizes, o, Nonlinearity) for i, o in sizes[name])
    trained = torch.nn.ModuleList(mlps).to(device)
    fixed = copy.deepcopy(trained).requires_grad_(False)  # Target networks, among others.
    states = torch.randn(s.batch_size, n, device=device)

    def outputs() -> list[torch.Tensor]:
        if name == "ppo":
            return [net(states) for net in trained]
        if name == "dqn":
            return [fixed[0](states), trained[0](states)]
        given = torch.cat([states, fixed[0](states)[:, :A]], 1)  # As of the batch, and next ones.
        drawn = torch.cat([states, trained[0](states)[:, :A]], 1)
        values = [q(given) for q in (*fixed[1:], *trained[1:])]
        return values + [q(drawn) for q in fixed[1:]]

    def loss() -> Any:
        return sum(x.square().mean() for x in outputs())

    def act() -> list[torch.Tensor]:
        return [net(states[: s.B]) for net in (fixed if name == "ppo" else fixed[:1])]

    if is_compiled:
        mode = "reduce-overhead" if device.type == "cuda" else "default"
        loss, act = (torch.compile(f, dynamic=False, mode=mode) for f in (loss, act))

    def update() -> None:
        trained.zero_grad()
        loss().backward()

    return lambda seconds: {
        "updates/s": calls_per_second(update, seconds / 2, device),
        "acting steps/s": s.B * calls_per_second(act, seconds / 2, device),
    }


def looping(library: str, name: str, device: torch.device, is_compiled: bool) -> Contestant:
    """Return the loop of a library."""
    s, compiles = SETTINGS[name], {"is_compiled": is_compiled} if LIBRARIES[library] else {}
    parts = getattr(import_module(f"{library}_loops"), name)(s, device, **compiles)
    return timed(parts, s.T * s.B, s.n_updates, device)


def timed(parts: Parts, n_steps: int, n_updates: int, device: torch.device) -> Contestant:
    """Return a loop of ``n_steps`` and ``n_updates`` in an iteration."""
    act, learn = parts

    def run(seconds: float) -> dict[str, float]:
        acting, learning, n = 0.0, 0.0, 0
        while acting + learning < seconds:
            start = time.perf_counter()
            batch = act()
            between = time.perf_counter()
            learn(batch)
            if device.type == "cuda":
                torch.cuda.synchronize()
            acting, learning = acting + between - start, learning + time.perf_counter() - between
            n += 1
        return {
            "updates/s": n * n_updates / learning,
            "acting steps/s": n * n_steps / acting,
            "steps/s": n * n_steps / (acting + learning),
        }

    return run


def loops(device: torch.device, args: Any) -> dict[str, Any]:
    tables = {}
    for name in args.algos:
        networks = {f"network{v}": network(name, device, c) for v, c in args.variants.items()}
        own = {f"loop{v}": looping("rlpyt", name, device, c) for v, c in args.variants.items()}
        tables[name] = in_turn(f"{name} on {SETTINGS[name].env_id}", {**networks, **own}, args)
    return tables


def peers(device: torch.device, args: Any) -> dict[str, Any]:
    absent = [library for library in LIBRARIES if util.find_spec(library) is None]
    for library in absent:
        print(f"\nWithout {library}, which is not installed: pip install {library}")
    tables = {}
    for name in (name for name in args.algos if name in COMPARED):
        contestants = {
            library + variant: looping(library, name, device, is_compiled)
            for library, compiles in LIBRARIES.items()
            for variant, is_compiled in args.variants.items()
            if library not in absent and (compiles or not is_compiled)
        }
        tables[name] = in_turn(f"{name} on {SETTINGS[name].env_id}", contestants, args)
    return tables


# Steps in time of a batch from 64 environments, and updates in an iteration.
PONG_B, PONG = 64, {"a2c": (5, 1), "ppo": (32, 16), "dqn": (2, 8)}


def pong(device: torch.device, args: Any) -> dict[str, Any]:
    tables = {}
    for name, (T, n_updates) in PONG.items():
        contestants = {}
        for SamplerCls, variant in (
            (CpuSampler, ""),
            *product((GpuSampler, AlternatingSampler), args.variants),
        ):
            parts = rlpyt_loops.pong(name, SamplerCls, T, PONG_B, device, args.variants[variant])
            loop = timed(parts, T * PONG_B, n_updates, device)
            contestants[SamplerCls.__name__ + variant] = loop
        tables[name] = in_turn(f"{name} on Pong, T={T}, B={PONG_B}", contestants, args)
    return tables


SECTIONS = {"environments": environments, "loops": loops, "peers": peers, "pong": pong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="device of the agent, such as cuda")
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--algos", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--eager", action="store_true", help="leave out what is compiled")
    parser.add_argument("--slices", type=int, default=5, help="slices of each row, at least 2")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a slice")
    parser.add_argument("--json", help="also write the result to this file")
    args = parser.parse_args()
    args.variants = {"": False} if args.eager else {"": False, ", compiled": True}
    device = existing_device("device", args.device, "choose another")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    machine = platform.processor() or platform.machine()
    if device.type == "cuda":
        machine = f"{torch.cuda.get_device_name(device)}, {machine}"
    packages = ("torch", "numpy", "gymnasium", "torchrl", "tensordict", "tianshou")
    versions = {name: metadata.version(name) for name in packages if util.find_spec(name)}
    load = os.getloadavg()[0]
    print(f"{device}, {machine}, load {load}; one torch thread; medians of {args.slices} slices")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    results = {name: SECTIONS[name](device, args) for name in args.sections}
    if args.json:
        with open(args.json, "w") as file:
            about = {"device": str(device), "machine": machine, "load": load, "versions": versions}
            json.dump({**about, "results": results}, file, indent=2)


if __name__ == "__main__":
    main()
