"""Random numbers for acting: whose they are, what they are like, and that they repeat."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.distributions.noise import (
    BLOCK,
    ActingNoise,
    exponential_like,
    integers_like,
    normal_like,
    uniform,
)

CPU = torch.device("cpu")
Draw = Callable[[int], torch.Tensor]

DRAWS: dict[str, Draw] = {
    "uniform": lambda B: uniform((B, 2), CPU),
    "normal": lambda B: normal_like(torch.zeros(B, 2)),
    "exponential": lambda B: exponential_like(torch.zeros(B, 2)),
    "integers": lambda B: integers_like(torch.zeros(B, 2, dtype=torch.long), 6),
}
NUMPY: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda rng: rng.random((BLOCK, 2), np.float32),
    "normal": lambda rng: rng.standard_normal((BLOCK, 2), np.float32),
    "exponential": lambda rng: rng.standard_exponential((BLOCK, 2), np.float32),
    "integers": lambda rng: rng.integers(6, size=(BLOCK, 2)),
}


@pytest.fixture(params=DRAWS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def steps(
    noise: ActingNoise, n_steps: int, kinds: Sequence[str] = ("normal", "normal")
) -> np.ndarray[Any, Any]:
    """The numbers [T,B,D,2] of ``n_steps`` steps with D draws each."""
    rows = np.empty((n_steps, noise.n_envs, len(kinds), 2))
    for t in range(n_steps):
        with noise:
            for number, kind in enumerate(kinds):
                rows[t, :, number] = DRAWS[kind](noise.n_envs)
    return rows


# --- Whose they are -----------------------------------------------------------------------------


def test_numbers_are_those_of_the_formula(kind: str) -> None:
    """A generator of its own for every environment, draw and block, written out."""
    seed, stream, ranks, n_steps = 2**64 + 5, 7, [3, 0, 12], 2 * BLOCK + 3
    found = steps(ActingNoise(seed, ranks, stream), n_steps, [kind, kind])
    for (b, rank), draw, block in itertools.product(enumerate(ranks), range(2), range(3)):
        bits = np.random.Philox(key=[5, stream], counter=[0, block, draw, rank])
        expected = NUMPY[kind](np.random.Generator(bits)).astype(float)
        part = found[block * BLOCK : (block + 1) * BLOCK, b, draw]
        np.testing.assert_array_equal(part, expected[: len(part)])


@pytest.mark.parametrize("parts", [[[0], [1], [2], [3]], [[0, 1, 2], [3]], [[2, 3], [1, 0]]])
def test_division_of_environments_does_not_matter(kind: str, parts: list[list[int]]) -> None:
    together = steps(ActingNoise(1, range(4)), 5, [kind, "uniform"])
    for part in parts:
        alone = steps(ActingNoise(1, part), 5, [kind, "uniform"])
        np.testing.assert_array_equal(alone, together[:, part])


@pytest.mark.parametrize("n_before", [0, 3, BLOCK - 1, BLOCK, BLOCK + 7])
def test_continues_from_its_state(n_before: int) -> None:
    whole = steps(ActingNoise(1, [0, 5]), n_before + 10)
    noise, other = ActingNoise(1, [0, 5]), ActingNoise(99, [0, 5])
    steps(noise, n_before)
    steps(other, 20)
    other.load_state_dict(noise.state_dict())
    np.testing.assert_array_equal(steps(other, 10), whole[n_before:])


def test_each_evaluation_has_its_own_stream() -> None:
    noise = ActingNoise(1, [0, 1])
    training = steps(noise, 5)
    found = [steps(noise.for_evaluation([0, 1], itr), 5) for itr in (0, 1, 1)]
    np.testing.assert_array_equal(found[1], found[2])
    assert not np.any(found[0] == found[1])
    assert not np.any(found[0] == training)


def test_steps_that_draw_something_else_do_not_shift_the_others() -> None:
    plain, mixed = ActingNoise(1, [0]), ActingNoise(1, [0])
    expected = steps(plain, 9)
    found = [steps(mixed, 1, kinds) for kinds in 3 * [("normal", "normal"), (), ("uniform",)]]
    for t in (0, 3, 6):
        np.testing.assert_array_equal(found[t], expected[t : t + 1])


def test_without_a_seed_it_is_that_of_numpy() -> None:
    seeds = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        seeds.append(ActingNoise(None, [0]).seed)
    assert seeds[0] == seeds[1] != seeds[2]


# --- When they are used -------------------------------------------------------------------------


def test_torchs_generator_stays_as_it_was(kind: str) -> None:
    before = torch.get_rng_state()
    steps(ActingNoise(1, [0, 1]), 3, [kind])
    assert torch.equal(torch.get_rng_state(), before)


def test_other_numbers_are_those_of_torch(kind: str) -> None:
    """Outside of a step, for another number of rows, and in another thread."""
    noise = ActingNoise(1, [0, 1])

    def drawn(B: int) -> torch.Tensor:
        torch.manual_seed(0)
        return DRAWS[kind](B)

    expected = {B: drawn(B) for B in (2, 3)}
    with noise:
        assert torch.equal(drawn(3), expected[3])
        assert not torch.equal(drawn(2), expected[2])
        found: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: found.append(drawn(2)))
        thread.start()
        thread.join()
        assert torch.equal(found[0], expected[2])
    assert torch.equal(drawn(2), expected[2])


def test_a_step_that_fails_leaves_torchs_numbers_behind() -> None:
    noise = ActingNoise(1, [0, 1])
    with pytest.raises(KeyError), noise:
        raise KeyError
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    assert torch.equal(uniform((2,), CPU), expected)


def test_without_dimensions_there_is_no_environment() -> None:
    with ActingNoise(1, [0]):
        assert uniform((), CPU).shape == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_type_is_that_of_the_example(dtype: torch.dtype) -> None:
    with ActingNoise(1, range(3)):
        for draw in (normal_like, exponential_like):
            x = draw(torch.zeros(3, 4, dtype=dtype))
            assert (x.dtype, x.shape) == (dtype, (3, 4))
        assert integers_like(torch.zeros(3, dtype=torch.int32), 2).dtype == torch.int32


# --- What they are like -------------------------------------------------------------------------


def assert_distributed(x: np.ndarray[Any, Any], cdf: Callable[[Any], Any]) -> None:
    """Kolmogorov's test with a probability of error of 1e-6 (critical value 2.7)."""
    x = np.sort(x.reshape(-1))
    expected = cdf(x)
    empirical = np.arange(len(x) + 1) / len(x)
    deviation = max(np.max(empirical[1:] - expected), np.max(expected - empirical[:-1]))
    assert deviation * np.sqrt(len(x)) < 2.7


CDFS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda x: x,
    "normal": lambda x: torch.special.ndtr(torch.as_tensor(x)).numpy(),
    "exponential": lambda x: -np.expm1(-x),
}


@pytest.mark.parametrize("name", CDFS)
def test_distribution_is_exact(name: str) -> None:
    x = steps(ActingNoise(3, range(20)), 2 * BLOCK, [name, name])
    assert_distributed(x, CDFS[name])
    for part in (x[:, :1], x[-1:], x[:, :, 1:, :1]):  # Of one environment, step or entry.
        assert_distributed(part, CDFS[name])
    if name == "uniform":
        assert x.min() >= 0
        assert x.max() < 1
    if name == "exponential":
        assert x.min() > 0


def test_integers_are_equally_frequent() -> None:
    x = steps(ActingNoise(3, range(20)), 2 * BLOCK, ["integers"])
    counts = np.bincount(x.reshape(-1).astype(int))
    assert len(counts) == 6
    mean = x.size / 6
    assert ((counts - mean) ** 2 / mean).sum() < 35  # Chi squared with 5 degrees: 1.5e-6.


def test_numbers_are_independent() -> None:
    """Of environments, steps, blocks, draws, entries, streams and seeds."""
    n_steps = 8 * BLOCK
    x = steps(ActingNoise(3, range(6)), n_steps)
    others = [
        steps(ActingNoise(seed, range(6), stream), n_steps) for seed, stream in ((4, 0), (3, 1))
    ]
    pairs = {
        "environments": (x[:, :-1], x[:, 1:]),
        "steps": (x[:-1], x[1:]),
        "blocks": (x[:-BLOCK], x[BLOCK:]),
        "draws": (x[:, :, 0], x[:, :, 1]),
        "entries": (x[..., 0], x[..., 1]),
        "seeds": (x, others[0]),
        "streams": (x, others[1]),
    }
    for name, (a, b) in pairs.items():
        for power in (1, 2):
            correlation = np.corrcoef(a.reshape(-1) ** power, b.reshape(-1) ** power)[0, 1]
            assert abs(correlation) * np.sqrt(a.size) < 5, name
    everything = np.concatenate([x.reshape(-1), *(other.reshape(-1) for other in others)])
    # By chance, equal float32 numbers among so many are a few hundred.
    assert len(np.unique(everything)) > 0.98 * everything.size
