"""Algorithms of the soft actor-critic family, set up for small agents, and their batches."""

import numpy as np
import torch

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from tests.agents.qpg.sac_parts import BOX, make_agent
from tests.algos.parts import SPEC as SPEC, initialized
from tests.algos.qpg import ddpg_parts

SETTINGS = {
    "batch_size": 8,
    "min_steps_learn": 16,
    "replay_size": 128,
    "replay_ratio": 4,
    "learning_rate": 1e-3,
    "target_update_tau": 0.1,
}
CASES = [(SAC, sac_agent.SacAgent), (SAC_V, sac_v_agent.SacAgent)]


def examples(has_timeout=True):
    """One of everything that is sampled."""
    return {**ddpg_parts.examples(has_timeout), "observation": np.zeros(4, np.float32)}


def batch(seed, has_timeout=True, spaces=BOX):
    """A sampler's batch of random data; half of the ends are those of a time limit."""
    rng = np.random.default_rng(seed)
    return ddpg_parts.batch(rng, has_timeout, 4, spaces.action.bounds)


def make_algo(
    AlgoCls=SAC,
    AgentCls=sac_agent.SacAgent,
    spaces=BOX,
    has_timeout=True,
    agent=None,
    world_size=1,
    **settings,
):
    """An algorithm set up in one process."""
    algo, agent = AlgoCls(**{**SETTINGS, **settings}), agent or make_agent(AgentCls, spaces)
    return initialized(algo, agent, examples=examples(has_timeout), world_size=world_size)


def run(algo, first_itr, last_itr, **kwargs):
    """Iterations with the same data for the same iteration."""
    return [algo.optimize_agent(itr, batch(itr, **kwargs)) for itr in range(first_itr, last_itr)]


def certain(dist_info, reparameterize=True):
    """What takes the place of a draw: the same for the same policy."""
    return torch.tanh(dist_info.mean), dist_info.log_std.sum(-1), dist_info
