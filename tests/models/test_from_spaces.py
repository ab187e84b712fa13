"""Networks made from spaces: which part serves which space, shapes, normalisation."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.models.encoders import (
    ChoiceEncoder,
    ImageEncoder,
    RecordEncoder,
    VectorEncoder,
    make_encoder,
)
from rlpyt.models.pg.generic_model import GenericFfModel, GenericLstmModel
from rlpyt.models.policy_heads import make_policy_head
from rlpyt.models.space_kinds import Box, Choices, Fields, action_kind, observation_kind
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.collections import namedarraytuple

Pair = namedarraytuple("Pair", ["a", "b"])


def wrapped(space):
    return GymSpaceWrapper(space)


def observations(space, *lead):
    buffer = buffer_from_example(space.null_value(), lead)
    for index in np.ndindex(*lead):
        buffer[index if len(lead) > 1 else index[0]] = space.sample()
    return torchify_buffer(buffer)


class TestKinds:
    @pytest.mark.parametrize(
        ("space", "nvec"),
        [
            (IntBox(0, 4), 4),
            (IntBox(0, 4, shape=(2,)), [4, 4]),
            (wrapped(spaces.Discrete(3, start=5)), 3),
            (wrapped(spaces.MultiDiscrete([2, 5], start=[3, 4])), [2, 5]),
            (wrapped(spaces.MultiBinary(3)), [2, 2, 2]),
            (wrapped(spaces.MultiBinary((1, 2))), [[2, 2]]),
            (wrapped(spaces.Box(0, 7, (2,), np.uint8)), [8, 8]),
        ],
        ids=repr,
    )
    def test_choices_of_actions(self, space, nvec):
        kind = action_kind(space)
        assert isinstance(kind, Choices)
        assert kind.nvec.tolist() == nvec

    @pytest.mark.parametrize("make", [FloatBox, lambda *a: wrapped(spaces.Box(*a))])
    def test_boxes(self, make):
        low, high = np.float32([-1, -3.4e38]), np.float32([2, np.inf])
        kind = action_kind(make(low, high))
        assert isinstance(kind, Box)
        assert not kind.is_integer
        assert kind.low.tolist() == [-1, -np.inf], "the largest float32 says that there is none"
        assert kind.high.tolist() == [2, np.inf]

    def test_arrays_of_integers_are_observed_as_numbers(self):
        kind = observation_kind(IntBox(2, 5, shape=(3,)))
        assert isinstance(kind, Box)
        assert kind.is_integer
        assert (kind.low.tolist(), kind.high.tolist()) == ([2] * 3, [4] * 3)

    @pytest.mark.parametrize(
        "space",
        [
            Composite([IntBox(0, 2), FloatBox(0, 1, (2,))], Pair),
            wrapped(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,))})),
        ],
    )
    def test_records(self, space):
        kind = action_kind(space)
        assert isinstance(kind, Fields)
        assert kind.names == ("a", "b")
        assert [type(part) for part in kind.kinds] == [Choices, Box]


class TestEncoders:
    @pytest.mark.parametrize(
        ("space", "EncoderCls", "size"),
        [
            (IntBox(0, 4), ChoiceEncoder, 4),
            (wrapped(spaces.MultiDiscrete([2, 3])), ChoiceEncoder, 6),
            (wrapped(spaces.MultiBinary(3)), VectorEncoder, 3),
            (FloatBox(-1, 1, (2, 3)), VectorEncoder, 6),
            (FloatBox(-1, 1, ()), VectorEncoder, 1),
            (IntBox(0, 256, (128,), dtype="uint8"), VectorEncoder, 128),
            (IntBox(0, 256, (4, 104, 80), dtype="uint8"), ImageEncoder, 256),
            (wrapped(spaces.Box(0, 255, (96, 96, 3), np.uint8)), ImageEncoder, 256),
            (wrapped(spaces.Box(0, 1, (7, 7, 3))), ImageEncoder, 256),
            (FloatBox(-1, 1, (5, 7, 6)), VectorEncoder, 210),
            (Composite([IntBox(0, 2), FloatBox(0, 1, (2,))], Pair), RecordEncoder, 4),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("lead", [(1,), (2, 3)])
    def test_one_for_each_kind(self, space, EncoderCls, size, lead):
        encoder = make_encoder(space)
        assert isinstance(encoder, EncoderCls)
        features, dims = encoder(observations(space, *lead))
        assert features.shape == (np.prod(lead), size)
        assert encoder.output_size == size
        assert features.dtype == torch.float
        assert dims == (len(lead), *(1, *lead)[-2:])

    def test_choices_are_one_hot(self):
        features, _ = make_encoder(IntBox(0, 3))(torch.tensor([2, 0]))
        assert features.tolist() == [[0, 0, 1], [1, 0, 0]]

    def test_flags_are_normalized(self):
        space = wrapped(spaces.Box(0, 1, (2,), bool))
        encoder = make_encoder(space, normalize_observation=True)
        encoder.update_obs_rms(torch.tensor([[True, False], [False, False]]))
        assert encoder(torch.tensor([[True, False]]))[0][0, 0] == 1

    @pytest.mark.parametrize("dtype", ["uint8", "int64"])
    def test_bounded_integers_are_scaled(self, dtype):
        space = IntBox(10, 21, (2,), dtype=dtype)
        features, _ = make_encoder(space)(torch.tensor([[10, 15]], dtype=getattr(torch, dtype)))
        assert features.tolist() == [[0, 0.5]]

    def test_images_may_have_their_channels_last(self):
        first = IntBox(0, 256, (3, 12, 10), dtype="uint8")
        last = IntBox(0, 256, (12, 10, 3), dtype="uint8")
        encoder, twin = make_encoder(first), make_encoder(last)
        twin.load_state_dict(encoder.state_dict())
        image = observations(first, 2)
        torch.testing.assert_close(encoder(image)[0], twin(image.movedim(1, -1))[0])

    def test_the_channels_of_a_cube_are_last(self):
        # MinAtar's Seaquest has ten objects on a grid of 10 x 10.
        space = IntBox(0, 2, (10, 10, 10), dtype="int64")
        encoder, image = make_encoder(space), observations(space, 2)
        expected = encoder.conv(image.movedim(-1, 1).float())
        torch.testing.assert_close(encoder(image)[0], expected)

    def test_convolutions_can_be_chosen(self):
        settings = {"channels": [8], "kernel_sizes": [3], "strides": [1], "paddings": [0]}
        image = IntBox(0, 256, (1, 5, 5), dtype="uint8")
        encoder = make_encoder(image, image_kwargs={"fc_sizes": None, **settings})
        assert encoder.output_size == 8 * 3 * 3

    def test_names_of_methods_may_be_names_of_fields(self):
        space = wrapped(spaces.Dict({"keys": spaces.Discrete(2), "pop": spaces.Discrete(3)}))
        assert make_encoder(space).output_size == 5

    def test_statistics_of_each_branch(self):
        inner = spaces.Dict({"far": spaces.Box(-1e9, 1e9, (2,)), "kind": spaces.Discrete(3)})
        image = spaces.Box(0, 255, (8, 8, 1), np.uint8)
        space = wrapped(spaces.Dict({"image": image, "inner": inner}))
        encoder = make_encoder(space, {"fc_sizes": 4}, normalize_observation=True)
        observation = observations(space, 5, 4)
        observation.inner.far[:] = torch.randn(5, 4, 2) * 100 + 3000
        encoder.update_obs_rms(observation)
        features, _ = encoder(observation)
        far = features[:, 4:6]
        torch.testing.assert_close(far.mean(0), torch.zeros(2), atol=1e-4, rtol=0)
        torch.testing.assert_close(far.std(0, unbiased=False), torch.ones(2), atol=1e-4, rtol=0)
        names = [name for name in encoder.state_dict() if "rms" in name]
        assert {name.split(".")[-1] for name in names} == {"mean", "var", "count"}
        assert len(names) == 3, "images and choices are not normalised"


class TestHeads:
    def test_starts_almost_uniform(self):
        head = make_policy_head(wrapped(spaces.MultiDiscrete([2, 4])), 8, init_log_std=0.0)
        (prob,) = head(torch.randn(5, 8))
        expected = torch.tensor([[0.5, 0.5, 0, 0], [0.25] * 4]).expand(5, 2, 4)
        torch.testing.assert_close(prob, expected, atol=0.02, rtol=0)
        assert bool((prob[:, 0, 2:] == 0).all())

    def test_mean_is_bounded_where_the_box_is(self):
        box = FloatBox([-5, -np.inf, 0], [5, np.inf, np.inf])
        head = make_policy_head(box, 8, init_log_std=-1.0)
        mean, log_std = head(torch.randn(50, 8) * 1e4)
        assert (mean.abs().amax(0) <= 1).tolist() == [True, False, False]
        assert log_std.tolist() == [[-1, -1, -1]] * 50
        assert make_policy_head(IntBox(0, 3), 8, 0.0).encoding_size == 3


SPACES = [
    (FloatBox(-1, 1, (3,)), IntBox(0, 4), (4,), 1),
    (IntBox(0, 5), FloatBox(-2, 2, (2,)), (2,), 2),
    (FloatBox(-1, 1, (3,)), wrapped(spaces.MultiDiscrete([2, 3])), (2, 3), 1),
]


@pytest.mark.parametrize("spaces_", SPACES, ids=repr)
@pytest.mark.parametrize("lead", [(), (4,), (3, 4)])
def test_models_with_all_leading_dimensions(spaces_, lead):
    observation_space, action_space, shape, n_outputs = spaces_
    whole = observations(observation_space, 3, 4)
    observation = whole[(0,) * (2 - len(lead))]
    for ModelCls in (GenericFfModel, GenericLstmModel):
        model = ModelCls(observation_space, action_space)
        prev_action = torch.zeros(*lead, *shape)
        rnn = (None,) if ModelCls is GenericLstmModel else ()
        outputs = model(observation, prev_action, torch.zeros(lead), *rnn)
        *policy, value = outputs[: n_outputs + 1]
        assert [part.shape for part in policy] == [lead + shape] * n_outputs
        assert value.shape == lead
        if rnn:
            assert outputs[-1].h.shape == (1, lead[-1] if lead else 1, 128)


def test_lstm_in_parts_is_the_lstm_in_one():
    model = GenericLstmModel(FloatBox(-1, 1, (3,)), IntBox(0, 4))
    observation, action, reward = torch.randn(5, 2, 3), torch.rand(5, 2, 4), torch.randn(5, 2)
    pi, v, end = model(observation, action, reward, None)
    state = None
    for t in range(5):
        pi_t, v_t, state = model(observation[t], action[t], reward[t], state)
        torch.testing.assert_close(pi_t, pi[t])
        torch.testing.assert_close(v_t, v[t])
    torch.testing.assert_close(state.h, end.h)


@pytest.mark.parametrize("ModelCls", [GenericFfModel, GenericLstmModel])
def test_nothing_is_in_the_state_but_parameters_and_statistics(ModelCls):
    space = Composite([IntBox(0, 9, (3,)), FloatBox(-1, 1, (2,))], Pair)
    model = ModelCls(space, wrapped(spaces.MultiDiscrete([2, 3])))
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    copy.deepcopy(model)
