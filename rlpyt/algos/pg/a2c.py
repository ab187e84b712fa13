"""Advantage actor-critic: one gradient update on each batch."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import are_of_library
from rlpyt.algos.losses import policy_gradient_loss, squared_value_loss
from rlpyt.algos.pg._episode_ends import as_when_acting, inputs_when_acting, resets
from rlpyt.algos.pg._minibatches import value_statistics
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

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Set up as :meth:`PolicyGradientAlgo.initialize`, with one update for the whole batch."""
        super().initialize(*args, **kwargs)
        self._batch_size = self.batch_spec.size

    def _check_settings(self, examples: Nested) -> None:
        super()._check_settings(examples)
        self._check_agent_info(examples, A2C)

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        opt_info = self._get_empty_optim_info()
        samples = self.to_training_device(samples)
        # Outside the graph, where numpy may be used; a program's own loss gets what was sampled.
        if self.compile and are_of_library(self, "loss"):
            samples = as_when_acting(self.agent, samples)
        self._apply_optimization((samples,), opt_info)
        opt_info = self._finish_iteration(itr, samples, opt_info)
        return opt_info._make(x[0] if len(x) == 1 else x for x in opt_info)

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch of the sampler.

        Args:
            samples: batch [T,B].

        Returns:
            The scalar loss, the mean entropy and the mean perplexity.
        """
        samples = self.with_resets(samples)
        agent_info = samples.agent.agent_info
        init_rnn_state = agent_info.prev_rnn_state[0] if self.agent.recurrent else None
        agent_inputs = inputs_when_acting(self.agent, samples, are_of_library(self, "loss"))
        reset = resets(samples) if self.agent.recurrent else None
        dist_info, value = self.agent_outputs(agent_inputs, init_rnn_state, reset)
        # After the agent, whose inputs share memory with rewards that a program may change.
        return_, advantage, valid = self.process_returns(samples)
        logli = self.agent.distribution.log_likelihood(samples.agent.action, dist_info)
        pi_loss = valid_mean(policy_gradient_loss(logli, advantage), valid)
        value_loss = valid_mean(squared_value_loss(value, return_), valid)
        self.next_diagnostics.update(value_statistics(agent_info, return_, valid))
        return self.combine_losses(pi_loss, value_loss, dist_info, valid)

    _cutting_loss = loss
