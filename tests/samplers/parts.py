"""An environment and an agent that record exactly what happened to them; equality of batches."""

from collections import namedtuple

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.core.records import EnvSpaces, EnvStep
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import named_leaves
from rlpyt.utils.collections import namedarraytuple

Info = namedtuple("Info", ["traj_done", "count"])
AgentInfo = namedarraytuple("AgentInfo", ["prev_action", "value"])


class CountEnv:
    """Observation: steps since the reset; reward: one more than that.

    A life is lost (``done`` without ``traj_done``) every ``life_steps``; the trajectory ends after
    ``episode_steps``.
    """

    def __init__(self, episode_steps=4, life_steps=None):
        self.episode_steps, self.life_steps = episode_steps, life_steps
        self.action_space = IntBox(1, 5)  # The null action is 1, not 0.
        self.observation_space = IntBox(0, 1000, shape=(2,))
        self.spaces = EnvSpaces(self.observation_space, self.action_space)
        self.count, self.n_resets, self.closed, self.actions = None, 0, False, []

    def _observe(self):
        return np.full(2, self.count, dtype="int32")

    def reset(self):
        self.count = 0
        self.n_resets += 1
        return self._observe()

    def step(self, action):
        assert self.count is not None, "stepped before the reset"
        assert self.count < self.episode_steps, "stepped after the end"
        assert isinstance(action, (np.integer, np.ndarray))
        self.actions.append(int(action))
        self.count += 1
        over = self.count == self.episode_steps
        life_lost = bool(self.life_steps) and self.count % self.life_steps == 0
        return EnvStep(
            self._observe(), float(self.count), over or life_lost, Info(over, self.count)
        )

    def close(self):
        self.closed = True

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class EchoAgent(BaseAgent):
    """Acts by a fixed rule, 2 + observation % 3, and reports what it was given.

    Its "recurrent" state counts its steps per environment, so that resets show.
    """

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        self.env_spaces = env_spaces
        self.global_B, self.env_ranks = global_B, env_ranks
        self.memory = {}
        self.calls = []

    def step(self, observation, prev_action, prev_reward):
        assert isinstance(observation, torch.Tensor)
        action = 2 + observation[..., 0].long() % 3
        for b in range(len(observation) if observation.dim() > 1 else 0):
            self.memory[b] = self.memory.get(b, 0) + 1
        value = observation[..., 0].float() + 100 * prev_reward
        return AgentStep(action, AgentInfo(prev_action, value))

    def value(self, observation, prev_action, prev_reward):
        return observation[..., 0].float() + 100 * prev_reward

    def reset(self):
        self.calls.append("reset")
        self.memory = {}

    def reset_one(self, idx):
        self.memory[idx] = 0

    def sample_mode(self, itr):
        self.calls.append(f"sample {itr}")

    def eval_mode(self, itr):
        self.calls.append(f"eval {itr}")


def assert_same(samples, others, exact=True):
    """The same fields, types and numbers; real ones nearly, unless ``exact``."""
    ours, theirs = list(named_leaves(samples)), list(named_leaves(others))
    assert [name for name, _ in ours] == [name for name, _ in theirs]
    for (name, mine), (_, other) in zip(ours, theirs):
        assert mine.dtype == other.dtype, name
        is_float = mine.is_floating_point() and not exact
        same = torch.allclose(mine, other, 1e-4, 1e-4) if is_float else torch.equal(mine, other)
        assert same, name


def assert_same_infos(infos, others):
    assert len(infos) == len(others)
    for info, other in zip(infos, others):
        assert dict(info) == pytest.approx(dict(other), rel=1e-5)
