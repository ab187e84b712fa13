"""Agents of every kind, with small models, and what they are shown."""

import numpy as np
import torch
from gymnasium import spaces

from rlpyt.agents.pg.atari import AlternatingAtariLstmAgent, AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.generic import AlternatingGenericLstmAgent, GenericFfAgent, GenericLstmAgent
from rlpyt.agents.pg.mujoco import AlternatingMujocoLstmAgent, MujocoFfAgent, MujocoLstmAgent
from rlpyt.core.records import AgentInputs, EnvSpaces
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer

IMAGE = EnvSpaces(IntBox(0, 256, (2, 24, 20), dtype="uint8"), IntBox(0, 3))
VECTOR = EnvSpaces(FloatBox(-1, 1, (3,)), FloatBox([-1.0, 0.0], [1.0, 10.0]))
RECORD = EnvSpaces(
    GymSpaceWrapper(
        spaces.Dict({"kind": spaces.Discrete(3), "place": spaces.Box(-1, 1, (2,))}), name="obs"
    ),
    GymSpaceWrapper(
        spaces.Dict(
            {
                "force": spaces.Box(np.float32([-3, 0]), np.float32([3, 8])),
                "keys_": spaces.MultiBinary(3),
                "turn": spaces.Discrete(4),
            }
        ),
        name="act",
    ),
)
SMALL_IMAGE = {"fc_sizes": 16}
AGENTS = {
    "atari_ff": (AtariFfAgent, IMAGE, SMALL_IMAGE),
    "atari_lstm": (AtariLstmAgent, IMAGE, {**SMALL_IMAGE, "lstm_size": 8}),
    "atari_lstm_alternating": (AlternatingAtariLstmAgent, IMAGE, {**SMALL_IMAGE, "lstm_size": 8}),
    "mujoco_ff": (MujocoFfAgent, VECTOR, {}),
    "mujoco_lstm": (MujocoLstmAgent, VECTOR, {"lstm_size": 8}),
    "mujoco_lstm_alternating": (AlternatingMujocoLstmAgent, VECTOR, {"lstm_size": 8}),
    "generic_ff": (GenericFfAgent, RECORD, {}),
    "generic_lstm": (GenericLstmAgent, RECORD, {"lstm_size": 8}),
    "generic_lstm_alternating": (AlternatingGenericLstmAgent, RECORD, {"lstm_size": 8}),
}
RECURRENT = [name for name in AGENTS if "lstm" in name]


def make_agent(name, model_kwargs=None, **kwargs):
    """The agent of this name, initialized and sampling."""
    AgentCls, env_spaces, small = AGENTS[name]
    agent = AgentCls(model_kwargs={**small, **(model_kwargs or {})}, **kwargs)
    agent.initialize(env_spaces)
    agent.sample_mode(0)
    return agent


def inputs(env_spaces, *lead):
    """Random observations, actions and rewards with these leading dimensions."""
    made = []
    for space in (env_spaces.observation, env_spaces.action):
        buffer = buffer_from_example(space.null_value(), lead or (1,))
        for index in np.ndindex(*(lead or (1,))):
            buffer[index] = space.sample()
        buffer = torchify_buffer(buffer)
        made.append(buffer if lead else buffer[0])
    return AgentInputs(*made, torch.randn(lead))
