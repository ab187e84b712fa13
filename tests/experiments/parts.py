"""Environments whose observations are dictionaries, and the command in this process."""

import os

import gymnasium
import numpy as np
from click.testing import CliRunner
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.core.records import TrajInfo
from rlpyt.envs.toy import Counter
from rlpyt.experiments.command import main

MODULE = "tests.experiments.parts"


class Everything(gymnasium.Env):
    """A vector, an image and a choice; the reward is the action; an episode has six steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, continuous=False, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = spaces.Dict(
            {
                "vector": spaces.Box(-1, 1, (3,), np.float32),
                "image": spaces.Box(0, 255, (12, 12, 3), np.uint8),
                "choice": spaces.Discrete(3),
            }
        )
        self.action_space = (
            spaces.Box(-2, 2, (2,), np.float32) if continuous else spaces.Discrete(3)
        )

    def _observation(self):
        rng = self.np_random
        return {
            "vector": rng.random(3, dtype=np.float32),
            "image": rng.integers(0, 256, (12, 12, 3), dtype=np.uint8),
            "choice": rng.integers(3),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        return self._observation(), float(np.sum(action)), self.t >= 6, False, {}

    def render(self):
        return np.full((64, 48, 3), 40 * self.t, np.uint8)


class InOneProcess(CartPoleEnv):
    """Steps only in the process that made it, as with a window; counts the instances."""

    n_made = 0

    def __init__(self, words=()):
        super().__init__()
        self.pid = os.getpid()
        InOneProcess.n_made += 1

    def step(self, action):
        assert self.pid == os.getpid()
        return super().step(action)


class Falling(CartPoleEnv):
    """Raises in its 20th step."""

    n_steps = 0

    def step(self, action):
        self.n_steps += 1
        if self.n_steps == 20:
            raise ValueError("the pole fell")
        return super().step(action)


class Rewarding(Counter):
    """Gets a class as an argument."""

    def __init__(self, RewardCls=float):
        super().__init__()
        self.RewardCls = RewardCls

    def step(self, action):
        step = super().step(action)
        return step._replace(reward=self.RewardCls(step.reward))


class CountedBackwards(TrajInfo):
    """Has a statistic of its own."""

    def terminate(self, observation):
        self.Backwards = -self.Length
        return self


class OwnPpo(PPO):
    """An algorithm without agents of its own."""


class OwnDQN(DQN):
    """Set up with keywords only, as runners do it."""

    def initialize(self, *, agent, examples, **kwargs):
        super().initialize(agent=agent, examples=examples, **kwargs)


class OwnAgent(MlpDqnAgent):
    """Keeps something of each environment."""

    def initialize(self, env_spaces, share_memory, global_B, env_ranks):
        assert len(env_ranks) == global_B
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)


gymnasium.register("InOneProcess-v0", entry_point=InOneProcess)
gymnasium.register("Falling-v0", entry_point=Falling)
gymnasium.register("Discrete-v0", entry_point=Everything)
gymnasium.register("Continuous-v0", entry_point=Everything, kwargs={"continuous": True})


def invoke(*words):
    """Run ``rlpyt`` with these words, which a user would type, and return its output.

    Raises:
        AssertionError: if it fails; so does an exception in it.
    """
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words):
    """Run ``rlpyt`` with wrong words, and return its message; exit code 1 is a verdict."""
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())
