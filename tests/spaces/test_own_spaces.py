"""IntBox, FloatBox and Composite."""

import numpy as np
import pytest

from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import NamedArrayTupleSchema, namedarraytuple

Both = namedarraytuple("Both", ["a", "b"])


def make_composite():
    return Composite([IntBox(0, 1000, shape=3), FloatBox(-1, 1, shape=2)], Both)


def test_int_box_excludes_high_and_fills_the_interval():
    box = IntBox(-2, 2, shape=(500,), dtype="int64")
    box.seed(0)
    assert set(box.sample().tolist()) == {-2, -1, 0, 1}
    assert (box.n, box.bounds, box.shape, box.dtype) == (4, (-2, 2), (500,), np.int64)
    assert repr(IntBox(0, 3)) == "IntBox(0-2 shape=())"


def test_int_box_scalar_is_an_array_without_dimensions():
    for value in (IntBox(0, 5).sample(), IntBox(0, 5).null_value()):
        assert isinstance(value, np.ndarray)
        assert (value.shape, value.dtype) == ((), np.int32)


def test_int_box_of_bytes_reaches_every_value():
    box = IntBox(0, 256, shape=(20000,), dtype="uint8")
    box.seed(0)
    sample = box.sample()
    assert (sample.min(), sample.max(), sample.dtype) == (0, 255, np.uint8)


@pytest.mark.parametrize(("null", "expected"), [(None, 2), (3, 3)])
def test_int_box_null_value(null, expected):
    assert np.array_equal(IntBox(2, 5, shape=2, null_value=null).null_value(), [expected] * 2)


@pytest.mark.parametrize(
    ("value", "is_in"),
    [(np.array([0, 4]), True), ([1, 2], True), ([1.0, 2.0], False), ([0, 5], False), (3, False)],
)
def test_int_box_contains(value, is_in):
    assert IntBox(0, 5, shape=2).contains(value) is is_in


def test_float_box_from_numbers_and_from_arrays():
    box = FloatBox(-1, 2, shape=(3,))
    assert (box.shape, box.dtype, repr(box)) == ((3,), np.float32, "FloatBox(3,)")
    other = FloatBox([-1, -1, -1], np.array([2.0, 2, 2]), null_value=[1, 2, 3])
    assert all(np.array_equal(x, y) for x, y in zip(box.bounds, other.bounds))
    assert np.array_equal(other.null_value(), [1, 2, 3])
    assert np.array_equal(box.null_value(), [0, 0, 0])


def test_float_box_samples_uniformly_within_bounds():
    box = FloatBox([-1] * 4000, [3] * 4000)
    box.seed(0)
    sample = box.sample()
    assert sample.dtype == np.float32
    assert box.contains(sample)
    assert np.allclose(np.quantile(sample, [0.25, 0.5, 0.75]), [0, 1, 2], atol=0.15)


def test_float_box_rounding_stays_inside():
    box = FloatBox(0.1, np.nextafter(np.float32(0.1), np.float32(1)), shape=1000)
    assert box.contains(box.sample())


@pytest.mark.parametrize(
    ("value", "is_in"), [([0, 1], True), ([0, 1.5], False), ([0, np.nan], False), ([0], False)]
)
def test_float_box_contains(value, is_in):
    assert FloatBox(0, 1, shape=2).contains(value) is is_in


@pytest.mark.parametrize("cls", [Both, NamedArrayTupleSchema("Both", ["a", "b"])])
def test_composite_is_a_record_of_its_parts(cls):
    space = Composite([IntBox(0, 3), FloatBox(0, 1, shape=2)], cls)
    sample, null = space.sample(), space.null_value()
    assert sample._fields == null._fields == space.names == ("a", "b")
    assert tuple(space.shape) == ((), (2,))
    assert space.contains(sample)
    assert space.contains(null)
    assert not space.contains(tuple(sample))
    assert not space.contains(sample._replace(a=np.array(3)))
    assert repr(space) == "IntBox(0-2 shape=()), FloatBox(2,)"


@pytest.mark.parametrize(
    "make", [lambda: IntBox(0, 1000, shape=5), lambda: FloatBox(0, 1, shape=5), make_composite]
)
class TestGenerator:
    def flat(self, sample):
        return np.concatenate(tuple(sample)) if isinstance(sample, tuple) else sample

    def draw(self, space):
        return self.flat(space.sample())

    def test_seed_and_state_fix_the_sequence(self, make):
        a, b = make(), make()
        a.seed(7), b.seed(7)
        first, state = self.draw(a), a.state_dict()
        assert np.array_equal(first, self.draw(b))
        second = self.draw(a)
        assert not np.array_equal(first, second)
        other = make()
        other.load_state_dict(state)
        assert np.array_equal(self.draw(other), second)

    def test_global_seed_fixes_an_unseeded_space(self, make):
        def unseeded():
            np.random.seed(5)
            return self.draw(make())

        assert np.array_equal(unseeded(), unseeded())

    def test_state_of_an_unseeded_space_is_seeded_anew(self, make):
        fresh, space = make().state_dict(), make()
        space.seed(7)
        drawn = self.draw(space)
        space.load_state_dict(fresh)
        np.random.seed(5)
        first = self.draw(space)
        assert not np.array_equal(first, drawn)
        space.load_state_dict(fresh)
        np.random.seed(5)
        assert np.array_equal(self.draw(space), first)

    def test_sampling_leaves_the_global_generator_alone(self, make):
        # Spaces used to draw from it, so that one more sample changed everything after it.
        space = make()
        space.seed(0)
        before = np.random.get_state()[1].copy()
        space.sample()
        assert np.array_equal(before, np.random.get_state()[1])


def test_float_box_without_a_null_value_takes_0():
    # It was NaN.
    space = FloatBox(-1, 1, shape=2, null_value=None)
    assert np.array_equal(space.null_value(), np.zeros(2))
    space.null_value()[:] = 1  # It is a copy.
    assert np.array_equal(space.null_value(), np.zeros(2))


def test_equal_parts_of_a_composite_draw_differently():
    box = [FloatBox(0, 1, shape=4) for _ in range(2)]
    space = Composite(box, Both)
    space.seed(0)
    assert not np.array_equal(*space.sample())


def test_space_only_needs_sample_and_null_value():
    class Coin(Space):
        def __init__(self):
            self.rng = np.random.RandomState(0)  # Used to clash with a property.

        def sample(self):
            return self.rng.randint(2)

        def null_value(self):
            return 0

    coin = Coin()
    coin.seed(0)
    coin.load_state_dict(coin.state_dict())
    assert coin.sample() in (0, 1)
    with pytest.raises(NotImplementedError, match="Coin"):
        coin.contains(0)
