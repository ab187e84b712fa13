"""Records without a class per type."""

import pytest

from rlpyt.utils.collections import (
    NamedArrayTuple,
    NamedArrayTupleSchema,
    NamedTuple,
    NamedTupleSchema,
)

both = pytest.mark.parametrize(
    ("Schema", "Record"),
    [(NamedTupleSchema, NamedTuple), (NamedArrayTupleSchema, NamedArrayTuple)],
)


@both
def test_schemas_make_records(Schema, Record):
    for fields in (["a", "b"], ("a", "b"), "a b", "a,b"):
        schema = Schema("Name", fields)
        assert schema._typename == "Name"
        assert schema._fields == tuple(schema._signature.parameters) == ("a", "b")
    for x in (schema(1, 2), schema(1, b=2), schema(b=2, a=1), schema._make(iter([1, 2]))):
        assert type(x) is Record
        assert (tuple(x), x.a, x.b) == ((1, 2), 1, 2)
    for args, kwargs in [((1,), {}), ((1, 2, 3), {}), ((1, 2), {"b": 3}), ((1, 2), {"c": 3})]:
        with pytest.raises(TypeError):
            schema(*args, **kwargs)
    with pytest.raises(ValueError, match="3 values"):
        schema._make([1, 2, 3])
    with pytest.raises(TypeError, match="immutable"):
        schema._fields = ()
    for name in ("a", "other"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(x, name, 3)
    with pytest.raises(TypeError, match="typename"):
        Schema(3, "a")
    for fields in ("a, b", ["a", "a"], ["_a"], ["index"], ["count"], [3], "a a"):
        with pytest.raises(ValueError, match="field"):
            Schema("Name", fields)


@pytest.mark.parametrize("name", ["get", "items"])
def test_names_of_array_methods_are_fields_of_plain_records(name):
    assert NamedTupleSchema("Name", [name])(1)._asdict() == {name: 1}


def test_namedtuple_methods():
    x = NamedTuple("Name", ["a", "b"], (1, "two"))
    assert repr(x) == "Name(a=1, b=two)"
    assert repr(NamedTupleSchema("Name", "a")) == "NamedTupleSchema('Name', ('a',))"
    assert (x[1], x) == ("two", (1, "two"))
    assert hasattr(x, "a")
    assert "a" not in x
    assert "a" not in dir(x)
    assert dict(x._asdict()) == {"a": 1, "b": "two"}
    assert x._replace(b=3) == (1, 3)
    with pytest.raises(ValueError, match="'c'"):
        x._replace(c=3)
    with pytest.raises(AttributeError, match="Name.*'c'"):
        x.c  # noqa: B018
