"""Layouts of images: the replay buffer that fits what the environment shows."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.runners.parts import train


class Pictures(gymnasium.Env[Any, Any]):
    """Random pictures, of gray or of colors."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, shape):
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def _draw(self):
        return self.np_random.integers(256, size=self.observation_space.shape, dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._draw(), {}

    def step(self, action):
        self.t += 1
        return self._draw(), 0.0, self.t == 6, False, {}


def make_pictures(shape, n_frames=None):
    env = Pictures(shape)
    return GymEnvWrapper(env if n_frames is None else FrameStackObservation(env, n_frames))


@pytest.mark.parametrize(
    ("env_kwargs", "ReplayCls"),
    [
        ({"shape": (3, 8, 9)}, UniformReplayBuffer),
        ({"shape": (3, 3, 3)}, UniformReplayBuffer),
        ({"shape": (8, 9), "n_frames": 4}, UniformReplayFrameBuffer),
    ],
    ids=["colors", "small", "stack"],
)
def test_the_layout_of_images_is_seen_in_the_environment(env_kwargs, ReplayCls, tmp_path):
    # Colors ended a run after its start; of stacks that repeat the first frame zeros were stored.
    convolutions = {"channels": [4], "kernel_sizes": [3], "strides": [1], "paddings": [1]}
    sampler = SerialSampler(make_pictures, env_kwargs, batch_T=8, batch_B=2)
    algo = DQN(batch_size=8, min_steps_learn=16, replay_size=400, replay_ratio=1)
    agent = AtariDqnAgent(model_kwargs={**convolutions, "fc_sizes": 8})
    runner = MinibatchRl(
        algo=algo, agent=agent, sampler=sampler, n_steps=160, log_interval_steps=160, seed=0
    )
    train(runner, tmp_path)
    buffer = algo.replay_buffer
    assert type(buffer) is ReplayCls
    stored = buffer.extract_observation(np.arange(2, 10), np.zeros(8, int))
    if "n_frames" in env_kwargs:
        assert buffer.repeats_first
        assert stored.any(axis=(-2, -1)).all()  # No zeros in place of frames.
