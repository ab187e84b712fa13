"""Gym spaces in the interface of the library."""

import pickle
from collections import namedtuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.spaces import gym_wrapper_schema
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper, dict_to_nt, field_names, nt_to_dict
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.collections import NamedArrayTupleSchema, NamedTupleSchema, namedarraytuple

BOX = spaces.Box(-1.0, 1.0, (3,), dtype=np.float64)
NESTED = {
    "a b": spaces.Discrete(3, start=5),
    "class": spaces.Tuple([spaces.Box(0, 255, (2, 2), np.uint8), spaces.MultiBinary(3)]),
    "inner": spaces.Dict({"x.y": BOX, "multi": spaces.MultiDiscrete([2, 5])}),
}
LEAVES = {
    "box32": spaces.Box(-2, 3, (2,), dtype=np.float32),
    "box64": BOX,
    "pixels": spaces.Box(0, 255, (3, 4), dtype=np.uint8),
    "discrete": spaces.Discrete(4),
    "discrete_from_minus_2": spaces.Discrete(4, start=-2),
    "multi_discrete": spaces.MultiDiscrete([2, 3, 4]),
    "multi_discrete_start": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "multi_discrete_int32": spaces.MultiDiscrete([2, 3], dtype=np.int32),
    "multi_binary": spaces.MultiBinary(4),
    "scalar_box": spaces.Box(0, 1, (), dtype=np.float32),
}
ALL = {**LEAVES, "dict": spaces.Dict(NESTED), "tuple": spaces.Tuple([BOX, spaces.Dict(NESTED)])}


@pytest.fixture(params=ALL, ids=list(ALL))
def gym_space(request):
    return ALL[request.param]


def shapes(x):
    return [shapes(part) for part in x] if isinstance(x, tuple) else (x.shape, x.dtype)


def test_sample_null_and_shape_agree(gym_space):
    space = GymSpaceWrapper(gym_space)
    space.seed(0)
    sample, null = space.sample(), space.null_value()
    buffer = buffer_from_example(sample, 4)
    buffer[1] = null
    buffer[2] = sample
    assert shapes(sample) == shapes(null)
    assert space.contains(sample)


def test_convert_inverts_revert(gym_space):
    space = GymSpaceWrapper(gym_space)
    space.seed(1)
    for _ in range(5):
        element = space.sample()
        original = space.revert(element)
        assert gym_space.contains(original)
        for part, subspace in [(original, gym_space)] * isinstance(original, np.ndarray):
            assert part.dtype == subspace.dtype
        assert equal(space.convert(original), element)


def equal(a, b):
    if isinstance(a, tuple):
        return a._fields == b._fields and all(equal(x, y) for x, y in zip(a, b))
    return np.array_equal(a, b)


def test_seed_and_state_fix_the_sequence(gym_space):
    space = GymSpaceWrapper(gym_space)
    space.seed(0)
    first = [space.sample() for _ in range(8)]
    assert not all(equal(x, first[0]) for x in first)
    space.seed(0)
    for i, value in enumerate(first):
        space.null_value()  # It used to draw a sample to see the shape.
        if i == 4:
            state = space.state_dict()
        assert equal(space.sample(), value)
    space.load_state_dict(state)
    assert equal(space.sample(), first[4])


def test_global_seed_fixes_an_unseeded_space():
    def draw():
        np.random.seed(3)
        return GymSpaceWrapper(spaces.Box(0, 1, (5,))).sample()

    assert np.array_equal(draw(), draw())


def test_a_space_that_the_user_seeded_keeps_its_seed():
    gym_space = spaces.Box(0, 1, (5,))
    gym_space.seed(4)
    expected = gym_space.sample()
    gym_space.seed(4)
    assert np.array_equal(GymSpaceWrapper(gym_space).sample(), expected)


def test_parts_of_a_dict_draw_differently():
    space = GymSpaceWrapper(spaces.Dict({"a": BOX, "b": spaces.Box(-1, 1, (3,), np.float64)}))
    assert len(space.seed(0)) == 2
    assert not np.array_equal(*space.sample())


@pytest.mark.parametrize(("force", "dtype"), [(True, np.float32), (False, np.float64)])
def test_float64(force, dtype):
    # With force_float32=False arrays used to become float32 all the same.
    of_dict = GymSpaceWrapper(spaces.Dict({"a": BOX}), force_float32=force)
    assert of_dict.null_value().a.dtype == dtype
    space = GymSpaceWrapper(BOX, force_float32=force)
    assert space.dtype == dtype
    assert space.convert(np.zeros(3)).dtype == dtype
    assert space.sample().dtype == space.null_value().dtype == space.low.dtype == dtype


def test_a_bound_between_two_floats_belongs_to_the_space():
    space = GymSpaceWrapper(spaces.Box(0.0, 0.1, (1,), dtype=np.float64))
    assert space.contains(np.array([0.1], dtype=np.float32))  # 0.1000000015
    assert not space.contains(np.array([0.11], dtype=np.float32))
    assert not space.contains(np.zeros(2, dtype=np.float32))


def test_huge_bounds_stand_for_none():
    space = GymSpaceWrapper(spaces.Box(-1.7e308, 1.7e308, (1,), dtype=np.float64))
    assert space.high[0] == np.finfo(np.float32).max
    assert abs(space.sample()[0]) < 10


def test_bounds_and_samples_lie_in_the_space_of_the_environment():
    box = spaces.Box(0.0, 0.1, (100,), dtype=np.float64)
    space = GymSpaceWrapper(box)
    assert box.contains(space.revert(space.high))
    assert box.contains(space.revert(space.low))
    narrow = spaces.Box(0.1 - 1e-8, 0.1, (100,), dtype=np.float64)
    sample = GymSpaceWrapper(narrow).sample()  # Some would round to 0.1000000015.
    assert narrow.contains(sample)


def test_discrete_counts_from_zero_inside():
    space = GymSpaceWrapper(spaces.Discrete(4, start=-2))
    assert {int(space.sample()) for _ in range(100)} == {0, 1, 2, 3}
    reverted = space.revert(np.array(0))
    assert (reverted, type(reverted)) == (-2, int)
    converted = space.convert(1)
    assert (converted.shape, converted.dtype, int(converted)) == ((), np.int64, 3)
    assert space.n == 4
    assert space.contains(np.array(3))
    assert not space.contains(np.array(4))
    assert not space.contains(1.5)


def test_fields_and_attributes_of_nested_spaces():
    space = GymSpaceWrapper(spaces.Dict(NESTED), name="obs")
    sample = space.sample()
    assert sample._fields == ("a_b", "class_", "inner")
    assert sample.class_._fields == ("item_0", "item_1")
    assert sample.inner._fields == ("multi", "x_y")  # gymnasium sorts the keys
    assert type(sample).__name__ == "obs"
    assert type(sample.inner).__name__ == "obs_inner"
    assert space.dtype.inner.x_y == np.float32  # Used to raise AttributeError.
    assert space.shape.class_.item_0 == (2, 2)
    assert set(space.schemas) == {"obs", "obs_class_", "obs_inner"}
    with pytest.raises(AttributeError):
        _ = space.n


RECORD_FORMS = {
    "namedtuple": namedtuple,
    "namedarraytuple": namedarraytuple,
    "NamedTuple": NamedTupleSchema,
    "NamedArrayTuple": NamedArrayTupleSchema,
}


@pytest.mark.parametrize("form", RECORD_FORMS)
def test_revert_takes_all_forms_of_records(form):
    # Actions from the sample buffer used to reach the environment as records.
    make = RECORD_FORMS[form]
    inner = make("inner", ["x_y", "multi"])(np.zeros(3, np.float32), np.array([1, 4]))
    pair = make("pair", ["item_0", "item_1"])(np.zeros((2, 2), np.uint8), np.ones(3, np.int8))
    action = make("act", ["a_b", "class_", "inner"])(np.array(2), pair, inner)
    reverted = GymSpaceWrapper(spaces.Dict(NESTED)).revert(action)
    assert list(reverted) == ["a b", "class", "inner"]
    assert (reverted["a b"], type(reverted["a b"])) == (7, int)
    assert type(reverted["class"]) is tuple
    assert set(reverted["inner"]) == {"x.y", "multi"}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_integers_have_the_type_of_their_space_on_both_sides(dtype):
    # Actions were outside of the space, and bytes given as int64 reached networks unscaled.
    space = GymSpaceWrapper(spaces.Box(0, 9, (2,), dtype))
    assert spaces.Box(0, 9, (2,), dtype).contains(space.revert(np.array([3, 4])))
    converted = space.convert(np.array([3, 4]))
    assert (converted.dtype, converted.tolist()) == (dtype, [3, 4])


def test_order_of_keys_in_a_value_does_not_matter():
    space = GymSpaceWrapper(spaces.Dict({"a": spaces.Discrete(9), "b": spaces.Discrete(9)}))
    assert tuple(space.convert({"b": 2, "a": 1})) == (1, 2)


def test_a_choice_that_the_space_lacks_is_named_once(capsys):
    # The network ended the run, in torch's words.
    space = GymSpaceWrapper(spaces.Dict({"at": spaces.Discrete(4, start=1)}))
    for at in (1, 4, 5, 5):
        space.convert({"at": at})
    assert capsys.readouterr().out.count("obs_at 5") == 1


def test_spaces_with_other_keys_live_side_by_side():
    # The second one used to raise "Name clash".
    one = GymSpaceWrapper(spaces.Dict({"a": BOX}))
    two = GymSpaceWrapper(spaces.Dict({"b": BOX}))
    same = GymSpaceWrapper(spaces.Dict({"a": BOX}))
    assert (one.sample()._fields, two.sample()._fields) == (("a",), ("b",))
    assert type(one.sample()) is type(same.sample())


def test_spaces_and_elements_pickle(gym_space):
    # Spaces of records did not, so workers that are not forked got no Dict observations.
    space = GymSpaceWrapper(gym_space)
    space.seed(0)
    received = pickle.loads(pickle.dumps(space))
    assert received == space
    sample = space.sample()
    assert equal(received.sample(), sample)
    assert equal(pickle.loads(pickle.dumps(sample)), sample)


@pytest.mark.parametrize(
    ("null", "expected"), [(None, 0), (2, 2), (np.array([1, 2, 3]), [1, 2, 3])]
)
def test_null_value(null, expected):
    assert np.all(GymSpaceWrapper(BOX, null_value=null).null_value() == expected)


def test_null_value_by_key():
    space = GymSpaceWrapper(spaces.Dict({"a": BOX, "the b": BOX}), null_value={"the b": 1})
    assert tuple(part[0] for part in space.null_value()) == (0, 1)


def test_equality_and_repr_are_those_of_the_gym_space():
    space = GymSpaceWrapper(BOX)
    assert space == BOX
    assert space == GymSpaceWrapper(BOX)
    assert space != GymSpaceWrapper(spaces.Discrete(2))
    assert repr(space) == repr(BOX)


def test_a_space_of_old_gym_works_by_its_name():
    class Discrete:  # of a module that knows nothing of gymnasium
        n, dtype, shape = 3, np.dtype("int64"), ()

        def seed(self, seed):
            self.seed_ = seed

        def sample(self):
            return 1

        def contains(self, x):
            return 0 <= x < 3

    space = GymSpaceWrapper(Discrete())
    assert int(space.sample()) == 1
    assert space.revert(np.array(2)) == 2


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a", "b"], ("a", "b")),
        (["ale.lives"], ("ale_lives",)),
        (["ale.lives", "ale_lives"], ("ale_lives_2", "ale_lives")),
        (["a.b", "a b", "a-b"], ("a_b", "a_b_2", "a_b_3")),
        (
            ["class", "get", "items", "index", "count"],
            ("class_", "get_", "items_", "index_", "count_"),
        ),
        (["_private", "1st", "", "__", "ä"], ("private", "item_1st", "item", "item_2", "ä")),
        ([0, 1], ("item_0", "item_1")),
    ],
)
def test_field_names(keys, expected):
    assert field_names(keys) == expected
    namedarraytuple("Fields", expected)


def test_module_functions_convert_both_ways():
    value = {"a": np.zeros(2), "b": {"c": np.arange(3)}}
    record = dict_to_nt(value, "obs")
    assert (record._fields, type(record.b).__name__) == (("a", "b"), "obs_b")
    assert (record.a.dtype, record.b.c.dtype) == (np.float32, np.int64)
    assert list(nt_to_dict(record)["b"]) == ["c"]


def test_records_of_dictionaries_have_the_order_of_the_declared_space():
    GymSpaceWrapper(spaces.Dict({"a": BOX, "b": spaces.Dict({"c": BOX, "d": BOX})}), name="sorted")
    value = {"b": {"d": 3, "c": 2}, "a": 1}
    assert nt_to_dict(dict_to_nt(value, "sorted")) == value
    record = dict_to_nt(value, "sorted")
    assert (record._fields, tuple(record.b)) == (("a", "b"), (2, 3))
    assert dict_to_nt({"z": 1, "a": 2}, "sorted")._fields == ("z", "a")  # Of another space.


def test_schema_variant_collects_the_record_classes():
    schemas = {}
    space = gym_wrapper_schema.GymSpaceWrapper(
        gymnasium.spaces.Dict({"a": BOX, "b": spaces.Dict({"c": BOX})}), schemas=schemas
    )
    assert set(schemas) == {"obs", "obs_b"}
    value = {"a": np.zeros(3), "b": {"c": np.ones(3)}}
    record = gym_wrapper_schema.dict_to_nt(value, "obs", schemas)
    assert equal(record, space.convert(value))
    assert np.array_equal(gym_wrapper_schema.nt_to_dict(record)["b"]["c"], np.ones(3))
