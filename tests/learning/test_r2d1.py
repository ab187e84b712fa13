"""R2D1 and PQN solve a task that cannot be solved without memory, and that DQN does not solve.

R2D1 runs with the other tests, with one seed; PQN, DQN, and more seeds, with
``RLPYT_LEARNING_SEEDS=0,1,2 pytest tests/learning``.
"""

import pytest

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent, MlpPqnLstmAgent, MlpR2d1Agent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.learning.test_dqn import SEEDS, _quiet as _quiet, best_return

SETTINGS = {
    "discount": 0.9,
    "min_steps_learn": 1e3,
    "replay_size": 20e3,
    "replay_ratio": 24,
    "target_update_interval": 100,
    "learning_rate": 3e-3,
    "eps_steps": 3e3,
    "delta_clip": 1.0,
}
LSTM = {"hidden_sizes": [32, 32], "lstm_size": 32}


def sampler(T=8, B=8, length=5):
    return SerialSampler(
        EnvCls=TMaze,
        env_kwargs={"length": length},
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_max_steps=10 * 120,
        eval_max_trajectories=50,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_is_learned(seed):
    algo = R2D1(
        **SETTINGS, batch_T=16, batch_B=16, warmup_T=0, store_rnn_state_interval=8, n_step_return=5
    )
    agent = MlpR2d1Agent(eps_final=0.05, model_kwargs=LSTM)
    best = best_return(algo, agent, sampler(length=3), n_steps=25e3, threshold=0.7, seed=seed)
    assert best >= 0.7, "without memory, the mean is at most 0"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_memory_is_learned_without_replay(seed):
    algo = PQN(discount=0.9, learning_rate=3e-3, q_lambda=0.9, eps_steps=8e3)
    agent = MlpPqnLstmAgent(eps_final=0.05, model_kwargs=LSTM)
    best = best_return(algo, agent, sampler(16, 16), n_steps=40e3, threshold=0.7, seed=seed)
    assert best >= 0.7, "without memory, the mean is at most 0"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_without_memory_it_cannot_be_learned(seed):
    algo = DQN(**SETTINGS, batch_size=256, n_step_return=5, double_dqn=True)
    agent = MlpDqnAgent(eps_final=0.05, model_kwargs={"hidden_sizes": [32, 32]})
    best = best_return(algo, agent, sampler(), n_steps=12e3, threshold=0.7, seed=seed)
    assert -0.4 < best < 0.6, "it finds the junction, and guesses"
