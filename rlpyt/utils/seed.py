"""Random seeds and the states of random number generators."""

from __future__ import annotations

import copy
import inspect
import random
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import torch

from rlpyt.utils.logging.console import colorize

seed_: int | None = None

_N_SEEDS = 4294967294


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch (CPU and GPU) of this process.

    Args:
        seed: any integer, taken modulo 4294967294.
    """
    global seed_
    seed_ = int(seed) % _N_SEEDS
    random.seed(seed_)
    np.random.seed(seed_)
    torch.manual_seed(seed_)
    torch.cuda.manual_seed_all(seed_)
    print(colorize(f"using seed {seed_}", "green"))


def get_seed() -> int | None:
    """Return the last seed of :func:`set_seed` in this process, or None."""
    return seed_


def make_seed() -> int:
    """Return a seed from 0 to 9999, drawn from the entropy of the operating system."""
    return secrets.randbelow(10000)


class Resettable(Protocol):
    """An environment, of which seeding asks for no more than ``reset``."""

    @property
    def reset(self) -> Callable[..., Any]: ...


def set_envs_seeds(envs: Iterable[Resettable], seed: int | None) -> None:
    """Seed the ``i``-th environment and its spaces with ``seed + i``; with None, do nothing.

    An environment without a method ``seed`` whose ``reset`` takes one is seeded by a reset.
    """
    if seed is None:
        return
    for env_seed, env in enumerate(envs, start=seed):
        seed_env = getattr(env, "seed", None)
        if callable(seed_env):  # It may also be the number.
            seed_env(env_seed)
        elif _reset_takes_seed(env):
            env.reset(seed=env_seed)
        for name in ("action_space", "observation_space"):
            seed_space = getattr(getattr(env, name, None), "seed", None)
            if callable(seed_space):
                seed_space(env_seed)


def _reset_takes_seed(env: Resettable) -> bool:
    """Return whether ``reset`` takes a seed as in gymnasium, whose wrappers pass on keywords."""
    parameters = inspect.signature(env.reset).parameters
    handed_on = any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if handed_on and hasattr(env, "unwrapped"):
        parameters = inspect.signature(env.unwrapped.reset).parameters
    return "seed" in parameters


def make_generator() -> np.random.Generator:
    """Return a generator seeded by numpy's global one, hence reproducible by :func:`set_seed`."""
    return np.random.default_rng(np.random.randint(0, 2**32, size=4, dtype=np.uint32))


def generator_state(gen: np.random.Generator) -> dict[str, Any]:
    """Return the state of ``gen`` as plain values."""
    return copy.deepcopy(dict(gen.bit_generator.state))


def set_generator_state(gen: np.random.Generator, state: dict[str, Any]) -> None:
    """Restore ``gen`` to a state of :func:`generator_state`."""
    gen.bit_generator.state = state


def rng_state() -> dict[str, Any]:
    """Return the states of the global generators of Python, numpy and torch."""
    numpy_state: dict[str, Any] = dict(np.random.get_state(legacy=False))
    numpy_state["state"] = {
        "key": numpy_state["state"]["key"].tolist(),
        "pos": int(numpy_state["state"]["pos"]),
    }
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return {
        "python": random.getstate(),
        "numpy": numpy_state,
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the global generators to a state of :func:`rng_state`."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
