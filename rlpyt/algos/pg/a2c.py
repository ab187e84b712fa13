"""Advantage actor-critic: one gradient update on each batch."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.losses import policy_gradient_loss, squared_value_loss
from rlpyt.algos.pg.base import OptInfo as OptInfo, PolicyGradientAlgo
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested


class A2C(PolicyGradientAlgo):
    """Synchronous advantage actor-critic: raises the probability of better-than-expected actions.

        loss = mean of -log pi(a|s) * A + value_loss_coeff * (V(s) - R)^2 / 2
               - entropy_loss_coeff * H(pi(s))

    Args:
        discount: discount factor per step, in [0, 1].
        learning_rate: initial learning rate.
        value_loss_coeff: weight of the value loss.
        entropy_loss_coeff: weight of the entropy bonus.
        OptimCls: class of the optimizer.
        optim_kwargs: keyword arguments of ``OptimCls``.
        clip_grad_norm: largest norm of the gradient; None for no clipping.
        initial_optim_state_dict: initial state of the optimizer, from :meth:`optim_state_dict`.
        gae_lambda: lambda of generalized advantage estimation, in [0, 1]; 1 for discounted returns
            minus values.
        normalize_advantage: whether to scale advantages to mean 0 and standard deviation 1, over
            the batches of all processes.
        bootstrap_timelimit: whether to bootstrap a return that a time limit truncated; False treats
            the time limit as termination, as rlpyt 0.1.2 did.
        normalize_return: whether to learn values in units of the returns' running standard
            deviation.
        linear_lr_schedule: whether to anneal ``learning_rate`` linearly to zero over the run, as in
            the paper.

    Source: Mnih et al. 2016, arXiv:1602.01783, algorithm S3.
    """

    divides = False
    opt_info_fields: tuple[str, ...] = (
        *OptInfo._fields,
        "piLoss",
        "valueLoss",
        "explainedVariance",
    )

    def __init__(
        self,
        discount: float = 0.99,
        learning_rate: float = 0.001,
        value_loss_coeff: float = 0.5,
        entropy_loss_coeff: float = 0.01,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = 1.0,
        initial_optim_state_dict: Any = None,
        gae_lambda: float = 1,
        normalize_advantage: bool = False,
        bootstrap_timelimit: bool = True,
        normalize_return: bool = False,
        linear_lr_schedule: bool = False,
    ) -> None:
        if optim_kwargs is None:
            optim_kwargs = {}
        save__init__args(locals())

    # --- One iteration -----------------------------------------------------------------------

    def prepare(self, samples: Nested) -> Nested:
        """Return the inputs of the library's loss; a program's own loss gets the samples [T,B]."""
        if self._is_library_loss:
            return super().prepare(samples)
        return self.with_last_values(samples)

    @property
    def _is_library_loss(self) -> bool:
        return type(self).loss is A2C.loss

    _takes_resets = _is_library_loss

    def _finish_iteration(self, itr: int, samples: Nested, opt_info: Any) -> Any:
        opt_info = super()._finish_iteration(itr, samples, opt_info)
        return opt_info._make(x[0] if len(x) == 1 else x for x in opt_info)

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, batch: Nested) -> dict[str, Any]:
        loss = self.batch_loss if self._is_library_loss else self.loss
        return self._values_to_log(*loss(batch))

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch of the sampler.

        Args:
            samples: batch [T,B].

        Returns:
            The scalar loss, the mean entropy and the mean perplexity.
        """
        return self.batch_loss(super().prepare(self.with_resets(samples)))

    def batch_loss(self, batch: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of a record from :meth:`prepare`; returns as :meth:`loss`."""
        inputs = batch.agent_inputs, batch.init_rnn_state, batch.reset
        dist_info, value = self.agent_outputs(*inputs)
        logli = self.agent.distribution.log_likelihood(batch.action, dist_info)
        pi_loss = valid_mean(policy_gradient_loss(logli, batch.advantage), batch.valid)
        value_loss = valid_mean(squared_value_loss(value, batch.return_), batch.valid)
        return self.combine_losses(pi_loss, value_loss, dist_info, batch.valid)
