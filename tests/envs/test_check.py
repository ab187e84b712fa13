"""check_env refuses environments that break exactly one rule each."""

from contextlib import nullcontext
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.check import check_env
from rlpyt.envs.toy import Catch, Counter, EnvInfo
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.quick_args import save__init__args


class Extra(NamedTuple):
    value: object


class ChangesInfo(Counter):
    def step(self, action):
        step = super().step(action)
        return step._replace(env_info=Extra(np.zeros(self._n_steps)))


class ChangesInfoType(Counter):
    def step(self, action):
        return super().step(action)._replace(env_info=Extra([1, 1.0][self._n_steps % 2]))


class DropsInfo(Counter):
    def step(self, action):
        step = super().step(action)
        return step._replace(env_info=None) if step.done else step


class ChangesObservation(Counter):
    def step(self, action):
        step = super().step(action)
        return step._replace(observation=step.observation.astype(np.float64))


class LeavesSpace(Counter):
    def _start(self):
        return np.full(1, -1, dtype=np.float32)


class ReusesObservation(Catch):
    def _draw(self, ball_row):
        super()._draw(ball_row)
        return self._obs


class ReturnsTuple(Counter):
    def step(self, action):
        return tuple(super().step(action))


class RewardArray(Counter):
    def step(self, action):
        return super().step(action)._replace(reward=np.zeros(1))


class DoneAsNumber(Counter):
    def step(self, action):
        step = super().step(action)
        return step._replace(done=int(step.done))


class EndsWithoutDone(Counter):
    def step(self, action):
        return super().step(action)._replace(done=False)


class TimeoutWithoutDone(Counter):
    def step(self, action):
        step = super().step(action)
        return step._replace(env_info=EnvInfo(step.done, True))


class IgnoresSeed(Catch):
    def seed(self, seed):
        pass


class GlobalGenerator(Counter):
    def step(self, action):
        step = super().step(action)
        return EnvStep(step.observation, np.random.rand(), step.done, step.env_info)


class ForgetsState(Catch):
    _state_names = ("_obs", "_paddle")


class ObjectAsState(Counter):
    def state_dict(self):
        return {**super().state_dict(), "env": self}


class NullDraws(FloatBox):
    def null_value(self):
        return np.zeros_like(self.sample())


class NullOfOtherShape(FloatBox):
    def null_value(self):
        return np.float32(0)


class WrongContains(FloatBox):
    def contains(self, x):
        return False


def with_space(cls):
    class Env(Counter):
        def __init__(self):
            super().__init__()
            self._observation_space = cls(0, 4, shape=1)

    return Env


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (ChangesInfo, "env_info must keep"),
        (ChangesInfoType, "env_info must keep"),
        (DropsInfo, "env_info must keep"),
        (ChangesObservation, "observations must keep"),
        (LeavesSpace, "must be in the observation space"),
        (ReusesObservation, "return a copy"),
        (ReturnsTuple, "EnvStep"),
        (RewardArray, "reward must be one number"),
        (DoneAsNumber, "done must be a bool"),
        (EndsWithoutDone, "traj_done must come with done"),
        (TimeoutWithoutDone, "timeout must come with done"),
        (IgnoresSeed, "same seed"),
        (GlobalGenerator, "same seed"),
        (ForgetsState, "continue exactly"),
        (ObjectAsState, r"state_dict\(\)\.env cannot be saved"),
        (with_space(NullDraws), "must not draw"),
        (with_space(NullOfOtherShape), "shape and type"),
        (with_space(WrongContains), "contains"),
    ],
)
def test_names_the_broken_rule(make, rule):
    with pytest.raises(ValueError, match=rule):
        check_env(make, n_steps=60)


def test_names_the_wrapper_that_gymnasium_needs():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(TypeError, match=r"is no function: .*GymEnvWrapper"):
        check_env(env)
    with pytest.raises(ValueError, match=r"OrderEnforcing|TimeLimit.*GymEnvWrapper"):
        check_env(lambda: env)


def test_leaves_the_global_generator_as_it_was():
    before = np.random.get_state()[1].copy()
    check_env(Counter, n_steps=60)
    assert np.array_equal(np.random.get_state()[1], before)


def test_an_environment_needs_no_method_seed():
    class Fixed(Env):
        """``seed`` is an argument, which a method of that name would keep from being stored."""

        def __init__(self, seed=5):
            save__init__args(locals())
            self._action_space = IntBox(0, 2)
            self._observation_space = FloatBox(0, 9, shape=1)

        def reset(self):
            return np.full(1, self.seed, dtype=np.float32)

        def step(self, action):
            return EnvStep(self.reset(), 1.0, True, None)

    assert Fixed(seed=7).seed == 7
    check_env(Fixed, n_steps=60)


def test_a_missing_state_is_no_fault():
    class Stateless(Counter):
        def state_dict(self):
            raise NotImplementedError

    check_env(Stateless, n_steps=60)


def test_what_a_checkpoint_keeps_may_be_a_state():
    class Drawing(Counter):
        """Its state is a generator, and a number of numpy under an integer."""

        def __init__(self):
            super().__init__()
            self.rng = np.random.default_rng(0)

        def seed(self, seed):
            self.rng = np.random.default_rng(seed)

        def step(self, action):
            return super().step(action)._replace(reward=self.rng.random())

        def state_dict(self):
            return {"rng": self.rng, "steps": {0: np.int64(self._n_steps)}}

        def load_state_dict(self, state):
            self.rng, self._n_steps = state["rng"], int(state["steps"][0])

    check_env(Drawing, n_steps=60)


@pytest.mark.parametrize("Cls", [Counter, ForgetsState, RewardArray, with_space(WrongContains)])
def test_all_environments_are_closed(Cls):
    n_open = 0

    class Closing(Cls):
        def __init__(self):
            nonlocal n_open
            super().__init__()
            n_open += 1

        def close(self):
            nonlocal n_open
            n_open -= 1

    with nullcontext() if Cls is Counter else pytest.raises(ValueError, match="must"):
        check_env(Closing, n_steps=60)
    assert n_open == 0
