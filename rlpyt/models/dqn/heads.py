"""Heads of Q-networks."""

from __future__ import annotations

import math

import torch

from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.mlp import MlpModel, Sizes
from rlpyt.models.noisy import linear_layer


class DistributionalHeadModel(torch.nn.Module):
    """Perceptron with one output for each action and atom.

    Args:
        input_size: number of features.
        layer_sizes: widths of the hidden layers.
        output_size: number of actions A.
        n_atoms: number of atoms P.
        noisy: whether layers are :class:`~rlpyt.models.noisy.NoisyLinear`.
    """

    def __init__(
        self,
        input_size: int,
        layer_sizes: Sizes,
        output_size: int,
        n_atoms: int,
        noisy: bool = False,
    ) -> None:
        super().__init__()
        n_outputs = output_size * n_atoms
        self.mlp = MlpModel(input_size, layer_sizes, n_outputs, LinearCls=linear_layer(noisy))
        self._output_size = output_size
        self._n_atoms = n_atoms

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [B,input_size] to logits of the atoms [B,A,P]."""
        logits: torch.Tensor = self.mlp(input)
        return logits.reshape(-1, self._output_size, self._n_atoms)


class ImplicitQuantileHeadModel(torch.nn.Module):
    """Head that computes quantiles of each action's return, at any fractions.

    ::

        phi_f(tau) = relu(sum_{i<n_cosines} w_if cos(pi i tau) + b_f)
        Z_tau      = head(features * phi(tau))

    Args:
        input_size: number of features F.
        hidden_sizes: widths of the hidden layers of the head.
        output_size: number of actions A.
        n_cosines: number of cosines.
        dueling: whether the head is a :class:`~rlpyt.models.dqn.dueling.DuelingHeadModel`.
        noisy: whether layers of the head are :class:`~rlpyt.models.noisy.NoisyLinear`.

    Raises:
        ValueError: if there are no cosines.

    Source: Dabney et al. 2018, arXiv:1806.06923, eq. 4.
    """

    pi_times_i: torch.Tensor

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sizes,
        output_size: int,
        n_cosines: int = 64,
        dueling: bool = False,
        noisy: bool = False,
    ) -> None:
        super().__init__()
        if n_cosines < 1:
            raise ValueError(f"n_cosines is {n_cosines}: make it at least 1")
        self.embedding = torch.nn.Linear(n_cosines, input_size)
        self.q = q_head(input_size, hidden_sizes, output_size, dueling, noisy)
        self.register_buffer("pi_times_i", math.pi * torch.arange(n_cosines), persistent=False)

    def forward(self, input: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """Map features [B,F] and fractions tau [B,N] to quantiles [B,A,N]."""
        cosines = torch.cos(tau.unsqueeze(-1) * self.pi_times_i)
        features = input.unsqueeze(1) * torch.relu(self.embedding(cosines))  # [B,N,F]
        quantiles: torch.Tensor = self.q(features.flatten(0, 1))
        return quantiles.reshape(*tau.shape, -1).transpose(1, 2)


def q_head(
    input_size: int,
    hidden_sizes: Sizes,
    output_size: int,
    dueling: bool,
    noisy: bool = False,
    layer_norm: bool = False,
) -> torch.nn.Module:
    """Return a head that maps features [B,input_size] to action values [B,A]."""
    sizes = input_size, hidden_sizes, output_size
    if dueling:
        return DuelingHeadModel(*sizes, noisy=noisy, layer_norm=layer_norm)
    return MlpModel(*sizes, LinearCls=linear_layer(noisy), layer_norm=layer_norm)


def distributional_head(
    input_size: int,
    hidden_sizes: Sizes,
    output_size: int,
    n_atoms: int,
    dueling: bool,
    noisy: bool = False,
) -> torch.nn.Module:
    """Return a head that maps features [B,input_size] to logits or quantiles [B,A,P]."""
    HeadCls = DistributionalDuelingHeadModel if dueling else DistributionalHeadModel
    return HeadCls(input_size, hidden_sizes, output_size, n_atoms, noisy=noisy)
