"""Batch renormalization, and passes through networks that leave its statistics unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed
import torch.nn.functional as F


class BatchRenorm(torch.nn.Module):
    """Normalization of features by the batch, corrected towards running statistics.

    In training, with the mean m and variance v of the batch, their running averages M and V,
    s = sqrt(v + eps) and S = sqrt(V + eps), a pass with gradients computes::

        y = weight (r (x - m) / s + d) + bias
        r = clamp(s / S, 1 / r_max, r_max),      d = clamp((m - M) / S, -d_max, d_max)
        M <- momentum M + (1 - momentum) m,      V <- momentum V + (1 - momentum) v

    without gradients through r and d, which use M and V before the update. For the first
    ``warm_up`` batches r is 1 and d is 0. In evaluation, and without gradients,
    y = weight (x - M) / S + bias, and nothing is updated.

    With torch.distributed each process normalizes by its own batch, and m and v are averaged over
    the processes before they enter M and V, which stay equal everywhere.

    Buffers (keys of the state dict): ``running_mean`` and ``running_var`` [F], at first 0 and 1,
    and ``n_batches`` [], the number of batches so far.

    Args:
        n_features: number F of features.
        eps: number added to variances.
        momentum: weight of the running averages in their update, in [0, 1).
        r_max: upper limit of r, and of 1 / r.
        d_max: upper limit of the magnitude of d.
        warm_up: number of batches without correction.

    Source: Ioffe 2017, arXiv:1702.03275, algorithm 1, with a running variance for the running
    standard deviation; defaults as in Bhatt et al. 2024, arXiv:1902.05605.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor
    n_batches: torch.Tensor

    def __init__(
        self,
        n_features: int,
        eps: float = 1e-3,
        momentum: float = 0.99,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warm_up: int = 100_000,
    ) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.r_max = r_max
        self.d_max = d_max
        self.warm_up = warm_up
        self.weight = torch.nn.Parameter(torch.ones(n_features))
        self.bias = torch.nn.Parameter(torch.zeros(n_features))
        self.register_buffer("running_mean", torch.zeros(n_features))
        self.register_buffer("running_var", torch.ones(n_features))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize features [...,F]; all leading dimensions together are the batch.

        Raises:
            ValueError: in training with gradients, for a batch of one datum.
        """
        flat = x.reshape(-1, x.shape[-1]).to(self.weight.dtype)  # Not in half precision.
        # Before they have a mode, samplers run networks on an example, without gradients.
        if self.training and torch.is_grad_enabled():
            r, d = self._correct_and_update(flat.detach())
            weight, bias = self.weight * r, torch.addcmul(self.bias, self.weight, d)
            y = F.batch_norm(flat, None, None, weight, bias, training=True, eps=self.eps)
        else:
            mean, var = self.running_mean, self.running_var
            y = F.batch_norm(flat, mean, var, self.weight, self.bias, eps=self.eps)
        return y.reshape(x.shape)

    @torch.no_grad()
    def _correct_and_update(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return r and d [F] for a batch [B,F], then update the running averages."""
        var, mean = torch.var_mean(x, dim=0, correction=0)
        running_std = (self.running_var + self.eps).sqrt()
        r = ((var + self.eps).sqrt() / running_std).clamp(1 / self.r_max, self.r_max)
        d = ((mean - self.running_mean) / running_std).clamp(-self.d_max, self.d_max)
        is_warm = self.n_batches >= self.warm_up  # A tensor: nothing waits for the device.
        r, d = torch.where(is_warm, r, 1.0), torch.where(is_warm, d, 0.0)
        mean, var = _mean_of_processes(torch.stack([mean, var]))
        self.running_mean.lerp_(mean, 1 - self.momentum)
        self.running_var.lerp_(var, 1 - self.momentum)
        self.n_batches.add_(1)
        return r, d


def _mean_of_processes(x: torch.Tensor) -> torch.Tensor:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(x)
        x = x / torch.distributed.get_world_size()
    return x


def renorm_layers(*networks: torch.nn.Module) -> list[BatchRenorm]:
    """Return the layers of batch renormalization in ``networks``."""
    layers = (layer for network in networks for layer in network.modules())
    return [layer for layer in layers if isinstance(layer, BatchRenorm)]


@contextmanager
def running_statistics(layers: Sequence[BatchRenorm]) -> Iterator[None]:
    """Let ``layers`` work as in evaluation.

    They normalize by their running statistics and leave them unchanged. Other layers, such as
    dropout, keep their mode.
    """
    trained = [layer for layer in layers if layer.training]
    for layer in trained:
        layer.eval()
    try:
        yield
    finally:
        for layer in trained:
            layer.train()
