"""What learning values from sequences needs beyond the losses of single transitions."""

from __future__ import annotations

import torch


def value_scale(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Squash values, so that rewards of any size can be learned without clipping them.

        h(x) = sign(x) * (sqrt(|x| + 1) - 1) + eps * x

    Args:
        x: [...] values.
        eps: slope which remains for large values, at least 0; makes the inverse Lipschitz.

    Returns:
        [...] h(x).

    Source: Pohlen et al. 2018, arXiv:1805.11593, section 3.2.
    """
    return torch.sign(x) * ((x.abs() + 1).sqrt() - 1) + eps * x


def inv_value_scale(z: torch.Tensor, eps: float) -> torch.Tensor:
    """Undo :func:`value_scale`.

        h^-1(z) = sign(z) * (((sqrt(1 + 4 eps (|z| + 1 + eps)) - 1) / (2 eps))^2 - 1)

    Args:
        z: [...] squashed values.
        eps: as for :func:`value_scale`.

    Returns:
        [...] h^-1(z).

    Source: Pohlen et al. 2018, arXiv:1805.11593, proposition A.2; computed by the equal fraction
    u = 2 (|z| + 1 + eps) / (sqrt(...) + 1), which loses no digits where eps is small or 0.
    """
    a = z.abs() + 1 + eps
    u = 2 * a / ((1 + 4 * eps * a).sqrt() + 1)
    return torch.sign(z) * (u - 1) * (u + 1)


def sequence_priorities(
    td_abs_errors: torch.Tensor, valid: torch.Tensor, eta: float
) -> torch.Tensor:
    """Priorities of sequences: their largest and their mean error, mixed.

        p = eta * max_t |delta_t| + (1 - eta) * mean_t |delta_t|

    Args:
        td_abs_errors: [T,B] |delta_t|.
        valid: [T,B] 1 for steps which count, 0 for the others.
        eta: in [0, 1].

    Returns:
        [B] p, 0 where no step counts.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR), sec. 2.3.
    """
    errors = td_abs_errors * valid
    mean = errors.sum(0) / valid.sum(0).clamp(min=1)
    return eta * errors.max(dim=0).values + (1 - eta) * mean
