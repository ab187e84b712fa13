"""Naive twins of learning from sequences: one step of one environment at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch


class Row(NamedTuple):
    """What one environment gave at one step, and what the agent made of it."""

    observation: torch.Tensor
    action: int
    reward: float
    done: bool
    q: torch.Tensor  # [A]
    rnn_state: Any  # [N,H] before the step
    timeout: bool
    waits: bool  # the environment waited for the end of the batch
    last: torch.Tensor | None  # observation that the action led to, if it is recorded


def rows_of(samples: Any, b: int, mid_batch_reset: bool) -> list[Row]:
    """The rows of environment ``b`` in a sampler's batch."""
    rows: list[Row] = []
    is_recorded = "next_observation" in samples.env._fields
    for t in range(len(samples.env.done)):
        rows.append(
            Row(
                samples.env.observation[t, b].clone(),
                int(samples.agent.action[t, b]),
                float(samples.env.reward[t, b]),
                bool(samples.env.done[t, b]),
                samples.agent.agent_info.q[t, b].clone(),
                [part[t, b].clone() for part in samples.agent.agent_info.prev_rnn_state],
                bool(samples.env.env_info.timeout[t, b]),
                waits=not mid_batch_reset and any(row.done for row in rows),
                last=samples.env.next_observation[t, b].clone() if is_recorded else None,
            )
        )
    return rows


def q_values(
    model: Any, rows: Sequence[Row], start: int, stop: int, rnn_state: Any
) -> tuple[list[torch.Tensor], Any]:
    """Q-values [A] of each step; at the beginning of an episode all that came before is zero."""
    qs = []
    for t in range(start, stop):
        begins = rows[t - 1].done
        before = rows[t - 1]._replace(action=0, reward=0.0) if begins else rows[t - 1]
        state = None if begins else rnn_state
        q, rnn_state = one_step(model, rows[t].observation, before, state)
        qs.append(q)
    return qs, rnn_state


def one_step(
    model: Any, observation: torch.Tensor, before: Row, rnn_state: Any
) -> tuple[torch.Tensor, Any]:
    """Q-values [A] of an observation after the step ``before``."""
    onehot = torch.zeros(1, len(before.q))
    onehot[0, before.action] = 1
    q, rnn_state = model(observation[None], onehot, torch.tensor([before.reward]), rnn_state)
    return q[0], rnn_state


def bootstrap_q(
    model: Any, rows: Sequence[Row], start: int, end: int, rnn_state: Any
) -> torch.Tensor:
    """Q-values [A] after row ``end``: of its last observation if a limit ended the episode."""
    _, rnn_state = q_values(model, rows, start, end + 1, rnn_state)
    last = rows[end].last
    if rows[end].timeout and last is not None:
        return one_step(model, last, rows[end], rnn_state)[0]
    return q_values(model, rows, end + 1, end + 2, rnn_state)[0][0]


def squash(x: float, eps: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x


def unsquash(z: float, eps: float) -> float:
    """The x with ``squash(x) = z``, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if squash(middle, eps) < z else (low, middle)
    return low


def n_step(rows: Sequence[Row], t: int, n: int, discount: float) -> tuple[float, bool, int]:
    """Sum of the next n rewards, discounted; whether the episode ends within them, and where."""
    total = 0.0
    for k in range(n):
        total += discount**k * rows[t + k].reward
        if rows[t + k].done:
            return total, True, t + k
    return total, False, t + n - 1


class Settings(NamedTuple):
    """Of the algorithm."""

    discount: float
    batch_T: int
    warmup_T: int
    n: int
    delta_clip: float | None
    double_dqn: bool
    eps: float
    eta: float
    bootstrap_timelimit: bool


def counts(rows: Sequence[Row], t: int, n: int, s: Settings) -> bool:
    """Whether the return of a step is known."""
    ends = [row for row in rows[t : t + n] if row.done]
    cut = s.bootstrap_timelimit and bool(ends) and ends[0].timeout
    return not (rows[t].waits or cut)


def continues(rows: Sequence[Row], end: int, s: Settings) -> bool:
    """Whether a row ends an episode, but not its return."""
    return s.bootstrap_timelimit and rows[end].timeout and rows[end].last is not None


def target(return_: float, ended: bool, next_value: float, settings: Settings, n: int) -> float:
    if ended:
        return squash(return_, settings.eps)
    bootstrap = settings.discount**n * unsquash(next_value, settings.eps)
    return squash(return_ + bootstrap, settings.eps)


class SequenceLoss(NamedTuple):
    """Of one sequence."""

    losses: list[Any]  # of the steps that count
    errors: list[float]  # of all steps
    priority: float


def sequence_loss(
    model: Any, target_model: Any, rows: Sequence[Row], start: int, rnn_state: Any, s: Settings
) -> SequenceLoss:
    """Losses, with gradients, of the sequence whose warm-up begins at ``start`` (at least 1)."""
    first = start + s.warmup_T
    last = first + s.batch_T
    with torch.no_grad():
        first_state = rnn_state
        _, rnn_state = q_values(model, rows, start, first, rnn_state)
    qs, _ = q_values(model, rows, first, last, rnn_state)
    losses, errors = [], []
    for t in range(first, last):
        return_, ended, end = n_step(rows, t, s.n, s.discount)
        is_known = continues(rows, end, s)
        if rows[t].waits or not (is_known or counts(rows, t, s.n, s)):
            errors.append(0.0)
            continue
        with torch.no_grad():
            models = (model if s.double_dqn else target_model, target_model)
            choosing, valued = (bootstrap_q(m, rows, start, end, first_state) for m in models)
        next_value = float(valued[int(choosing.argmax())])
        y = target(return_, ended and not is_known, next_value, s, end + 1 - t)
        delta = (y - qs[t - first][rows[t].action]).abs()
        if s.delta_clip is None or delta.item() <= s.delta_clip:
            losses.append(delta * delta / 2)
            errors.append(delta.item())
        else:
            losses.append(s.delta_clip * (delta - s.delta_clip / 2))
            errors.append(s.delta_clip)
    mean = sum(errors) / max(1, len(losses))
    return SequenceLoss(losses, errors, s.eta * max(errors) + (1 - s.eta) * mean)


def input_priority(rows: Sequence[Row], s: Settings, default: float) -> float:
    """Of one environment in one batch, by the values recorded; ``default`` without any target."""
    n = min(s.n, len(rows) - 1)
    errors = []
    for t in range(len(rows) - n):
        if counts(rows, t, n, s):
            return_, ended, _ = n_step(rows, t, n, s.discount)
            y = target(return_, ended, float(rows[t + n].q.max()), s, n)
            errors.append(abs(y - float(rows[t].q[rows[t].action])))
    if s.delta_clip is not None:
        errors = [min(error, s.delta_clip) for error in errors]
    if not errors:
        return default
    return s.eta * max(errors) + (1 - s.eta) * sum(errors) / len(errors)
