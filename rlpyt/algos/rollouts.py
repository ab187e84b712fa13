"""Batches [T,B] of a sampler: where episodes begin and end in them, and their minibatches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs, with_fields
from rlpyt.models.rnn import move_with_resets
from rlpyt.utils.buffer import buffer_to, map_buffer
from rlpyt.utils.collections import fields_of
from rlpyt.utils.types import NDArray, Nested


def indexes_of(mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the indexes [n] of the nonzero entries of ``mask``, for each of its dimensions."""
    indexes = tuple(map(torch.from_numpy, np.nonzero(mask.cpu().numpy())))
    moved: tuple[torch.Tensor, ...] = buffer_to(indexes, mask.device)
    return moved


# --- Where episodes begin -------------------------------------------------------------------------


def episode_starts(samples: Nested) -> torch.Tensor:
    """Return a mask [T,B], True where an episode of this batch ended at the previous step."""
    starts = torch.zeros_like(samples.env.done, dtype=torch.bool)
    starts[1:] = samples.env.done[:-1]
    return starts


def inputs_when_acting(agent: AgentLike, samples: Nested) -> Nested:
    """Return the ``AgentInputs`` [T,B,...] that the agent received.

    A batch has the action and reward of the previous step everywhere. Where an episode began, the
    agent received the null action and a reward of 0 instead.
    """
    env, prev_action = samples.env, samples.agent.prev_action
    starts = episode_starts(samples)
    if not starts.is_cpu or starts.numpy().any():  # An accelerator is not waited for.
        prev_action = replaced(prev_action, starts, agent.env_spaces.action.null_value())
    # A copy, since rewards that process_returns() changes in place share its memory.
    return AgentInputs(env.observation, prev_action, env.prev_reward.masked_fill(starts, 0))


def replaced(batch: Nested, mask: torch.Tensor, entry: Nested) -> Nested:
    """Return ``batch`` [T,B,...] with ``entry`` [...] where ``mask`` [T,B] is true."""
    if isinstance(batch, torch.Tensor):
        mask = mask.reshape(mask.shape + (1,) * (batch.dim() - mask.dim()))
        entry = np.asarray(entry)
        if (entry == entry.flat[0]).all():
            return batch.masked_fill(mask, entry.flat[0].item())  # Nothing to copy to the device.
        return torch.where(mask, torch.from_numpy(entry).to(batch), batch)
    return batch._make(replaced(part, mask, value) for part, value in zip(batch, entry))


def with_resets(samples: Nested) -> Nested:
    """Return ``samples`` with ``env.reset`` [T,B], True where the recurrent state is zeroed."""
    if "reset" in samples.env._fields:
        return samples
    return samples._replace(env=with_fields(samples.env, reset=episode_starts(samples)))


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
    at = indexes_of(timeout)
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


# --- Minibatches ----------------------------------------------------------------------------------


def shuffled_parts(
    rows: NDArray, n_parts: int, rng: np.random.Generator
) -> tuple[torch.Tensor, list[int]]:
    """Shuffle ``rows`` and divide them into parts whose sizes differ by one at most.

    Args:
        rows: indexes [n]; if there are fewer than parts, some are repeated.
        n_parts: number of parts, at least 1.
        rng: generator of the order.

    Returns:
        The indexes of all parts, one part after the other, and the sizes of the parts.
    """
    order = rng.permutation(len(rows))
    if len(order) < n_parts:
        order = np.resize(order, n_parts)
    quotient, remainder = divmod(len(order), n_parts)
    sizes = [quotient + 1] * remainder + [quotient] * (n_parts - remainder)
    return torch.from_numpy(rows[order]), sizes


def filled_parts(
    order: torch.Tensor, sizes: list[int], size: int, device: torch.device
) -> tuple[torch.Tensor, list[int], tuple[torch.Tensor, ...]]:
    """Repeat entries of each part until all parts have one size, as a compiled graph needs it.

    Args:
        order: indexes of all parts, one part after the other.
        sizes: sizes of the parts, at most ``size``.
        size: number of entries of a part in the result.
        device: device of the results, which are moved in one copy.

    Returns:
        The indexes [parts * size], the sizes of the parts, and for each part a mask [size], 0 at
        repetitions.
    """
    places = torch.arange(size)
    filled = torch.cat([part[places % len(part)] for part in order.split(sizes)])
    counted = (places < torch.tensor(sizes)[:, None]).reshape(-1)
    filled, counted = buffer_to(torch.stack([filled, counted]), device)
    return filled, [size] * len(sizes), counted.split(size)


def iterate_parts(
    batch: Nested, order: torch.Tensor, sizes: list[int], n_dims: int = 1, dim: int = 0
) -> Iterator[Nested]:
    """Copy ``batch`` once in a new order, and yield its parts, which are contiguous.

    Args:
        batch: record of tensors.
        order: indexes of all parts along ``dim``, one part after the other.
        sizes: sizes of the parts.
        n_dims: number of leading dimensions to flatten first: 2 for [T,B,...].
        dim: dimension to divide, in every tensor.
    """
    orders = {order.device: order}

    def parts(x: Nested) -> Iterator[Nested]:
        if x is None:
            return itertools.repeat(None, len(sizes))
        if not isinstance(x, torch.Tensor):
            return map(getattr(x, "_make", tuple), zip(*map(parts, x)))
        if x.device not in orders:
            orders[x.device] = buffer_to(order, x.device)
        flat = x.flatten(0, n_dims - 1)
        if dim:
            return (flat.index_select(dim, part) for part in orders[x.device].split(sizes))
        return iter(flat.index_select(0, orders[x.device]).split(sizes))

    return parts(batch)


def iterate_sequences(
    batch: Nested, order: torch.Tensor, sizes: list[int], device: torch.device
) -> Iterator[Nested]:
    """Copy whole environments once in a new order, and yield their parts [T,B',...].

    Args:
        batch: record of tensors [T,B,...], with the fields ``init_rnn_state`` [B,N,H], the state
            before the first step, and ``reset`` [T,B] on the CPU, True before which steps the state
            is zero, or None.
        order: indexes of all environments, one part after the other.
        sizes: sizes B' of the parts.
        device: device of the losses.
    """
    masks: Sequence[torch.Tensor | None] = [None] * len(sizes)
    if batch.reset is not None:
        order, masks = move_with_resets(order, batch.reset[:, order].split(sizes, dim=1), device)
    states = map_buffer(lambda x: x[None], batch.init_rnn_state)  # [1,B,N,H], divided along B too.
    batch = batch._replace(init_rnn_state=states, reset=None)
    for part, mask in zip(iterate_parts(batch, order, sizes, dim=1), masks):
        yield part._replace(init_rnn_state=part.init_rnn_state[0], reset=mask)
