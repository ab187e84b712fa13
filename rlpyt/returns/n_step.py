"""n-step returns for replay, and masks of returns that a time limit ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.returns.advantages import as_flag_rows, as_float_rows, check_targets, like
from rlpyt.utils.jit import jit
from rlpyt.utils.types import Array, NDArray


@jit
def _n_step(
    reward: NDArray, done: NDArray, n_step: int, discount: float, return_: NDArray, done_n: NDArray
) -> None:
    """Fill ``return_`` and ``done_n`` [T',N], with shorter windows at the end."""
    T, N = reward.shape
    for t in range(return_.shape[0]):
        end = min(t + n_step, T)
        for n in range(N):
            total = 0.0
            weight = 1.0
            ended = False
            for i in range(t, end):
                total += weight * reward[i, n]
                weight *= discount
                if done[i, n]:
                    ended = True
                    break
            return_[t, n] = total
            done_n[t, n] = ended


@jit
def _first_done_is_timeout(done: NDArray, timeout: NDArray, n_step: int, result: NDArray) -> None:
    for t in range(result.shape[0]):
        for n in range(result.shape[1]):
            result[t, n] = False
            for i in range(t, t + n_step):
                if done[i, n]:
                    result[t, n] = timeout[i, n]
                    break


def _n_step_on_device(
    reward: Any, done: Any, n_windows: int, n_step: int, discount: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute :func:`_n_step` of tensors on an accelerator, for all windows at once."""
    check_targets(reward=reward)
    total = torch.zeros_like(reward[:n_windows], dtype=torch.float64)
    ended = torch.zeros_like(done[:n_windows], dtype=torch.bool)
    weight = 1.0
    for k in range(min(n_step, len(reward))):
        rewards = weight * reward[k : k + n_windows].double()
        n = len(rewards)
        total[:n] += rewards.masked_fill(ended[:n], 0)
        ended[:n] |= done[k : k + n_windows].bool()
        weight *= discount
    if reward.is_floating_point() and reward.dtype != torch.float64:
        total = total.float().to(reward.dtype)  # Rounded as compiled code does it.
    return total, ended.to(done.dtype)


def _first_done_is_timeout_on_device(
    done: Any, timeout: Any, n_windows: int, n_step: int
) -> torch.Tensor:
    """Compute :func:`_first_done_is_timeout` of tensors on an accelerator."""
    result = torch.zeros_like(timeout[:n_windows])
    for k in reversed(range(n_step)):
        is_done = done[k : k + n_windows].bool()
        result = torch.where(is_done, timeout[k : k + n_windows], result)
    return result


def _into(result: torch.Tensor, dest: Any) -> Any:
    """Return ``result``, or ``dest`` with its values."""
    return result if dest is None else dest.copy_(result)


def _n_windows(name: str, T: int, n_step: int, do_truncated: bool = False) -> int:
    if do_truncated and n_step >= 1:
        return T
    if not 1 <= n_step <= T:
        raise ValueError(
            f"n_step is {n_step}, but {name} has {T} time steps: choose 1 <= n_step <= {T}, or "
            "pass more steps"
        )
    return T - n_step + 1


def discount_return_n_step(
    reward: Array,
    done: Array,
    n_step: int,
    discount: float,
    return_dest: Array | None = None,
    done_n_dest: Array | None = None,
    do_truncated: bool = False,
) -> tuple[Any, Any]:
    """Return discounted sums of the next n rewards within the episode, without bootstrap value.

        R_t      = sum_{k<n} discount^k * r_{t+k} * prod_{j<k} (1 - d_{t+j})
        done_n_t = any of d_t, ..., d_{t+n-1}

    Args:
        reward: rewards r_t [T,B,...].
        done: flags d_t [T,B,...].
        n_step: number n of rewards, from 1 to T.
        discount: discount factor of one step.
        return_dest: array [T',B,...] to write into, optional.
        done_n_dest: array [T',B,...] to write into, optional.
        do_truncated: whether to return shorter sums too, at the end where fewer than n steps
            remain.

    Returns:
        The pair R [T',B,...] and done_n [T',B,...] (dtype of ``done``), where T' = T - n + 1, or T
        if ``do_truncated``.

    Raises:
        ValueError: if shapes differ, a tensor requires grad, or n_step is not in [1, T].

    Source: Sutton 1988; Hessel et al. 2018, arXiv:1710.02298, section "Multi-step learning".
    """
    shape = tuple(reward.shape)
    n_step = int(n_step)
    if isinstance(reward, torch.Tensor) and not reward.is_cpu:
        n_windows = _n_windows("reward", len(reward), n_step, do_truncated)
        results = _n_step_on_device(reward, done, n_windows, n_step, float(discount))
        return _into(results[0], return_dest), _into(results[1], done_n_dest)
    rewards = as_float_rows("reward", reward)
    dones = as_flag_rows("done", done, shape)
    n_windows = _n_windows("reward", len(rewards), n_step, do_truncated)
    returns = np.empty((n_windows, rewards.shape[1]), dtype=rewards.dtype)
    done_n = np.empty(returns.shape, dtype=np.bool_)
    _n_step(rewards, dones, n_step, float(discount), returns, done_n)
    out_shape = (n_windows, *shape[1:])
    return (
        like(returns, out_shape, reward, return_dest),
        like(done_n, out_shape, done, done_n_dest),
    )


def timeout_n_step(done: Array, timeout: Array, n_step: int) -> Any:
    """Return whether an n-step return ended by a time limit rather than a terminal state.

        timeout_n_t = timeout at the first i in [t, t+n-1] with d_i, or False if there is none

    Args:
        done: flags d_t [T,B,...].
        timeout: flags [T,B,...], nonzero where ``done`` comes from a time limit.
        n_step: number n of steps, from 1 to T.

    Returns:
        [T-n+1,B,...], dtype of ``timeout``.

    Raises:
        ValueError: if shapes differ or n_step is not in [1, T].

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3.
    """
    shape = tuple(done.shape)
    if isinstance(done, torch.Tensor) and not done.is_cpu:
        n_windows = _n_windows("done", len(done), n_step)
        return _first_done_is_timeout_on_device(done, timeout, n_windows, int(n_step))
    dones = as_flag_rows("done", done)
    n_windows = _n_windows("done", len(dones), n_step)
    result = np.empty((n_windows, dones.shape[1]), dtype=np.bool_)
    _first_done_is_timeout(dones, as_flag_rows("timeout", timeout, shape), int(n_step), result)
    out_shape = (n_windows, *shape[1:])
    return like(result, out_shape, timeout, None)
