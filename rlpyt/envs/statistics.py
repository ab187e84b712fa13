"""Running statistics in the layers of an environment: read, written and frozen.

They are found by what they consist of: an object with the attributes ``mean``, ``var`` and
``count``, such as ``RunningMeanStd`` of gymnasium, that is an attribute of a layer, an entry of a
dictionary there, or the layer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from multiprocessing import parent_process
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv

from rlpyt.core.statistics import MOMENTS, Statistics, merged
from rlpyt.envs.gym_state import attributes, known_states, layers_of
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.logging import logger


def read_statistics(env: Any) -> Statistics:
    """Return the statistics of all layers, by names such as ``NormalizeObservation.obs_rms``.

    Those of the parts of a vector environment are merged by count.
    """
    *wrappers, innermost = layers_of(env)
    _tell_of_unread_in(wrappers, innermost)
    outside, *parts = (
        {
            name: {key: np.array(as_numpy(getattr(holder, key))) for key in MOMENTS}
            for name, holder in _holders(layers).items()
        }
        for layers in chains(env)
    )
    return {**merged(parts), **outside}


def write_statistics(env: Any, statistics: Statistics) -> None:
    """Write statistics into the layers that have some of the same name, which count on from them.

    The parts of a vector environment share the count.
    """
    outside, *parts = map(_holders, chains(env))
    _write(outside, statistics)
    for holders in parts:
        share = {name: {**m, "count": m["count"] / len(parts)} for name, m in statistics.items()}
        _write(holders, share)


def freeze_statistics(env: Any, statistics: Statistics) -> list[Callable[[], None]]:
    """Write statistics into the layers that have some of the same name, and freeze them there.

    Returns:
        Functions to call after each step and reset, of layers that cannot stop counting.
    """
    goes_on: list[Callable[[], None]] = []
    for layers in chains(env):
        write = partial(_write, _holders(layers), statistics)
        write()
        for layer in layers:
            if hasattr(type(layer), "update_running_mean"):
                layer.update_running_mean = False
            elif _holders([layer]).keys() & statistics.keys():
                goes_on.append(write)
    return goes_on


def chains(env: Any) -> list[list[Any]]:
    """Return the layers of an environment, and those of each part of a vector environment."""
    layers = list(layers_of(env))
    return [layers, *(list(layers_of(part)) for part in getattr(layers[-1], "envs", ()))]


def _tell_of_unread_in(wrappers: list[Any], innermost: Any) -> None:
    """Log each class of wrapper whose state cannot be read, in the main process, once."""
    if parent_process() is not None:
        return
    read = [layer for layer, _ in known_states(wrappers)]
    for layer in wrappers:
        if not any(layer is other for other in read) and not _holders([layer]):
            _tell_of_unread(type(layer).__name__)
    if isinstance(innermost, AsyncVectorEnv) and any(innermost.call("has_wrapper_attr", "obs_rms")):
        _tell_of_unread("NormalizeObservation in the processes of AsyncVectorEnv")


@cache
def _tell_of_unread(name: str) -> None:
    logger.log(
        f"WARNING: the state of the wrapper {name} cannot be read, so evaluations begin with a new "
        "one: if observations depend on what it has learned, keep that in an object with the "
        "attributes mean, var and count, in this process"
    )


def _holders(layers: Iterable[Any]) -> dict[str, Any]:
    """Return the objects with statistics by name, from the innermost layer."""
    found: dict[str, Any] = {}
    for layer in reversed(list(layers)):
        for name, holder in _holders_in(layer):
            number = 1 + sum(other.partition("#")[0] == name for other in found)
            found[name if number == 1 else f"{name}#{number}"] = holder
    return found


def _holders_in(layer: Any) -> Iterator[tuple[str, Any]]:
    cls = type(layer).__name__
    if _has_moments(layer):
        yield cls, layer
    for name, value in attributes(layer).items():
        if name == "env":
            continue
        if _has_moments(value):
            yield f"{cls}.{name}", value
        elif isinstance(value, dict):
            for key, part in value.items():
                if _has_moments(part):
                    yield f"{cls}.{name}.{key}", part


def _has_moments(value: Any) -> bool:
    own = {} if isinstance(value, type) else attributes(value)
    return own.keys() >= set(MOMENTS) and not any(callable(own[key]) for key in MOMENTS)


def _write(holders: dict[str, Any], statistics: Statistics) -> None:
    for name in holders.keys() & statistics.keys():
        holder, moments = holders[name], statistics[name]
        if np.shape(holder.mean) == np.shape(moments["mean"]):
            for key in MOMENTS:
                setattr(holder, key, _as(getattr(holder, key), moments[key]))


def _as(current: Any, value: Any) -> Any:
    """Return ``value`` in the type of ``current``."""
    if isinstance(current, np.ndarray):
        return np.array(as_numpy(value), dtype=current.dtype)
    if np.isscalar(current):
        return type(current)(value)
    return torch.as_tensor(value).to(current)
