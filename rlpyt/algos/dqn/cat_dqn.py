"""Categorical DQN: learns the distribution of returns, not only its mean."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos._settings import check_gives_distributions, check_range_of_returns
from rlpyt.algos.dqn.dqn import DQN, SamplesToBuffer as SamplesToBuffer
from rlpyt.algos.losses import EPS as EPS, categorical_projection, categorical_td_loss
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class CategoricalDQN(DQN):
    """Minimises the cross-entropy of the predicted and the projected target distribution.

    Returns have P (``agent.n_atoms``) possible values z, evenly spaced from V_min to V_max. Where
    samples are prioritized, it is by the Kullback-Leibler divergence.

    Args:
        V_min: smallest return.
        V_max: largest return.
        **kwargs: of :class:`~rlpyt.algos.dqn.dqn.DQN`; ``delta_clip`` serves only as priority of
            new samples.

    Source: Bellemare et al. 2017, arXiv:1707.06887, algorithm 1.
    """

    V_min: float
    V_max: float

    def __init__(self, V_min: float = -10, V_max: float = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        save__init__args(locals())

    def _check_settings(self) -> None:
        super()._check_settings()
        check_range_of_returns(self)

    def _check_agent(self) -> None:
        check_gives_distributions(self, "CatDqnAgent", "DQN")

    def _configure_agent(self) -> None:
        super()._configure_agent()
        self.agent.give_V_min_max(self.V_min, self.V_max)

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss, and the Kullback-Leibler divergences [B], without gradient.
        """
        p = self.select_at_indexes(samples.action, self.agent(*samples.agent_inputs))
        z = torch.linspace(self.V_min, self.V_max, self.agent.n_atoms, device=p.device)
        target_p = categorical_projection(
            samples.return_,
            samples.done_n,
            self.next_p(samples.target_inputs, z),
            z,
            self.discount,
            self.n_step_return,
        )
        losses, kl_div = categorical_td_loss(p, target_p)
        return self.weighted_mean(losses, samples), kl_div

    @torch.no_grad()
    def next_p(self, target_inputs: Nested, z: torch.Tensor) -> torch.Tensor:
        """Distributions [B,P] after n steps, by the target network, for its best actions."""
        inputs = self._moved_once(target_inputs)
        target_ps: torch.Tensor = self.agent.target(*inputs)
        choosing_ps = self.agent(*inputs) if self.double_dqn else target_ps
        next_action = torch.matmul(choosing_ps, z).argmax(dim=-1)
        return self.select_at_indexes(next_action, target_ps)
