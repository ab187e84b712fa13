"""Returns and advantages by any lambda, with and without values in the place of cut episodes."""

from __future__ import annotations

import torch

from rlpyt.returns.advantages import (
    discount_return,
    discount_return_tl,
    generalized_advantage_estimation,
    generalized_advantage_estimation_tl,
)


def returns_and_advantages(
    reward: torch.Tensor,
    value: torch.Tensor,
    done: torch.Tensor,
    bootstrap_value: torch.Tensor,
    discount: float,
    gae_lambda: float,
    timeout: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns and advantages of a time-major batch.

    Arguments are those of :func:`~rlpyt.returns.advantages.generalized_advantage_estimation_tl`;
    without ``timeout`` all ends are ends.

    Returns:
        The pair of [T,B] returns and [T,B] advantages.
    """
    if gae_lambda == 1:  # Spares the rounding of sums of differences.
        targets = (reward, done, bootstrap_value, discount)
        if timeout is None:
            return_ = discount_return(*targets)
        else:
            return_ = discount_return_tl(*targets, timeout, value)
        return return_, return_ - value
    settings = (reward, value, done, bootstrap_value, discount, gae_lambda)
    if timeout is None:
        advantage, return_ = generalized_advantage_estimation(*settings)
    else:
        advantage, return_ = generalized_advantage_estimation_tl(*settings, timeout)
    return return_, advantage
