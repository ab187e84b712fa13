"""Algorithms of the soft actor-critic family, set up for small agents, and their batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.core.records import AgentSamples, EnvSamples, Samples
from rlpyt.utils.buffer import torchify_buffer
from tests.agents.qpg.sac_parts import BOX, make_agent
from tests.algos.parts import SPEC, initialized
from tests.algos.qpg import ddpg_parts
from tests.algos.qpg.ddpg_parts import EnvInfo

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
    return {**ddpg_parts.examples(has_timeout), "observation": np.zeros(4, np.float32)}


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
    algo, agent = AlgoCls(**{**SETTINGS, **settings}), agent or make_agent(AgentCls, spaces)
    return initialized(algo, agent, examples=examples(has_timeout), world_size=world_size)


def run(algo: Any, first_itr: int, last_itr: int, **kwargs: Any) -> list[Any]:
    """Iterations with the same data for the same iteration."""
    return [algo.optimize_agent(itr, batch(itr, **kwargs)) for itr in range(first_itr, last_itr)]
