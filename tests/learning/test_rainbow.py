"""Rainbow, QR-DQN and IQN solve the tasks of ``test_dqn``, each in under a minute.

All run with ``RLPYT_LEARNING_SEEDS=0,1,2 pytest tests/learning``. With the other tests runs Rainbow
on vectors (``test_masks``).
"""

from functools import partial

import pytest

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_iqn_agent import AtariIqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariQrDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpQrDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.munchausen import MunchausenIQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from tests.learning import test_dqn
from tests.learning.test_dqn import SEEDS, _quiet, variant

__all__ = ["_quiet"]  # A fixture for all tests here.

EXTENSIONS = {"double_dqn": True, "prioritized_replay": True, "n_step_return": 3}
FRACTIONS = {"n_tau": 8, "n_target_tau": 8}
NOISY_AGENT = partial(AtariCatDqnAgent, ModelCls=partial(AtariCatDqnModel, noisy=True))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "settings"),
    [
        variant(CategoricalDQN, NOISY_AGENT, {"V_min": -1, "V_max": 1, **EXTENSIONS}),
        variant(QRDQN, partial(AtariQrDqnAgent, n_quantiles=32), {}),
        variant(IQN, partial(AtariIqnAgent, n_tau=8), FRACTIONS),
        variant(MunchausenIQN, partial(AtariIqnAgent, n_tau=8), FRACTIONS),
    ],
    ids=["rainbow", "qr_dqn", "iqn", "munchausen_iqn"],
)
def test_catch(AlgoCls, AgentCls, settings, seed):
    test_dqn.test_catch(AlgoCls, AgentCls, settings, seed)


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole(seed):
    AgentCls = partial(MlpQrDqnAgent, n_quantiles=32)
    test_dqn.test_cartpole(QRDQN, AgentCls, {}, seed)
