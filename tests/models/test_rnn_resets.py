"""An LSTM that starts anew within a batch of sequences, against one step at a time."""

import pytest
import torch

from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.generic_model import GenericLstmModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.rnn import RnnState, run_lstm_with_resets
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

B, F, H = 5, 3, 4


def step_by_step(lstm, x, state, reset):
    if state is None:
        state = (torch.zeros(lstm.num_layers, x.shape[1], H),) * 2
    outputs = []
    for t in range(len(x)):
        keep = (~reset[t]).float()[None, :, None]
        output, state = lstm(x[t : t + 1], tuple(part * keep for part in state))
        outputs.append(output)
    return torch.cat(outputs), state


def random_state(n_layers):
    return tuple(torch.randn(n_layers, B, H) for _ in range(2))


@pytest.mark.parametrize("T", [1, 2, 9])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("has_state", [False, True])
def test_like_one_step_at_a_time(T, rate, n_layers, has_state):
    lstm = torch.nn.LSTM(F, H, n_layers)
    x, reset = torch.randn(T, B, F), torch.rand(T, B) < rate
    state = random_state(n_layers) if has_state else None
    gradients = []
    for run in (run_lstm_with_resets, step_by_step):
        x_leaf = x.clone().requires_grad_()
        output, (h, c) = run(lstm, x_leaf, state, reset)
        (output.square().sum() + h.sum() + c.sum()).backward()
        assert x_leaf.grad is not None
        gradients.append(x_leaf.grad)
        if run is run_lstm_with_resets:
            found = output, h, c
    for a, b in zip((*found, gradients[0]), (output, h, c, gradients[1])):
        assert a.shape == b.shape
        assert torch.allclose(a, b, atol=1e-5)


def test_arguments_are_not_changed():
    state, x = random_state(1), torch.randn(3, B, F)
    reset = torch.zeros(3, B, dtype=torch.bool)
    reset[0, 1] = reset[2, 2] = True
    copies = [part.clone() for part in (*state, x, reset)]
    run_lstm_with_resets(torch.nn.LSTM(F, H), x, state, reset)
    assert all(torch.equal(a, b) for a, b in zip(copies, (*state, x, reset)))


CONV = {"channels": [2], "kernel_sizes": [4], "strides": [4], "paddings": [0]}
MODELS = [
    (MlpR2d1Model((F,), 3, (8, 8), lstm_size=H), (F,)),
    (AtariR2d1Model((2, 12, 8), 3, 8, H, 8, **CONV), (2, 12, 8)),
    (AtariLstmModel((2, 12, 8), 3, 8, H, **CONV), (2, 12, 8)),
    (MujocoLstmModel((F,), 3, 8, H), (F,)),
    (GenericLstmModel(FloatBox(-1, 1, (F,)), IntBox(0, 3), 8, H), (F,)),
]


@pytest.mark.parametrize(("model", "shape"), MODELS)
def test_episode_within_a_sequence_is_as_if_it_was_alone(model, shape):
    inputs = torch.randn(7, B, *shape), torch.rand(7, B, 3), torch.randn(7, B)
    reset = torch.zeros(7, B, dtype=torch.bool)
    reset[4, 2] = True
    state = RnnState(*random_state(1))
    *outputs, after = model(*inputs, state, reset=reset)
    *all_without, _ = model(*inputs, state)
    *all_alone, alone_after = model(*(part[4:, 2:3] for part in inputs), None)
    others = [0, 1, 3, 4]
    for output, without, alone in zip(outputs, all_without, all_alone, strict=True):
        assert torch.allclose(output[4:, 2:3], alone, atol=1e-6)
        assert torch.allclose(output[:, others], without[:, others], atol=1e-6)
        assert torch.allclose(output[:4, 2], without[:4, 2], atol=1e-6)
    assert torch.allclose(after.h[:, 2:3], alone_after.h, atol=1e-6)
    assert isinstance(after, RnnState)
