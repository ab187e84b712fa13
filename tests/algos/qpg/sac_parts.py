"""Algorithms of the soft actor-critic family, set up for small agents, and their batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.core.records import AgentSamples, BatchSpec, EnvSamples, Samples
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.agents.qpg.sac_parts import BOX, make_agent

SPEC = BatchSpec(T=4, B=2)
EnvInfo = namedarraytuple("EnvInfo", ["timeout"])
SETTINGS: dict[str, Any] = {
    "batch_size": 8,
    "min_steps_learn": 16,
    "replay_size": 128,
    "replay_ratio": 4,
    "learning_rate": 1e-3,
    "target_update_tau": 0.1,
}
CASES = [(SAC, sac_agent.SacAgent), (SAC_V, sac_v_agent.SacAgent)]


def examples(has_timeout: bool = True) -> dict[str, Any]:
    """One of everything that is sampled."""
    return {
        "observation": np.zeros(4, np.float32),
        "action": np.zeros(3, np.float32),
        "reward": np.float32(0),
        "done": False,
        "env_info": EnvInfo(timeout=False) if has_timeout else None,
        "agent_info": None,
    }


def batch(
    seed: int,
    has_timeout: bool = True,
    spaces: Any = BOX,
    scale: float = 1.0,
    done: float = 0.4,
) -> Any:
    """A sampler's batch of random data; half of the ends are those of a time limit."""
    rng = np.random.default_rng(seed)
    low, high = spaces.action.bounds
    action = rng.uniform(low, high, (*SPEC, 3)).astype(np.float32)
    ends = rng.random(SPEC) < done
    env_info = EnvInfo(timeout=ends & (rng.random(SPEC) < 0.5)) if has_timeout else None
    samples = Samples(
        agent=AgentSamples(action=action, prev_action=action, agent_info=None),
        env=EnvSamples(
            observation=rng.standard_normal((*SPEC, 4)).astype(np.float32),
            reward=scale * rng.standard_normal(SPEC).astype(np.float32),
            prev_reward=np.zeros(SPEC, np.float32),
            done=ends,
            env_info=env_info,
        ),
    )
    return torchify_buffer(samples)


def make_algo(
    AlgoCls: Any = SAC,
    AgentCls: Any = sac_agent.SacAgent,
    spaces: Any = BOX,
    has_timeout: bool = True,
    agent: Any = None,
    world_size: int = 1,
    **settings: Any,
) -> Any:
    """An algorithm set up in one process."""
    algo = AlgoCls(**{**SETTINGS, **settings})
    algo.initialize(
        agent=agent or make_agent(AgentCls, spaces),
        n_itr=100,
        batch_spec=SPEC,
        mid_batch_reset=True,
        examples=examples(has_timeout),
        world_size=world_size,
    )
    return algo


def run(algo: Any, first_itr: int, last_itr: int, **kwargs: Any) -> list[Any]:
    """Iterations with the same data for the same iteration."""
    return [algo.optimize_agent(itr, batch(itr, **kwargs)) for itr in range(first_itr, last_itr)]
