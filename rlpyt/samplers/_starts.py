"""How environments begin: their first resets, and what the agent is given then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._rows import leaves
from rlpyt.utils._members import LifeSign
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.types import Nested


def signs_of(sync: Any) -> Any:
    """The values of the life sign of this process, or a list in its place if nobody watches."""
    return list(LifeSign.NOTHING) if sync is None or "life" not in sync else sync["life"].values


def reset_all(
    envs: Sequence[Any], signs: Any, env_ranks: Sequence[int] | None = None
) -> list[Nested]:
    """Reset environments in turn, leaving signs of it; return their observations."""
    observations = []
    for b, env in enumerate(envs):
        LifeSign.enter(signs, b if env_ranks is None else env_ranks[b])
        observations.append(env.reset())
    LifeSign.enter(signs, -1)
    return observations


def null_inputs(
    envs: Sequence[Any],
    observations: Sequence[Nested],
    env_ranks: Sequence[int] | None = None,
    record: Nested = None,
) -> AgentInputs:
    """The agent's inputs at the start of an episode, as numpy buffers of their own.

    Args:
        envs: B environments.
        observations: of their resets.
        env_ranks: of ``envs`` over all processes, for errors.
        record: [T,B,...] where observations will be recorded; None if they will not.

    Returns:
        AgentInputs [B,...]: the observations, null actions and zero rewards.

    Raises:
        ValueError: if the observations do not have the same shapes.
    """
    B = len(envs)
    shapes = [np.shape(leaf) for leaf in leaves(observations[0])]
    if record is not None:
        shapes = [leaf.shape[2:] for leaf in leaves(record)]
    for b, o in enumerate(observations):
        own_shapes = [np.shape(leaf) for leaf in leaves(o)]
        if own_shapes != shapes:
            raise ValueError(
                f"environment {b if env_ranks is None else env_ranks[b]} "
                f"({type(envs[b]).__name__}) began with an observation of shapes {own_shapes}, but "
                f"the first environment with {shapes}: all environments of a sampler need the same "
                "observation space"
            )
    observation = buffer_from_example(observations[0], B)
    for b, o in enumerate(observations):
        observation[b] = o
    null_action = envs[0].action_space.null_value()
    action = buffer_from_example(null_action, B)
    action[:] = null_action
    return AgentInputs(observation, action, np.zeros(B, dtype="float32"))
