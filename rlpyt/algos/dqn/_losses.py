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


def quantile_midpoints(n_quantiles: int, device: torch.device | None = None) -> torch.Tensor:
    """The fractions [N] in the middle of N equal parts of [0, 1].

        tau_i = (i - 1/2) / N,      i = 1, ..., N

    Args:
        n_quantiles: N.
        device: of the result.

    Source: Dabney et al. 2018, arXiv:1710.10044, lemma 2.
    """
    return (torch.arange(n_quantiles, device=device) + 0.5) / n_quantiles


def quantile_huber_loss(
    quantiles: torch.Tensor, tau: torch.Tensor, target: torch.Tensor, kappa: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Huber loss of each quantile to each target, weighted by the fraction on that side of it.

        u_ij = target_j - quantiles_i
        loss = sum_i mean_j |tau_i - (1 if u_ij < 0 else 0)| * huber(u_ij) / kappa

    Args:
        quantiles: [B,N], with gradient.
        tau: [N] or [B,N] fractions in (0, 1) of the quantiles.
        target: [B,M] samples of the return, or quantiles of it.
        kappa: where the Huber loss turns linear, positive.

    Returns:
        The loss [B], and the absolute difference of the means of quantiles and targets [B], without
        gradient, at most ``kappa``.

    Source: Dabney et al. 2018, arXiv:1806.06923, eq. 3 (with equal fractions: arXiv:1710.10044,
    algorithm 1).
    """
    shape = (*quantiles.shape, target.shape[-1])
    quantiles_i, target_j = (
        quantiles.unsqueeze(-1).expand(shape),
        target.unsqueeze(-2).expand(shape),
    )
    huber = F.huber_loss(quantiles_i, target_j, reduction="none", delta=kappa)
    is_above = target_j < quantiles_i.detach()
    weights = (tau.unsqueeze(-1) - is_above.to(tau.dtype)).abs_()
    loss = (weights * huber).mean(-1).sum(-1) / kappa
    td_abs_error = (target.mean(-1) - quantiles.detach().mean(-1)).abs_()
    return loss, td_abs_error.clamp_(max=kappa)
