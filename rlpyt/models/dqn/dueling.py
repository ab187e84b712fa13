"""Heads of Q-networks that estimate state values and advantages of actions separately."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.noisy import linear_layer
from rlpyt.models.utils import scale_grad


class DuelingHeadModel(torch.nn.Module):
    """Dueling head: action values from two streams that share their input.

    ::

        Q(s, a) = V(s) + A(s, a) - mean_a' A(s, a')

    The gradient into the input is scaled, because two streams add to it. All advantages share one
    bias.

    Args:
        input_size: number of features.
        hidden_sizes: widths of the hidden layers of each stream.
        output_size: number of actions A.
        grad_scale: factor of the gradient into the input.
        noisy: whether layers are :class:`~rlpyt.models.noisy.NoisyLinear`.
        layer_norm: whether to normalize each hidden layer before its nonlinearity.

    Source: Wang et al. 2016, arXiv:1511.06581, eq. 9; the factor: section 4.2.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sizes,
        output_size: int,
        grad_scale: float = 2 ** (-1 / 2),
        noisy: bool = False,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        LinearCls = linear_layer(noisy)
        kwargs: Any = {"LinearCls": LinearCls, "layer_norm": layer_norm}
        self.advantage_hidden = MlpModel(input_size, hidden_sizes, **kwargs)
        self.advantage_out = LinearCls(self.advantage_hidden.output_size, output_size, bias=False)
        self.advantage_bias = torch.nn.Parameter(torch.zeros(1))
        self.value = MlpModel(input_size, hidden_sizes, 1, **kwargs)
        self._grad_scale = grad_scale

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [B,input_size] to action values [B,A]."""
        features = scale_grad(input, self._grad_scale)
        advantage = self.advantage(features)
        q: torch.Tensor = self.value(features) + advantage - advantage.mean(dim=-1, keepdim=True)
        return q

    def advantage(self, input: torch.Tensor) -> torch.Tensor:
        """Return advantages [B,A] from features [B,input_size], not yet centred."""
        advantage: torch.Tensor = self.advantage_out(self.advantage_hidden(input))
        return advantage + self.advantage_bias


class DistributionalDuelingHeadModel(torch.nn.Module):
    """Dueling head with one output for each action and atom of a distribution over returns.

    Args:
        input_size: number of features.
        hidden_sizes: widths of the hidden layers of each stream.
        output_size: number of actions A.
        n_atoms: number of atoms P.
        grad_scale: factor of the gradient into the input.
        noisy: whether layers are :class:`~rlpyt.models.noisy.NoisyLinear`.

    Source: Hessel et al. 2018, arXiv:1710.02298, section "Network architecture".
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sizes,
        output_size: int,
        n_atoms: int,
        grad_scale: float = 2 ** (-1 / 2),
        noisy: bool = False,
    ) -> None:
        super().__init__()
        LinearCls = linear_layer(noisy)
        self.advantage_hidden = MlpModel(input_size, hidden_sizes, LinearCls=LinearCls)
        self.advantage_out = LinearCls(
            self.advantage_hidden.output_size, output_size * n_atoms, bias=False
        )
        self.advantage_bias = torch.nn.Parameter(torch.zeros(n_atoms))
        self.value = MlpModel(input_size, hidden_sizes, n_atoms, LinearCls=LinearCls)
        self._grad_scale = grad_scale
        self._output_size = output_size
        self._n_atoms = n_atoms

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [B,input_size] to logits of the atoms [B,A,P]."""
        features = scale_grad(input, self._grad_scale)
        advantage = self.advantage(features)
        value = self.value(features).reshape(-1, 1, self._n_atoms)
        logits: torch.Tensor = value + advantage - advantage.mean(dim=1, keepdim=True)
        return logits

    def advantage(self, input: torch.Tensor) -> torch.Tensor:
        """Return advantages [B,A,P] from features [B,input_size], not yet centred."""
        advantage: torch.Tensor = self.advantage_out(self.advantage_hidden(input))
        return advantage.reshape(-1, self._output_size, self._n_atoms) + self.advantage_bias
