"""Small deterministic environments in which episodes end, and others are cut by a time limit."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from rlpyt.envs.gym import GymEnvWrapper

N_ACTIONS, DIM, LIMIT = 3, 4, 4


class Tides(gymnasium.Env[Any, Any]):
    """A state of four numbers that an action pushes; an episode ends where a wave of them is high.

    Args:
        rank: where its episodes begin.
        bound: None for three actions, or the bound of two real ones.
        is_varied: whether episodes begin in several places.
    """

    def __init__(self, rank=0, bound=None, is_varied=False):
        rng = np.random.default_rng(7)
        self.mixing = rng.normal(size=(DIM, DIM)) / 2
        self.is_discrete = bound is None
        self.push = rng.normal(size=(N_ACTIONS if bound is None else 2, DIM))
        self.start = np.random.default_rng(rank).normal(size=DIM) / 2
        self.observation_space = Box(-np.inf, np.inf, (DIM,), np.float32)
        self.action_space = (
            Discrete(N_ACTIONS) if bound is None else Box(-bound, bound, (2,), np.float32)
        )
        self.is_varied, self.state, self.t = is_varied, self.start, 0

    def reset(self, *, seed=None, options=None):
        if self.is_varied:
            self.start = np.roll(self.start, 1)
        self.state, self.t = self.start, 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        push = self.push[action] if self.is_discrete else np.tanh(action) @ self.push
        self.state, self.t = np.tanh(self.mixing @ self.state + push), self.t + 1
        reward = float(self.state.sum() - np.mean(action))
        is_over, is_cut = bool(np.sin(9 * self.state.sum()) > 0.7), self.t == LIMIT
        return self.state.astype(np.float32), reward, is_over, is_cut, {}


class PastShown(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shows the previous action and reward too, as recurrent networks here receive them."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = Box(-np.inf, np.inf, (DIM + N_ACTIONS + 1,), np.float32)

    def shown(self, observation, action, reward):
        onehot = np.eye(N_ACTIONS)[action]
        return np.concatenate([observation, onehot, [reward]]).astype(np.float32)

    def reset(self, **kwargs):
        observation, info = self.env.reset(**kwargs)
        return self.shown(observation, 0, 0.0), info

    def step(self, action):
        observation, reward, *ends, info = self.env.step(action)
        return self.shown(observation, action, reward), reward, *ends, info


def wrapped(**kwargs):
    """The environment as the library's samplers take it."""
    return GymEnvWrapper(Tides(**kwargs))


def check_ends(env):
    """See that some of the steps went on, ended an episode, and were cut by the time limit."""
    cut = env.env_info.timeout.bool()
    assert cut.any()
    assert (env.done & ~cut).any()
    assert not env.done.all()
