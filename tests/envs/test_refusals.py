"""Arguments, states and actions that environments refuse: calls, and what their errors name."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import SyncVectorEnv

from rlpyt.envs import control, gym
from rlpyt.envs.device import DeviceEnvWrapper
from rlpyt.envs.masks import ActionMaskWrapper
from rlpyt.envs.toy import Catch, Counter
from rlpyt.envs.vector import VectorEnvWrapper
from tests.envs.test_gym import Scripted
from tests.envs.test_masks import Everywhere
from tests.envs.vector_parts import make_vector
from tests.experiments.parts import Everything
from tests.refused import assert_refused


def cartpoles():
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])


def stepped(env, action):
    env.reset()
    env.step(action)


def partly_reset(env):
    env.reset_some(np.array([True, False]), env.reset())


REFUSED = [
    *(
        (partial(gym.make, name), f"{name} CartPole", ValueError)
        for name in ("CartPole-v7x", "CartPoll-v1")
    ),
    (
        lambda: gym.GymEnvWrapper(Scripted()).load_state_dict(gym.make("CartPole-v1").state_dict()),
        "layers",
        ValueError,
    ),
    (lambda: gym.SelectObservation(Scripted(), [0, 2]), "indexes=[0, 2]", ValueError),
    (
        lambda: gym.SelectObservation(gymnasium.make("FrozenLake-v1"), [0]),
        "vector",
        ValueError,
    ),
    (lambda: DeviceEnvWrapper(cartpoles()), "VectorEnvWrapper", TypeError),
    (lambda: control.make("Acrobot-v1", 2), "id Acrobot-v1", ValueError),
    *(
        (lambda mask=mask: ActionMaskWrapper(Everywhere(mask)).reset(), "action_mask", ValueError)
        for mask in ({}, {"action_mask": np.ones(4)}, {"action_mask": np.zeros(3)})
    ),
    (lambda: ActionMaskWrapper(Everything(continuous=True)), "Discrete", ValueError),
    *(
        (partial(Catch, **{name: value}), name, ValueError)
        for name, value in (
            ("img_shape", (11, 5)),
            ("grid_shape", (1, 5)),
            ("num_img_obs", 0),
            ("img_shape", (5, 5)),
        )
    ),
    (lambda: stepped(Counter(), 2), "action=2", ValueError),
    # Resets would appear as transitions that ignore their actions.
    (lambda: VectorEnvWrapper(CartPoleVectorEnv(2)), "partial_reset", ValueError),
    (
        lambda: VectorEnvWrapper(cartpoles(), autoreset_mode="never"),
        "autoreset_mode never",
        ValueError,
    ),
    (
        lambda: partly_reset(make_vector(2, partial_reset=False)),
        "max_decorrelation_steps=0",
        ValueError,
    ),
]


@pytest.mark.parametrize(("call", "words", "error"), REFUSED)
def test_refused(call, words, error):
    assert_refused(call, words, error)


def atari(**kwargs):
    pytest.importorskip("ale_py")
    from rlpyt.envs.atari.atari_env import AtariEnv

    return AtariEnv(**kwargs)


def atari_vector(**kwargs):
    pytest.importorskip("ale_py.vector_env")
    from rlpyt.envs.atari.vector import AtariVector

    return AtariVector("breakout", num_envs=3, num_threads=1, **kwargs)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: atari(game="combat"), "combat"),  # Loading it would end the process.
        *(
            (partial(atari, **{name: value}), name)
            for name, values in {
                "frame_skip": (0, 2.5),
                "num_img_obs": (0,),
                "horizon": (0, float("inf")),
                "max_start_noops": (-1,),
                "repeat_action_probability": (1.5, -0.1),
                "img_shape": ((300, 80), (84,)),
            }.items()
            for value in values
        ),
        *(
            (lambda action=action: stepped(atari(), action), f"action={action}")
            for action in (-1, 6)
        ),
        (lambda: atari(game="breakout").load_state_dict(atari().state_dict()), "pong"),
        (
            lambda: atari_vector(autoreset_mode="same_step", episodic_lives=True),
            "episodic_lives",
        ),
    ],
)
def test_refused_by_games(call, words):
    assert_refused(call, words)
