"""Random numbers for acting: a function of seed, environment and step, the same in every sampler.

Distributions draw by :func:`normal_like` and the other functions here. While a sampler lets the
agent act, these take their numbers from an :class:`ActingNoise`: the numbers of an environment
depend neither on the process that acts for it nor on other environments. Everywhere else (training,
users' loops) they are torch's functions, with its global generator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.seed import make_generator
from rlpyt.utils.types import NDArray

BLOCK = 256  # Steps whose numbers are drawn at once: one call of numpy costs as much as many steps.

Fill = Callable[..., NDArray]


class ActingNoise:
    """Random numbers for the environments of one process; used as a context in each step.

    ::

        with noise:
            action, agent_info = agent.step(*inputs)

    The n-th draw of a step takes its numbers from a block of 256 steps, drawn for each environment
    by the counter-based generator Philox, whose key is (seed, stream) and whose counter begins at
    (0, block, n, environment).

    Args:
        seed: seed of the sampler; None to draw one from numpy's global generator.
        env_ranks: indexes of the B environments over all processes.
        stream: 0 for training, and 1 + itr for the evaluation in iteration itr.

    Attributes:
        step: number of steps so far.

    Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3 (SC11).
    """

    def __init__(self, seed: int | None, env_ranks: Sequence[int], stream: int = 0) -> None:
        self.seed = int(make_generator().integers(2**63)) if seed is None else seed
        self.env_ranks = list(env_ranks)
        self.n_envs = len(self.env_ranks)
        self.stream, self.step = stream, 0
        self._row = self._n_drawn = 0
        self._draws: dict[int, tuple[Any, Sequence[torch.Tensor]]] = {}  # Of the present block.

    def for_evaluation(self, env_ranks: Sequence[int], itr: int) -> ActingNoise:
        """Return the noise of an evaluation in iteration ``itr``, from the same seed."""
        return ActingNoise(self.seed, env_ranks, stream=1 + itr)

    def __enter__(self) -> None:
        self._row, self._n_drawn = self.step % BLOCK, 0
        if self._row == 0:
            self._draws = {}
        _present.noise = self

    def __exit__(self, *error: object) -> None:
        _present.noise = None
        self.step += 1

    def draw(
        self, fill: Fill, shape: Sequence[int], device: torch.device, *args: Any
    ) -> torch.Tensor:
        """Return the next random numbers of this step.

        Args:
            fill: function of a numpy generator, a shape and ``args`` that returns an array of
                random numbers.
            shape: shape [B,...] of the numbers.
            device: device of the numbers, to which a block is copied at once.
            *args: further arguments of ``fill``.

        Returns:
            Numbers [B,...].
        """
        number, wanted = self._n_drawn, (fill, shape, device, args)
        self._n_drawn += 1
        known = self._draws.get(number)
        if known is None or known[0] != wanted:
            block = buffer_to(self._fill_block(number, fill, shape, *args), device)
            known = self._draws[number] = wanted, block.unbind()
        return known[1][self._row]

    def _fill_block(
        self, number: int, fill: Fill, shape: Sequence[int], *args: Any
    ) -> torch.Tensor:
        """Return the numbers [256,B,...] of the present block."""
        bits = np.random.Philox(key=np.array([self.seed % 2**64, self.stream], np.uint64))
        rng, state = np.random.Generator(bits), bits.state
        rows = []
        for rank in self.env_ranks:
            state["state"]["counter"][:] = 0, self.step // BLOCK, number, rank
            bits.state = state  # Five times as fast as a new generator for each environment.
            rows.append(fill(rng, (BLOCK, *shape[1:]), *args))
        return torch.from_numpy(np.stack(rows, axis=1))

    def state_dict(self) -> dict[str, int]:
        """Return seed and number of steps."""
        return {"seed": self.seed, "step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from ``state``."""
        self.seed, self.step = state["seed"], state["step"]
        self._draws = {}


class _Present(threading.local):
    noise: ActingNoise | None = None


_present = _Present()


# --- Drawing, by the noise of the present step for tensors [B,...] ------------------------------


def uniform(shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return float32 numbers uniform in [0, 1), as ``torch.rand``."""
    noise = _noise_for(shape)
    if noise is None:
        return torch.rand(shape, device=device)
    return noise.draw(np.random.Generator.random, shape, device, np.float32)


def normal_like(x: torch.Tensor) -> torch.Tensor:
    """Return normal numbers in the shape, type and device of ``x``, as ``torch.randn_like``."""
    noise = _noise_for(shape := x.shape)
    if noise is None:
        return torch.randn_like(x)
    fill = np.random.Generator.standard_normal
    return noise.draw(fill, shape, x.device, np.float32).to(x)


def exponential_like(x: torch.Tensor) -> torch.Tensor:
    """Return positive numbers, exponential with mean 1, in the shape, type and device of ``x``."""
    noise = _noise_for(shape := x.shape)
    if noise is None:
        return torch.empty_like(x).exponential_()
    return noise.draw(_exponential, shape, x.device).to(x)


def integers_like(x: torch.Tensor, n: int) -> torch.Tensor:
    """Return integers uniform in 0 to n - 1, as ``torch.randint_like(x, n)``."""
    noise = _noise_for(shape := x.shape)
    if noise is None:
        return torch.randint_like(x, n)
    return noise.draw(_integers, shape, x.device, n).to(x)


def _noise_for(shape: Sequence[int]) -> ActingNoise | None:
    """Return the noise of the step that the sampler takes, if ``shape`` is [B,...]."""
    noise = _present.noise
    return noise if noise is not None and shape and shape[0] == noise.n_envs else None


def _exponential(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
    numbers = rng.standard_exponential(shape, np.float32)
    return np.maximum(numbers, np.finfo(np.float32).tiny)  # Distributions divide by them.


def _integers(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> NDArray:
    return rng.integers(n, size=shape)
