"""Batches in which new episodes begin: where, and what the agent saw there."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.core.records import AgentInputs, extended
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.types import Nested
from rlpyt.utils.unroll import takes


def episode_starts(samples: Nested) -> torch.Tensor:
    """[T,B] bool, where an episode ended at the step before, in the same batch."""
    starts = torch.zeros_like(samples.env.done, dtype=torch.bool)
    starts[1:] = samples.env.done[:-1]
    return starts


def inputs_when_acting(agent: Any, samples: Nested) -> Nested:
    """What the agent chose its actions by: ``AgentInputs`` [T,B,...].

    In a batch the previous action and reward are always those of the step before; where an episode
    began, the agent saw the null action and a reward of 0 instead.
    """
    prev_action, prev_reward = samples.agent.prev_action, samples.env.prev_reward
    starts = episode_starts(samples)
    if starts.any():
        null_action = torchify_buffer(agent.env_spaces.action.null_value())
        prev_action = _replaced(prev_action, starts, null_action)
        prev_reward = prev_reward.masked_fill(starts, 0)
    return AgentInputs(samples.env.observation, prev_action, prev_reward)


def _replaced(batch: Nested, mask: torch.Tensor, entry: Nested) -> Nested:
    """``batch`` [T,B,...] with ``entry`` [...] where ``mask`` [T,B] is true."""
    if isinstance(batch, torch.Tensor):
        mask = mask.reshape(mask.shape + (1,) * (batch.dim() - mask.dim()))
        return torch.where(mask, torch.as_tensor(entry).to(batch), batch)
    return batch._make(_replaced(part, mask, value) for part, value in zip(batch, entry))


def with_resets(agent: Any, samples: Nested) -> Nested:
    """``samples``, with ``env.reset`` [T,B] if a recurrent agent can be trained past ends.

    That is if both the agent and its model take ``reset``. Others are trained on the steps of each
    environment up to the first end of an episode.
    """
    if not (takes(agent, "__call__", "reset") and takes(agent.acting_model, "forward", "reset")):
        return samples
    EnvSamplesCls = extended(type(samples.env), ("reset",), "Reset")
    return samples._replace(env=EnvSamplesCls(*samples.env, episode_starts(samples)))


def resets(samples: Nested) -> torch.Tensor | None:
    """What :func:`with_resets` added: [T,B], or None."""
    return getattr(samples.env, "reset", None)
