"""Agents with action masks learn which of the open doors is best; forbidden actions raise errors.

DQN runs with the other tests, with one seed; the rest, and more seeds, with
``RLPYT_LEARNING_SEEDS=0,1,2 pytest tests/learning``.
"""

import pytest
import torch
import torch._dynamo

from rlpyt.agents.dqn import mlp_agent
from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.envs.doors import make_doors
from tests.learning.test_dqn import SEEDS, StopWhenSolved, _quiet as _quiet
from tests.selection import FULL

SMALL = {"hidden_sizes": [64]}
LSTM = {"hidden_sizes": [32], "lstm_size": 32}
REPLAY = {
    "discount": 0.5,
    "learning_rate": 1e-3,
    "min_steps_learn": 500,
    "replay_size": 20e3,
    "replay_ratio": 16,
    "target_update_interval": 50,
    "eps_steps": 5e3,
}
SEQUENCES = {"batch_T": 10, "batch_B": 16, "warmup_T": 0, "n_step_return": 1}
POLICY = {"discount": 0.5, "learning_rate": 3e-3}


def dqn(**settings):
    algo = DQN(**{**REPLAY, **settings}, double_dqn=True, n_step_return=2)
    return algo, mlp_agent.MlpDqnAgent(model_kwargs=SMALL)


def rainbow():
    algo = CategoricalDQN(**REPLAY, V_min=0, V_max=2, prioritized_replay=True, double_dqn=True)
    return algo, mlp_agent.MlpCatDqnAgent(model_kwargs={**SMALL, "dueling": True, "noisy": True})


def qr_dqn():
    return QRDQN(**REPLAY), mlp_agent.MlpQrDqnAgent(n_quantiles=20, model_kwargs=SMALL)


def iqn():
    algo = IQN(**REPLAY, n_tau=16, n_target_tau=16)
    return algo, mlp_agent.MlpIqnAgent(n_tau=16, model_kwargs=SMALL)


def r2d1():
    algo = R2D1(**REPLAY, **SEQUENCES, store_rnn_state_interval=5)
    return algo, mlp_agent.MlpR2d1Agent(model_kwargs=LSTM)


def pqn():
    algo = PQN(discount=0.5, learning_rate=2e-3, eps_steps=5e3)
    return algo, mlp_agent.MlpPqnAgent(model_kwargs=SMALL)


def a2c():
    return A2C(**POLICY), GenericFfAgent(model_kwargs=SMALL)


def ppo(**settings):
    return PPO(**POLICY, **settings), GenericFfAgent(model_kwargs=SMALL)


def ppo_lstm():
    return PPO(**POLICY), GenericLstmAgent(model_kwargs=LSTM)


def sac():
    settings = {name: x for name, x in REPLAY.items() if name not in ("eps_steps", "replay_ratio")}
    settings["target_update_interval"] = 1
    algo = DiscreteSAC(**settings, replay_ratio=64)
    return algo, DiscreteSacAgent(model_kwargs=SMALL)


VARIANTS = [rainbow, ppo, qr_dqn, iqn, r2d1, pqn, a2c, ppo_lstm, sac]


def train(RunnerCls, algo, agent, **kwargs):
    sampler = SerialSampler(
        EnvCls=make_doors,
        env_kwargs={},
        batch_T=16,
        batch_B=8,
        max_decorrelation_steps=20,
        eval_n_envs=5,
        eval_max_steps=5 * 200,
    )
    affinity = {"master_torch_threads": 1}
    RunnerCls(algo=algo, agent=agent, sampler=sampler, affinity=affinity, **kwargs).train()


def learn(algo, agent, **kwargs):
    solved = StopWhenSolved(9)
    lengths = {"n_steps": 40e3, "log_interval_steps": 2e3}
    train(MinibatchRlEval, algo, agent, **lengths, **kwargs, callbacks=[solved])
    assert solved.best >= 9, "random allowed actions reach 3.3"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "make", [dqn, *(pytest.param(make, marks=pytest.mark.variant) for make in VARIANTS)]
)
def test_doors(make, seed):
    learn(*make(), seed=seed)


@pytest.mark.variant  # That compiled updates compute the same: tests/contracts/test_compile.py.
@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="torch traces no gradients"
)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", [ppo, dqn, sac])
def test_doors_in_compiled_updates(make, seed):
    # Traced, and run by torch as they are: generating code takes longer than learning.
    learn(*make(), seed=seed, compile={"backend": "eager"})


@pytest.mark.parametrize(("make", "settings"), [(ppo, {"epochs": 1}), (dqn, {"replay_ratio": 1})])
def test_no_forbidden_action_in_a_long_run(make, settings):
    """Doors end the run at the first one; 1e5 steps with ``RLPYT_FULL=1``."""
    n_steps = 1e5 if FULL else 2e3
    train(MinibatchRl, *make(**settings), n_steps=n_steps, log_interval_steps=n_steps, seed=0)
