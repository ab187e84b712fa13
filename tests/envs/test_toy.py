"""The toys do what their docstrings say."""

import numpy as np
import pytest

from rlpyt.envs.toy import Catch, Counter, TMaze


def test_counter_counts():
    env = Counter(4)
    for _ in range(2):
        observations, rewards, dones = [env.reset()], [], []
        for _ in range(4):
            step = env.step(1)
            observations.append(step.observation)
            rewards.append(step.reward)
            dones.append(step.done)
        assert np.ravel(observations).tolist() == [0, 1, 2, 3, 4]
        assert rewards == [1, 2, 3, 4]
        assert dones == [False, False, False, True]
        assert step.env_info == (True, False)
        with pytest.raises(RuntimeError, match="reset"):
            env.step(0)


def test_counter_with_a_time_limit():
    env = Counter(2, time_limit=True)
    env.reset()
    assert env.step(0).env_info == (False, False)
    assert env.step(0).env_info == (True, True)
    assert env.horizon == 2


@pytest.mark.parametrize("wins", [True, False])
def test_catch_is_won_under_the_ball(wins):
    env = Catch((6, 5))
    env.seed(1)
    for _ in range(5):
        env.reset()
        target = env._ball if wins else (env._ball + 2) % 5
        for t in range(5):
            step = env.step(1 + int(np.sign(target - env._paddle)))
            assert step.done is (t == 4)
            if t < 4:
                assert step.reward == 0
        assert step.reward == (1 if wins else -1)


def test_catch_image():
    env = Catch((3, 2), (6, 4), num_img_obs=2)
    env.seed(0)
    observation = env.reset()
    assert (observation.shape, observation.dtype) == ((2, 6, 4), np.uint8)
    assert not observation[0].any()  # nothing came before
    first = np.zeros((6, 4))
    first[0:2, 2 * env._ball : 2 * env._ball + 2] = 255
    first[4:6, 2:4] = 255
    assert np.array_equal(observation[1], first)
    after = env.step(1).observation
    assert np.array_equal(after[0], first)
    assert after[1, 2, 2 * env._ball] == 255
    assert not env.reset()[0].any()  # nor before the next episode


def play_tmaze(choose):
    env = TMaze(3)
    env.seed(0)
    returns = []
    for _ in range(200):
        observation, total, done = env.reset(), 0.0, False
        cue = int(observation[1])
        assert observation[:2].sum() == 1
        while not done:
            at_junction = observation[3] == 1
            observation, reward, done, _ = env.step(choose(cue) if at_junction else 0)
            assert observation[:2].sum() == 0
            total += reward
        returns.append(total)
    return np.mean(returns)


def test_tmaze_needs_the_cue():
    assert play_tmaze(lambda cue: cue + 1) == 1
    assert abs(play_tmaze(lambda cue: 1)) < 0.25


def test_tmaze_standing_still_ends_by_a_timeout():
    env = TMaze(2)
    env.reset()
    steps = [env.step(1) for _ in range(env.horizon)]
    assert [step.done for step in steps] == [False] * (env.horizon - 1) + [True]
    assert steps[-1].env_info.timeout
    assert np.allclose([step.reward for step in steps], -0.1)
