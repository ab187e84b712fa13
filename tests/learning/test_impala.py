"""IMPALA learns in turn with its sampler; while another process samples; with a memory too.

What comes of two processes depends on the speed of the machine. So only the first runs with the
other tests, with one seed; the rest, and more seeds, with ``RLPYT_LEARNING_SEEDS=0,1,2 pytest
tests/learning``.
"""

import pytest

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.envs import gym
from rlpyt.envs.toy import TMaze
from rlpyt.runners.async_rl import AsyncRlEval
from tests.determinism.pg import InTurn
from tests.learning import test_pg
from tests.learning.test_dqn import SEEDS, _quiet as _quiet, best_return
from tests.runners.async_parts import WORKERS, make_sampler

AFFINITY = {"optimizer": [{"torch_threads": 1}], "sampler": WORKERS}
ASYNC = {"RunnerCls": AsyncRlEval, "settings": {"log_interval_steps": 5e3, "affinity": AFFINITY}}
CARTPOLE = {"gae_lambda": 0.95, "normalize_advantage": True, "entropy_loss_coeff": 0.0}


@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole_in_turn(seed):
    sampler = test_pg.make_sampler(gym.make, 16, 8, 501, 10, id="CartPole-v1")
    algo = InTurn(**CARTPOLE, learning_rate=3e-3)
    best = best_return(algo, GenericFfAgent(), sampler, 100e3, threshold=300, seed=seed)
    assert best >= 300, "random actions reach 20"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "batch_T", "threshold"), [("serial", 16, 195), ("cpu", 32, 475)])
def test_cartpole(kind, batch_T, threshold, seed):
    sampler = make_sampler(
        kind,
        EnvCls=gym.make,
        env_kwargs={"id": "CartPole-v1"},
        batch_T=batch_T,
        batch_B=8,
        eval_n_envs=10,
        eval_max_steps=10 * 501,
        eval_max_trajectories=10,
    )
    algo = IMPALA(**CARTPOLE, learning_rate=1e-3)
    best = best_return(algo, GenericFfAgent(), sampler, 200e3, threshold, seed, **ASYNC)
    assert best >= threshold, "random actions reach 20"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_maze_with_memory(seed):
    sampler = make_sampler(
        EnvCls=TMaze,
        batch_T=20,
        batch_B=8,
        eval_n_envs=10,
        eval_max_steps=10 * 80,
        eval_max_trajectories=100,
    )
    agent = GenericLstmAgent(model_kwargs={"hidden_sizes": None, "lstm_size": 32})
    algo = IMPALA(gae_lambda=0.95, normalize_advantage=True, learning_rate=1e-2)
    best = best_return(algo, agent, sampler, 150e3, threshold=0.9, seed=seed, **ASYNC)
    assert best >= 0.9, "without memory, the mean is at most 0"
