"""SAC and SAC_V swing up a pendulum, and use the bounds of each dimension; recurrent SAC remembers.

SAC learns the bounds with the other tests, with one seed; the rest, and more seeds, with
``RLPYT_LEARNING_SEEDS=0,1,2 pytest tests/learning``.
"""

import pytest

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.agents.qpg.sac_lstm_agent import SacLstmAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_ensembles import REDQ, TQC, CrossQ
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.envs import gym
from rlpyt.envs.gym import GymEnvWrapper
from tests.learning.aiming import Aiming, Recalling
from tests.learning.test_dqn import SEEDS, _quiet as _quiet, best_return, variant
from tests.learning.test_pg import make_sampler

SETTINGS = {
    "learning_rate": 1e-3,
    "batch_size": 128,
    "min_steps_learn": 500,
    "replay_size": 20e3,
    "replay_ratio": 128,
    "target_update_tau": 0.01,
}
NET = {"hidden_sizes": [64, 64]}
SMALL = {"model_kwargs": NET, "q_model_kwargs": NET, "v_model_kwargs": NET}
TWO_UPDATES = {"policy_update_interval": 2, "replay_ratio": 2 * 128}
DROPOUT = {"q_model_kwargs": {**NET, "layer_norm": True, "dropout": 0.01}}
RENORM = {**NET, "batch_renorm": True}
NO_TARGETS = {"model_kwargs": RENORM, "q_model_kwargs": RENORM, "target_networks": False}
QUANTILES = {"n_critics": 3, "q_model_kwargs": {**NET, "n_quantiles": 25}}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "settings", "agent"),
    [
        variant(SAC, sac_agent.SacAgent, {}, {}),
        variant(SAC, sac_agent.SacAgent, {"fixed_alpha": 0.2}, {}),
        variant(REDQ, sac_agent.SacAgent, TWO_UPDATES, {"n_critics": 4}),
        variant(REDQ, sac_agent.SacAgent, TWO_UPDATES, DROPOUT),
        variant(TQC, sac_agent.SacAgent, {}, QUANTILES),
        variant(CrossQ, sac_agent.SacAgent, {}, NO_TARGETS),
        variant(SAC_V, sac_v_agent.SacAgent, {}, {}),
    ],
    ids=["sac", "sac-fixed", "redq", "droq", "tqc", "crossq", "sac_v"],
)
def test_pendulum(AlgoCls, AgentCls, settings, agent, seed):
    """Torques are bounded by -2 and 2."""
    sampler = make_sampler(gym.make, 1, 1, 200, 10, id="Pendulum-v1")
    algo = AlgoCls(**{**SETTINGS, **settings})
    agent = AgentCls(**{**SMALL, **agent})
    best = best_return(algo, agent, sampler, n_steps=15e3, threshold=-200, seed=seed)
    assert best >= -200, "random torques reach -1200"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "settings"),
    [
        (SAC, sac_agent.SacAgent, {}),
        variant(SAC_V, sac_v_agent.SacAgent, {"reward_scale": 5}),
        variant(SAC_V, sac_v_agent.SacAgent, {"reward_scale": 5, "reparameterize": False}),
    ],
    ids=["sac", "sac_v", "sac_v-score"],
)
def test_bounds_that_differ_from_dimension_to_dimension(AlgoCls, AgentCls, settings, seed):
    sampler = make_sampler(lambda **kwargs: GymEnvWrapper(Aiming(**kwargs)), 1, 4, 5, 50)
    algo = AlgoCls(**{**SETTINGS, "discount": 0.5, "replay_ratio": 64, **settings})
    best = best_return(algo, AgentCls(**SMALL), sampler, n_steps=20e3, threshold=4, seed=seed)
    assert best >= 4, "of 5; the middle of the bounds reaches 0.6, and the nearest in [-1, 1] -2"


LSTM = {"hidden_sizes": [32, 32], "lstm_size": 32}
SEQUENCES = {
    "discount": 0.9,
    "learning_rate": 3e-3,
    "batch_T": 8,
    "batch_B": 32,
    "warmup_T": 0,
    "store_rnn_state_interval": 4,
    "min_steps_learn": 500,
    "replay_size": 20e3,
    "replay_ratio": 32,
    "target_update_tau": 0.02,
}


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_memory_is_learned(seed):
    sampler = make_sampler(lambda: GymEnvWrapper(Recalling()), 1, 8, 4, 50)
    agent = SacLstmAgent(model_kwargs=LSTM, q_model_kwargs=LSTM)
    algo = RecurrentSAC(**SEQUENCES)
    best = best_return(algo, agent, sampler, n_steps=12e3, threshold=3.5, seed=seed)
    assert best >= 3.5, "of 4; without memory, the mean is at most 2.4"
