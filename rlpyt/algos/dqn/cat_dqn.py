"""Categorical DQN (C51): Q-learning of the distribution of returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.algos.dqn.dqn import DQN, SamplesToBuffer as SamplesToBuffer
from rlpyt.algos.losses import EPS as EPS, categorical_projection, categorical_td_loss
from rlpyt.algos.replay import ReplayAlgorithm
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class RangeOfReturns(ReplayAlgorithm):
    """Mixin of algorithms that learn distributions of returns from V_min to V_max; list it first.

    Its log has ``edgeMass``, the probability of the two outermost returns in the targets, which is
    large if the range is too small.
    """

    V_min: float
    V_max: float
    warned_of_range = False
    _edge_mass: torch.Tensor | None = None  # In the last batch; other losses may not set it.

    def _check_settings(self) -> None:
        super()._check_settings()
        if not self.V_min < self.V_max:
            raise ValueError(
                f"V_min is {self.V_min} and V_max is {self.V_max}: make V_max the greater"
            )

    def _configure_agent(self) -> None:
        super()._configure_agent()
        self.agent.give_V_min_max(self.V_min, self.V_max)

    def returns_of_atoms(self, device: torch.device) -> torch.Tensor:
        """Return the possible values z [P] of returns, evenly spaced."""
        return torch.linspace(self.V_min, self.V_max, self.agent.n_atoms, device=device)

    def fetch_opt_info(self, opt_info: Any) -> Any:
        opt_info = super().fetch_opt_info(opt_info)
        self._warn_of_range(opt_info._asdict().get("edgeMass", ()))
        return opt_info

    def _warn_of_range(self, edge_mass: Sequence[float]) -> None:
        """Warn once if more than a tenth of the target probability is on the outermost atoms.

        Args:
            edge_mass: probability of the outermost atoms in each update of an iteration.
        """
        if self.warned_of_range or not edge_mass or sum(edge_mass) / len(edge_mass) <= 0.1:
            return
        self.warned_of_range = True
        bounds = ""
        if self.discount < 1 and isinstance(self.replay_buffer, BaseNStepReturnBuffer):
            rewards = self.replay_buffer.samples.reward
            low, high = min(0.0, float(rewards.min())), max(0.0, float(rewards.max()))
            low, high = low / (1 - self.discount), high / (1 - self.discount)
            bounds = f" By the rewards so far, no return is below {low:.4g} or above {high:.4g}."
        logger.log(
            f"WARNING: {sum(edge_mass) / len(edge_mass):.0%} of the targets' probability is on the "
            "two outermost returns: unless returns end there, widen V_min, V_max, now "
            f"{self.V_min}, {self.V_max}; returns beyond are cut off (edgeMass in the log).{bounds}"
        )


class CategoricalDQN(RangeOfReturns, DQN):
    """C51: minimizes the cross-entropy of the predicted and the projected target distribution.

    Returns have P (``agent.n_atoms``) possible values z, evenly spaced from V_min to V_max. The
    priority of a sample is its Kullback-Leibler divergence. The log also has ``edgeMass``, the
    probability of z_1 and z_P in the targets, which is large if the range is too small.

    Args:
        V_min: smallest return that the distribution can represent.
        V_max: largest return that the distribution can represent.
        delta_clip: default of ``default_priority``, without effect on the loss; None for 1.
        **kwargs: settings of :class:`~rlpyt.algos.dqn.dqn.DQN`.

    Source: Bellemare et al. 2017, arXiv:1707.06887, algorithm 1.
    """

    opt_info_fields = (*DQN.opt_info_fields, "edgeMass")
    q_kind = "categorical"
    agent_example = "CatDqnAgent"

    V_min: float = -10
    V_max: float = 10

    def __init__(self, V_min: float = -10, V_max: float = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        save__init__args(locals())

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss, and the Kullback-Leibler divergences [B], without gradient.
        """
        p = self.select_at_indexes(samples.action, self.agent(*samples.agent_inputs))
        z = self.returns_of_atoms(p.device)
        target_p = categorical_projection(
            samples.return_,
            samples.done_n,
            self.next_p(samples.target_inputs, z),
            z,
            self.discount,
            self.bootstrap_steps(samples),
        )
        losses, kl_div = categorical_td_loss(p, target_p)
        self._q_taken = p.detach() @ z
        self._edge_mass = (target_p[:, 0] + target_p[:, -1]).mean()
        return self.weighted_mean(losses, samples), kl_div

    def q_diagnostics(self) -> dict[str, torch.Tensor]:
        values = super().q_diagnostics()
        return values if self._edge_mass is None else {**values, "edgeMass": self._edge_mass}

    @torch.no_grad()
    def next_p(self, target_inputs: Nested, z: torch.Tensor) -> torch.Tensor:
        """Return distributions [B,P] after n steps, by the target network, for its best actions."""
        if not self.double_dqn:
            choosing_ps = target_ps = self.agent.target(*target_inputs)
        else:
            inputs = self.agent.to_model_device(*target_inputs)  # Once for both networks.
            target_ps, choosing_ps = self.agent.target(*inputs), self.agent(*inputs)
        next_action = torch.matmul(choosing_ps, z).argmax(dim=-1)
        return self.select_at_indexes(next_action, target_ps)
