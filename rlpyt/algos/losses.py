"""Losses that algorithms share, as pure functions of tensors, with formulas and sources.

Every loss checks the shapes of its arguments: values [B] and targets [B,1] would silently broadcast
to [B,B], so they raise an error.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

EPS = 1e-6  # Lower limit of divergences that serve as priorities; 1 / EPS is the upper limit.


def check_shapes(**tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` unless all tensors, passed by name, have the same shape."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(
            "shapes differ, and would broadcast: "
            + ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            + "; squeeze or index them to one shape"
        )


def check_leading(n_dim: int, **tensors: torch.Tensor) -> None:
    """Raise ``ValueError`` unless all tensors have equal rank and equal first ``n_dim`` sizes."""
    ranks = {tensor.dim() for tensor in tensors.values()}
    leading = {tensor.shape[:n_dim] for tensor in tensors.values()}
    if len(ranks) > 1 or len(leading) > 1:
        raise ValueError(
            f"ranks or the first {n_dim} dimensions differ: "
            + ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        )


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the mean of ``values`` where ``mask`` of the same shape is true; 0 without any."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


# --- Targets and losses of values -----------------------------------------------------------------


def n_step_target(
    return_: torch.Tensor,
    done_n: torch.Tensor,
    next_value: torch.Tensor,
    discount: float,
    n_step: int | torch.Tensor,
) -> torch.Tensor:
    """Return bootstrapped n-step targets.

        y_t = R_t + (1 - done_n_t) * discount^n * V_{t+n}

    Args:
        return_: [B,...] returns R_t, discounted sums of the n rewards from t on.
        done_n: [B,...] mask, nonzero where the episode ends within these n steps.
        next_value: [B,...] values at the n-th step from t.
        discount: discount factor of one step.
        n_step: number n of steps, one for all or one for each entry [B].

    Returns:
        [B,...] y_t.

    Source: Hessel et al. 2018, arXiv:1710.02298, section "Multi-step learning".
    """
    check_leading(1, return_=return_, done_n=done_n, next_value=next_value)
    if isinstance(n_step, torch.Tensor):
        n_step = n_step.reshape(n_step.shape + (1,) * (next_value.dim() - n_step.dim()))
    return return_ + (1 - done_n.type(next_value.dtype)) * discount**n_step * next_value


def huber_td_loss(
    value: torch.Tensor, target: torch.Tensor, delta_clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the Huber loss of TD errors: quadratic for small errors, linear for large ones.

        delta = target - value
        loss  = delta^2 / 2                            where |delta| <= delta_clip
                delta_clip * (|delta| - delta_clip / 2)    elsewhere

    Args:
        value: values [...], with gradient.
        target: targets [...].
        delta_clip: bound of the quadratic part, positive; None for a quadratic loss everywhere.

    Returns:
        The loss [...], and |delta| [...] without gradient, at most ``delta_clip``.

    Source: Mnih et al. 2015, doi:10.1038/nature14236, Methods ("error clipping").
    """
    check_shapes(value=value, target=target)
    td_abs_error = (target - value).detach().abs()
    if delta_clip is None:
        return 0.5 * F.mse_loss(value, target, reduction="none"), td_abs_error
    loss = F.huber_loss(value, target, reduction="none", delta=delta_clip)
    return loss, td_abs_error.clamp_(max=delta_clip)


def soft_value(q: torch.Tensor, entropy_tau: float) -> torch.Tensor:
    """Return the value of a softmax policy, with a bonus for its entropy.

        pi(a|s) = exp(q(s, a) / tau) / sum_b exp(q(s, b) / tau)
        V(s)    = sum_a pi(a|s) * (q(s, a) - tau * log pi(a|s))
                = tau * log sum_a exp(q(s, a) / tau)

    Args:
        q: values [B,A] of all actions.
        entropy_tau: temperature tau, positive.

    Returns:
        [B] V.

    Source: Vieillard et al. 2020, arXiv:2007.14430, eq. 1.
    """
    return entropy_tau * (q / entropy_tau).logsumexp(-1)


def soft_quantiles(q: torch.Tensor, quantiles: torch.Tensor, entropy_tau: float) -> torch.Tensor:
    """Return quantiles averaged by a softmax policy, with a bonus for its entropy.

        Z_j(s) = sum_a pi(a|s) * (Z_j(s, a) - tau * log pi(a|s))

    where pi is the policy in :func:`soft_value`.

    Args:
        q: values [B,A] of all actions, which determine pi.
        quantiles: quantiles Z_j(s, a) [B,A,N] of all actions.
        entropy_tau: temperature tau, positive.

    Returns:
        [B,N] Z_j(s).

    Source: Vieillard et al. 2020, arXiv:2007.14430, appendix (M-IQN).
    """
    check_shapes(q=q, quantiles=quantiles[..., 0])
    pi = (q / entropy_tau).softmax(-1)
    entropy: torch.Tensor = torch.special.entr(pi).sum(-1, keepdim=True)
    return (pi[..., None] * quantiles).sum(1) + entropy_tau * entropy


def munchausen_bonus(
    q_taken: torch.Tensor, q: torch.Tensor, alpha: float, entropy_tau: float, clip: float
) -> torch.Tensor:
    """Return the bonus to a reward: the clipped log-probability of the action taken.

        m = alpha * clip(tau * log pi(a|s), l_0, 0),      tau * log pi(a|s) = q(s, a) - V(s)

    with pi and V as in :func:`soft_value`.

    Args:
        q_taken: values q(s, a) [B] of the actions taken.
        q: values [B,A] of all actions.
        alpha: weight of the bonus.
        entropy_tau: temperature tau, positive.
        clip: lower bound l_0, negative.

    Returns:
        [B] m.

    Source: Vieillard et al. 2020, arXiv:2007.14430, eq. 2; the bound: section 4.
    """
    value = soft_value(q, entropy_tau)
    check_shapes(q_taken=q_taken, value=value)
    return alpha * (q_taken - value).clamp(clip, 0)


def categorical_projection(
    return_: torch.Tensor,
    done_n: torch.Tensor,
    next_p: torch.Tensor,
    z: torch.Tensor,
    discount: float,
    n_step: int | torch.Tensor,
) -> torch.Tensor:
    """Project the distribution of the bootstrapped return onto the atoms.

        y_j      = clip(R + (1 - done_n) * discount^n * z_j, z_0, z_{P-1})
        target_i = sum_j clip(1 - |y_j - z_i| / dz, 0, 1) * next_p_j,      dz = z_1 - z_0

    Args:
        return_: returns R [B], discounted sum of n rewards.
        done_n: mask [B], nonzero where the episode ends within these n steps.
        next_p: probabilities [B,P] of the atoms after n steps, for the action chosen there.
        z: atoms [P], evenly spaced and increasing.
        discount: discount factor of one step.
        n_step: number n of steps, one for all or one for each sample [B].

    Returns:
        [B,P] probabilities.

    Source: Bellemare et al. 2017, arXiv:1707.06887, eq. 7.
    """
    check_shapes(return_=return_, done_n=done_n, next_p=next_p[:, 0])
    check_shapes(z=z, next_p=next_p[0])
    atoms = z.expand(len(return_), -1)
    y = n_step_target(return_[:, None], done_n[:, None], atoms, discount, n_step)
    y = torch.minimum(torch.maximum(y, z[0]), z[-1])
    weights = 1 - (y[:, None, :] - z[None, :, None]).abs() / (z[1] - z[0])  # [B,i,j]
    return torch.bmm(weights.clamp_(0, 1), next_p[:, :, None]).squeeze(-1)


def categorical_td_loss(
    p: torch.Tensor, target_p: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cross-entropy to the target, and the KL divergence, used as the priority.

        loss = - sum_i target_i * log p_i,      KL = sum_i target_i * log(target_i / p_i)

    with 0 * log 0 = 0. The gradient of the loss in the logits of a softmax is p - target.

    Args:
        p: probabilities [B,P], with gradient.
        target_p: target probabilities [B,P].

    Returns:
        The loss [B], and KL [B] without gradient, in [EPS, 1 / EPS].

    Source: Bellemare et al. 2017, arXiv:1707.06887, algorithm 1.
    """
    check_shapes(p=p, target_p=target_p)
    # The smallest normal number: below it 1 / p is infinite, and a greater bound would remove the
    # gradient of improbable atoms. Logits are not available, since models return probabilities.
    log_p = p.clamp(min=torch.finfo(p.dtype).tiny).log()
    log_target_p = target_p.clamp(min=torch.finfo(target_p.dtype).tiny).log()
    loss = -(target_p * log_p).sum(-1)
    kl_div = (target_p * (log_target_p - log_p.detach())).sum(-1)
    return loss, kl_div.clamp_(EPS, 1 / EPS)


def quantile_midpoints(n_quantiles: int, device: torch.device | None = None) -> torch.Tensor:
    """Return the fractions [N] in the middle of N equal parts of [0, 1].

        tau_i = (i - 1/2) / N,      i = 1, ..., N

    Args:
        n_quantiles: number N of quantiles.
        device: device of the result.

    Source: Dabney et al. 2018, arXiv:1710.10044, lemma 2.
    """
    return (torch.arange(n_quantiles, device=device) + 0.5) / n_quantiles


def quantile_huber_loss(
    quantiles: torch.Tensor, tau: torch.Tensor, target: torch.Tensor, kappa: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the quantile Huber loss: the Huber loss, weighted by the sign of each error.

        u_ij = target_j - quantiles_i
        loss = sum_i mean_j |tau_i - (1 if u_ij < 0 else 0)| * huber(u_ij) / kappa

    Args:
        quantiles: quantiles [B,N], with gradient.
        tau: fractions [N] or [B,N] in (0, 1) of the quantiles.
        target: samples [B,M] of the return, or quantiles of it.
        kappa: bound of the quadratic part, positive.

    Returns:
        The loss [B], and the absolute difference of the means of quantiles and targets [B], without
        gradient, at most ``kappa``.

    Source: Dabney et al. 2018, arXiv:1806.06923, eq. 3 (with equal fractions: arXiv:1710.10044,
    algorithm 1).
    """
    check_leading(1, quantiles=quantiles, target=target)
    check_leading(1, quantiles=quantiles, tau=tau.expand_as(quantiles))
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


# --- Sequences ------------------------------------------------------------------------------------


def value_scale(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Squash values, so that rewards of any size can be learned without clipping them.

        h(x) = sign(x) * (sqrt(|x| + 1) - 1) + eps * x

    Args:
        x: values [...].
        eps: slope that remains for large values, at least 0; makes the inverse Lipschitz.

    Returns:
        [...] h(x).

    Source: Pohlen et al. 2018, arXiv:1805.11593, section 3.2.
    """
    return torch.sign(x) * ((x.abs() + 1).sqrt() - 1) + eps * x


def inv_value_scale(z: torch.Tensor, eps: float) -> torch.Tensor:
    """Return the inverse of :func:`value_scale`.

        h^-1(z) = sign(z) * (((sqrt(1 + 4 eps (|z| + 1 + eps)) - 1) / (2 eps))^2 - 1)

    Args:
        z: squashed values [...].
        eps: slope of :func:`value_scale`.

    Returns:
        [...] h^-1(z).

    Source: Pohlen et al. 2018, arXiv:1805.11593, proposition A.2; computed by the equal fraction u
    = 2 (|z| + 1 + eps) / (sqrt(...) + 1), which is exact where eps is small or 0.
    """
    a = z.abs() + 1 + eps
    u = 2 * a / ((1 + 4 * eps * a).sqrt() + 1)
    return torch.sign(z) * (u - 1) * (u + 1)


def sequence_priorities(
    td_abs_errors: torch.Tensor, valid: torch.Tensor, eta: float
) -> torch.Tensor:
    """Return priorities of sequences: a mix of the largest and the mean TD error.

        p = eta * max_t |delta_t| + (1 - eta) * mean_t |delta_t|

    Args:
        td_abs_errors: absolute TD errors |delta_t| [T,B].
        valid: mask [T,B], 1 for steps that count, 0 for the others.
        eta: weight of the largest error, in [0, 1].

    Returns:
        [B] p, 0 where no step counts.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR), sec. 2.3.
    """
    check_shapes(td_abs_errors=td_abs_errors, valid=valid)
    errors = td_abs_errors * valid
    mean = errors.sum(0) / valid.sum(0).clamp(min=1)
    return eta * errors.max(dim=0).values + (1 - eta) * mean


# --- Policy gradient ------------------------------------------------------------------------------


def policy_gradient_loss(logli: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """Return the loss that raises the likelihood of actions by their advantage.

        loss = -log pi(a|s) * A

    Args:
        logli: log-likelihoods [...], log pi(a|s), with gradient.
        advantage: advantages A [...].

    Returns:
        Losses [...].

    Source: Mnih et al. 2016, arXiv:1602.01783, algorithm S3.
    """
    check_shapes(logli=logli, advantage=advantage)
    return -logli * advantage


def clipped_surrogate_loss(
    ratio: torch.Tensor, advantage: torch.Tensor, ratio_clip: float
) -> torch.Tensor:
    """Return the clipped surrogate loss of PPO: no gain from ratios outside an interval.

        loss = -min(ratio * A, clip(ratio, 1 - c, 1 + c) * A)

    Args:
        ratio: likelihood ratios [...], pi(a|s) / pi_old(a|s), with gradient.
        advantage: advantages A [...].
        ratio_clip: half-width c of the interval, at least 0.

    Returns:
        Losses [...].

    Source: Schulman et al. 2017, arXiv:1707.06347, eq. 7.
    """
    check_shapes(ratio=ratio, advantage=advantage)
    clipped = ratio.clamp(1 - ratio_clip, 1 + ratio_clip)
    return -torch.min(ratio * advantage, clipped * advantage)


def squared_value_loss(value: torch.Tensor, return_: torch.Tensor) -> torch.Tensor:
    """Return half the squared error of values.

        loss = (V - R)^2 / 2

    Args:
        value: values V [...], with gradient.
        return_: returns R [...].

    Returns:
        Losses [...].
    """
    check_shapes(value=value, return_=return_)
    return 0.5 * (value - return_) ** 2


def clipped_value_loss(
    value: torch.Tensor, return_: torch.Tensor, old_value: torch.Tensor, value_clip: float
) -> torch.Tensor:
    """Return the clipped value loss of PPO: no gain from values outside an interval.

        loss = max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2) / 2

    Args:
        value: values V [...], with gradient.
        return_: returns R [...].
        old_value: values V_old [...] by the network that acted.
        value_clip: half-width c of the interval, at least 0, in units of the return.

    Returns:
        Losses [...].

    Source: Andrychowicz et al. 2021, arXiv:2006.05990, appendix B.2.
    """
    check_shapes(value=value, old_value=old_value)
    clipped = old_value + (value - old_value).clamp(-value_clip, value_clip)
    return torch.max(squared_value_loss(value, return_), squared_value_loss(clipped, return_))
