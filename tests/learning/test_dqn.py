"""DQN and its kin, PQN and discrete SAC solve a vector or a pixel task, each within a minute.

All run with ``RLPYT_LEARNING_SEEDS=0,1,2 pytest tests/learning``. With the other tests run DQN
and Rainbow on vectors (``test_masks``) and recurrent PQN (``test_r2d1``).
"""

import os
from functools import partial

import pytest

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_iqn_agent import AtariIqnAgent
from rlpyt.agents.dqn.atari.atari_qrdqn_agent import AtariQrDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpPqnAgent, MlpQrDqnAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.munchausen import MunchausenDQN, MunchausenIQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.models.autocast import Autocast
from rlpyt.models.dqn.atari_catdqn_model import AtariCatDqnModel
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.runners.callbacks import Callback, mean_return
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger

SEEDS = [int(seed) for seed in os.environ.get("RLPYT_LEARNING_SEEDS", "0").split(",")]


def variant(*values):
    """Values of a test that runs only if seeds are given."""
    return pytest.param(*values, marks=pytest.mark.variant)


class StopWhenSolved(Callback):
    """Remembers the best mean return of an evaluation, and stops at a good one."""

    def __init__(self, threshold):
        self.threshold, self.best = threshold, -float("inf")

    def on_eval(self, runner, itr, traj_infos):
        self.best = max(self.best, mean_return(traj_infos))
        if self.best >= self.threshold:
            runner.stop()


@pytest.fixture(autouse=True)
def _quiet():
    with logger.using(logger.Logger()):
        logger.disable()
        yield


IN_TURN = {"log_interval_steps": 1e3, "affinity": {"master_torch_threads": 1}}


def best_return(
    algo, agent, sampler, n_steps, threshold, seed, RunnerCls=MinibatchRlEval, settings=IN_TURN
):
    solved = StopWhenSolved(threshold)
    roles = {"algo": algo, "agent": agent, "sampler": sampler}
    RunnerCls(**roles, n_steps=n_steps, seed=seed, callbacks=[solved], **settings).train()
    assert algo.update_counter > 0
    return solved.best


def cartpole_sampler():
    return SerialSampler(
        EnvCls=gym.make,
        env_kwargs={"id": "CartPole-v1"},
        batch_T=8,
        batch_B=4,
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=5 * 500,
        eval_max_trajectories=10,
    )


CARTPOLE = {
    "learning_rate": 1e-3,
    "batch_size": 128,
    "replay_size": 100e3,
    "min_steps_learn": 1e3,
    "replay_ratio": 32,
    "target_update_tau": 0.02,
    "target_update_interval": 1,
    "n_step_return": 3,
    "eps_steps": 8e3,
    "double_dqn": True,
}
MUNCHAUSEN = {"double_dqn": False, "n_step_return": 1}


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "settings"),
    [
        (DQN, MlpDqnAgent, {}),
        (DQN, MlpDqnAgent, {"prioritized_replay": True}),
        (CategoricalDQN, MlpCatDqnAgent, {"V_min": 0, "V_max": 100, "replay_ratio": 16}),
        (MunchausenDQN, MlpDqnAgent, MUNCHAUSEN),
        (QRDQN, partial(MlpQrDqnAgent, n_quantiles=32), {}),
    ],
    ids=["dqn", "dqn-prioritized", "categorical", "munchausen", "qr_dqn"],
)
def test_cartpole(AlgoCls, AgentCls, settings, seed):
    best = best_return(
        AlgoCls(**{**CARTPOLE, **settings}),
        AgentCls(model_kwargs={"hidden_sizes": [128, 128]}, eps_final=0.02),
        cartpole_sampler(),
        n_steps=80e3,
        threshold=475,
        seed=seed,
    )
    assert best >= 475, "random actions reach 20"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole_without_replay(seed):
    sampler = SerialSampler(
        EnvCls=gym.make,
        env_kwargs={"id": "CartPole-v1"},
        batch_T=32,
        batch_B=16,
        max_decorrelation_steps=0,
        eval_n_envs=5,
        eval_max_steps=5 * 500,
        eval_max_trajectories=10,
    )
    algo = PQN(learning_rate=1e-3, q_lambda=0.95, minibatches=8, epochs=4, eps_steps=30e3)
    agent = MlpPqnAgent(model_kwargs={"hidden_sizes": [128, 128]}, eps_final=0.05)
    best = best_return(algo, agent, sampler, n_steps=200e3, threshold=475, seed=seed)
    assert best >= 475, "random actions reach 20"


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
def test_cartpole_by_sac_discrete(seed):
    algo = DiscreteSAC(
        learning_rate=1e-3,
        batch_size=128,
        replay_size=100e3,
        min_steps_learn=1e3,
        replay_ratio=32,
        target_update_tau=0.02,
        n_step_return=3,
    )
    agent = DiscreteSacAgent(model_kwargs={"hidden_sizes": [128, 128]})
    best = best_return(algo, agent, cartpole_sampler(), n_steps=40e3, threshold=475, seed=seed)
    assert best >= 475, "random actions reach 20"


EXTENSIONS = {"double_dqn": True, "prioritized_replay": True, "n_step_return": 3}
FRACTIONS = {"n_tau": 8, "n_target_tau": 8}
NOISY_AGENT = partial(AtariCatDqnAgent, ModelCls=partial(AtariCatDqnModel, noisy=True))


@pytest.mark.variant
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "settings"),
    [
        (DQN, AtariDqnAgent, {}),
        (DQN, AtariDqnAgent, {"prioritized_replay": True, "double_dqn": True}),
        (CategoricalDQN, AtariCatDqnAgent, {"V_min": -1, "V_max": 1}),
        (DQN, partial(AtariDqnAgent, ModelCls=Autocast(AtariDqnModel)), {}),
        (CategoricalDQN, NOISY_AGENT, {"V_min": -1, "V_max": 1, **EXTENSIONS}),
        (QRDQN, partial(AtariQrDqnAgent, n_quantiles=32), {}),
        (IQN, partial(AtariIqnAgent, n_tau=8), FRACTIONS),
        (MunchausenIQN, partial(AtariIqnAgent, n_tau=8), FRACTIONS),
    ],
    ids=[
        *("dqn", "dqn-prioritized-double", "categorical", "bfloat16"),
        *("rainbow", "qr_dqn", "iqn", "munchausen_iqn"),
    ],
)
def test_catch(AlgoCls, AgentCls, settings, seed):
    # Two frames of 20 x 10 pixels, and the networks for images with smaller kernels.
    env_kwargs = {"grid_shape": (10, 5), "img_shape": (20, 10), "num_img_obs": 2}
    convolution = {"channels": [16, 32], "kernel_sizes": [4, 3], "strides": [2, 1]}
    model_kwargs = {**convolution, "paddings": [0, 1], "fc_sizes": 64, "dueling": True}
    sampler = SerialSampler(
        EnvCls=Catch,
        env_kwargs=env_kwargs,
        batch_T=4,
        batch_B=8,
        max_decorrelation_steps=0,
        eval_n_envs=10,
        eval_max_steps=10 * 9 * 5,
    )
    best = best_return(
        AlgoCls(
            learning_rate=1e-3,
            min_steps_learn=500,
            replay_size=20e3,
            target_update_interval=100,
            eps_steps=3e3,
            **settings,
        ),
        AgentCls(model_kwargs=model_kwargs),
        sampler,
        n_steps=20e3,
        threshold=0.95,
        seed=seed,
    )
    assert best >= 0.95, "random actions reach about -0.6"
