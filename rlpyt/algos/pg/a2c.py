"""Advantage actor-critic: one gradient update on each batch."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.losses import policy_gradient_loss
from rlpyt.algos.pg._resets import resets
from rlpyt.algos.pg.base import OptInfo as OptInfo, PolicyGradientAlgo
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested


class A2C(PolicyGradientAlgo):
    """Makes actions more likely which returned more than the value expected, synchronously.

        loss = mean of -log pi(a|s) * A + value_loss_coeff * (V(s) - R)^2 / 2
               - entropy_loss_coeff * H(pi(s))

    Args:
        discount: per step, in [0, 1].
        learning_rate: of the optimizer, in the first iteration.
        value_loss_coeff: weight of the error of values.
        entropy_loss_coeff: weight of the entropy of the policy.
        OptimCls: class of the optimizer.
        optim_kwargs: of ``OptimCls``.
        clip_grad_norm: largest norm of the gradient; None does not clip.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`.
        gae_lambda: in [0, 1], of generalized advantages; 1 for discounted returns minus values.
        normalize_advantage: to mean 0 and standard deviation 1, over the batches of all processes.
        bootstrap_timelimit: an episode which its time limit cut is valued as if it went on; False
            takes it for ended, as rlpyt 0.1.2 did.
        normalize_return: learn values in units of the running standard deviation of returns.
        linear_lr_schedule: let ``learning_rate`` fall to zero over the run, as in the paper.

    Source: Mnih et al. 2016, arXiv:1602.01783, algorithm S3.
    """

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

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Set up as :meth:`PolicyGradientAlgo.initialize`; the whole batch is one update."""
        super().initialize(*args, **kwargs)
        self._batch_size = self.batch_spec.size

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        opt_info = self._get_empty_optim_info()
        self._apply_optimization(self._get_loss_values(samples), opt_info)
        self.update_obs_rms(samples)
        self.update_itr_hyperparams(itr)
        opt_info = self.fetch_opt_info(opt_info)
        return opt_info._make(x[0] if len(x) == 1 else x for x in opt_info)

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch of the sampler.

        Args:
            samples: [T,B].

        Returns:
            The scalar loss, the mean entropy and the mean perplexity.
        """
        samples = self.with_resets(samples)
        return_, advantage, valid = self.process_returns(samples)
        dist_info, value = self.agent_outputs(
            self.agent_inputs(samples), self.init_rnn_state(samples), resets(samples)
        )
        pi_loss = self.pi_loss(samples.agent.action, advantage, valid, dist_info)
        value_loss = self.value_loss(value, return_, valid)
        return self.combine_losses(pi_loss, value_loss, dist_info, valid)

    def pi_loss(
        self,
        action: Nested,
        advantage: torch.Tensor,
        valid: torch.Tensor | None,
        dist_info: Nested,
    ) -> torch.Tensor:
        """Scalar loss of the policy."""
        logli = self.agent.distribution.log_likelihood(action, dist_info)
        return valid_mean(policy_gradient_loss(logli, advantage), valid)
