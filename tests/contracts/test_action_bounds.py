"""Actions of every family lie in the environment's own space, whatever its type and shape."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg import sac_v_agent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_lstm_agent import SacLstmAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.core.bounds import rounded_inward
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.runners.parts import train
from tests.selection import each_once

SMALL = {"hidden_sizes": [8]}
REPLAY = {"batch_size": 8, "replay_size": 400, "min_steps_learn": 16, "replay_ratio": 1}
NETS = {"model_kwargs": SMALL, "q_model_kwargs": SMALL}
LSTM = {"model_kwargs": {**SMALL, "lstm_size": 8}, "q_model_kwargs": {**SMALL, "lstm_size": 8}}
FAMILIES = {
    "ppo": lambda: (PPO(), MujocoFfAgent()),
    "generic": lambda: (PPO(), GenericFfAgent()),
    "sac": lambda: (SAC(**REPLAY, action_prior="gaussian"), SacAgent(**NETS)),
    "sac_v": lambda: (SAC_V(**REPLAY), sac_v_agent.SacAgent(**NETS, v_model_kwargs=SMALL)),
    "td3": lambda: (TD3(**REPLAY), Td3Agent(**NETS)),
    "ddpg": lambda: (DDPG(**REPLAY), DdpgAgent(**NETS)),
    "d4pg": lambda: (D4PG(V_min=-9, V_max=0, **REPLAY), D4pgAgent(**NETS)),
    "sac_lstm": lambda: (
        RecurrentSAC(
            batch_T=4, batch_B=2, warmup_T=0, replay_size=400, min_steps_learn=32, replay_ratio=1
        ),
        SacLstmAgent(**LSTM),
    ),
}


class StrictEnv(gymnasium.Env[Any, Any]):
    """Environment that asserts what the checker of gymnasium asserts."""

    def __init__(self, **box):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        self.action_space = gymnasium.spaces.Box(**box)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        assert np.asarray(action).dtype == self.action_space.dtype
        assert np.abs(action).max() < 100
        self.t += 1
        observation = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return observation, -float(np.square(action).sum()), False, self.t == 7, {}


def _make(**box):
    return GymEnvWrapper(StrictEnv(**box))


HUGE = np.finfo(np.float64).max


BOXES = {
    "float64": {"low": -0.1, "high": 0.1, "shape": (2,), "dtype": np.float64},
    "scalar": {"low": -0.1, "high": 0.1, "shape": (), "dtype": np.float64},
    "matrix": {"low": -0.1, "high": 0.1, "shape": (2, 2), "dtype": np.float16},
    "unbounded": {"low": -HUGE, "high": HUGE, "shape": (2,), "dtype": np.float64},
}


@pytest.mark.parametrize(("family", "box"), each_once(FAMILIES, BOXES))
def test_actions_lie_in_the_space(family, box, tmp_path):
    algo, agent = FAMILIES[family]()
    sampler = SerialSampler(_make, BOXES[box], batch_T=8, batch_B=2, max_decorrelation_steps=5)
    runner = MinibatchRl(
        algo=algo, agent=agent, sampler=sampler, n_steps=64, log_interval_steps=64, seed=0
    )
    rows = train(runner, tmp_path)
    assert np.isfinite(float(rows[-1]["ReturnAverage"]))


def test_bounds_are_rounded_inward():
    bounds = np.array([-0.1, 0.25, 0.1]), np.array([0.1, 0.5, 0.1])
    low, high = rounded_inward(*bounds)
    assert low.dtype == high.dtype == np.float32
    assert float(np.float32(-0.1)) < -0.1 < float(low[0]) < -0.0999999
    assert 0.0999999 < float(high[0]) < 0.1 < float(np.float32(0.1))
    assert (low[1], high[1]) == (0.25, 0.5)
    assert low[2] == high[2] == np.float32(0.1)  # No number of float32 lies between.
