"""Ends of episodes within a batch: where new episodes begin, and bootstrap values at truncation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.algos.checks import are_of_library
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs, extended
from rlpyt.models.rnn import takes
from rlpyt.utils.buffer import buffer_to, map_buffer
from rlpyt.utils.collections import fields_of
from rlpyt.utils.types import Nested


def indexes_of(mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the indexes [n] of the nonzero entries of ``mask``, for each of its dimensions."""
    indexes = tuple(map(torch.from_numpy, np.nonzero(mask.cpu().numpy())))
    moved: tuple[torch.Tensor, ...] = buffer_to(indexes, mask.device)
    return moved


def all_places(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indexes [T*B] of all entries of ``mask`` [T,B], for each of its dimensions."""
    places = torch.arange(mask.numel(), device=mask.device)
    return places // mask.shape[1], places % mask.shape[1]


# --- Where episodes begin -------------------------------------------------------------------------


def episode_starts(samples: Nested) -> torch.Tensor:
    """Return a mask [T,B], True where an episode of this batch ended at the previous step."""
    starts = torch.zeros_like(samples.env.done, dtype=torch.bool)
    starts[1:] = samples.env.done[:-1]
    return starts


def inputs_when_acting(agent: AgentLike, samples: Nested, has_them: bool = False) -> Nested:
    """Return the ``AgentInputs`` [T,B,...] of acting.

    Args:
        agent: agent that acted.
        samples: batch [T,B].
        has_them: whether a compiled graph gets samples with these inputs already.
    """
    if not (has_them and torch.compiler.is_compiling()):
        samples = as_when_acting(agent, samples)
    env = samples.env
    return AgentInputs(env.observation, samples.agent.prev_action, env.prev_reward)


def as_when_acting(agent: AgentLike, samples: Nested) -> Nested:
    """Return ``samples`` with the previous actions and rewards that the agent received.

    A batch has the action and reward of the previous step everywhere. Where an episode began, the
    agent received the null action and a reward of 0 instead.
    """
    done = samples.env.done
    # An accelerator is not waited for, and a compiled graph has no branches.
    if done.is_cpu and not torch.compiler.is_compiling() and not done[:-1].numpy().any():
        return samples
    starts = episode_starts(samples)
    null_action = agent.env_spaces.action.null_value()
    prev_action = replaced(samples.agent.prev_action, starts, null_action)
    prev_reward = samples.env.prev_reward.masked_fill(starts, 0)
    return samples._replace(
        agent=samples.agent._replace(prev_action=prev_action),
        env=samples.env._replace(prev_reward=prev_reward),
    )


def replaced(batch: Nested, mask: torch.Tensor, entry: Nested) -> Nested:
    """Return ``batch`` [T,B,...] with ``entry`` [...] where ``mask`` [T,B] is true."""
    if isinstance(batch, torch.Tensor):
        mask = mask.reshape(mask.shape + (1,) * (batch.dim() - mask.dim()))
        entry = np.asarray(entry)
        if not torch.compiler.is_compiling() and (entry == entry.flat[0]).all():
            return batch.masked_fill(mask, entry.flat[0].item())  # Nothing to copy to the device.
        return torch.where(mask, torch.from_numpy(entry).to(batch), batch)
    return batch._make(replaced(part, mask, value) for part, value in zip(batch, entry))


def with_resets(agent: AgentLike, samples: Nested) -> Nested:
    """Return ``samples`` with ``env.reset`` [T,B], where the recurrent state is zeroed.

    Samples are unchanged if the agent or its model does not take ``reset``, or if a program decides
    where an episode's state begins: such agents are trained on the steps of each environment up to
    the first end of an episode.
    """
    if "reset" in samples.env._fields or not are_of_library(agent, "reset_one"):
        return samples
    called = (agent, "__call__"), (agent.acting_model, "forward")
    if not all(takes(instance, method, "reset") for instance, method in called):
        return samples
    EnvSamplesCls = extended(type(samples.env), ("reset",), "Reset")
    return samples._replace(env=EnvSamplesCls(*samples.env, episode_starts(samples)))


def resets(samples: Nested) -> torch.Tensor | None:
    """Return the mask [T,B] that :func:`with_resets` added, or None."""
    return samples.env.reset if "reset" in samples.env._fields else None


# --- Where time limits truncate episodes ----------------------------------------------------------


def truncations(env: Nested) -> torch.Tensor | None:
    """Return a mask [T,B] of the last steps of truncated episodes; None without ``timeout``."""
    if "timeout" not in fields_of(env.env_info):
        return None
    mask: torch.Tensor = env.env_info.timeout.bool() & env.done.bool()
    return mask


@torch.no_grad()
def values_at_truncation(
    agent: AgentLike,
    samples: Nested,
    timeout: torch.Tensor,
    all_processes: bool,
    value_of: Callable[[Any], torch.Tensor] = lambda outputs: outputs[1],
) -> torch.Tensor:
    """Return the values of the last observations of truncated episodes.

    They are recorded as ``next_observation``. A recurrent agent runs for two steps, before and
    after the truncation, from the recorded state.

    Args:
        agent: agent, called as for training.
        samples: batch [T,B] with ``env.next_observation``.
        timeout: flags [T,B], True where episodes were truncated.
        all_processes: whether to run the agent even if no episode was truncated, because other
            processes may wait for it.
        value_of: function that returns the values [...] in the outputs of the agent.

    Returns:
        [T,B] values, zero where no episode was truncated.
    """
    value = samples.agent.agent_info.value
    values = torch.zeros_like(value)
    is_graph = torch.compiler.is_compiling()  # Its shapes do not depend on numbers.
    at = all_places(timeout) if is_graph else indexes_of(timeout)
    if not len(at[0]):
        if not all_processes:
            return values
        columns = torch.arange(timeout.shape[1], device=timeout.device)
        at = (torch.zeros_like(columns), columns)
    last = AgentInputs(
        observation=samples.env.next_observation[at],
        prev_action=samples.agent.action[at],
        prev_reward=samples.env.reward[at],
    )
    if agent.recurrent:
        before = inputs_when_acting(agent, samples)[at]
        state = to_model_state(samples.agent.agent_info.prev_rnn_state[at])
        found = value_of(agent(*_stack(before, last), state))[1]
    else:
        found = value_of(agent(*last))
    values[at] = found.to(values)
    return values * timeout


def to_model_state(rnn_state: Nested) -> Nested:
    """Return a recorded state [B,N,H] in the layout of models: [N,B,H], contiguous."""
    return map_buffer(lambda x: x.transpose(0, 1).contiguous(), rnn_state)


def _stack(first: Nested, second: Nested) -> Nested:
    """Return two steps [n,...] as one sequence [2,n,...]."""
    if first is None:
        return None
    if isinstance(first, torch.Tensor):
        return torch.stack([first, second])
    return first._make(_stack(a, b) for a, b in zip(first, second, strict=True))
