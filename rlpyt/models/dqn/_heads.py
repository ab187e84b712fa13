"""Choice of the head of a Q-network."""

from __future__ import annotations

import torch

from rlpyt.models._sizes import Sizes
from rlpyt.models.dqn.dueling import DistributionalDuelingHeadModel, DuelingHeadModel
from rlpyt.models.mlp import MlpModel


class DistributionalHeadModel(torch.nn.Module):
    """A perceptron with one output for each action and atom.

    Args:
        input_size: Number of features.
        layer_sizes: Widths of the hidden layers.
        output_size: Number of actions A.
        n_atoms: Number of atoms P.
    """

    def __init__(self, input_size: int, layer_sizes: Sizes, output_size: int, n_atoms: int) -> None:
        super().__init__()
        self.mlp = MlpModel(input_size, layer_sizes, output_size * n_atoms)
        self._output_size = output_size
        self._n_atoms = n_atoms

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [B,input_size] to logits of the atoms [B,A,P]."""
        logits: torch.Tensor = self.mlp(input)
        return logits.reshape(-1, self._output_size, self._n_atoms)


def q_head(
    input_size: int, hidden_sizes: Sizes, output_size: int, dueling: bool
) -> torch.nn.Module:
    """A head from features [B,input_size] to action values [B,A]."""
    HeadCls = DuelingHeadModel if dueling else MlpModel
    return HeadCls(input_size, hidden_sizes, output_size)


def distributional_head(
    input_size: int, hidden_sizes: Sizes, output_size: int, n_atoms: int, dueling: bool
) -> torch.nn.Module:
    """A head from features [B,input_size] to logits of the atoms [B,A,P]."""
    HeadCls = DistributionalDuelingHeadModel if dueling else DistributionalHeadModel
    return HeadCls(input_size, hidden_sizes, output_size, n_atoms)
