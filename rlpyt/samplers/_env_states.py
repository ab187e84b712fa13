"""Saved states of environments (some have none), their trajectories and the agent's inputs.

When a state is loaded, an environment without one keeps its current episode, its running trajectory
and the agent's inputs; at the start of a resumed run, that episode is a new one. Only its running
statistics are saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from rlpyt.core.protocols import AgentLike, EnvLike, Stateful
from rlpyt.core.statistics import continue_statistics, statistics_of
from rlpyt.samplers.collectors import BaseCollector
from rlpyt.utils.buffer import numpy_leaves
from rlpyt.utils.types import Nested

_NO_STATE = "no_state"


def env_state(env: EnvLike) -> dict[str, Any]:
    """Return the state of ``env``; if it has none, the reason and its running statistics."""
    reason = f"{type(env).__name__} has no state_dict() and load_state_dict(state)"
    if isinstance(env, Stateful):
        try:
            return env.state_dict()
        except NotImplementedError as error:
            reason = str(error)
    return {_NO_STATE: reason, "statistics": statistics_of(env)}


def envs_without_state(states: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return the indexes of environments without a state in ``states``, with the reasons."""
    return {b: state[_NO_STATE] for b, state in enumerate(states) if _NO_STATE in state}


def load_env_states(envs: Iterable[EnvLike], states: Iterable[dict[str, Any]]) -> None:
    """Restore the environments that have a state, and the running statistics of others."""
    for env, state in zip(envs, states):
        if _NO_STATE in state:
            continue_statistics(env, state.get("statistics", {}))
        else:
            assert isinstance(env, Stateful), f"{env} had a state when it was saved"
            env.load_state_dict(state)


def load_rows(buffer: Nested, saved: Nested, kept: Sequence[int]) -> None:
    """Restore the rows ``kept`` of ``buffer`` [B,...]."""
    for rows, saved_rows in zip(numpy_leaves(buffer), numpy_leaves(saved), strict=True):
        rows[kept] = saved_rows[kept]


class SamplingParts(NamedTuple):
    """The parts with a state in a process that steps environments."""

    envs: Sequence[EnvLike]  # of training
    eval_envs: Sequence[EnvLike]
    inputs: Any  # record of the agent's next inputs [B,...]
    traj_infos: Sequence[Any]  # of the running trajectories
    collector: BaseCollector  # of ``envs``
    agent: AgentLike | None  # that acts in this process; None if actions are served

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parts."""
        return {
            "envs": [env_state(env) for env in self.envs],
            "eval_envs": [env_state(env) for env in self.eval_envs],
            "agent_inputs": self.inputs._asdict(),
            "traj_infos": [dict(traj_info) for traj_info in self.traj_infos],
            "collector": self.collector.state_dict(),
            "agent": None if self.agent is None else self.agent.sample_state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of as many environments; those without one keep their episodes."""
        lost = envs_without_state(state["envs"])
        load_env_states(self.envs, state["envs"])
        load_env_states(self.eval_envs, state["eval_envs"])
        self.collector.load_state_dict(state["collector"])
        if lost:
            self.collector.release(list(lost))
        kept = [b for b in range(len(self.envs)) if b not in lost]
        for buffer, saved in zip(self.inputs, state["agent_inputs"].values()):
            load_rows(buffer, saved, kept)
        for b in kept:
            self.traj_infos[b].clear()
            self.traj_infos[b].update(state["traj_infos"][b])
        if self.agent is not None:
            load_agent_state(self.agent, state["agent"], lost)


def load_agent_state(agent: AgentLike, state: dict[str, Any], lost: Collection[int]) -> None:
    """Restore the state of an agent from sampling, except for the environments ``lost``."""
    agent.load_sample_state_dict(state)
    if lost:
        agent.sample_mode(0)  # Methods act on the state of the present mode.
    for b in lost:
        agent.reset_one(b)
