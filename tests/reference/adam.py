"""Adam, written out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


class NaiveAdam:
    """Kingma and Ba 2015, algorithm 1, of gradients scaled down to a norm."""

    def __init__(self, parameters: Sequence[torch.Tensor], lr: float, eps: float = 1e-8) -> None:
        self.parameters, self.lr, self.eps, self.n = list(parameters), lr, eps, 0
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]

    def minimize(self, loss: torch.Tensor, max_norm: float = math.inf) -> None:
        self.step(self.gradients(loss), max_norm)

    def gradients(self, loss: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.autograd.grad(loss, self.parameters, retain_graph=True)

    def step(self, gradients: Sequence[torch.Tensor], max_norm: float = math.inf) -> None:
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        self.n += 1
        for p, g, m, v in zip(self.parameters, gradients, self.m, self.v, strict=True):
            g = g * min(1.0, max_norm / norm) if norm else g
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            m_hat, v_hat = m / (1 - 0.9**self.n), v / (1 - 0.999**self.n)
            p.data.sub_(self.lr * m_hat / (v_hat.sqrt() + self.eps))
