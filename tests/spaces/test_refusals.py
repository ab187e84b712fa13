"""Bounds, spaces and values that spaces refuse: calls, and what their errors name."""

import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple
from tests.refused import assert_refused

Both = namedarraytuple("Both", ["a", "b"])
TWO = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (3,)), "b": spaces.Box(-1.0, 1.0, (3,))})


def converted(space, value):
    return GymSpaceWrapper(space).convert(value)


REFUSED = [
    (lambda: IntBox(3, 3), "low high", ValueError),
    (lambda: IntBox(0, 3, null_value=3), "null_value", ValueError),
    (lambda: IntBox(0, 300, dtype="uint8"), "uint8", ValueError),
    (lambda: IntBox(0, 3, dtype="float32"), "dtype", TypeError),
    (lambda: IntBox([0, 1], 3), "low", ValueError),
    (lambda: FloatBox(1, 0), "low high", ValueError),
    (lambda: FloatBox([0, 0], 1), "low high", ValueError),
    (lambda: FloatBox([0, 0], [1, 1], shape=3), "shape", ValueError),
    (lambda: FloatBox(0, 1, dtype="int32"), "dtype", TypeError),
    (lambda: FloatBox(np.nan, 1), "low", ValueError),
    (lambda: FloatBox(-np.inf, np.inf, shape=2).sample(), "infinite", ValueError),  # It was NaN.
    (lambda: Composite([IntBox(0, 3)], Both), "one space per field", ValueError),
    (lambda: converted(TWO, {"a": np.zeros(3)}), "['a', 'b']", ValueError),
    # Choices that are no whole numbers became such.
    (lambda: converted(spaces.Discrete(4), 1.5), "obs element", ValueError),
    (lambda: converted(spaces.MultiDiscrete([3, 3]), [1, 0.5]), "obs element", ValueError),
    (
        lambda: converted(spaces.Dict({"a": spaces.MultiBinary(2)}), {"a": [0, 0.2]}),
        "obs element",
        ValueError,
    ),
    *(
        (lambda space=space: GymSpaceWrapper(space), "Discrete", TypeError)
        for space in (spaces.Text(5), 3, None)
    ),
]


@pytest.mark.parametrize(("call", "words", "error"), REFUSED)
def test_refused(call, words, error):
    assert_refused(call, words, error)
