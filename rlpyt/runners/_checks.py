"""Checks of settings, roles and affinities of runners, before anything starts."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from rlpyt.core.protocols import AsyncSamplerLike, RunnerLike, SamplerLike
from rlpyt.processes.launch import check_cpus
from rlpyt.processes.machine import look_at_machine
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.torchrun import TorchrunRanks

_EVENTS = [name for name in vars(Callback) if not name.startswith("_")]

# --- Settings -------------------------------------------------------------------------------------


def check_time_limit(name: str, seconds: float | None) -> float | None:
    """Return ``seconds`` if it is more than 0, or None for no limit; else raise ``ValueError``."""
    if seconds is not None and seconds <= 0:
        raise ValueError(f"{name} is {seconds}: give more than 0, or None")
    return seconds


def check_compile(compile: Any) -> Any:
    """Return the setting ``compile``.

    Raises:
        ValueError: if it is neither True nor keywords of ``torch.compile``.
    """
    keywords = inspect.signature(torch.compile).parameters.keys() - {"model", "disable"}
    if compile is True or (isinstance(compile, Mapping) and compile.keys() <= keywords):
        return compile
    raise ValueError(
        f"compile is {compile!r}: give True, False, or a mapping with keywords of torch.compile, "
        f"such as {sorted(keywords)}"
    )


def checked_callbacks(callbacks: Iterable[Callback] | None) -> tuple[Callback, ...]:
    """Return the callbacks, each of which has a method for every event.

    Raises:
        TypeError: if a callback lacks a method.
    """
    if callbacks is None:
        return ()
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks is {callbacks!r}: give a list, even for one callback")
    callbacks = tuple(callbacks)
    for i, callback in enumerate(callbacks):
        if isinstance(callback, type) or not all(hasattr(callback, event) for event in _EVENTS):
            raise TypeError(
                f"callbacks[{i}] is {callback!r}: give an object of a class that is derived from "
                "rlpyt.runners.callbacks.Callback"
            )
    return callbacks


# --- Roles ----------------------------------------------------------------------------------------


def check_objects(**roles: Any) -> None:
    """Raise ``TypeError`` if one of the roles of a run is a class instead of an object."""
    for name, role in roles.items():
        if isinstance(role, type):
            raise TypeError(
                f"{name} is the class {role.__name__}: give an object, {role.__name__}(...)"
            )


def check_sync_roles(runner: RunnerLike) -> None:
    """Raise ``ValueError`` if the sampler or algorithm of ``runner`` works only asynchronously."""
    if getattr(runner.algo, "only_async", False):
        raise ValueError(
            f"the algorithm is {type(runner.algo).__name__}, which trains while another process "
            f"samples: use AsyncRl, or give {type(runner).__name__} one such as A2C"
        )
    if _is_asynchronous(runner.sampler):
        raise ValueError(
            f"the sampler is {type(runner.sampler).__name__}, which works in a separate process: "
            f"use AsyncRl, or give {type(runner).__name__} one such as SerialSampler or CpuSampler"
        )


def check_async_roles(runner: RunnerLike) -> None:
    """Raise ``ValueError`` if the sampler or algorithm of ``runner`` cannot work asynchronously."""
    if not _is_asynchronous(runner.sampler):
        raise ValueError(
            f"the sampler is {type(runner.sampler).__name__}, which works in the runner's "
            f"process: give {type(runner).__name__} one such as AsyncSerialSampler "
            "or AsyncCpuSampler"
        )
    if not hasattr(runner.algo, "replay_ratio"):
        raise ValueError(
            f"the algorithm is {type(runner.algo).__name__}, which has no replay buffer and so "
            f"cannot train while {type(runner).__name__} samples: use MinibatchRl or SyncRl, or an "
            "algorithm such as DQN, SAC or IMPALA"
        )


def _is_asynchronous(sampler: SamplerLike | AsyncSamplerLike) -> bool:
    return hasattr(sampler, "async_initialize")


# --- The form of an affinity ----------------------------------------------------------------------

_HALVES = ("optimizer", "sampler")


def check_one_affinity(affinity: Any, name: str = "affinity") -> None:
    """Raise ``ValueError`` unless ``affinity`` is a mapping for one process and its workers."""
    if isinstance(affinity, Mapping) and not any(half in affinity for half in _HALVES):
        return
    raise ValueError(
        f"{name} is {affinity!r}: give the mapping of one process, as in dict(cuda_idx=0, "
        "workers_cpus=[0, 1]), or the result of make_affinity(); SyncRl takes a list of mappings, "
        "and AsyncRl a mapping with optimizer and sampler"
    )


def affinities_of_ranks(affinity: Any, place: TorchrunRanks | None) -> list[Any]:
    """Return the affinity of each process on this machine, for a synchronous run.

    Args:
        affinity: a list, or one mapping for all processes that a launcher has started.
        place: ranks of this process under ``torchrun``; None without a launcher.

    Raises:
        ValueError: if ``affinity`` does not fit the processes.
    """
    if isinstance(affinity, Mapping) and place is not None:
        affinities: list[Any] = [affinity] * place.local_world_size
    elif isinstance(affinity, (list, tuple)):
        affinities = list(affinity)
    else:
        raise ValueError(
            f"affinity is {affinity!r}: give a list, with the affinity of each process, as in "
            "[dict(cuda_idx=0), dict(cuda_idx=1)], or start the script by torchrun"
        )
    if place is not None and len(affinities) != place.local_world_size:
        raise ValueError(
            f"affinity has {len(affinities)} entries, but torchrun has started "
            f"{place.local_world_size} processes on this machine: give one entry for each"
        )
    _check_entries(affinities, "affinity", train_together=True)
    return affinities


def check_async_affinity(affinity: Any) -> None:
    """Raise ``ValueError`` unless ``affinity`` has both halves of an asynchronous run."""
    given = affinity if isinstance(affinity, Mapping) else {}
    missing = [half for half in _HALVES if half not in given]
    if missing:
        raise ValueError(
            f"the affinity {affinity!r} has no {missing[0]!r}: pass the result of "
            "make_affinity(async_sample=True), or dict(optimizer=[{}], "
            "sampler=dict(workers_cpus=[0, 1]))"
        )
    for half in _HALVES:
        name = f"affinity[{half!r}]"
        if isinstance(affinity[half], Mapping):
            check_one_affinity(affinity[half], name)
        else:
            _check_entries(affinity[half], name, train_together=half == "optimizer")


def _check_entries(affinities: Any, name: str, train_together: bool) -> None:
    if not isinstance(affinities, Sequence) or isinstance(affinities, str) or not affinities:
        given = "empty" if affinities in ([], ()) else repr(affinities)
        raise ValueError(f"{name} is {given}: give a list, with the affinity of each process")
    for i, each in enumerate(affinities):
        check_one_affinity(each, f"{name}[{i}]")
    devices = [each.get("cuda_idx") for each in affinities]
    use_gpus = any(device is not None for device in devices)
    if train_together and use_gpus and (None in devices or len(set(devices)) < len(devices)):
        raise ValueError(
            f"{name} has the cuda_idx {devices}: give each process a different GPU, or none a "
            "GPU at all"
        )


# --- The CPUs in an affinity ----------------------------------------------------------------------


def check_cpus_in(affinity: Any) -> None:
    """Raise ``ValueError`` for unavailable CPUs in an affinity, with the path to each of them.

    Args:
        affinity: affinity of any runner: one mapping, a list of mappings, or a mapping with the
            halves ``optimizer`` and ``sampler``. CPUs are ignored where ``set_affinity`` is False.

    Raises:
        ValueError: if a CPU does not exist or may not be used.
    """
    wrong = [
        f"CPU {cpu} in {place}"
        for place, cpus in _named_cpus(affinity, "affinity")
        for cpu in dict.fromkeys(cpus)
        if not _is_usable(cpu)
    ]
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)}: there is no such CPU, or this process may not use it. It may use "
            f"{look_at_machine().cpus}: name some of them, or pass set_affinity=False"
        )


def _is_usable(cpu: int) -> bool:
    try:
        check_cpus([cpu])
    except ValueError:
        return False
    return True


def _named_cpus(affinity: Any, place: str) -> Iterator[tuple[str, list[int]]]:
    """Yield every list of CPUs in an affinity, with the path to it."""
    if isinstance(affinity, (list, tuple)):
        for i, one in enumerate(affinity):
            yield from _named_cpus(one, f"{place}[{i}]")
        return
    for half in _HALVES:
        if affinity.get(half) is not None:
            yield from _named_cpus(affinity[half], f"{place}[{half!r}]")
    if not affinity.get("set_affinity", True):
        return
    for key in ("cpus", "master_cpus", "workers_cpus"):
        is_number_of_workers = key == "workers_cpus" and isinstance(affinity.get(key), int)
        if affinity.get(key) is not None and not is_number_of_workers:
            yield f"{place}[{key!r}]", list(_flat(affinity[key]))


def _flat(cpus: Any) -> Iterator[int]:
    """Yield the CPUs in a number, None, or nested lists of these."""
    if isinstance(cpus, (list, tuple)):
        for part in cpus:
            yield from _flat(part)
    elif cpus is not None:
        yield int(cpus)
