"""Quantile regression DQN: Q-learning of quantiles of the return."""

from __future__ import annotations

import torch

from rlpyt.algos.dqn.dqn import DQN, SamplesToBuffer as SamplesToBuffer
from rlpyt.algos.losses import n_step_target, quantile_huber_loss, quantile_midpoints
from rlpyt.utils.types import Nested


class QRDQN(DQN):
    """QR-DQN: minimizes the quantile Huber loss between predicted and target quantiles.

        y_j  = R_n + (1 - done_n) * discount^n * theta_target_j(s', a'),      j = 1, ..., N
        loss = mean of weight * sum_i mean_j |tau_i - (1 if u_ij < 0 else 0)| * huber(u_ij) / kappa
        u_ij = y_j - theta_i(s, a),      tau_i = (i - 1/2) / N

    where a' is the action with the greatest mean of quantiles. Unlike :class:`CategoricalDQN` it
    needs no range of returns. kappa is ``delta_clip``, which must not be None. The priority of a
    sample is the absolute difference between the means of theta and y, at most kappa.

    Args:
        delta_clip: error kappa above which the quantile Huber loss is linear; not None.
        **kwargs: settings of :class:`~rlpyt.algos.dqn.dqn.DQN`.

    Source: Dabney et al. 2018, arXiv:1710.10044, algorithm 1.
    """

    q_kind = "quantile"
    agent_example = "QrDqnAgent"

    delta_clip: float = 1.0

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.delta_clip is None:
            raise ValueError(
                f"delta_clip is None, but {type(self).__name__} needs kappa > 0: only the linear "
                "part of the Huber loss estimates quantiles; make it positive, e.g. 1.0, or less "
                "to smooth less"
            )

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss, and the absolute TD errors of the means [B], without gradient.
        """
        quantiles, tau = self.quantiles(samples.agent_inputs)
        y = n_step_target(
            self.target_return(samples)[:, None],
            samples.done_n[:, None],
            self.next_quantiles(samples.target_inputs),
            self.discount,
            self.bootstrap_steps(samples),
        )
        chosen = self.select_at_indexes(samples.action, quantiles)
        losses, td_abs_errors = quantile_huber_loss(chosen, tau, y, self.delta_clip)
        self._q_taken = chosen.detach().mean(-1)
        return self.weighted_mean(losses, samples), td_abs_errors

    def quantiles(self, agent_inputs: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Return quantiles [B,A,N] of all actions, with gradients, and fractions [N] or [B,N]."""
        quantiles: torch.Tensor = self.agent(*agent_inputs)
        return quantiles, quantile_midpoints(quantiles.shape[-1], quantiles.device)

    @torch.no_grad()
    def next_quantiles(self, target_inputs: Nested) -> torch.Tensor:
        """Return quantiles [B,N'] after n steps, by the target network, for its best actions."""
        choosing, quantiles = self.next_outputs(target_inputs)
        return self.select_at_indexes(choosing.mean(dim=-1).argmax(dim=-1), quantiles)

    def next_outputs(self, inputs: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the quantiles [B,A,K] that choose actions, and the target quantiles [B,A,N']."""
        if not self.double_dqn:
            quantiles: torch.Tensor = self.agent.target(*inputs)
            return quantiles, quantiles
        inputs = self.agent.to_model_device(*inputs)  # Once for both networks.
        return self.agent(*inputs), self.agent.target(*inputs)
