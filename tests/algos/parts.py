"""Batches as a sampler gives them, and algorithms set up for them."""

import numpy as np

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.core.records import AgentSamples, BatchSpec, EnvSamples, Samples
from rlpyt.utils.buffer import torchify_buffer
from tests.agents.parts import VectorDqnAgent, made

SPEC = BatchSpec(T=4, B=2)


def examples(image=False):
    """One of everything that is sampled."""
    return {
        "observation": np.zeros((2, 5, 5), np.uint8) if image else np.zeros(3, np.float32),
        "action": np.int64(0),
        "reward": np.float32(0),
        "done": False,
        "env_info": None,
        "agent_info": None,
    }


def batch(rng, spec=SPEC, done=0.2):
    """A sampler's batch of random data: reward is the action, plus the first observed number."""
    observation = rng.standard_normal((*spec, 3)).astype(np.float32)
    action = rng.integers(4, size=spec)
    reward = (action + observation[..., 0]).astype(np.float32)
    zeros = np.zeros(spec, np.float32)
    samples = Samples(
        agent=AgentSamples(action=action, prev_action=action, agent_info=None),
        env=EnvSamples(
            observation=observation,
            reward=reward,
            prev_reward=zeros,
            done=rng.random(spec) < done,
            env_info=None,
        ),
    )
    return torchify_buffer(samples)


SETTINGS = {
    "batch_size": 8,
    "min_steps_learn": 16,
    "replay_size": 128,
    "replay_ratio": 4,
    "target_update_interval": 3,
}


def make_algo(AlgoCls=DQN, agent=None, **settings):
    """An algorithm set up in one process."""
    algo = AlgoCls(**{**SETTINGS, **settings})
    return initialized(algo, agent)


def initialized(algo, agent=None, **kwargs):
    """``algo``, initialized."""
    settings = {
        "agent": agent or made(VectorDqnAgent()),
        "n_itr": 100,
        "batch_spec": SPEC,
        "mid_batch_reset": True,
        "examples": examples(),
        **kwargs,
    }
    algo.initialize(**settings)
    return algo


def run(algo, first_itr, last_itr, make_batch=batch):
    """Iterations with the same data for the same iteration."""
    return [
        algo.optimize_agent(itr, make_batch(np.random.default_rng(itr)))
        for itr in range(first_itr, last_itr)
    ]
