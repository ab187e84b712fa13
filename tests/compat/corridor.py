"""A small task with an agent as research code writes it, for the tests of habits."""

from collections import namedtuple

import numpy as np
import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.base import Env, EnvStep
from rlpyt.models.mlp import MlpModel
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

Info = namedtuple("Info", ["position"])


class Corridor(Env):
    """Five cells; action 1 goes right, 0 left; the right end pays 1 and ends the episode."""

    def __init__(self, length=5, **ignored):
        self.length = length
        self._action_space = IntBox(0, 2)
        self._observation_space = FloatBox(0, 1, (length,))
        self.cell = 0

    def reset(self):
        self.cell = 0
        return self.one_hot()

    def step(self, action):
        self.cell = max(0, self.cell + (1 if action else -1))
        done = self.cell == self.length - 1
        return EnvStep(self.one_hot(), float(done), done, Info(np.float32(self.cell)))

    def one_hot(self):
        return np.eye(self.length, dtype=np.float32)[self.cell]


class CorridorModel(torch.nn.Module):
    """Values of the two actions, for any leading dimensions."""

    def __init__(self, size):
        super().__init__()
        self.mlp = MlpModel(input_size=size, hidden_sizes=[8], output_size=2)

    def forward(self, observation, prev_action, prev_reward):
        return self.mlp(observation)


class CorridorAgent(DqnAgent):
    """As research code writes it: a model class and what it is told of the environment."""

    def __init__(self, ModelCls=CorridorModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return {"size": env_spaces.observation.shape[0]}


def make_runner(RunnerCls=MinibatchRl, AlgoCls=DQN, **kwargs):
    """A run of 200 steps: 50 iterations, a log row every 25, learning from iteration 5."""
    sampler = SerialSampler(
        EnvCls=Corridor,
        env_kwargs={},
        batch_T=2,
        batch_B=2,
        max_decorrelation_steps=0,
        eval_n_envs=1,
        eval_env_kwargs={},
        eval_max_steps=20,
    )
    algo = AlgoCls(
        min_steps_learn=20,
        replay_size=100,
        batch_size=8,
        replay_ratio=4,
        eps_steps=100,
        ReplayBufferCls=UniformReplayBuffer,
    )
    settings = {"n_steps": 200, "log_interval_steps": 100, "seed": 0, **kwargs}
    return RunnerCls(algo=algo, agent=CorridorAgent(), sampler=sampler, **settings)
