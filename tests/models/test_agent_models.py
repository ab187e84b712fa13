"""The networks of the agents: layout, shapes, inputs."""

import copy
import json
import pickle
from pathlib import Path

import pytest
import torch

from rlpyt.models.conv2d import Conv2dModel
from rlpyt.models.dqn import atari_r2d1_model
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_iqn_model import AtariIqnModel
from rlpyt.models.dqn.atari_qrdqn_model import AtariQrDqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel, MlpQrDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.models.pg import atari_lstm_model, mujoco_lstm_model
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.generic_model import GenericFfModel, GenericLstmModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.qpg.lstm import PiLstmModel
from rlpyt.models.qpg.mlp import CatQofMuMlpModel, MuMlpModel, PiMlpModel, QofMuMlpModel, VMlpModel
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple

IMAGE = (4, 104, 80)
SMALL = (2, 24, 20)
A, OBS = 6, (3, 2)

LAYOUTS = json.loads(Path(__file__).with_name("layouts.json").read_text())


@pytest.mark.parametrize("model", LAYOUTS)
def test_state_dict_layout(model):
    """Keys and shapes are part of the format of snapshots."""
    state = eval(model).state_dict()
    shapes = [f"{name}:{'x'.join(map(str, value.shape))}" for name, value in state.items()]
    assert sorted(shapes) == sorted(LAYOUTS[model].split())


CONV = {"channels": (4, 5), "kernel_sizes": (4, 3), "strides": (2, 1), "paddings": [0, 1]}
SCALAR = ()
# Model, shape of an observation, shapes of the outputs for one datum, rnn state (N, H) or None.
MODELS = [
    (AtariDqnModel(SMALL, A, fc_sizes=(9, 8), **CONV), SMALL, [(A,)], None),
    (AtariDqnModel(SMALL, A, fc_sizes=8, dueling=True, **CONV), SMALL, [(A,)], None),
    (AtariDqnModel(SMALL, A, fc_sizes=None, use_maxpool=True, **CONV), SMALL, [(A,)], None),
    (AtariCatDqnModel(SMALL, A, 11, fc_sizes=8, **CONV), SMALL, [(A, 11)], None),
    (AtariCatDqnModel(SMALL, A, 11, fc_sizes=8, dueling=True, **CONV), SMALL, [(A, 11)], None),
    (AtariR2d1Model(SMALL, A, 8, 9, 10, **CONV), SMALL, [(A,)], (1, 9)),
    (AtariR2d1Model(SMALL, A, [8, 8], 9, 10, dueling=True, **CONV), SMALL, [(A,)], (1, 9)),
    (AtariFfModel(SMALL, A, fc_sizes=8, **CONV), SMALL, [(A,), SCALAR], None),
    (AtariFfModel(SMALL, A, 8, nonlinearity=torch.nn.SiLU), SMALL, [(A,), SCALAR], None),
    (AtariLstmModel(SMALL, A, 8, 9, **CONV), SMALL, [(A,), SCALAR], (1, 9)),
    (MujocoFfModel(OBS, A, (8,)), OBS, [(A,), (A,), SCALAR], None),
    (MujocoFfModel((), A, normalize_observation=True), (), [(A,), (A,), SCALAR], None),
    (MujocoLstmModel(OBS, A, (8,), 9), OBS, [(A,), (A,), SCALAR], (1, 9)),
    (MuMlpModel(OBS, (8, 8), A), OBS, [(A,)], None),
    (PiMlpModel(OBS, (8, 8), A), OBS, [(A,), (A,)], None),
    (QofMuMlpModel(OBS, (8, 8), A), OBS, [SCALAR], None),
    (PiLstmModel(OBS, A, (8, 8), 9), OBS, [(A,), (A,)], (1, 9)),
    (VMlpModel(OBS, 8, A), OBS, [SCALAR], None),
    (MlpDqnModel(OBS, A), OBS, [(A,)], None),
    (MlpDqnModel(OBS, A, hidden_sizes=[], dueling=True), OBS, [(A,)], None),
    (MlpCatDqnModel(OBS, A, n_atoms=11), OBS, [(A, 11)], None),
    (MlpCatDqnModel(OBS, A, hidden_sizes=8, dueling=True, n_atoms=11), OBS, [(A, 11)], None),
    (MlpR2d1Model(OBS, A, (8, 8), 9), OBS, [(A,)], (1, 9)),
    (MlpR2d1Model(OBS, A, (), 9, dueling=True), OBS, [(A,)], (1, 9)),
    (CatQofMuMlpModel(OBS, (8,), A, n_atoms=7), OBS, [(7,)], None),
    (AtariQrDqnModel(SMALL, A, 5, fc_sizes=8, **CONV), SMALL, [(A, 5)], None),
    (AtariQrDqnModel(SMALL, A, 5, fc_sizes=8, dueling=True, **CONV), SMALL, [(A, 5)], None),
    (MlpQrDqnModel(OBS, A, n_quantiles=5), OBS, [(A, 5)], None),
    (MlpQrDqnModel(OBS, A, None, dueling=True, n_quantiles=5), OBS, [(A, 5)], None),
    (AtariIqnModel(SMALL, A, fc_sizes=8, **CONV), SMALL, [(A, 5)], None),
    (AtariIqnModel(SMALL, A, 3, fc_sizes=8, dueling=True, **CONV), SMALL, [(A, 5)], None),
    (MlpIqnModel(OBS, A), OBS, [(A, 5)], None),
    (MlpIqnModel(OBS, A, hidden_sizes=8, dueling=True), OBS, [(A, 5)], None),
]
RECURRENT = [case for case in MODELS if case[3] is not None]


BOX = FloatBox(-1, 1, (3,))
RECORD = Composite([IntBox(0, 4), BOX], namedarraytuple("Record", ["a", "b"]))
# Model, its output layers for the policy and for the value.
ORTHOGONAL = [
    (AtariFfModel, (SMALL, A, 8), ["pi"], "value"),
    (AtariLstmModel, (SMALL, A, 8, 9), ["pi"], "value"),
    (MujocoFfModel, (OBS, A, (8, 8)), ["mu.0.model.4"], "v.model.4"),
    (GenericFfModel, (IntBox(0, 256, SMALL, dtype="uint8"), BOX, 8), ["head.linear"], "v.model.2"),
    (GenericLstmModel, (BOX, RECORD), ["head.heads.0.linear", "head.heads.1.linear"], "v"),
]


def gain_of(weight):
    """The one singular value of an orthogonal weight times a gain; its rows or columns."""
    found = torch.linalg.svdvals(weight.detach().flatten(1))
    torch.testing.assert_close(found, found[:1].expand_as(found))
    return float(found[0])


@pytest.mark.parametrize(("ModelCls", "args", "policy", "value"), ORTHOGONAL)
def test_orthogonal_init(ModelCls, args, policy, value):
    parameters = dict(ModelCls(*args, orthogonal_init=True).named_parameters())
    assert list(parameters) == [name for name, _ in ModelCls(*args).named_parameters()]
    for name, parameter in parameters.items():
        layer, _, kind = name.rpartition(".")
        if kind.startswith("bias"):
            assert not parameter.any()
        elif kind.startswith("weight"):
            gain = 0.01 if layer in policy else 1 if layer in ("lstm", value) else 2**0.5
            assert gain_of(parameter) == pytest.approx(gain, rel=1e-4), name
        else:
            assert kind == "log_std"
            assert not parameter.diff().any(), "it is kept"


def test_orthogonal_init_of_policy_and_value_in_one_layer():
    model = MujocoLstmModel(OBS, A, (8,), 16, orthogonal_init=True)
    assert gain_of(model.head.weight[:-1]) == pytest.approx(0.01, rel=1e-4)
    assert gain_of(model.head.weight[-1:]) == pytest.approx(1, rel=1e-4)


def inputs(lead, shape):
    """Observation, prev_action and prev_reward."""
    if shape == SMALL:
        observation = torch.randint(256, lead + shape, dtype=torch.uint8)
    else:
        observation = torch.randn(lead + shape)
    return [observation, torch.randn(*lead, A), torch.randn(lead)]


def call(model, lead_inputs, state=None):
    """Outputs as a list, without the recurrent state."""
    if hasattr(model, "lstm"):
        return list(model(*lead_inputs, state)[:-1])
    if isinstance(model, (QofMuMlpModel, CatQofMuMlpModel)):
        return [model(*lead_inputs, lead_inputs[1])]
    if isinstance(model, (AtariIqnModel, MlpIqnModel)):
        fractions = torch.linspace(0.1, 0.9, 5)
        return [model(*lead_inputs, fractions.expand(*lead_inputs[2].shape, 5))]
    outputs = model(*lead_inputs)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def name_of(value):
    return type(value).__name__ if isinstance(value, torch.nn.Module) else ""


@pytest.mark.parametrize(("model", "shape", "out_shapes", "rnn"), MODELS, ids=name_of)
class TestAnyModel:
    def test_leading_dims_are_restored(self, model, shape, out_shapes, rnn):
        for lead in [(), (1,), (3,), (1, 1), (4, 3)]:
            outputs = call(model, inputs(lead, shape))
            assert [out.shape for out in outputs] == [lead + out for out in out_shapes]

    def test_wrong_number_of_dimensions(self, model, shape, out_shapes, rnn):
        for wrong in [(2, 2, 2, *shape), *([shape[1:]] if shape else [])]:
            batch = [torch.zeros(wrong), *inputs((2,), shape)[1:]]
            with pytest.raises(ValueError, match=r"shape \["):
                call(model, batch)

    def test_batch_is_the_same_as_one_by_one(self, model, shape, out_shapes, rnn):
        batch = inputs((3,), shape)
        together = call(model, batch)
        for b in range(3):
            for out, out_b in zip(together, call(model, [x[b] for x in batch])):
                torch.testing.assert_close(out[b], out_b, rtol=1e-4, atol=1e-5)

    def test_inputs_of_any_strides_and_of_float64(self, model, shape, out_shapes, rnn):
        """Slices and transposed arrays raised an error (``view``), and so did float64."""
        batch = inputs((4, 3), shape)
        strided = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in batch]
        doubles = [x.double() if x.is_floating_point() else x for x in batch]
        expected = call(model, batch)
        for same in (strided, doubles):
            found = call(model, same)
            assert {x.dtype for x in found} == {torch.float32}
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_inputs_are_not_changed(self, model, shape, out_shapes, rnn):
        """Float images were multiplied by 1/255 in the caller's memory."""
        batch = [x.float() for x in inputs((3,), shape)]
        before = copy.deepcopy(batch)
        with torch.no_grad():
            call(model, batch)
        call(model, batch)
        assert all(torch.equal(x, y) for x, y in zip(batch, before))

    def test_every_parameter_has_a_gradient(self, model, shape, out_shapes, rnn):
        model, batch = copy.deepcopy(model), inputs((4, 3), shape)
        with torch.no_grad():
            expected = call(model, batch)
        outputs = call(model, batch)
        torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)
        assert not any(out.requires_grad for out in expected)
        sum((out * torch.randn_like(out)).sum() for out in outputs).backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []

    def test_pickles(self, model, shape, out_shapes, rnn):
        batch = inputs((3,), shape)
        twin = pickle.loads(pickle.dumps(model))
        assert all(map(torch.equal, call(twin, batch), call(model, batch)))


class TestImages:
    model = AtariDqnModel(SMALL, A, fc_sizes=8, **CONV)

    @pytest.mark.parametrize("grad", [True, False])
    def test_uint8_is_scaled_and_float_is_not(self, grad):
        images = torch.randint(256, (3, *SMALL), dtype=torch.uint8)
        with torch.set_grad_enabled(grad):
            q = self.model(images, None, None)
            torch.testing.assert_close(self.model(images.float() / 255, None, None), q)
            assert not torch.allclose(self.model(images.float(), None, None), q)

    def test_hook_of_the_first_convolution_sees_scaled_images(self):
        images, seen = torch.full((3, *SMALL), 255, dtype=torch.uint8), []
        model = copy.deepcopy(self.model)
        first = next(m for m in model.modules() if isinstance(m, torch.nn.Conv2d))
        first.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        torch.testing.assert_close(model(images, None, None), self.model(images, None, None))
        torch.testing.assert_close(seen[0], torch.ones(3, *SMALL))

    @pytest.mark.parametrize("n_channels", [1, 3, 4, 16])
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float])
    def test_layout_in_memory(self, dtype, n_channels):
        """Channels last make the backward pass on the CPU faster, but not the forward pass."""
        convolutions = Conv2dModel(n_channels, [4], [3], [1])
        shown = []
        convolutions.conv[0].register_forward_pre_hook(lambda _, args: shown.append(args[0]))
        images = torch.randint(256, (4, n_channels, 2, *SMALL[1:])).to(dtype)[:, :, 1]
        convolutions(images)
        assert shown[-1].is_contiguous(memory_format=torch.channels_last)
        images = images.contiguous()
        with torch.no_grad():
            convolutions(images)
        assert shown[-1].is_contiguous()
        torch.testing.assert_close(*shown)

    def test_other_integers_are_not_scaled(self):
        images = torch.randint(256, (3, *SMALL), dtype=torch.int32)
        q = self.model(images, None, None)
        torch.testing.assert_close(q, self.model(images.float(), None, None))


@pytest.mark.parametrize(("model", "shape", "out_shapes", "rnn"), RECURRENT, ids=name_of)
class TestRecurrent:
    def test_state_keeps_the_batch_dimension(self, model, shape, out_shapes, rnn):
        n_layers, size = rnn
        for lead, B in [((), 1), ((3,), 3), ((4, 3), 3)]:
            state = model(*inputs(lead, shape), None)[-1]
            assert state.h.shape == state.c.shape == (n_layers, B, size)

    def test_sequence_is_the_same_as_step_by_step(self, model, shape, out_shapes, rnn):
        sequence = inputs((4, 3), shape)
        together = model(*sequence, None)
        state = None
        for t in range(4):
            *outputs, state = model(*[x[t] for x in sequence], state)
            for out, out_t in zip(together, outputs):
                torch.testing.assert_close(out[t], out_t, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(state.h, together[-1].h, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(state.c, together[-1].c, rtol=1e-4, atol=1e-5)

    def test_none_is_zeros(self, model, shape, out_shapes, rnn):
        batch = inputs((3,), shape)
        zeros = torch.zeros(rnn[0], 3, rnn[1])
        for state in [(zeros, zeros), atari_r2d1_model.RnnState(h=zeros, c=zeros)]:
            for out, expected in zip(call(model, batch, state), call(model, batch)):
                assert torch.equal(out, expected)

    def test_state_of_any_strides(self, model, shape, out_shapes, rnn):
        """As it comes from sample buffers: [B,N,H], transposed to [N,B,H]."""
        stored = torch.randn(3, *rnn)
        batch = inputs((3,), shape)
        state = (stored.transpose(0, 1), stored.transpose(0, 1))
        dense = tuple(x.contiguous() for x in state)
        for out, expected in zip(call(model, batch, state), call(model, batch, dense)):
            assert torch.equal(out, expected)


def test_there_is_one_class_of_recurrent_state():
    RnnState = atari_r2d1_model.RnnState
    assert RnnState is atari_lstm_model.RnnState is mujoco_lstm_model.RnnState
    assert RnnState._fields == ("h", "c")


class TestMujoco:
    def test_normalisation(self):
        model = MujocoFfModel((2,), A, normalize_observation=True, norm_obs_clip=3)
        data = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
        model.update_obs_rms(data)
        # Deviations are 1, and 0 limited to 1e-3.
        flat, _ = model.fold_observation(torch.tensor([[2.5, 1e-3], [9.0, -1.0]]))
        torch.testing.assert_close(flat, torch.tensor([[0.5, 1.0], [3.0, -3.0]]))

    def test_without_normalisation_there_is_nothing_to_update(self):
        model = MujocoFfModel((2,), A)
        before = copy.deepcopy(model.state_dict())
        model.update_obs_rms(torch.rand(5, 2))
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def test_log_std_is_a_parameter_for_all_states(self):
        model = MujocoFfModel((2,), A, init_log_std=-1)
        mu, log_std, _ = model(torch.randn(4, 3, 2), None, None)
        assert torch.equal(log_std, torch.full((4, 3, A), -1.0))
        assert mu.abs().max() < 1
        assert MujocoFfModel((2,), A, [], mu_nonlinearity=None).mu.model[0].weight.shape == (A, 2)

    @pytest.mark.parametrize("ModelCls", [MujocoFfModel, MujocoLstmModel])
    def test_empty_hidden_sizes_are_no_layers(self, ModelCls):
        """An empty list was replaced by the default layers."""
        default, empty = ModelCls((2,), A), ModelCls((2,), A, [])
        assert len(list(default.parameters())) > len(list(empty.parameters()))
        assert call(empty, inputs((), (2,)))[0].shape == (A,)


class TestQpg:
    @pytest.mark.parametrize("output_max", [2, [0.5] * (A - 1) + [2.0]])
    def test_mu_is_bounded(self, output_max):
        mu = MuMlpModel((2,), None, A, output_max)(1e3 * torch.randn(100, 2), None, None)
        bound = torch.as_tensor(output_max).expand(A)
        torch.testing.assert_close(mu.abs().amax(dim=0), bound.float())

    def test_q_depends_on_the_action(self):
        model = QofMuMlpModel((2,), [8], A)
        observation = torch.rand(2)
        q = [model(observation, None, None, action) for action in torch.randn(2, A)]
        assert q[0].item() != q[1].item()


@pytest.mark.parametrize("dueling", [False, True])
def test_categorical_outputs_are_probabilities(dueling):
    small = AtariCatDqnModel(SMALL, A, 11, fc_sizes=8, dueling=dueling, **CONV)
    for model, shape in [(small, SMALL), (MlpCatDqnModel(OBS, A, dueling=dueling), OBS)]:
        p = model(*inputs((3,), shape))
        torch.testing.assert_close(p.sum(dim=-1), torch.ones(3, A))
        assert p.min() >= 0


def test_pi_splits_into_mean_and_log_std():
    model = PiMlpModel((2,), None, 3)
    mu, log_std = model(torch.zeros(2), None, None)
    assert torch.equal(torch.cat([mu, log_std]), model.mlp.model[0].bias)
