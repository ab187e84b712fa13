"""Distributional DDPG: the critic learns the distribution of n-step returns."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import check_fraction
from rlpyt.algos.dqn.cat_dqn import RangeOfReturns
from rlpyt.algos.losses import categorical_projection, categorical_td_loss
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.core.records import BatchSpec
from rlpyt.utils.types import Nested


class D4PG(RangeOfReturns, DDPG):
    """DDPG with a categorical critic, n-step returns and, as an option, prioritized replay.

    Returns have P (``agent.n_atoms``) possible values z, evenly spaced from V_min to V_max.

        loss_Z  = mean of cross-entropy(projection of R_n + (1 - done_n) discount^n z, with the
                  probabilities p_target(s', mu_target(s')), to z; p(s, a))
        loss_mu = mean of -sum_i z_i p_i(s, mu(s))

    The log also has ``edgeMass``, the probability of the two outermost z in the targets, which is
    large if the range is too small.

    Defaults are from the paper, except that target networks follow slowly; the paper copies them
    every 100 updates.

    Args:
        V_min: smallest return that the distribution can represent.
        V_max: largest return that the distribution can represent.
        batch_size: number B of samples in one update.
        replay_ratio: number of samples drawn for training per environment step.
        q_learning_rate: learning rate of the critic.
        n_step_return: number n of rewards in a return.
        prioritized_replay: whether to prioritize samples by their last KL divergence.
        pri_alpha: exponent of priorities, in [0, 1]; 0 for uniform sampling.
        pri_beta: exponent of importance weights, in [0, 1]; 1 corrects the sampling bias fully.
        **kwargs: further arguments of :class:`~rlpyt.algos.qpg.ddpg.DDPG`, but not
            ``q_target_clip``.

    Source: Barth-Maron et al. 2018, arXiv:1804.08617, algorithm 1.
    """

    opt_info_fields = (*DDPG.opt_info_fields, "edgeMass")
    q_kind = "a critic of distributions"
    agent_example = "D4pgAgent"

    def __init__(
        self,
        V_min: float,
        V_max: float,
        batch_size: int = 256,
        replay_ratio: float = 256,
        q_learning_rate: float = 1e-4,
        n_step_return: int = 5,
        prioritized_replay: bool = False,
        pri_alpha: float = 0.6,
        pri_beta: float = 1.0,
        *,
        q_target_clip: None = None,
        **kwargs: Any,
    ) -> None:
        if q_target_clip is not None:
            raise ValueError(
                f"q_target_clip is {q_target_clip}, but V_min and V_max bound the targets: leave "
                "it out"
            )
        super().__init__(
            batch_size=batch_size,
            replay_ratio=replay_ratio,
            q_learning_rate=q_learning_rate,
            n_step_return=n_step_return,
            q_target_clip=None,
            **kwargs,
        )
        self.V_min = V_min
        self.V_max = V_max
        self.prioritized_replay = prioritized_replay
        self.pri_alpha = pri_alpha
        self.pri_beta = pri_beta

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        check_fraction(self, "pri_alpha", "pri_beta")

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        kwargs = super()._replay_kwargs(example, batch_spec)
        if self.prioritized_replay:
            kwargs.update(alpha=self.pri_alpha, beta=self.pri_beta)
        return kwargs

    # --- Losses ------------------------------------------------------------------------------

    def q_loss(self, samples: Nested, valid: torch.Tensor | None = None) -> torch.Tensor:
        """Compute the critic's loss.

        Args:
            samples: ``SamplesFromReplay`` [B,...], with ``is_weights`` [B] if prioritized; the new
                priority is the Kullback-Leibler divergence.
            valid: mask [B], 1 for samples to train on; None for all.
        """
        p = self.agent.p(*samples.agent_inputs, samples.action)
        target_p = self.target_p(samples)
        losses, kl_div = categorical_td_loss(p, target_p)
        self._edge_mass = (target_p[:, 0] + target_p[:, -1]).mean()
        self.remember_priorities(samples, valid, kl_div)
        return self.weighted_mean(losses, samples, valid)

    @torch.no_grad()
    def target_p(self, samples: Nested) -> torch.Tensor:
        """Return the target distributions [B,P]."""
        next_p = self.agent.target_p_at_mu(*samples.target_inputs)
        return categorical_projection(
            samples.return_,
            samples.done_n,
            next_p,
            self.returns_of_atoms(next_p.device),
            self.discount,
            self.bootstrap_steps(samples),
        )

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        return {**super()._get_loss_values(samples), "edgeMass": self._edge_mass}
