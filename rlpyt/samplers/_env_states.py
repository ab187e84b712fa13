"""States of environments, of which some may have none, and of what belongs to each of them.

An environment without a state keeps the episode that it is in when a state is loaded: after the
start of a resumed run a new one. Its running trajectory and the inputs of the agent stay with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rlpyt.core.protocols import Stateful
from rlpyt.utils.buffer import numpy_leaves
from rlpyt.utils.types import Nested

_NO_STATE = "no_state"


def env_state(env: Any) -> dict[str, Any]:
    """Return the state of ``env``; if it has none, the reason in its place."""
    if not isinstance(env, Stateful):
        return {_NO_STATE: f"{type(env).__name__} has no state_dict() and load_state_dict(state)"}
    try:
        return env.state_dict()
    except NotImplementedError as error:
        return {_NO_STATE: str(error)}


def envs_without_state(states: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return the places of states that :func:`env_state` could not get, and the reasons."""
    return {b: state[_NO_STATE] for b, state in enumerate(states) if _NO_STATE in state}


def load_env_states(envs: Iterable[Any], states: Iterable[dict[str, Any]]) -> None:
    """Restore the environments that have a state."""
    for env, state in zip(envs, states):
        if _NO_STATE not in state:
            env.load_state_dict(state)


def load_rows(buffer: Nested, saved: Nested, lost: Iterable[int]) -> None:
    """Restore the rows of ``buffer`` [B,...] but for the environments ``lost``."""
    lost = set(lost)
    for rows, saved_rows in zip(numpy_leaves(buffer), numpy_leaves(saved), strict=True):
        kept = [b for b in range(len(rows)) if b not in lost]
        rows[kept] = saved_rows[kept]


def load_sampling_state(
    state: dict[str, Any],
    envs: Sequence[Any],
    eval_envs: Sequence[Any],
    inputs: Sequence[Nested],
    saved_inputs: Iterable[Nested],
    traj_infos: Sequence[Any],
    collector: Any,
) -> None:
    """Restore environments, and of those that have a state trajectories and inputs of the agent.

    Args:
        state: ``envs``, ``eval_envs``, ``traj_infos`` and the state of the ``collector``.
        envs: environments of training.
        eval_envs: environments of evaluation.
        inputs: buffers [B,...] of the next inputs of the agent.
        saved_inputs: their contents, in the same order.
        traj_infos: running trajectory infos.
        collector: collector of ``envs``.
    """
    lost = envs_without_state(state["envs"])
    load_env_states(envs, state["envs"])
    load_env_states(eval_envs, state["eval_envs"])
    collector.load_state_dict(state["collector"])
    if lost:
        collector.release(list(lost))
    for buffer, saved in zip(inputs, saved_inputs):
        if buffer is not None:
            load_rows(buffer, saved, lost)
    for b, (traj_info, saved) in enumerate(zip(traj_infos, state["traj_infos"])):
        if b not in lost:
            traj_info.clear()
            traj_info.update(saved)
