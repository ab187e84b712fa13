"""Models in lower precision: close to the full one, same parameters, copied and pickled whole."""

import copy
import pickle

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent, MlpPqnAgent, MlpPqnLstmAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.autocast import Autocast
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.qpg.mlp import CatQofMuMlpModel
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

SIZES = {"observation_shape": (5,), "action_size": 2}
INPUTS = (torch.randn(3, 4, 5), torch.randn(3, 4, 2), torch.randn(3, 4))


def pair(ModelCls):
    torch.manual_seed(0)
    low, full = Autocast(ModelCls)(**SIZES), ModelCls(**SIZES)
    full.load_state_dict(low.state_dict())
    return low, full


def leaves(output):
    return [x for part in output for x in (part if isinstance(part, tuple) else (part,))]


def test_outputs_are_float32_and_close_but_not_equal():
    low, full = pair(MujocoFfModel)
    for x, y in zip(low(*INPUTS), full(*INPUTS), strict=True):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, y, rtol=0.03, atol=0.03)
    assert not torch.equal(low(*INPUTS)[0], full(*INPUTS)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("is_critic", [False, True])
def test_probabilities_of_atoms_are_float32_under_autocast(dtype, is_critic):
    """In half precision they sum to 1 only within a hundredth."""
    if is_critic:
        model = Autocast(CatQofMuMlpModel, dtype)((5,), (8,), 2)
    else:
        model = Autocast(MlpCatDqnModel, dtype)((5,), 2, (8,))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8)
    atoms = model(*INPUTS, *([torch.randn(3, 4, 2)] if is_critic else []))
    assert atoms.dtype == torch.float32
    torch.testing.assert_close(atoms.sum(-1), torch.ones(atoms.shape[:-1]), rtol=0, atol=1e-6)


def test_convolutions_of_an_encoder_are_part_of_it():
    spaces = EnvSpaces(IntBox(0, 256, (3, 12, 12), dtype="uint8"), IntBox(0, 2))
    agent = MlpDqnAgent(ModelCls=Autocast(MlpDqnModel))
    agent.initialize(spaces)
    seen = []
    agent.model.encoder.conv.register_forward_hook(lambda *call: seen.append(call[2].dtype))
    q = agent.model(torch.zeros(2, 3, 12, 12, dtype=torch.uint8), None, None)
    assert (seen, q.dtype) == ([torch.bfloat16], torch.float32)


def test_acting_keeps_full_precision():
    low, full = pair(MujocoFfModel)
    for x, y in zip(low.eval()(*INPUTS), full.eval()(*INPUTS), strict=True):
        assert torch.equal(x, y)


def has_bfloat16_lstm():
    """Whether torch itself has this kernel on this processor; on some it has none."""
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 3)(torch.zeros(1, 1, 2))
    except RuntimeError:
        return False
    return True


@pytest.mark.skipif(not has_bfloat16_lstm(), reason="no bfloat16 LSTM on this processor")
def test_recurrent_state_goes_in_and_out():
    low, full = pair(MujocoLstmModel)
    state = None
    for _ in range(2):
        *_, state = low(*INPUTS, state)
        assert all(x.dtype == torch.float32 for x in leaves([tuple(state)]))
    for x, y in zip(leaves(low(*INPUTS, state)), leaves(full(*INPUTS, state)), strict=True):
        torch.testing.assert_close(x, y, rtol=0.05, atol=0.05)


def test_gradients_are_float32_and_close():
    low, full = pair(MujocoFfModel)
    for model in (low, full):
        sum(x.square().mean() for x in model(*INPUTS)).backward()
    for p, q in zip(low.parameters(), full.parameters(), strict=True):
        assert p.grad.dtype == torch.float32
        torch.testing.assert_close(p.grad, q.grad, rtol=0.1, atol=0.02)


def test_it_is_a_model_of_its_class_with_the_same_state_dict():
    low, full = pair(MujocoFfModel)
    assert isinstance(low, MujocoFfModel)
    assert list(low.state_dict()) == list(full.state_dict())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same_with_parameters_of_their_own(duplicate):
    low, _ = pair(MujocoFfModel)
    twin = duplicate(low)
    assert type(twin) is type(low)
    assert all(torch.equal(x, y) for x, y in zip(low(*INPUTS), twin(*INPUTS), strict=True))
    with torch.no_grad():
        twin.log_std.add_(1)
    assert not torch.equal(low.log_std, twin.log_std)


def test_an_agent_builds_the_same_network_in_lower_precision():
    """With layer norm for PQN, and an encoder of images."""
    image = EnvSpaces(IntBox(0, 256, (3, 10, 10), np.uint8), IntBox(0, 4))
    vector = EnvSpaces(FloatBox(-1, 1, (5,)), IntBox(0, 4))
    for AgentCls, ModelCls, spaces in (
        (MlpDqnAgent, MlpDqnModel, image),
        (MlpPqnAgent, MlpDqnModel, vector),
        (MlpPqnLstmAgent, MlpR2d1Model, vector),
    ):
        LowCls = pickle.loads(pickle.dumps(Autocast(ModelCls)))
        full, low = AgentCls(ModelCls=ModelCls), AgentCls(ModelCls=LowCls)
        for agent in (full, low):
            agent.initialize(spaces)
        assert torch.bfloat16 in {getattr(m, "autocast_dtype", 0) for m in low.model.modules()}
        assert full.model.state_dict().keys() == low.model.state_dict().keys()
