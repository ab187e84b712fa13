"""Random seeds and the states of random number generators."""

from __future__ import annotations

import copy
import inspect
import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import torch

from rlpyt.utils.logging.console import on_terminal

seed_: int | None = None

_N_SEEDS = 4294967294
_np_random: Any = np.random  # Its type stubs lack two functions.


class Purpose(IntEnum):
    """Use of a derived seed; streams for different purposes are independent."""

    RANK = 1  # With the rank of a process that trains.
    SAMPLER = 2  # Also with the next iteration, in a resumed run.
    TRAINING = 3
    WORKER = 4  # With the rank of a worker process.
    SERVER = 5  # With the rank of an action server.
    ENVIRONMENT = 6  # With the index over all processes, as the next two.
    EVAL_ENVIRONMENT = 7
    DECORRELATION = 8
    ACTION_SPACE = 9
    OBSERVATION_SPACE = 10
    EPISODE = 11  # With the number of the episode.
    EVALUATION = 12  # With the iteration.


def set_seed(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch (CPU and GPU) of this process.

    Args:
        seed: any integer, taken modulo 4294967294.
    """
    global seed_
    seed_ = int(seed) % _N_SEEDS
    seed_streams(seed_)
    print(on_terminal(f"using seed {seed_}", "green"))


def seed_streams(seed: int) -> None:
    """Seed the global generators like :func:`set_seed`, but keep what :func:`get_seed` returns."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def get_seed() -> int | None:
    """Return the last seed of :func:`set_seed` in this process, or None."""
    return seed_


def make_seed() -> int:
    """Return a seed from 0 to 9999, drawn from the entropy of the operating system."""
    return secrets.randbelow(10000)


def derived_seed(seed: int, purpose: Purpose, *indexes: int) -> int:
    """Return a seed for one purpose, derived from ``seed``.

    A different seed, purpose or index gives an unrelated seed, so neighbouring runs and
    environments never share one.

    Args:
        seed: seed of a run, a sampler or an environment.
        purpose: use of the new seed.
        *indexes: indexes such as the index of an environment.

    Returns:
        An integer from 0 to 2**31 - 1, which every kind of environment takes.
    """
    key = np.random.SeedSequence(int(seed) % 2**64, spawn_key=(purpose, *indexes))
    return int(key.generate_state(1)[0] >> 1)


def env_seeds(
    seed: int | None, indexes: Iterable[int], purpose: Purpose = Purpose.ENVIRONMENT
) -> list[int] | None:
    """Return the seed of each environment, for :func:`set_envs_seeds`; None if there is no seed.

    Args:
        seed: seed of the sampler.
        indexes: indexes of the environments over all processes.
        purpose: ``ENVIRONMENT`` or ``EVAL_ENVIRONMENT``.
    """
    return None if seed is None else [derived_seed(seed, purpose, index) for index in indexes]


class Resettable(Protocol):
    """An environment with the only method that seeding requires."""

    @property
    def reset(self) -> Callable[..., Any]: ...


def set_envs_seeds(envs: Sequence[Resettable], seed: int | Sequence[int] | None) -> None:
    """Seed environments and their spaces.

    An environment without a method ``seed`` whose ``reset`` takes one is seeded by a reset.

    Args:
        envs: environments.
        seed: seed of each environment; or an integer to derive them from, by their positions; or
            None to do nothing.
    """
    seeds = seed if isinstance(seed, Sequence) else env_seeds(seed, range(len(envs)))
    for env, env_seed in zip(envs, seeds or ()):
        seed_env = getattr(env, "seed", None)
        if callable(seed_env):  # It may also be the number.
            seed_env(env_seed)
        elif _reset_takes_seed(env):
            env.reset(seed=env_seed)
        seed_spaces(env, env_seed)


def seed_spaces(env: Resettable, seed: int) -> None:
    """Seed both spaces of an environment, with different streams than the environment.

    Args:
        env: environment; its spaces need no method ``seed``.
        seed: seed of the environment.
    """
    for purpose in (Purpose.ACTION_SPACE, Purpose.OBSERVATION_SPACE):
        seed_space = getattr(getattr(env, purpose.name.lower(), None), "seed", None)
        if callable(seed_space):
            seed_space(derived_seed(seed, purpose))


def _reset_takes_seed(env: Resettable) -> bool:
    """Return whether ``reset`` takes a seed as in gymnasium, whose wrappers pass on keywords."""
    parameters = inspect.signature(env.reset).parameters
    handed_on = any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    if handed_on and hasattr(env, "unwrapped"):
        parameters = inspect.signature(env.unwrapped.reset).parameters
    return "seed" in parameters


def make_generator() -> np.random.Generator:
    """Return a generator seeded from numpy's global generator, which :func:`set_seed` seeds."""
    return np.random.default_rng(np.random.randint(0, 2**32, size=4, dtype=np.uint32))


def generator_state(gen: np.random.Generator) -> dict[str, Any]:
    """Return the state of ``gen`` as plain values."""
    return dict(gen.bit_generator.state)


def set_generator_state(gen: np.random.Generator, state: dict[str, Any]) -> None:
    """Restore ``gen`` to a state from :func:`generator_state`."""
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
    """Restore the global generators to a state from :func:`rng_state`, also with fewer GPUs."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])


class EnvStreams:
    """Global generators of the environments in a trainer's process, used as a context.

    Environments that seed or use the generators of Python, numpy and torch thus leave those of the
    trainer alone. They start as copies; each entry and exit exchanges both.
    """

    def __init__(self) -> None:
        self._python: Any = random.getstate()
        self._first_python = self._python
        self._numpy: Any = copy.deepcopy(_np_random.get_bit_generator())
        self._torch = [generator.get_state() for generator in _torch_generators()]

    def settle(self) -> None:
        """Leave Python's generator out if the environments have not used it so far.

        To read its state takes as long as a small network.
        """
        if self._python == self._first_python:
            self._python = None

    def __enter__(self) -> None:
        if self._python is not None:
            python, self._python = self._python, random.getstate()
            random.setstate(python)
        numpy, self._numpy = self._numpy, _np_random.get_bit_generator()
        _np_random.set_bit_generator(numpy)  # 300 times as fast as a copy of its state.
        generators = _torch_generators()
        states, self._torch = self._torch, [generator.get_state() for generator in generators]
        for generator, state in zip(generators, states):
            generator.set_state(state)

    def __exit__(self, *error: object) -> None:
        self.__enter__()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the environments' generators."""
        with self:
            return rng_state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        with self:
            set_rng_state(state)


def _torch_generators() -> list[torch.Generator]:
    """Return the generators of the CPU and, once CUDA is in use, of every GPU."""
    return [torch.default_generator, *torch.cuda.default_generators]


@contextmanager
def evaluation_streams(itr: int) -> Iterator[None]:
    """Draw from other streams of the global generators in a context, and restore them after it.

    Args:
        itr: iteration of the evaluation; others have other streams, even if nothing was drawn in
            between.
    """
    before = rng_state()
    seed_streams(derived_seed(np.random.randint(2**31), Purpose.EVALUATION, itr))
    try:
        yield
    finally:
        set_rng_state(before)
