"""What records of arrays do when they are indexed, written to, looked into, copied and pickled."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from rlpyt.utils.collections import (
    AttrDict,
    DocExampleNat,
    NamedArrayTupleSchema,
    NamedArrayTupleSchema_like,
    NamedTuple as SchemaTuple,
    NamedTupleSchema,
    is_namedarraytuple,
    is_namedarraytuple_class,
    is_namedtuple,
    is_namedtuple_class,
    namedarraytuple,
    namedarraytuple_like,
    record,
    record_class,
    tuple_itemgetter,
)

Inner, InnerNt = namedarraytuple("Inner", ["p", "q"], return_namedtuple_cls=True)
Outer = namedarraytuple("Outer", ["a", "inner", "none"])
Plain = namedtuple("Plain", ["a", "inner", "none"])
OuterSchema = NamedArrayTupleSchema("Outer", ["a", "inner", "none"])
Empty = namedarraytuple("Empty", [])


@record
class Step(NamedTuple):
    """One step of an environment."""

    observation: Any
    reward: Any = None

    def doubled(self) -> Any:
        return 2 * self.reward


class PythonSubclass(Inner):
    """A class that a user derives from a generated one."""


def make(cls: Any, lib: Any = np) -> Any:
    zeros = (lambda *s: torch.zeros(s)) if lib is torch else (lambda *s: np.zeros(s))
    return cls(zeros(5, 2), Inner(zeros(5), zeros(5, 2, 3)), None)


KINDS = [pytest.param(Outer, id="class"), pytest.param(OuterSchema, id="schema")]


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("lib", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("loc", [2, slice(1, 3), (slice(None),), [0, 4], ...], ids=str)
def test_getitem_indexes_every_field_and_keeps_none(cls: Any, lib: Any, loc: Any) -> None:
    x = make(cls, lib)
    x.a[:] = lib.arange(10).reshape(5, 2)
    y = x[loc]
    assert type(y) is type(x)
    assert type(y.inner) is Inner
    assert y._fields == x._fields
    assert (y.a == x.a[loc]).all()
    assert y.inner.q.shape == x.inner.q[loc].shape
    assert y.none is None


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("source", [Outer, Plain, OuterSchema], ids=["nat", "namedtuple", "schema"])
def test_setitem_from_a_tuple_with_the_same_fields(cls: Any, source: Any) -> None:
    x = make(cls)
    x[3] = source(1.0, InnerNt(2.0, np.full((2, 3), 3.0)), None)
    assert (x.a[3] == 1).all()
    assert x.inner.p[3] == 2
    assert (x.inner.q[3] == 3).all()
    assert x.a.sum() == 2
    assert x.inner.p.sum() == 2
    assert x.none is None


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("value", [4.0, np.float32(4), np.array([4.0])], ids=str)
def test_setitem_of_anything_else_goes_whole_into_every_field(cls: Any, value: Any) -> None:
    x = make(cls)
    x[1:3] = value
    for field in (x.a, x.inner.p, x.inner.q):
        assert (field[1:3] == 4).all()
        assert not field[0].any()


@pytest.mark.parametrize("value", [(1, 2), namedtuple("Other", ["p", "r"])(1, 2)])
def test_setitem_of_a_tuple_with_other_names_goes_whole_into_every_field(value: Any) -> None:
    x = Inner(np.zeros((3, 2)), np.zeros((3, 2)))
    x[0] = value
    assert x.p[0].tolist() == x.q[0].tolist() == [1, 2]


@pytest.mark.parametrize("make_field", [np.zeros, torch.zeros, lambda n: np.zeros(n, dtype=bool)])
@pytest.mark.parametrize("value", [Inner(None, 1), None, InnerNt(None, None)])
def test_none_is_never_written_into_an_array(make_field: Any, value: Any) -> None:
    """A missing field used to become NaN in a float array without a word."""
    x = Inner(make_field(3), make_field(3))
    with pytest.raises(Exception, match="Inner.*'p'.*None") as info:
        x[0] = value
    assert type(info.value) is Exception
    assert isinstance(info.value.__cause__, TypeError)
    assert (x.p == 0).all()


def test_none_fits_into_a_record_without_arrays() -> None:
    x = Inner(np.zeros(3), Empty())
    x[0] = Inner(1.0, None)
    x[1] = Inner(1.0, Empty())
    assert x.p.tolist() == [1, 1, 0]


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize(
    ("value", "field", "cause"),
    [
        (Outer(np.zeros(3), Inner(0, 0), None), "a", ValueError),
        (Outer(0, Inner(0, 0), 5), "none", TypeError),
        (Outer("x", Inner(0, 0), None), "a", ValueError),
    ],
)
def test_set_error_names_class_and_field(cls: Any, value: Any, field: str, cause: type) -> None:
    x = make(cls)
    with pytest.raises(Exception, match=f"^Outer.*'{field}'") as info:
        x[0] = value
    assert type(info.value) is Exception
    assert isinstance(info.value.__cause__, cause)


@pytest.mark.parametrize("cls", KINDS)
def test_index_errors_name_class_and_field(cls: Any) -> None:
    x = cls(np.zeros(9), np.zeros(5), None)
    for attempt in (lambda: x[7], lambda: x.__setitem__(7, 0.0)):
        with pytest.raises(Exception, match="^Outer.*'inner'") as info:
            attempt()
        assert type(info.value) is Exception
        assert isinstance(info.value.__cause__, IndexError)


@pytest.mark.parametrize("cls", KINDS)
def test_contains_get_and_items(cls: Any) -> None:
    x = cls(1, 2, None)
    assert "a" in x
    assert 1 not in x
    assert "b" not in x
    assert [x.get(i) for i in (0, 1, -1)] == [1, 2, None]
    assert list(x.items()) == [("a", 1), ("inner", 2), ("none", None)]
    assert next(x.items()) == ("a", 1)
    assert tuple_itemgetter(1)(x) == 2


@pytest.mark.parametrize("cls", KINDS)
def test_the_rest_is_that_of_a_namedtuple(cls: Any) -> None:
    x = cls(1, inner=2, none=None)
    a, b, c = x
    assert (a, b, c) == (x.a, x.inner, x.none) == (1, 2, None)
    assert len(x) == 3
    assert x == Plain(1, 2, None)
    assert x._replace(a=5) == (5, 2, None)
    assert type(x._replace(a=5)) is type(x)
    assert dict(x._asdict()) == {"a": 1, "inner": 2, "none": None}
    assert x._make([4, 5, 6]) == (4, 5, 6)
    assert repr(x) == "Outer(a=1, inner=2, none=None)"
    with pytest.raises((TypeError, ValueError)):
        x._make([1])
    with pytest.raises(AttributeError):
        x.a = 3
    with pytest.raises(AttributeError):
        x.missing  # noqa: B018
    with pytest.raises((TypeError, ValueError)):
        x._replace(missing=3)


def test_a_record_without_fields_is_falsy() -> None:
    assert not Empty()
    assert not NamedArrayTupleSchema("Empty", [])()
    assert Empty()[3] == ()
    assert Inner(None, None)


def test_factory() -> None:
    assert len(Inner.__mro__) == 4
    assert Inner.__mro__[1] is InnerNt
    assert Inner.__module__ == InnerNt.__module__ == __name__
    assert Inner.__name__ == Inner.__qualname__ == InnerNt.__name__ == "Inner"
    assert DocExampleNat._fields == ("field_1", "field_2")
    assert namedarraytuple("A", "x, y")._fields == namedarraytuple("A", "x y")._fields == ("x", "y")
    nat, nt = namedarraytuple("A", "x", return_namedtuple_cls=True, classname_suffix=True)
    assert (nat.__name__, nt.__name__) == ("A_nat", "A_nt")
    assert namedarraytuple("A", "x") is not namedarraytuple("A", "x")


# As the function that a program has copied from rlpyt 0.1.2 makes it, without our metaclass.
CopyOfStep: Any = type(
    "CopyOfStep",
    (namedtuple("Fields", ["observation", "reward"]),),
    {"get": lambda self, i: self[i], "items": lambda self: zip(self._fields, self)},
)


def test_type_tests_are_mutually_exclusive() -> None:
    forms = {
        "nt": (Plain, Plain(1, 2, 3)),
        "nat": (Outer, make(Outer)),
        "record": (Step, Step(1, 2)),
        "copy": (CopyOfStep, CopyOfStep(1, 2)),
        "subclass": (PythonSubclass, PythonSubclass(1, 2)),
        "tuple": (tuple, (1, 2)),
        "schema": (OuterSchema, make(OuterSchema)),
        "array": (np.ndarray, np.zeros(2)),
        "schema class": (SchemaTuple, NamedTupleSchema("A", "a")(1)),
    }
    is_nt = {k for k, (cls, x) in forms.items() if is_namedtuple_class(cls)}
    is_nat = {k for k, (cls, x) in forms.items() if is_namedarraytuple_class(cls)}
    assert is_nt == {k for k, (cls, x) in forms.items() if is_namedtuple(x)} == {"nt"}
    of_instances = {k for k, (_, x) in forms.items() if is_namedarraytuple(x)}
    assert is_nat == of_instances == {"nat", "record", "copy"}


def test_record_keeps_what_was_declared() -> None:
    assert is_namedarraytuple_class(Step)
    assert (Step.__name__, Step.__module__) == ("Step", __name__)
    assert Step.__doc__ == "One step of an environment."
    x: Any = Step(np.zeros((4, 2)))
    assert x.reward is None
    assert x[0].observation.shape == (2,)
    assert Step(0, reward=3).doubled() == 6


def test_record_class_is_the_same_for_every_call() -> None:
    assert record_class("A", "x y") is record_class("A", ["x", "y"])
    assert record_class("A", "x y") is not record_class("A", "x z")


EXAMPLES = [
    Outer,
    make(Outer),
    Plain,
    Plain(1, 2, 3),
    OuterSchema,
    make(OuterSchema),
    NamedTupleSchema("Outer", Outer._fields),
    NamedTupleSchema("Outer", Outer._fields)(1, 2, 3),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: type(e).__name__)
def test_like_takes_every_form(example: Any) -> None:
    cls = namedarraytuple_like(example)
    assert is_namedarraytuple_class(cls)
    assert cls._fields == Outer._fields
    assert cls.__name__ in ("Outer", "Plain")
    assert (cls is Outer) == (example is Outer or type(example) is Outer)
    schema = NamedArrayTupleSchema_like(example)
    assert (schema._typename, schema._fields) == (cls.__name__, Outer._fields)
    assert (schema is example) == (example is OuterSchema)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_instances_pickle_as_their_own_class(protocol: int) -> None:
    for x in (Inner(1, 2), Step(1, 2), PythonSubclass(1, 2), Empty()):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert type(y) is type(x)
        assert y == x


def test_instances_of_classes_that_are_nowhere_pickle() -> None:
    """Records made after an example, such as env_info buffers, could not be pickled."""
    x = namedarraytuple_like(namedtuple("Nowhere", "u v"))(1, namedarraytuple("Local", "w")(2))
    y = pickle.loads(pickle.dumps(x))
    assert y == x
    assert type(y) is record_class("Nowhere", "u v")
    assert type(y.v).__name__ == "Local"
    assert "w" in y.v
    assert pickle.loads(pickle.dumps(type(x))) is type(y)


def test_unpickling_needs_the_fields_to_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_module_of_records")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    first = record_class("First", "u v")
    there = namedarraytuple("There", "u v")
    there.__module__ = module.__name__
    data = pickle.dumps(there(1, 2))
    module.There = there
    assert type(pickle.loads(data)) is there
    module.There = first
    assert type(pickle.loads(data)) is first
    module.There = namedarraytuple("There", "u w")
    assert type(pickle.loads(data)) is record_class("There", "u v")
    monkeypatch.delitem(sys.modules, module.__name__)
    assert type(pickle.loads(data)) is record_class("There", "u v")


def test_copies_have_the_very_class_wherever_it_was_made() -> None:
    x = namedarraytuple("Local", "u v")(np.zeros(2), [1])
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert type(shallow) is type(deep) is type(x)
    assert shallow.v is x.v
    assert deep.v == x.v
    assert deep.v is not x.v


def random_structure(rng: np.random.Generator, lead: tuple[int, ...], depth: int) -> Any:
    kind = rng.integers(4 if depth else 2)
    if kind == 0:
        return None
    if kind == 1:
        return rng.normal(size=lead + tuple(rng.integers(1, 3, size=rng.integers(3))))
    names = [f"f{i}" for i in range(rng.integers(1, 4))]
    cls = record_class("Random", names) if kind == 2 else NamedArrayTupleSchema("Random", names)
    return cls(*[random_structure(rng, lead, depth - 1) for _ in names])


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("seed", range(3))
def test_random_structures_can_be_read_written_and_pickled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = record_class("Root", "a b c")(*[random_structure(rng, (5, 3), 3) for _ in range(3)])
    y = copy.deepcopy(x)
    y[:] = 0.0
    locs: list[Any] = [0, -1, slice(2, 4), (slice(None), 1), ([0, 4], [2, 0])]
    for loc in locs:
        y[loc] = x[loc]
        for a, b in zip(leaves(x), leaves(y), strict=True):
            assert (a is None) == (b is None)
            assert a is None or (a[loc] == b[loc]).all()
    y[:] = x
    z = pickle.loads(pickle.dumps(y))
    for a, c in zip(leaves(x), leaves(z), strict=True):
        assert a is c is None or (a == c).all()


def test_attr_dict() -> None:
    d = AttrDict(a=1, b=AttrDict(c=[2]), plain={"d": AttrDict(e=3)})
    d.f = 4
    d["g"] = 5
    assert (d["f"], d.g, d.b.c) == (4, 5, [2])
    assert vars(d) is d
    del d.f
    assert "f" not in d
    with pytest.raises(AttributeError, match="AttrDict.*missing"):
        d.missing  # noqa: B018
    new = d.copy()
    new.b.c = "new"
    new.plain["d"].e = "shared"
    assert type(new) is AttrDict
    assert d.b.c == [2]
    assert d.plain["d"].e == "shared"
    assert AttrDict({"a": 1}) == AttrDict([("a", 1)]) == {"a": 1}


class Trajectory(AttrDict):
    """As users write them: fields set in a constructor that takes arguments."""

    def __init__(self, length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.Length = length


@pytest.mark.parametrize(
    "clone", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy]
)
def test_attr_dict_stays_one_when_it_is_copied(clone: Any) -> None:
    """After pickling, attributes and keys used to go apart."""
    x = clone(Trajectory(7, Return=AttrDict(a=1.5)))
    x.Extra = 1
    assert type(x) is Trajectory
    assert x["Extra"] == 1
    assert x == {"Length": 7, "Return": {"a": 1.5}, "Extra": 1}
    assert vars(x) is x
