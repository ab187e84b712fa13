"""Agent of distributional DDPG, whose critic estimates a distribution over returns."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.base import setting_of_model
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.models.qpg.mlp import CatQofMuMlpModel
from rlpyt.utils.types import Nested


class D4pgAgent(DdpgAgent):
    """DDPG agent with a critic whose value is the expectation of a distribution over P atoms.

        Q(s, a) = sum_i z_i p_i(s, a)

    Args:
        n_atoms: number of atoms P, at least 2; may be in ``q_model_kwargs`` instead.
        QModelCls: class of the critic; takes ``n_atoms``, returns probabilities [B,P].
        action_std: standard deviation of the noise, a scalar or [A], for actions in [-1, 1].
        **kwargs: keywords of :class:`~rlpyt.agents.qpg.ddpg_agent.DdpgAgent`.

    Raises:
        ValueError: if there are fewer than 2 atoms, or ``q_model_kwargs`` has another number.

    Source: Barth-Maron et al. 2018, arXiv:1804.08617.
    """

    q_kind = "a critic of distributions"
    z: torch.Tensor
    V_min: float
    V_max: float

    def __init__(
        self,
        n_atoms: int = 51,
        QModelCls: Any = CatQofMuMlpModel,
        action_std: Any = 0.3,
        **kwargs: Any,
    ) -> None:
        super().__init__(QModelCls=QModelCls, action_std=action_std, **kwargs)
        n_atoms = setting_of_model(self.q_model_kwargs, "n_atoms", n_atoms, 51)
        if n_atoms < 2:
            raise ValueError(f"n_atoms is {n_atoms}: a range of returns needs at least 2")
        self.n_atoms = n_atoms
        self.q_model_kwargs = {**self.q_model_kwargs, "n_atoms": n_atoms}
        self.z = torch.linspace(-1, 1, n_atoms)  # Until give_V_min_max().

    def give_V_min_max(self, V_min: float, V_max: float) -> None:
        """Set the range of returns; called by the algorithm.

        Args:
            V_min: return of the first atom.
            V_max: return of the last atom.
        """
        self.V_min, self.V_max = V_min, V_max
        self.z = torch.linspace(V_min, V_max, self.n_atoms).to(self.device)

    def to_values(self, output: Any) -> torch.Tensor:
        """Return values [B], given probabilities [B,P]."""
        return torch.matmul(output, self.z.to(output))

    def p(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> torch.Tensor:
        """Compute the probabilities [B,P] of the atoms for actions [B,A], with gradients."""
        inputs = (observation, prev_action, prev_reward, action)
        p: torch.Tensor = self.for_loss(self.run_model(self.q_model, *inputs))
        return p

    @torch.no_grad()
    def target_p_at_mu(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Compute the probabilities [B,P] of the atoms for the target policy's actions."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        target_mu = self.run_model(self.target_model, *inputs)
        p = self.run_model(self.target_q_model, *inputs, target_mu)
        target_p: torch.Tensor = self.for_loss(p)
        return target_p
