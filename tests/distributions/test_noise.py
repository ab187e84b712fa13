"""Random numbers for acting: whose they are, and that they repeat."""

import itertools
import threading
from collections.abc import Callable

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

DRAWS = {
    "uniform": lambda B: uniform((B, 2), CPU),
    "normal": lambda B: normal_like(torch.zeros(B, 2)),
    "exponential": lambda B: exponential_like(torch.zeros(B, 2)),
    "integers": lambda B: integers_like(torch.zeros(B, 2, dtype=torch.long), 6),
}
NUMPY = {
    "uniform": lambda rng: rng.random((BLOCK, 2), np.float32),
    "normal": lambda rng: rng.standard_normal((BLOCK, 2), np.float32),
    "exponential": lambda rng: rng.standard_exponential((BLOCK, 2), np.float32),
    "integers": lambda rng: rng.integers(6, size=(BLOCK, 2)),
}


@pytest.fixture(params=DRAWS)
def kind(request):
    return str(request.param)


def steps(noise, n_steps, kinds=("normal", "normal")):
    """The numbers [T,B,D,2] of ``n_steps`` steps with D draws each."""
    rows = np.empty((n_steps, noise.n_envs, len(kinds), 2))
    for t in range(n_steps):
        with noise:
            for number, kind in enumerate(kinds):
                rows[t, :, number] = DRAWS[kind](noise.n_envs)
    return rows


# --- Whose they are -----------------------------------------------------------------------------


def test_seeds_below_zero_have_numbers_of_their_own():
    # All had those of seed 0.
    found = [steps(ActingNoise(seed, [0]), 1).tolist() for seed in (0, -1, -2, 2**64 - 1)]
    assert found[1] == found[3]
    assert found[0] != found[1] != found[2] != found[0]


def test_numbers_are_those_of_the_formula(kind):
    """A generator of its own for every environment, draw and block, written out."""
    seed, stream, ranks, n_steps = 2**64 + 5, 7, [3, 0, 12], 2 * BLOCK + 3
    found = steps(ActingNoise(seed, ranks, stream), n_steps, [kind, kind])
    for (b, rank), draw, block in itertools.product(enumerate(ranks), range(2), range(3)):
        bits = np.random.Philox(key=[5, stream], counter=[0, block, draw, rank])
        expected = NUMPY[kind](np.random.Generator(bits)).astype(float)
        part = found[block * BLOCK : (block + 1) * BLOCK, b, draw]
        np.testing.assert_array_equal(part, expected[: len(part)])


@pytest.mark.parametrize("parts", [[[0], [1], [2], [3]], [[0, 1, 2], [3]], [[2, 3], [1, 0]]])
def test_division_of_environments_does_not_matter(kind, parts):
    together = steps(ActingNoise(1, range(4)), 5, [kind, "uniform"])
    for part in parts:
        alone = steps(ActingNoise(1, part), 5, [kind, "uniform"])
        np.testing.assert_array_equal(alone, together[:, part])


@pytest.mark.parametrize("n_before", [0, 3, BLOCK - 1, BLOCK, BLOCK + 7])
def test_continues_from_its_state(n_before):
    whole = steps(ActingNoise(1, [0, 5]), n_before + 10)
    noise, other = ActingNoise(1, [0, 5]), ActingNoise(99, [0, 5])
    steps(noise, n_before)
    steps(other, 20)
    other.load_state_dict(noise.state_dict())
    np.testing.assert_array_equal(steps(other, 10), whole[n_before:])


def test_each_evaluation_has_its_own_stream():
    noise = ActingNoise(1, [0, 1])
    training = steps(noise, 5)
    found = [steps(noise.for_evaluation([0, 1], itr), 5) for itr in (0, 1, 1)]
    np.testing.assert_array_equal(found[1], found[2])
    assert not np.any(found[0] == found[1])
    assert not np.any(found[0] == training)


def test_steps_that_draw_something_else_do_not_shift_the_others():
    plain, mixed = ActingNoise(1, [0]), ActingNoise(1, [0])
    expected = steps(plain, 9)
    found = [steps(mixed, 1, kinds) for kinds in 3 * [("normal", "normal"), (), ("uniform",)]]
    for t in (0, 3, 6):
        np.testing.assert_array_equal(found[t], expected[t : t + 1])
    others = steps(ActingNoise(1, [0]), 9, ["uniform"])
    for t in (2, 5, 8):
        np.testing.assert_array_equal(found[t], others[t : t + 1])


def test_without_a_seed_it_is_that_of_numpy():
    seeds = []
    for seed in (1, 1, 2):
        np.random.seed(seed)
        seeds.append(ActingNoise(None, [0]).seed)
    assert seeds[0] == seeds[1] != seeds[2]


# --- When they are used -------------------------------------------------------------------------


def test_torchs_generator_stays_as_it_was(kind):
    before = torch.get_rng_state()
    steps(ActingNoise(1, [0, 1]), 3, [kind])
    assert torch.equal(torch.get_rng_state(), before)


def test_other_numbers_are_those_of_torch(kind):
    """Outside of a step, for another number of rows, and in another thread."""
    noise = ActingNoise(1, [0, 1])

    def drawn(B):
        torch.manual_seed(0)
        return DRAWS[kind](B)

    expected = {B: drawn(B) for B in (2, 3)}
    with noise:
        assert torch.equal(drawn(3), expected[3])
        assert not torch.equal(drawn(2), expected[2])
        found = []
        thread = threading.Thread(target=lambda: found.append(drawn(2)))
        thread.start()
        thread.join()
        assert torch.equal(found[0], expected[2])
    assert torch.equal(drawn(2), expected[2])


def test_a_step_that_fails_leaves_torchs_numbers_behind():
    noise = ActingNoise(1, [0, 1])
    with pytest.raises(KeyError), noise:
        raise KeyError
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    assert torch.equal(uniform((2,), CPU), expected)


def test_without_dimensions_there_is_no_environment():
    with ActingNoise(1, [0]):
        assert uniform((), CPU).shape == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_type_is_that_of_the_example(dtype):
    with ActingNoise(1, range(3)):
        for draw in (normal_like, exponential_like):
            x = draw(torch.zeros(3, 4, dtype=dtype))
            assert (x.dtype, x.shape) == (dtype, (3, 4))
        assert integers_like(torch.zeros(3, dtype=torch.int32), 2).dtype == torch.int32
