"""What the constructors of runners are given: checked at once, before anything takes time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlpyt.runners.callbacks import Callback
from rlpyt.utils.processes.launch import TorchrunRanks

_EVENTS = [name for name in vars(Callback) if not name.startswith("_")]


def at_least_one(name: str, value: Any, unit: str) -> int:
    """``value`` as a whole number.

    Raises:
        ValueError: if it is none, or less than 1.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1:
        raise ValueError(f"{name} is {value!r}: give a number of at least 1 {unit}")
    return number


def check_time_limit(name: str, seconds: float | None) -> float | None:
    """``seconds``, if it is more than 0, or None for no limit; else ``ValueError``."""
    if seconds is not None and seconds <= 0:
        raise ValueError(f"{name} is {seconds}: give more than 0, or None")
    return seconds


def checked_callbacks(callbacks: Iterable[Callback] | None) -> tuple[Callback, ...]:
    """The callbacks, each of which has a method for every event.

    Raises:
        TypeError: if one of them has not.
    """
    if callbacks is None:
        return ()
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks is {callbacks!r}: give a list, even of a single one")
    callbacks = tuple(callbacks)
    for i, callback in enumerate(callbacks):
        missing = [event for event in _EVENTS if not hasattr(callback, event)]
        if missing or isinstance(callback, type):
            raise TypeError(
                f"callbacks[{i}] is {callback!r}: give an object of a class which is derived from "
                "rlpyt.runners.callbacks.Callback"
            )
    return callbacks


# --- The form of an affinity ----------------------------------------------------------------------

_HALVES = ("optimizer", "sampler")


def check_one_affinity(affinity: Any, name: str = "affinity") -> None:
    """Raise ``ValueError`` unless ``affinity`` is that of one process and its workers."""
    if isinstance(affinity, Mapping) and not any(half in affinity for half in _HALVES):
        return
    hint = "SyncRl takes a list of them, and AsyncRl one with optimizer and sampler"
    raise ValueError(
        f"{name} is {affinity!r}: give the mapping of one process, as in dict(cuda_idx=0, "
        f"workers_cpus=[0, 1]), or that of make_affinity(); {hint}"
    )


def affinities_of_ranks(affinity: Any, place: TorchrunRanks | None) -> list[Any]:
    """The affinity of each process on this machine, of a synchronous run.

    Args:
        affinity: a list, or one mapping for all where a launcher says how many there are.
        place: as which the launcher has started this process; None without one.

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
            f"{place.local_world_size} processes on this machine: give one for each"
        )
    _check_list(affinities, "affinity")
    return affinities


def check_async_affinity(affinity: Any) -> None:
    """Raise ``ValueError`` unless ``affinity`` has both halves of an asynchronous run."""
    given = affinity if isinstance(affinity, Mapping) else {}
    missing = [half for half in _HALVES if half not in given]
    if missing:
        raise ValueError(
            f"the affinity {affinity!r} has no {missing[0]!r}: pass one as of "
            "make_affinity(async_sample=True), or dict(optimizer=[{}], "
            "sampler=dict(workers_cpus=[0, 1]))"
        )
    for half in _HALVES:
        each, name = affinity[half], f"affinity[{half!r}]"
        if isinstance(each, Mapping):
            check_one_affinity(each, name)
        elif half == "optimizer":
            _check_list(each, name)
        else:
            _check_entries(each, name)


def as_list(affinity: Any) -> list[Any]:
    """Affinities of one process or of several, as a list."""
    return [affinity] if isinstance(affinity, Mapping) else list(affinity)


def _check_list(affinities: Any, name: str) -> None:
    """Check those of processes which train together."""
    _check_entries(affinities, name)
    devices = [each.get("cuda_idx") for each in affinities]
    is_on_gpu = any(device is not None for device in devices)
    if is_on_gpu and (None in devices or len(set(devices)) < len(devices)):
        raise ValueError(
            f"{name} has the cuda_idx {devices}: give each process a GPU of its own, or none a "
            "GPU at all"
        )


def _check_entries(affinities: Any, name: str) -> None:
    if not isinstance(affinities, Sequence) or isinstance(affinities, str) or not affinities:
        what = "empty" if affinities in ([], ()) else repr(affinities)
        raise ValueError(f"{name} is {what}: give a list, with the affinity of each process")
    for i, each in enumerate(affinities):
        check_one_affinity(each, f"{name}[{i}]")
