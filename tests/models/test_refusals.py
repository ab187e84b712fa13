"""Sizes, shapes and spaces that networks refuse: calls, and what their errors name."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.models.batch_renorm import BatchRenorm
from rlpyt.models.conv2d import Conv2dHeadModel, Conv2dModel
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.mlp_quantile_model import MlpIqnModel
from rlpyt.models.noisy import NoisyLinear
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.models.space_kinds import action_kind, observation_kind
from rlpyt.models.utils import update_state_dict
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from tests.refused import assert_refused

CONVOLUTIONS = {"channels": [2, 2], "kernel_sizes": [3, 3], "strides": [1, 1], "paddings": [0, 0]}


def head(*image_shape):
    return Conv2dHeadModel(image_shape, [16, 32], [8, 4], [4, 2], None)


def normalized(model):
    return update_state_dict(torch.nn.BatchNorm1d(2), model.state_dict(), 0.5)


def averaged(tau):
    return update_state_dict(torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2).state_dict(), tau)


REFUSED = [
    *(
        (partial(Conv2dModel, 1, **{**CONVOLUTIONS, name: [1]}), f"{name}=[1] length")
        for name in ("kernel_sizes", "strides", "paddings")
    ),
    (lambda: Conv2dModel(3, [], [], []).conv_out_size(4, 5), "c None"),
    (lambda: head(4, 7, 80), "height 7 width 80 too small pixels Conv2d(4, 16"),
    (lambda: head(4, 9, 11), "height 9 width 11 too small 1 x pixels Conv2d(16, 32"),
    (lambda: head(104, 80), "image_shape=(104, 80) channels"),
    (lambda: head(4, 0, 80), "image_shape=(4, 0, 80) channels"),
    (lambda: AtariDqnModel((1, 20, 20), 3, channels=[4]), "channels=[4] kernel_sizes=[8, 4, 3]"),
    *(
        (partial(ModelCls, (4, 7, 7), 3), "image_shape height 7 width too small")
        for ModelCls in (AtariDqnModel, AtariCatDqnModel, AtariFfModel)
    ),
    (lambda: MlpIqnModel((3,), 2, hidden_sizes=[]), "hidden_sizes [] one"),
    (lambda: MlpIqnModel((3,), 2, n_cosines=0), "n_cosines 0 1"),
    (lambda: NoisyLinear(2, 3, sigma_init=-1), "sigma_init -1 0"),
    (lambda: BatchRenorm(3)(torch.zeros(1, 3)), "more than 1"),
    *(
        (lambda s=shape: RunningMeanStdModel((3,)).update(torch.zeros(s)), "x shape (3,)")
        for shape in ((4,), (5, 2), ())
    ),
    *((partial(averaged, tau), f"tau={tau}") for tau in (-0.1, 1.1)),
    (lambda: normalized(torch.nn.Linear(2, 2)), "state_dict running_mean"),
    *(
        (partial(action_kind, space), "count 0 wrapper")
        for space in (
            IntBox(1, 4),
            IntBox(-1, 2, shape=(2,)),
            GymSpaceWrapper(spaces.Box(1, 3, (), np.int64)),
        )
    ),
    (lambda: observation_kind(SimpleNamespace(shape=None)), "namespace ModelCls"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refused(call, words):
    assert_refused(call, words)
