"""What the helpers refuse: calls, and what their errors name."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from numba.core import caching

from rlpyt.utils import array, tensor
from rlpyt.utils.buffer import (
    buffer_from_example,
    buffer_to,
    build_array,
    get_leading_dims,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import (
    NamedArrayTupleSchema,
    NamedArrayTupleSchema_like,
    namedarraytuple,
    namedarraytuple_like,
    record,
)
from rlpyt.utils.jit import jit
from rlpyt.utils.logging import logger
from rlpyt.utils.misc import extract_sequences, iterate_mb_idxs
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.shmemarray import ShmemRawArray
from tests.refused import assert_refused
from tests.utils.test_collections import PythonSubclass
from tests.utils.test_quick_args import Rated

Obs = namedtuple("Obs", ["image", "info"])


def zeros(module: Any, *shape: int) -> Any:
    return module.zeros(shape, dtype=module.int64)


CALLS: list[Any] = [
    *(
        (
            lambda m=m, lib=lib, i=i, x=x: m.select_at_indexes(zeros(lib, *i), zeros(lib, *x)),
            "indexes",
        )
        for m, lib in ((array, np), (tensor, torch))
        for i, x in (((3,), (4, 2)), ((3,), (3,)), ((3, 1), (3, 2, 5)))
    ),
    *(
        (lambda m=m, lib=lib, s=s, d=d: m.infer_leading_dims(zeros(lib, *s), d), "data dimensions")
        for m, lib in ((array, np), (tensor, torch))
        for s, d in (((2, 3, 4), 0), ((2,), 2))
    ),
    (lambda: tensor.restore_leading_dims(torch.zeros(3, 2), lead_dim=0, B=3), "B is 3"),
    # Arrays of text and of dates could be made, but no tensors of them.
    *(
        (lambda x=x: build_array(x, 3), "example", TypeError)
        for x in ({"a": 1}, None, object(), [None, 1], "text", b"bytes", np.array(["a"]))
    ),
    (lambda: build_array(np.datetime64(0, "s"), 3), "example", TypeError),
    *(
        (
            lambda x=x: buffer_from_example(Obs(np.zeros(2), Obs(x, None)), 3),
            "'info' 'image'",
            TypeError,
        )
        for x in ("text", [[1], [1, 2]])
    ),
    # Lists were copied into arrays, others became arrays of text or objects.
    *(
        (lambda f=f, x=x: f(Obs(x, None)), f"a {type(x).__name__}: give arrays, None", TypeError)
        for f in (torchify_buffer, numpify_buffer, get_leading_dims)
        for x in ("text", {"a": 1}, [1, 2], [np.zeros(2)], object())
    ),
    (lambda: buffer_to(Obs(np.zeros(2), None)), "torchify", TypeError),
    (lambda: get_leading_dims((np.zeros((3, 2)), torch.zeros(3, 4)), n_dim=2), "leading"),
    (lambda: get_leading_dims(Obs(np.zeros((4, 5, 2)), np.zeros((4, 5))), n_dim=3), "leading"),
    *(
        (lambda name=name: namedarraytuple("A", ["ok", name]), name)
        for name in ("get", "items", "_x", "class", "x-y")
    ),
    *((lambda n=n: NamedArrayTupleSchema("Name", [n]), n) for n in ("get", "items")),
    (lambda: record(dict), "NamedTuple", TypeError),
    *(
        (lambda like=like, x=x: like(x), "named tuple", TypeError)
        for like in (namedarraytuple_like, NamedArrayTupleSchema_like)
        for x in (3, (1, 2), tuple, np.zeros(3), None, "Outer", PythonSubclass)
    ),
    (lambda: list(iterate_mb_idxs(10, 0)), "minibatch_size"),
    # Indexes past the end used to wrap to other rows and columns.
    *(
        (lambda lib=lib, t=t, b=b: extract_sequences(zeros(lib, 12, 5), t, b, 3), words)
        for lib in (np, torch)
        for t, b, words in (
            ([0, 12], [0, 0], "T_idxs contains 12"),
            ([-13, 0], [0, 0], "T_idxs contains -13"),
            ([0, 0], [0, 5], "B_idxs contains 5"),
            ([0, 0], [-6, 0], "B_idxs contains -6"),
            ([0, 1, 2], [0, 1], "B_idxs"),
            ([0, 1, 2], [0], "B_idxs"),
        )
    ),
    *(
        (lambda n=n: whole_number("n", n), f"n is {n!r}")
        for n in (0, 0.5, -1, float("inf"), float("nan"), "many", None)
    ),
    (lambda: whole_number("n", 2.5, rounds_down=False), "n is 2.5: give a whole number"),
    (lambda: Rated(rat=1), "Rated has no argument 'rat' 'rate'", TypeError),
    (lambda: Rated(1, 2, "a", 4), "Rated name them rate=..., size", TypeError),
    (lambda: Rated("1e-3"), "rate of Rated is the text '1e-3'", TypeError),
    (lambda: Rated(1, size="1e-3"), "size of Rated is the text '1e-3'", TypeError),
    (lambda: ShmemRawArray("i", 3, "no:colons"), "tag"),
    (lambda: logger.record_tabular_misc_stat("x", [1], placement="middle"), "placement 'middle'"),
    (lambda: logger.set_snapshot_mode("sometimes"), "'sometimes' all, last, gap, last+gap, none"),
    (
        lambda: logger.add_sink(print),
        "write_text, write_value, write_row and close",
        TypeError,
    ),
    (lambda: logger._no_such_name, "_no_such_name", AttributeError),
]


@pytest.mark.parametrize("refused", CALLS)
def test_refused(refused: Any) -> None:
    assert_refused(*refused)


def test_errors_of_the_compiler_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @classmethod
        def from_function(cls, *args: Any) -> None:
            raise RuntimeError("wrong setting")

    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [Broken])
    assert_refused(lambda: jit(lambda x: x)(1.0), "wrong setting", RuntimeError)
