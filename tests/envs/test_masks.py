"""Masks of an info in observations."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs import masks
from rlpyt.envs.check import check_env
from rlpyt.envs.masks import ActionMaskWrapper
from tests.envs.doors import N_DOORS, Doors, make_doors
from tests.experiments.parts import Everything


def test_masks_of_doors():
    env = make_doors()
    env.seed(0)
    observation = env.reset()
    for t in range(10):
        assert observation._fields == ("action_mask", "observation")
        assert observation.action_mask.dtype == np.int8
        np.testing.assert_array_equal(observation.action_mask, env.unwrapped.is_open)
        observation, _, done, info = env.step(observation.action_mask.argmax())
        assert done == (t == 9)
        np.testing.assert_array_equal(info.action_mask, observation.action_mask)
    assert not observation.action_mask.any()


def is_taxi(env_id):
    """Whether this is Taxi, and its version."""
    return env_id.startswith("Taxi-v"), env_id


def test_masks_of_taxi():
    def make():
        return masks.make(max(gymnasium.registry, key=is_taxi), max_episode_steps=20)

    check_env(make, n_steps=40)  # Taxi takes forbidden actions, which have no effect.
    env = make()
    assert env.reset()._fields == ("action_mask", "observation")
    assert env.observation_space.contains(env.reset())


class Everywhere(Everything):
    """Everything may be done, or what ``mask`` says."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation, info | self.mask


def test_masks_beside_the_fields_of_a_dictionary():
    env = ActionMaskWrapper(Everywhere({"action_mask": [True, False, True]}))
    observation, _ = env.reset()
    assert (
        set(observation)
        == set(env.observation_space)
        == {*Everything()._observation(), "action_mask"}
    )
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize("ends", [(True, False), (False, True), (False, False)])
def test_the_mask_may_be_missing_after_the_end(ends):
    class Ending(Everywhere):
        def step(self, action):
            observation, reward, *_ = super().step(action)
            return observation, reward, *ends, {}

    env = ActionMaskWrapper(Ending({"action_mask": [True, False, True]}))
    env.reset()
    if any(ends):
        assert env.step(0)[0]["action_mask"].tolist() == [0, 0, 0]
    else:
        with pytest.raises(ValueError, match="give one entry for each of the 3 actions"):
            env.step(0)


def test_doors_refuse_forbidden_actions():
    env = Doors()
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="closed"):
        env.step(env.is_open.argmin())
    assert env.action_space == spaces.Discrete(N_DOORS)
