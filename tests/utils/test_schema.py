"""Records without a class per type."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from rlpyt.utils.collections import (
    NamedArrayTuple,
    NamedArrayTupleSchema,
    NamedTuple,
    NamedTupleSchema,
)

SCHEMAS = [NamedTupleSchema, NamedArrayTupleSchema]


@pytest.mark.parametrize("Schema", SCHEMAS)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["a", "b"], ("a", "b")),
        (("a", "b"), ("a", "b")),
        ("a b", ("a", "b")),
        ("a,b", ("a", "b")),
        ("a", ("a",)),
        ([], ()),
    ],
)
def test_fields(Schema: Any, fields: Any, expected: tuple[str, ...]) -> None:
    schema = Schema("Name", fields)
    assert schema._typename == "Name"
    assert schema._fields == tuple(schema._signature.parameters) == expected


@pytest.mark.parametrize("Schema", SCHEMAS)
@pytest.mark.parametrize(
    "fields", ["a, b", ["a", "a"], ["_a"], ["index"], ["count"], [3], "a a"], ids=str
)
def test_fields_that_are_refused(Schema: Any, fields: Any) -> None:
    with pytest.raises(ValueError, match="field"):
        Schema("Name", fields)


@pytest.mark.parametrize("Schema", SCHEMAS)
def test_typename_must_be_a_string(Schema: Any) -> None:
    with pytest.raises(TypeError, match="typename"):
        Schema(3, "a")


@pytest.mark.parametrize("name", ["get", "items"])
def test_names_of_array_methods_are_refused_only_for_arrays(name: str) -> None:
    assert NamedTupleSchema("Name", [name])(1)._asdict() == {name: 1}
    with pytest.raises(ValueError, match=name):
        NamedArrayTupleSchema("Name", [name])


@pytest.mark.parametrize(("Schema", "Record"), [*zip(SCHEMAS, [NamedTuple, NamedArrayTuple])])
def test_call_binds_arguments_like_a_constructor(Schema: Any, Record: Any) -> None:
    schema = Schema("Name", "a b")
    for x in (schema(1, 2), schema(1, b=2), schema(b=2, a=1), schema._make(iter([1, 2]))):
        assert type(x) is Record
        assert tuple(x) == (1, 2)
        assert (x.a, x.b) == (1, 2)
    for args, kwargs in [((1,), {}), ((1, 2, 3), {}), ((1, 2), {"b": 3}), ((1, 2), {"c": 3})]:
        with pytest.raises(TypeError):
            schema(*args, **kwargs)
    with pytest.raises(ValueError, match=r"\('a', 'b'\).* 3 values"):
        schema._make([1, 2, 3])


@pytest.mark.parametrize("Schema", SCHEMAS)
def test_schemas_and_records_are_immutable(Schema: Any) -> None:
    schema = Schema("Name", "a b")
    with pytest.raises(TypeError, match="immutable"):
        schema._fields = ()
    x = schema(1, 2)
    with pytest.raises(AttributeError, match="immutable"):
        x.a = 3
    with pytest.raises(AttributeError, match="immutable"):
        x.other = 3


def test_namedtuple_methods() -> None:
    x = NamedTuple("Name", ["a", "b"], (1, "two"))
    assert repr(x) == "Name(a=1, b=two)"
    assert repr(NamedTupleSchema("Name", "a")) == "NamedTupleSchema('Name', ('a',))"
    assert x[1] == "two"
    assert x == (1, "two")
    assert hasattr(x, "a")
    assert not hasattr(x, "c")
    assert "a" not in x
    assert "a" not in dir(x)
    assert x._asdict() == OrderedDict(a=1, b="two")
    assert type(x._asdict()) is OrderedDict
    assert x._replace(b=3) == (1, 3)
    with pytest.raises(ValueError, match=r"\['c'\]"):
        x._replace(c=3)
    with pytest.raises(AttributeError, match="Name.*'c'"):
        x.c  # noqa: B018


@pytest.mark.parametrize("Schema", SCHEMAS)
@pytest.mark.parametrize(
    "clone", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy]
)
def test_copies(Schema: Any, clone: Any) -> None:
    schema = Schema("Name", "a b")
    new = clone(schema)
    assert type(new) is Schema
    assert (new._typename, new._fields, new._signature) == ("Name", ("a", "b"), schema._signature)
    x = clone(schema(1, [2]))
    assert type(x) is type(schema(1, 2))
    assert x == (1, [2])
    assert (x._typename, x._fields) == ("Name", ("a", "b"))


def test_an_index_gives_the_same_type_and_none_stays() -> None:
    x = NamedArrayTupleSchema("Name", "a b")(np.arange(4), None)
    assert type(x[1:]) is NamedArrayTuple
    assert x[1:]._typename == "Name"
    assert x[1:].a.tolist() == [1, 2, 3]
    assert x[1:].b is None
