"""Implicit quantile networks: Q-learning of the whole quantile function of the return."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import make_whole
from rlpyt.algos.dqn.dqn import SamplesToBuffer as SamplesToBuffer
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.utils.types import Nested


class IQN(QRDQN):
    """IQN: minimizes the quantile Huber loss at random fractions, drawn for every sample.

        loss = mean of weight * sum_i mean_j |tau_i - (1 if u_ij < 0 else 0)| * huber(u_ij) / kappa
        u_ij = R_n + (1 - done_n) * discount^n * Z_target_{tau'_j}(s', a') - Z_{tau_i}(s, a)
        tau_i, tau'_j ~ U(0, 1),      i = 1, ..., N,      j = 1, ..., N'

    where a' is the action with the greatest mean over ``agent.n_tau`` further fractions.

    Args:
        n_tau: number N of fractions drawn for the predicted return.
        n_target_tau: number N' of fractions drawn for the target.
        **kwargs: settings of :class:`~rlpyt.algos.dqn.qr_dqn.QRDQN`.

    Source: Dabney et al. 2018, arXiv:1806.06923, eq. 3.
    """

    q_kind = "implicit quantile"
    agent_example = "IqnAgent"

    def __init__(self, n_tau: int = 64, n_target_tau: int = 64, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_tau = n_tau
        self.n_target_tau = n_target_tau

    def _check_settings(self) -> None:
        super()._check_settings()
        make_whole(self, "n_tau", "n_target_tau")

    def quantiles(self, agent_inputs: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Return quantiles [B,A,N] of all actions, with gradients, and their fractions [B,N]."""
        quantiles, tau = self.agent(*agent_inputs, n_tau=self.n_tau)
        return quantiles, tau

    def next_outputs(self, inputs: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the quantiles [B,A,K] that choose actions, and the target quantiles [B,A,N']."""
        if self.double_dqn:
            inputs = self.agent.to_model_device(*inputs)  # Once for both networks.
            choosing, _ = self.agent(*inputs)
            quantiles, _ = self.agent.target(*inputs, n_tau=self.n_target_tau)
            return choosing, quantiles
        n_choosing = self.agent.n_tau
        both, _ = self.agent.target(*inputs, n_tau=n_choosing + self.n_target_tau)
        return both[..., :n_choosing], both[..., n_choosing:]
