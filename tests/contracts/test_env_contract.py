"""Every environment of the library keeps the rules of environments."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs import gym, gym_schema
from rlpyt.envs.check import check_env
from rlpyt.envs.toy import Catch, Counter, TMaze
from rlpyt.utils.buffer import buffer_from_example, get_leading_dims
from tests.selection import FULL


class Nested(gymnasium.Env):
    """Nested spaces, keys that are not identifiers, and an info that comes and goes."""

    observation_space = spaces.Dict(
        {
            "a.b": spaces.Box(-9, 9, (2,), dtype=np.float64),
            "class": spaces.Tuple([spaces.Discrete(3, start=1), spaces.MultiBinary(2)]),
        }
    )
    action_space = spaces.Dict(
        {"move": spaces.Discrete(3, start=-1), "push it": spaces.Box(-1, 1, (2,))}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def observe(self):
        return {
            "a.b": np.clip(self.np_random.normal(size=2), -9, 9),
            "class": (1 + self.t % 3, np.array([self.t % 2, 1], dtype=np.int8)),
        }

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        info = {"ale.lives": self.t, "inner": {"x": 0.5, "text": "left out"}, "note": None}
        if self.t % 2 == 0:
            del info["inner"]
        return self.observe(), float(action["move"]), self.t == 7, False, info


def nested():
    return gymnasium.wrappers.TimeLimit(Nested(), 5)


def atari(**kwargs):
    return pytest.importorskip("rlpyt.envs.atari.atari_env").AtariEnv(**kwargs)


def mujoco(env_id):
    pytest.importorskip("mujoco")
    return gym.make(env_id)


ENVS = {
    "Counter": Counter,
    "Counter with time limit": partial(Counter, 5, time_limit=True),
    "Catch": Catch,
    "Catch, large": partial(Catch, (6, 4), (12, 8), 3),
    "TMaze": TMaze,
    "Pong": partial(atari, max_start_noops=5),
    "Breakout, sticky": partial(
        atari, game="breakout", repeat_action_probability=0.25, horizon=60, max_start_noops=5
    ),
    "Breakout, 84 x 84, every frame": partial(
        atari, game="breakout", frame_skip=1, max_start_noops=5, img_shape=(84, 84), num_img_obs=1
    ),
    **{
        env_id: partial(gym.make, env_id)
        for env_id in (
            "CartPole-v1",
            "Pendulum-v1",
            "Acrobot-v1",
            "MountainCar-v0",
            "FrozenLake-v1",
            "rlpyt/PendulumNoVel-v1",
        )
    },
    "FrozenLake of gym_schema": partial(gym_schema.make, "FrozenLake-v1"),
    **{env_id: partial(mujoco, env_id) for env_id in ("HalfCheetah-v5", "Ant-v5", "Pusher-v5")},
    "nested": lambda: gym.GymEnvWrapper(nested()),
    "nested of gym_schema": lambda: gym_schema.GymEnvWrapper(nested()),
    "frame stack": lambda: gym.GymEnvWrapper(
        gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 3)
    ),
    "normalised": lambda: gym.GymEnvWrapper(
        gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gymnasium")


REPEATED = "Breakout, 84 x 84, every frame"  # The other games do the same.


@pytest.fixture(params=[name for name in ENVS if FULL or name != REPEATED])
def make_env(request, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it runs.
    return ENVS[request.param]


def test_keeps_the_rules(make_env):
    check_env(make_env, n_steps=40)


def test_step_before_reset_is_an_error(make_env):
    env = make_env()
    if isinstance(env, gym.GymEnvWrapper):
        pytest.skip("a program may begin episodes by a method of its environment")
    with pytest.raises(RuntimeError, match="reset"):
        env.step(env.action_space.sample())


def test_samples_fit_a_buffer_made_of_one_example(make_env):
    env = make_env()
    env.reset()
    example = env.step(env.action_space.sample())
    buffer = buffer_from_example(example, (3,))
    magic = 77
    for leaf in (buffer.reward, buffer.done):
        leaf[...] = magic
    env.reset()
    for t in range(3):
        buffer.observation[t] = (step := env.step(env.action_space.sample())).observation
        buffer.reward[t], buffer.done[t] = step.reward, step.done
        if buffer.env_info:
            buffer.env_info[t] = step.env_info
        if step.done:
            env.reset()
    assert get_leading_dims(buffer, 1) == (3,)
    assert magic not in buffer.reward
