"""Discounted returns, lambda returns, advantages and V-trace targets of a time-major batch.

The time limit (``_tl``) forms differ where a time limit truncated an episode: the batch lacks the
true next state, so V_t replaces the rest of the return, and nothing is learned from that step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.utils.jit import jit
from rlpyt.utils.types import Array, NDArray


@jit
def _gae(
    reward: NDArray,
    value: NDArray,
    done: NDArray,
    timeout: NDArray,
    bootstrap_value: NDArray,
    discount: float,
    gae_lambda: float,
    advantage: NDArray,
    return_: NDArray,
) -> None:
    """Fill ``advantage`` and ``return_`` backwards; all [T,N], ``bootstrap_value`` [1,N]."""
    T, N = reward.shape
    for n in range(N):
        next_value = float(bootstrap_value[0, n])
        next_advantage = 0.0
        for t in range(T - 1, -1, -1):
            if done[t, n]:
                next_value = 0.0
                next_advantage = 0.0
            delta = reward[t, n] + discount * next_value - value[t, n]
            if done[t, n] and timeout[t, n]:
                delta = 0.0
            next_advantage = delta + discount * gae_lambda * next_advantage
            next_value = float(value[t, n])
            advantage[t, n] = next_advantage
            return_[t, n] = next_advantage + value[t, n]


def _gae_on_device(
    reward: Any,
    value: Any,
    done: Any,
    timeout: Any,
    bootstrap_value: Any,
    discount: float,
    gae_lambda: float,
    advantage_dest: Any,
    return_dest: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute :func:`_gae` of tensors on an accelerator, by :func:`_discounted_sums`."""
    check_targets(reward=reward, value=value, bootstrap_value=bootstrap_value)
    values = value.double()
    last = torch.broadcast_to(bootstrap_value.double(), values[:1].shape)
    continues = (done == 0).double()
    delta = reward.double() + discount * (continues * torch.cat([values[1:], last])) - values
    delta = delta.masked_fill((done != 0) & (timeout != 0), 0)
    advantage = _discounted_sums(delta, discount * gae_lambda * continues)
    return_ = (advantage + values).to(reward.dtype)
    advantage = advantage.to(reward.dtype)
    return (
        advantage if advantage_dest is None else advantage_dest.copy_(advantage),
        return_ if return_dest is None else return_dest.copy_(return_),
    )


def check_targets(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` if a tensor is part of a graph."""
    for name, x in tensors.items():
        if x.requires_grad:
            raise ValueError(f"{name} requires grad, but returns are targets: pass {name}.detach()")


def _discounted_sums(delta: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x_t = delta_t + w_t x_{t+1} with x_T = 0, in a logarithmic number of operations.

    The equation is applied to itself: once x_t holds the terms of s steps and w_t the product of
    their weights, x_t + w_t x_{t+s} holds the terms of 2 s steps.

    Source: Blelloch 1990, Prefix sums and their applications, section 1.4.
    """
    step, T = 1, len(delta)
    while step < T:
        more = weight[:-step] * delta[step:]
        delta = torch.cat([delta[:-step] + more, delta[-step:]])
        weight = torch.cat([weight[:-step] * weight[step:], weight[-step:]])
        step *= 2
    return delta


def discount_return(
    reward: Array,
    done: Array,
    bootstrap_value: Any,
    discount: float,
    return_dest: Array | None = None,
) -> Any:
    """Return the discounted returns, bootstrapped at the end of the batch.

        R_t = r_t + discount * (1 - d_t) * R_{t+1},      R_T = V_T

    Args:
        reward: rewards r_t [T,B,...], received for the action at t.
        done: flags d_t [T,B,...], nonzero where the episode ends at t.
        bootstrap_value: values V_T [B,...] of the observation after the last step; also [1,B,...].
        discount: discount factor of one step.
        return_dest: array [T,B,...] to write into, optional.

    Returns:
        [T,B,...] R_t, numpy or torch as ``reward``.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Sutton and Barto 2018, section 3.3.
    """
    timeout, value = _zeros_like(done), _zeros_like(reward)
    return discount_return_tl(
        reward, done, bootstrap_value, discount, timeout, value, return_dest=return_dest
    )


def discount_return_tl(
    reward: Array,
    done: Array,
    bootstrap_value: Any,
    discount: float,
    timeout: Array,
    value: Array,
    return_dest: Array | None = None,
) -> Any:
    """Return discounted returns that do not mistake a time limit for a terminal state.

    Differs from :func:`discount_return` in that R_t = V_t where a time limit truncated the episode.

    Args:
        reward: rewards r_t [T,B,...].
        done: flags d_t [T,B,...].
        bootstrap_value: values V_T [B,...]; also [1,B,...].
        discount: discount factor of one step.
        timeout: flags [T,B,...], nonzero where ``done`` comes from a time limit.
        value: values V_t [T,B,...].
        return_dest: array [T,B,...] to write into, optional.

    Returns:
        [T,B,...] R_t.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3.
    """
    # With lambda = 1 the advantage recursion telescopes to the return, for any values.
    _, return_ = generalized_advantage_estimation_tl(
        reward, value, done, bootstrap_value, discount, 1.0, timeout, return_dest=return_dest
    )
    return return_


def generalized_advantage_estimation(
    reward: Array,
    value: Array,
    done: Array,
    bootstrap_value: Any,
    discount: float,
    gae_lambda: float,
    advantage_dest: Array | None = None,
    return_dest: Array | None = None,
) -> tuple[Any, Any]:
    """Return generalized advantages and returns of a time-major batch.

        delta_t  = r_t + discount * (1 - d_t) * V_{t+1} - V_t
        A_t      = delta_t + discount * gae_lambda * (1 - d_t) * A_{t+1}
        return_t = A_t + V_t

    Args:
        reward: rewards r_t [T,B,...], received for the action at t.
        value: values V_t [T,B,...], by the network that acted.
        done: flags d_t [T,B,...], nonzero where the episode ends at t, time limits included.
        bootstrap_value: values V_T [B,...] of the observation after the last step; also [1,B,...].
        discount: discount factor of one step.
        gae_lambda: weight; 0 for one-step advantages, 1 for discounted returns minus values.
        advantage_dest: array [T,B,...] to write into, optional.
        return_dest: array [T,B,...] to write into, optional.

    Returns:
        The pair of [T,B,...] A_t and [T,B,...] return_t, numpy or torch as ``reward``.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16.
    """
    timeout = _zeros_like(done)
    return generalized_advantage_estimation_tl(
        reward,
        value,
        done,
        bootstrap_value,
        discount,
        gae_lambda,
        timeout,
        advantage_dest=advantage_dest,
        return_dest=return_dest,
    )


def generalized_advantage_estimation_tl(
    reward: Array,
    value: Array,
    done: Array,
    bootstrap_value: Any,
    discount: float,
    gae_lambda: float,
    timeout: Array,
    advantage_dest: Array | None = None,
    return_dest: Array | None = None,
) -> tuple[Any, Any]:
    """Return generalized advantages that do not mistake a time limit for a terminal state.

    Differs from :func:`generalized_advantage_estimation` in that delta_t = 0 (so return_t = V_t)
    where a time limit truncated the episode.

    Args:
        reward: rewards r_t [T,B,...].
        value: values V_t [T,B,...].
        done: flags d_t [T,B,...].
        bootstrap_value: values V_T [B,...]; also [1,B,...].
        discount: discount factor of one step.
        gae_lambda: weight in [0, 1].
        timeout: flags [T,B,...], nonzero where ``done`` comes from a time limit.
        advantage_dest: array [T,B,...] to write into, optional.
        return_dest: array [T,B,...] to write into, optional.

    Returns:
        The pair of [T,B,...] A_t and [T,B,...] return_t.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16; Pardo et al. 2018, arXiv:1712.00378.
    """
    if isinstance(reward, torch.Tensor) and (not reward.is_cpu or torch.compiler.is_compiling()):
        return _gae_on_device(
            reward,
            value,
            done,
            timeout,
            bootstrap_value,
            discount,
            gae_lambda,
            advantage_dest,
            return_dest,
        )
    shape = tuple(reward.shape)
    rewards = as_float_rows("reward", reward)
    values = as_float_rows("value", value, shape)
    advantages = np.empty_like(rewards)
    returns = np.empty_like(rewards)
    _gae(
        rewards,
        values,
        as_flag_rows("done", done, shape),
        as_flag_rows("timeout", timeout, shape),
        as_float_rows("bootstrap_value", bootstrap_value, (1, *shape[1:])),
        float(discount),
        float(gae_lambda),
        advantages,
        returns,
    )
    return like(advantages, shape, reward, advantage_dest), like(
        returns, shape, reward, return_dest
    )


def q_lambda_return(
    reward: Array,
    value: Array,
    done: Array,
    bootstrap_value: Any,
    discount: float,
    q_lambda: float,
    timeout: Array | None = None,
    return_dest: Array | None = None,
) -> Any:
    """Return lambda returns of Q-learning that are not cut at exploratory actions.

        G_t = r_t + discount * (1 - d_t) * (q_lambda * G_{t+1} + (1 - q_lambda) * V_{t+1})
        V_t = max_a Q(s_t, a),      G_T = V_T

    This is the recursion of generalized advantages: G_t = A_t + V_t. Where a time limit truncated
    the episode, G_t = V_t.

    Args:
        reward: rewards r_t [T,B,...], received for the action at t.
        value: values V_t [T,B,...].
        done: flags d_t [T,B,...], nonzero where the episode ends at t.
        bootstrap_value: values V_T [B,...] of the observation after the last step; also [1,B,...].
        discount: discount factor of one step.
        q_lambda: weight in [0, 1]; 0 for one-step returns, 1 for discounted returns.
        timeout: flags [T,B,...], nonzero where ``done`` comes from a time limit; None for no time
            limits.
        return_dest: array [T,B,...] to write into, optional.

    Returns:
        [T,B,...] G_t, numpy or torch as ``reward``.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Peng and Williams 1996, doi:10.1007/BF00114731; Gallici et al. 2024, arXiv:2407.04811,
    algorithm 1.
    """
    timeout = _zeros_like(done) if timeout is None else timeout
    inputs = (reward, value, done, bootstrap_value, discount, q_lambda, timeout)
    return generalized_advantage_estimation_tl(*inputs, return_dest=return_dest)[1]


def vtrace(
    ratio: torch.Tensor,
    reward: torch.Tensor,
    value: torch.Tensor,
    done: torch.Tensor,
    bootstrap_value: torch.Tensor,
    discount: float,
    vtrace_lambda: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    timeout: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return advantages and targets of values for a policy that differs from the one that acted.

        rho_t   = min(rho_bar, ratio_t)
        c_t     = vtrace_lambda * min(c_bar, ratio_t)
        delta_t = rho_t * (r_t + discount * (1 - d_t) * V_{t+1} - V_t)
        v_t     = V_t + delta_t + discount * (1 - d_t) * c_t * (v_{t+1} - V_{t+1}),    v_T = V_T
        A_t     = rho_t * (r_t + discount * (1 - d_t) * v_{t+1} - V_t)

    If both policies are the same, no bound is below 1 and ``vtrace_lambda`` is 1, v_t are
    discounted returns. Where a time limit truncated the episode, v_t = V_t and A_t = 0.

    Args:
        ratio: likelihood ratios [T,B] of the actions: policy to evaluate over policy that acted.
        reward: rewards r_t [T,B], received for the action at t.
        value: values V_t [T,B].
        done: flags d_t [T,B], nonzero where the episode ends at t.
        bootstrap_value: values V_T [B] or [1,B] of the observation after the last step.
        discount: discount factor of one step.
        vtrace_lambda: weight in [0, 1]; 0 for one-step targets.
        rho_bar: upper bound of the weights of TD errors, which determines the policy whose values
            are the fixed point.
        c_bar: upper bound of the weights of later TD errors, at most ``rho_bar``; it determines
            the variance and the speed of learning.
        timeout: flags [T,B], nonzero where ``done`` comes from a time limit; None for no time
            limits.

    Returns:
        The pair of A_t and v_t [T,B], of the dtype of ``reward``.

    Raises:
        ValueError: if shapes differ or a tensor requires grad.

    Source: Espeholt et al. 2018, arXiv:1802.01561, section 4.1 (eq. 1, remarks 1 and 2) and 4.2.
    """
    shapes = {tuple(x.shape) for x in (ratio, reward, value, done)}
    if len(shapes) > 1:
        raise ValueError(
            f"ratio, reward, value and done have the shapes {[*map(list, shapes)]}: give all as "
            "[T,B]"
        )
    check_targets(ratio=ratio, reward=reward, value=value, bootstrap_value=bootstrap_value)
    weight, rewards, values = ratio.double(), reward.double(), value.double()
    last = torch.broadcast_to(bootstrap_value.double(), values[:1].shape)
    later = discount * (done == 0).double()
    learned = torch.ones_like(later) if timeout is None else ((done == 0) | (timeout == 0)).double()
    rho = learned * weight.clamp(max=rho_bar)
    delta = rho * (rewards + later * torch.cat([values[1:], last]) - values)
    targets = values + _discounted_sums(delta, later * vtrace_lambda * weight.clamp(max=c_bar))
    advantage = rho * (rewards + later * torch.cat([targets[1:], last]) - values)
    return advantage.to(reward.dtype), targets.to(reward.dtype)


def _zeros_like(array: Array) -> Any:
    return torch.zeros_like(array) if isinstance(array, torch.Tensor) else np.zeros_like(array)


# --- Rows of compiled recursions ------------------------------------------------------------------


def as_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """View a time-major ``array`` [T,...] as numpy [T,N]; a single row if ``shape`` has T = 1.

    Args:
        name: argument named in errors.
        array: numpy or torch, on any device.
        shape: expected shape [T,...]; None to accept any with at least one dimension.

    Raises:
        ValueError: if the shape differs, or a tensor is part of a graph (returns are targets).
    """
    if isinstance(array, torch.Tensor):
        check_targets(**{name: array})
        # numpy has no bfloat16.
        array = (array.float() if array.dtype == torch.bfloat16 else array).cpu().numpy()
    rows = np.asarray(array)
    shape = rows.shape if shape is None else shape
    if not shape:
        raise ValueError(f"{name} needs a leading time dimension, got a scalar")
    # A row for all time steps, as [B,...] or a scalar, is broadcast, and so are axes after [T,B].
    is_row = shape[0] == 1
    if not is_row and (rows.ndim != len(shape) or rows.shape[:2] != shape[:2]):
        raise ValueError(f"{name} has shape {rows.shape}, expected {shape}, time first")
    try:
        rows = np.broadcast_to(rows, shape)
    except ValueError:
        raise ValueError(f"{name} has shape {rows.shape}, expected {shape}, time first") from None
    width = int(np.prod(shape[1:], dtype=int))
    # Contiguous, so that every caller meets the same compiled specialization.
    return np.ascontiguousarray(rows.reshape(shape[0], width))


def as_float_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Convert like :func:`as_rows`, integers and booleans to float64, float16 to float32."""
    rows = as_rows(name, array, shape)
    if rows.dtype == np.float16:  # Compiled loops do not support it.
        return rows.astype(np.float32)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)


def as_flag_rows(name: str, array: Any, shape: tuple[int, ...] | None = None) -> NDArray:
    """Convert like :func:`as_rows`; numeric flags become bool."""
    return as_rows(name, array, shape).astype(np.bool_, copy=False)


def like(result: NDArray, shape: tuple[int, ...], example: Any, dest: Array | None) -> Any:
    """Give ``result`` a shape, and the type, device and dtype of ``example``.

    Args:
        result: flags or numbers [T,N]; numbers stay float where the example has integers.
        shape: shape of the returned array.
        example: argument whose type the caller expects back.
        dest: array to write the result into and return, optional.
    """
    shaped = result.reshape(shape)
    if isinstance(dest, torch.Tensor):
        return dest.copy_(torch.from_numpy(shaped))
    if dest is not None:
        dest[:] = shaped
        return dest
    is_flags = result.dtype == np.bool_
    if isinstance(example, torch.Tensor):
        moved = torch.from_numpy(shaped).to(example.device)
        return moved.to(example.dtype) if is_flags or example.is_floating_point() else moved
    if is_flags or example.dtype.kind == "f":
        return shaped.astype(example.dtype, copy=False)
    return shaped
