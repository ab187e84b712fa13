"""What an episode would have gone on to return, where its time limit cut it."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.pg._resets import inputs_when_acting
from rlpyt.core.records import AgentInputs
from rlpyt.utils.buffer import buffer_method, map_buffer
from rlpyt.utils.types import Nested


def timeouts(samples: Nested) -> torch.Tensor | None:
    """[T,B] bool, where an episode was cut; None if the environment does not tell."""
    timeout = getattr(samples.env.env_info, "timeout", None)
    return None if timeout is None else timeout.bool() & samples.env.done.bool()


@torch.no_grad()
def values_of_cut_episodes(
    agent: Any, samples: Nested, timeout: torch.Tensor, all_processes: bool
) -> torch.Tensor:
    """Values of the true last observations, which the batch holds as ``next_observation``.

    A recurrent agent is run for two steps, the one before the cut and the one after it, from the
    state which was recorded.

    Args:
        agent: called as for training.
        samples: [T,B] with ``env.next_observation``.
        timeout: [T,B] bool, where episodes were cut.
        all_processes: run the agent even if no episode was cut, because others may wait for it.

    Returns:
        [T,B] values, zero where no episode was cut.
    """
    value = samples.agent.agent_info.value
    values = torch.zeros_like(value)
    at = timeout.nonzero(as_tuple=True)
    if not len(at[0]):
        if not all_processes:
            return values
        at = torch.zeros_like(timeout).index_fill_(0, torch.tensor(0), True).nonzero(as_tuple=True)
    last = AgentInputs(
        observation=samples.env.next_observation[at],
        prev_action=samples.agent.action[at],
        prev_reward=samples.env.reward[at],
    )
    if agent.recurrent:
        before = inputs_when_acting(agent, samples)[at]
        state = to_model_state(samples.agent.agent_info.prev_rnn_state[at])
        found = agent(*_stack(before, last), state)[1][1]
    else:
        found = agent(*last)[1]
    values[at] = found.to(values)
    return values * timeout


def to_model_state(rnn_state: Nested) -> Nested:
    """A recorded state [B,N,H] as models take it: [N,B,H], contiguous."""
    return map_buffer(lambda x: x.transpose(0, 1).contiguous(), rnn_state)


def _stack(first: Nested, second: Nested) -> Nested:
    """Two steps [n,...] as one sequence [2,n,...]."""
    pair = (buffer_method(step, "unsqueeze", 0) for step in (first, second))
    return _concatenate(*pair)


def _concatenate(first: Nested, second: Nested) -> Nested:
    if first is None:
        return None
    if isinstance(first, torch.Tensor):
        return torch.cat([first, second])
    return first._make(_concatenate(a, b) for a, b in zip(first, second, strict=True))
