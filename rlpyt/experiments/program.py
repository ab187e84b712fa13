"""Conversion of a configuration to a tree of calls, and of the tree to objects or a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from rlpyt.experiments.catalog import load, targets
from rlpyt.experiments.settings import Name
from rlpyt.experiments.sweeps.variant import Config
from rlpyt.processes.launch import check_cpus
from rlpyt.processes.machine import look_at_machine

ATARI_TRAJ_INFO = Name("rlpyt.envs.atari.atari_env.AtariTrajInfo")
LOGGER_CONTEXT = "rlpyt.utils.logging.context.logger_context"


class Call(NamedTuple):
    """Call of a class or function, to be made later."""

    name: str  # full name of the class or function
    kwargs: dict[str, Any]  # plain values, names, and further calls

    def make(self, **objects: Any) -> Any:
        """Make the call, after the calls in its arguments; pass on further arguments."""
        kwargs = {key: _built(value) for key, value in self.kwargs.items()}
        return load(self.name)(**{**kwargs, **objects})


def _built(value: Any) -> Any:
    if isinstance(value, Call):
        return value.make()
    if isinstance(value, Name):
        return load(value)
    if isinstance(value, Mapping):
        return {key: _built(part) for key, part in value.items()}
    return [_built(part) for part in value] if isinstance(value, list) else value


# --- The parts of a run --------------------------------------------------------------------------


def runner_call(config: Config, seed: int | None = None, affinity: Any = None) -> Call:
    """Return the call that makes the runner of a checked configuration.

    Without a seed one is drawn; without an affinity, that of the section ``affinity`` is made.
    """
    if affinity is None:
        roles, batch_B = config["roles"], int(config["sampler"]["batch_B"])
        names = roles.get("runner", "minibatch"), roles.get("sampler", "serial")
        affinity = make_affinity(*names, batch_B, **config["affinity"])
    named = targets(config)
    parts = {
        "algo": algo_call(config),
        "agent": agent_call(config),
        "sampler": Call(named["sampler"], {**environment_kwargs(config), **config["sampler"]}),
    }
    settings = {"affinity": affinity, "seed": seed, **config["runner"]}
    return Call(named["runner"], {**parts, **settings})


def started_from(runner: Call, run: str, with_replay: bool = False) -> Call:
    """Return the call of a runner that starts with the weights, or replay too, of another run."""
    agent = runner.kwargs["agent"]
    state = Call("rlpyt.experiments.trained.weights", {"path": run})
    agent = agent._replace(kwargs={**agent.kwargs, "initial_model_state_dict": state})
    replay = Call("rlpyt.runners.callbacks.LoadReplay", {"path": run})
    more = {"callbacks": [replay]} if with_replay else {}
    return runner._replace(kwargs={**runner.kwargs, "agent": agent, **more})


def algo_call(config: Config) -> Call:
    """Return the call that makes the algorithm."""
    optim = {**config["optim"], **(config["algo"].get("optim_kwargs") or {})}
    kwargs = {**config["algo"], **({"optim_kwargs": optim} if optim else {})}
    return Call(targets(config)["algo"], kwargs)


def agent_call(config: Config) -> Call:
    """Return the call that makes the agent."""
    model = {**config["model"], **(config["agent"].get("model_kwargs") or {})}
    kwargs = {**config["agent"], **({"model_kwargs": model} if model else {})}
    return Call(targets(config)["agent"], kwargs)


def environment_kwargs(config: Config) -> dict[str, Any]:
    """Return the arguments of a sampler for its environments.

    Evaluation has the same game or task; ``eval_env`` has the differences.
    """
    env = config["env"]
    same = {key: env[key] for key in ("game", "id") if key in env}
    kwargs: dict[str, Any] = {"EnvCls": Name(targets(config)["env"]), "env_kwargs": env}
    if config["eval_env"]:
        kwargs["eval_env_kwargs"] = {**env, **config["eval_env"], **same}
    if "game" in env:
        kwargs["TrajInfoCls"] = ATARI_TRAJ_INFO
    return kwargs


# --- CPUs and GPUs -------------------------------------------------------------------------------


def make_affinity(
    runner: str,
    sampler: str,
    batch_B: int,
    workers: int | None = None,
    cpus: list[int] | None = None,
    gpus: list[int] | int | None = None,
    processes: int = 1,
    threads: int | None = None,
) -> Any:
    """Return the affinity of a run, in the form that its runner takes.

    Args:
        runner: name of the runner.
        sampler: name of the sampler.
        batch_B: number of environments.
        workers: number of worker processes of each sampler; by default one for each CPU, at most
            the CPU quota of the container and ``batch_B``. With ``runner="sync"``, the samplers of
            all processes share the CPUs.
        cpus: CPUs that the workers are pinned to, in turn; they are not pinned by default.
        gpus: GPU, or list with the GPU of each process that trains.
        processes: number of processes that train, without ``gpus``.
        threads: number of torch threads in each of these processes.

    Raises:
        ValueError: if there is no such CPU or GPU, or a number does not fit the runner.
    """
    if cpus:
        check_cpus(cpus)
    gpus = [gpus] if isinstance(gpus, int) else gpus
    missing = [gpu for gpu in gpus or [] if not 0 <= gpu < torch.cuda.device_count()]
    if missing:
        raise ValueError(
            f"affinity.gpus={gpus}: torch sees {torch.cuda.device_count()} GPUs, numbered from 0; "
            "leave it out to run on the CPU"
        )
    n_processes = len(gpus) if gpus else processes
    if n_processes < 1 or (n_processes > 1 and runner == "minibatch"):
        raise ValueError(
            f"{n_processes} processes with runner={runner}: use runner=sync for several processes "
            "that train in step, or runner=async"
        )
    for name, number in (("workers", workers), ("threads", threads)):
        if number is not None and number < 1:
            raise ValueError(f"affinity.{name}={number}: give at least 1")
    n_samplers = n_processes if runner == "sync" else 1
    if workers is None:
        workers = max(1, (len(cpus) if cpus else look_at_machine().n_cpus) // n_samplers)
    workers = min(workers, batch_B)
    if sampler == "alternating":
        workers += workers % 2

    def sampling(rank: int) -> dict[str, Any]:
        """Return the workers of the sampler of one process."""
        if sampler in ("serial", "vector", "device"):
            return {}
        places = range(rank * workers, (rank + 1) * workers)
        pinned = [cpus[place % len(cpus)] for place in places] if cpus else workers
        return {"workers_cpus": pinned, "set_affinity": bool(cpus)}

    devices = [{"cuda_idx": gpu} for gpu in gpus] if gpus else [{}] * n_processes
    if runner == "async":
        learner = {} if threads is None else {"torch_threads": threads}
        acting = {**sampling(0), **({"cuda_idx": gpus[0]} if gpus else {})}
        return {
            "optimizer": [{**device, **learner} for device in devices],
            "sampler": [acting] if sampler in ("gpu", "alternating") else acting,
        }
    learner = {} if threads is None else {"master_torch_threads": threads}
    each = [{**device, **sampling(rank), **learner} for rank, device in enumerate(devices)]
    return each if runner == "sync" else each[0]


# --- The program ---------------------------------------------------------------------------------


def source(runner: Call, log: Mapping[str, Any], saving: Mapping[str, Any], command: str) -> str:
    """Return a Python program that makes a runner and trains, with a command as its docstring."""
    roles = {key: value for key, value in runner.kwargs.items() if isinstance(value, Call)}
    settings = {key: Name(key) if key in roles else v for key, v in runner.kwargs.items()}
    lines = [f"    {role} = {_text(call, 4)}" for role, call in roles.items()]
    lines.append(f"    runner = {_text(Call(runner.name, settings), 4)}")
    lines.append(f"    with {_text(Call(LOGGER_CONTEXT, dict(log)), 4)}:")
    arguments = ", ".join(f"{key}={_text(value, 0)}" for key, value in saving.items())
    lines.append(f"        runner.train({arguments})")
    names = {LOGGER_CONTEXT, *_names(runner)}
    imports = sorted(f"from {name.rpartition('.')[0]} import {_short(name)}" for name in names)
    main = ["", "", 'if __name__ == "__main__":', "    main()"]
    return "\n".join([f'"""{command}"""', "", *imports, "", "", "def main():", *lines, *main])


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _names(value: Any) -> Iterator[str]:
    """Yield the full names of all classes and functions in a value."""
    if isinstance(value, Call):
        yield value.name
        value = value.kwargs
    if isinstance(value, Name):
        yield str(value)
    parts = value.values() if isinstance(value, Mapping) else value
    for part in parts if isinstance(value, (Mapping, list, tuple)) else ():
        yield from _names(part)


def _text(value: Any, indent: int) -> str:
    """Return the expression for a value; calls have a line for each argument."""
    if isinstance(value, Call):
        if not value.kwargs:
            return f"{_short(value.name)}()"
        inner = " " * (indent + 4)
        arguments = "".join(
            f"{inner}{key}={_text(part, indent + 4)},\n" for key, part in value.kwargs.items()
        )
        return f"{_short(value.name)}(\n{arguments}{' ' * indent})"
    if isinstance(value, Name):
        return _short(value)
    if isinstance(value, Mapping):
        pairs = (f"{key!r}: {_text(part, indent)}" for key, part in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(part, indent) for part in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
