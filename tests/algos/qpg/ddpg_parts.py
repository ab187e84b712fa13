"""Batches with continuous actions, and deterministic algorithms set up for them."""

from functools import partial

import numpy as np
import torch

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.core.records import AgentSamples, EnvSamples, Samples
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.agents.qpg.ddpg_parts import HIGH, LOW, made
from tests.algos import parts
from tests.algos.parts import SPEC

EnvInfo = namedarraytuple("EnvInfo", ["timeout"])
AGENTS = {DDPG: DdpgAgent, TD3: Td3Agent, D4PG: D4pgAgent}
SETTINGS = {
    "batch_size": 8,
    "min_steps_learn": 16,
    "replay_size": 128,
    "replay_ratio": 4,
    "target_update_tau": 0.1,
    "learning_rate": 3e-3,
    "q_learning_rate": 1e-2,
    "discount": 0.9,
}
RANGE = {"V_min": -8, "V_max": 8}


def examples(has_timeout=True):
    """One of everything that is sampled."""
    return {
        "observation": np.zeros(2, np.float32),
        "action": np.zeros(3, np.float32),
        "reward": np.float32(0),
        "done": False,
        "env_info": EnvInfo(timeout=False) if has_timeout else None,
        "agent_info": None,
    }


def batch(rng, has_timeout=True, size=2, bounds=(LOW, HIGH)):
    """A sampler's batch of random data; half of the ends of episodes are time limits."""
    done = rng.random(SPEC) < 0.4
    samples = Samples(
        agent=AgentSamples(
            action=rng.uniform(*bounds, (*SPEC, 3)).astype(np.float32),
            prev_action=None,
            agent_info=None,
        ),
        env=EnvSamples(
            observation=rng.standard_normal((*SPEC, size)).astype(np.float32),
            reward=rng.standard_normal(SPEC).astype(np.float32),
            prev_reward=None,
            done=done,
            env_info=EnvInfo(done & (rng.random(SPEC) < 0.5)) if has_timeout else None,
        ),
    )
    return torchify_buffer(samples)


def initialized(algo, agent=None, **kwargs):
    """``algo``, initialized, with an agent of its kind."""

    AgentCls = next(AGENTS[cls] for cls in type(algo).__mro__ if cls in AGENTS)
    torch.manual_seed(0)
    return parts.initialized(algo, agent or made(AgentCls), **{"examples": examples(), **kwargs})


def make_algo(AlgoCls=DDPG, agent=None, **settings):
    """An algorithm set up in one process."""
    ranges = RANGE if issubclass(AlgoCls, D4PG) else {}
    return initialized(AlgoCls(**{**SETTINGS, **ranges, **settings}), agent)


run = partial(parts.run, make_batch=batch)


def filled(algo):
    """``algo`` with data in its replay buffer, but without any update."""
    for itr in range(5):
        algo.add_samples_to_buffer(itr, batch(np.random.default_rng(itr)))
    return algo
