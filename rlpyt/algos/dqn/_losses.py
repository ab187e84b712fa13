"""Losses of value-based algorithms, as pure functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F

EPS = 1e-6  # Smallest probability, so that logarithms are finite.


def n_step_target(
    return_: torch.Tensor,
    done_n: torch.Tensor,
    next_value: torch.Tensor,
    discount: float,
    n_step: int,
) -> torch.Tensor:
    """Bootstrapped n-step targets.

        y_t = R_t + (1 - done_n_t) * discount^n * V_{t+n}

    Args:
        return_: [B,...] R_t, discounted sum of the n rewards from t on.
        done_n: [B,...] nonzero where the episode ends within them.
        next_value: [B,...] V_{t+n}.
        discount: per step.
        n_step: n.

    Returns:
        [B,...] y_t.

    Source: Hessel et al. 2018, arXiv:1710.02298, section "Multi-step learning".
    """
    return return_ + (1 - done_n.type(next_value.dtype)) * discount**n_step * next_value


def huber_td_loss(
    value: torch.Tensor, target: torch.Tensor, delta_clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared temporal difference, linear where it is large.

        delta = target - value
        loss  = delta^2 / 2                            where |delta| <= delta_clip
                delta_clip * (|delta| - delta_clip / 2)    elsewhere

    Args:
        value: [...], with gradient.
        target: [...].
        delta_clip: positive, or None for the square everywhere.

    Returns:
        The loss [...], and |delta| [...] without gradient, at most ``delta_clip``.

    Source: Mnih et al. 2015, doi:10.1038/nature14236, Methods ("error clipping").
    """
    td_abs_error = (target - value).detach().abs()
    if delta_clip is None:
        return 0.5 * F.mse_loss(value, target, reduction="none"), td_abs_error
    loss = F.huber_loss(value, target, reduction="none", delta=delta_clip)
    return loss, td_abs_error.clamp_(max=delta_clip)


def categorical_projection(
    return_: torch.Tensor,
    done_n: torch.Tensor,
    next_p: torch.Tensor,
    z: torch.Tensor,
    discount: float,
    n_step: int,
) -> torch.Tensor:
    """Distribution of the bootstrapped return, moved to the nearest atoms.

        y_j      = clip(R + (1 - done_n) * discount^n * z_j, z_0, z_{P-1})
        target_i = sum_j clip(1 - |y_j - z_i| / dz, 0, 1) * next_p_j,      dz = z_1 - z_0

    Args:
        return_: [B] R, discounted sum of n rewards.
        done_n: [B] nonzero where the episode ends within them.
        next_p: [B,P] probabilities of the atoms after n steps, for the action chosen there.
        z: [P] atoms, evenly spaced and increasing.
        discount: per step.
        n_step: n.

    Returns:
        [B,P] probabilities.

    Source: Bellemare et al. 2017, arXiv:1707.06887, eq. 7.
    """
    y = n_step_target(return_[:, None], done_n[:, None], z[None], discount, n_step)
    y = torch.minimum(torch.maximum(y, z[0]), z[-1])
    weights = 1 - (y[:, None, :] - z[None, :, None]).abs() / (z[1] - z[0])  # [B,i,j]
    return torch.bmm(weights.clamp_(0, 1), next_p[:, :, None]).squeeze(-1)


def categorical_td_loss(
    p: torch.Tensor, target_p: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the target distribution, and the divergence which serves as priority.

        loss = - sum_i target_i * log p_i,      KL = sum_i target_i * log(target_i / p_i)

    with probabilities clipped to [EPS, 1], save the factor ``target_i`` of the loss.

    Args:
        p: [B,P] probabilities, with gradient.
        target_p: [B,P].

    Returns:
        The loss [B], and KL [B] without gradient, in [EPS, 1 / EPS].

    Source: Bellemare et al. 2017, arXiv:1707.06887, algorithm 1.
    """
    log_p = p.clamp(EPS, 1).log()
    loss = -(target_p * log_p).sum(-1)
    target_p = target_p.clamp(EPS, 1)
    kl_div = (target_p * (target_p.log() - log_p.detach())).sum(-1)
    return loss, kl_div.clamp_(EPS, 1 / EPS)
