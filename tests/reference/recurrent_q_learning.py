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


def rows_of(samples: Any, b: int, mid_batch_reset: bool) -> list[Row]:
    """The rows of environment ``b`` in a sampler's batch."""
    rows: list[Row] = []
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
            )
        )
    return rows


def q_values(
    model: Any, rows: Sequence[Row], start: int, stop: int, rnn_state: Any
) -> tuple[list[torch.Tensor], Any]:
    """Q-values [A] of each step; at the beginning of an episode all that came before is zero."""
    qs = []
    for t in range(start, stop):
        before = rows[t - 1]
        onehot = torch.zeros(1, len(rows[t].q))
        onehot[0, 0 if before.done else before.action] = 1
        prev_reward = torch.tensor([0.0 if before.done else before.reward])
        if before.done:
            rnn_state = None
        q, rnn_state = model(rows[t].observation[None], onehot, prev_reward, rnn_state)
        qs.append(q[0])
    return qs, rnn_state


def squash(x: float, eps: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x


def unsquash(z: float, eps: float) -> float:
    """The x with ``squash(x) = z``, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if squash(middle, eps) < z else (low, middle)
    return low


def n_step(rows: Sequence[Row], t: int, n: int, discount: float) -> tuple[float, bool]:
    """Sum of the next n rewards, discounted, and whether the episode ends within them."""
    total = 0.0
    for k in range(n):
        total += discount**k * rows[t + k].reward
        if rows[t + k].done:
            return total, True
    return total, False


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
    """Whether a step is one to train on."""
    ends = [row for row in rows[t : t + n] if row.done]
    cut = s.bootstrap_timelimit and bool(ends) and ends[0].timeout
    return not (rows[t].waits or cut)


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
        target_qs, _ = q_values(target_model, rows, start, last + s.n, rnn_state)
        choosing_qs, _ = q_values(model, rows, start, last + s.n, rnn_state)
        _, rnn_state = q_values(model, rows, start, first, rnn_state)
    qs, _ = q_values(model, rows, first, last, rnn_state)
    losses, errors = [], []
    for t in range(first, last):
        if not counts(rows, t, s.n, s):
            errors.append(0.0)
            continue
        chooser = choosing_qs if s.double_dqn else target_qs
        best = int(chooser[t + s.n - start].argmax())
        next_value = float(target_qs[t + s.n - start][best])
        y = target(*n_step(rows, t, s.n, s.discount), next_value, s, s.n)
        delta = (y - qs[t - first][rows[t].action]).abs()
        if s.delta_clip is None or delta.item() <= s.delta_clip:
            losses.append(delta * delta / 2)
            errors.append(delta.item())
        else:
            losses.append(s.delta_clip * (delta - s.delta_clip / 2))
            errors.append(s.delta_clip)
    mean = sum(errors) / max(1, len(losses))
    return SequenceLoss(losses, errors, s.eta * max(errors) + (1 - s.eta) * mean)


def input_priority(rows: Sequence[Row], s: Settings) -> float:
    """Of one environment in one batch, by the values that the agent recorded."""
    n = min(s.n, len(rows) - 1)
    errors = []
    for t in range(len(rows) - n):
        if counts(rows, t, n, s):
            y = target(*n_step(rows, t, n, s.discount), float(rows[t + n].q.max()), s, n)
            errors.append(abs(y - float(rows[t].q[rows[t].action])))
    if s.delta_clip is not None:
        errors = [min(error, s.delta_clip) for error in errors]
    if not errors:
        return 0.0
    return s.eta * max(errors) + (1 - s.eta) * sum(errors) / len(errors)
