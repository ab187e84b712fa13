"""Losses of policy gradient algorithms, as pure functions."""

from __future__ import annotations

import torch


def policy_gradient_loss(logli: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """What increases the likelihood of actions by their advantage.

        loss = -log pi(a|s) * A

    Args:
        logli: [...] log pi(a|s), with gradient.
        advantage: [...] A.

    Returns:
        [...] losses.

    Source: Mnih et al. 2016, arXiv:1602.01783, algorithm S3.
    """
    return -logli * advantage


def clipped_surrogate_loss(
    ratio: torch.Tensor, advantage: torch.Tensor, ratio_clip: float
) -> torch.Tensor:
    """The same by the ratio of likelihoods, which gains nothing from leaving an interval.

        loss = -min(ratio * A, clip(ratio, 1 - c, 1 + c) * A)

    Args:
        ratio: [...] pi(a|s) / pi_old(a|s), with gradient.
        advantage: [...] A.
        ratio_clip: c, at least 0.

    Returns:
        [...] losses.

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7.
    """
    clipped = ratio.clamp(1 - ratio_clip, 1 + ratio_clip)
    return -torch.min(ratio * advantage, clipped * advantage)


def squared_value_loss(value: torch.Tensor, return_: torch.Tensor) -> torch.Tensor:
    """Half the squared error of values.

        loss = (V - R)^2 / 2

    Args:
        value: [...] V, with gradient.
        return_: [...] R.

    Returns:
        [...] losses.
    """
    return 0.5 * (value - return_) ** 2


def clipped_value_loss(
    value: torch.Tensor, return_: torch.Tensor, old_value: torch.Tensor, value_clip: float
) -> torch.Tensor:
    """Half the squared error of values, which gains nothing from leaving an interval.

        loss = max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2) / 2

    Args:
        value: [...] V, with gradient.
        return_: [...] R.
        old_value: [...] V_old, by the network which acted.
        value_clip: c, at least 0, in units of the return.

    Returns:
        [...] losses.

    Source: Andrychowicz et al. 2021, arXiv:2006.05990, appendix B.2.
    """
    clipped = old_value + (value - old_value).clamp(-value_clip, value_clip)
    return torch.max(squared_value_loss(value, return_), squared_value_loss(clipped, return_))
