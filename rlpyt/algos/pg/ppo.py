"""Proximal policy optimization: several epochs of minibatches on each batch."""

from __future__ import annotations

import math
from typing import Any

import torch

from rlpyt.algos.checks import check_positive
from rlpyt.algos.losses import clipped_surrogate_loss, clipped_value_loss, squared_value_loss
from rlpyt.algos.pg.base import LossInputs as LossInputs, OptInfo as OptInfo, PolicyGradientAlgo
from rlpyt.algos.rollouts import iterate_parts, iterate_sequences, resets
from rlpyt.algos.statistics import approximate_kl, ratio_statistics
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    with_fields,
)
from rlpyt.utils.buffer import buffer_method as buffer_method, buffer_to as buffer_to
from rlpyt.utils.misc import iterate_mb_idxs as iterate_mb_idxs
from rlpyt.utils.quick_args import accepted, save__init__args
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

# Of the learning rate that adapts to the divergence.
LR_FACTOR, MIN_LR, MAX_LR = 1.5, 1e-5, 1e-2


class PPO(PolicyGradientAlgo):
    """Proximal policy optimization: improves the policy, but keeps it near the one that acted.

        ratio = pi(a|s) / pi_old(a|s)
        loss  = mean of -min(ratio * A, clip(ratio, 1 - c, 1 + c) * A)
                + value_loss_coeff * (V(s) - R)^2 / 2 - entropy_loss_coeff * H(pi(s))

    In each epoch all samples of a batch are divided into new random minibatches, whose sizes differ
    by one at most. For recurrent agents, the minibatches consist of whole environments: T steps
    from the recorded state.

    Args:
        discount: discount factor per step, in [0, 1].
        learning_rate: initial learning rate.
        value_loss_coeff: weight of the value loss.
        entropy_loss_coeff: weight of the entropy bonus.
        OptimCls: class of the optimizer.
        optim_kwargs: keyword arguments of ``OptimCls``.
        clip_grad_norm: largest norm of the gradient; None for no clipping.
        initial_optim_state_dict: initial state of the optimizer, from :meth:`optim_state_dict`;
            schedules start from the beginning.
        gae_lambda: lambda of generalized advantage estimation, in [0, 1]; 1 for discounted returns
            minus values.
        minibatches: number of minibatches in one epoch; for recurrent agents, at most the number of
            environments.
        epochs: number of epochs in one iteration.
        ratio_clip: initial half-width c of the range to which likelihood ratios are clipped.
        linear_lr_schedule: whether to anneal ``learning_rate`` linearly to zero over the run, and
            ``ratio_clip`` with it, unless ``linear_clip_schedule`` is given.
        normalize_advantage: whether to scale advantages to mean 0 and standard deviation 1, over
            the batches of all processes.
        bootstrap_timelimit: whether to bootstrap a return that a time limit truncated; False treats
            the time limit as termination, as rlpyt 0.1.2 did.
        normalize_return: whether to learn values in units of the returns' running standard
            deviation.
        value_clip: largest change of a value, in units of the return, that can lower its loss; None
            for no limit.
        recompute_returns: whether to recompute returns and advantages with current values before
            each epoch after the first; the bootstrap value after the batch stays as recorded.
        target_kl: largest KL divergence from the policy that acted: after an epoch with a greater
            mean (``approxKL``), the remaining epochs are skipped. None for no limit.
        desired_kl: target KL divergence of an adaptive learning rate: after each epoch the rate is
            divided by 1.5 if the divergence is more than twice this value, and multiplied by 1.5 if
            it is less than half, within [1e-5, 1e-2]. Needs ``linear_lr_schedule=False``. None for
            no adaptation.
        linear_clip_schedule: whether to anneal ``ratio_clip`` linearly to zero over the run; None
            for the value of ``linear_lr_schedule``.

    Source: Schulman et al. 2017, arXiv:1707.06347; recomputation and the other options:
    Andrychowicz et al. 2021, arXiv:2006.05990; ``target_kl``: Dossa et al. 2021,
    doi:10.1109/ACCESS.2021.3106662; ``desired_kl``: Rudin et al. 2022, arXiv:2109.11978, code in
    rsl_rl, there after each minibatch.
    """

    opt_info_fields = (
        *OptInfo._fields,
        "piLoss",
        "valueLoss",
        "explainedVariance",
        "approxKL",
        "clipFraction",
    )

    ratio_clip: Any = 0.1
    value_clip: float | None = None
    recompute_returns: bool = False
    target_kl: float | None = None
    desired_kl: float | None = None
    linear_clip_schedule: bool | None = None
    _ratios: list[tuple[torch.Tensor, torch.Tensor | None]]  # Of all updates of an iteration.
    _schedule_itr = 0
    _ratio_clip: Any = None  # The initial one.

    def __init__(
        self,
        discount: float = 0.99,
        learning_rate: float = 0.001,
        value_loss_coeff: float = 1.0,
        entropy_loss_coeff: float = 0.01,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        clip_grad_norm: float | None = 1.0,
        initial_optim_state_dict: Any = None,
        gae_lambda: float = 1,
        minibatches: int = 4,
        epochs: int = 4,
        ratio_clip: float = 0.1,
        linear_lr_schedule: bool = True,
        normalize_advantage: bool = False,
        bootstrap_timelimit: bool = True,
        normalize_return: bool = False,
        value_clip: float | None = None,
        recompute_returns: bool = False,
        target_kl: float | None = None,
        desired_kl: float | None = None,
        linear_clip_schedule: bool | None = None,
    ) -> None:
        if optim_kwargs is None:
            optim_kwargs = {}
        save__init__args(locals())

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        if self._ratio_clip is None:  # Or an earlier run has scaled it.
            self._ratio_clip = float(self.ratio_clip)
        self.ratio_clip = self._ratio_clip
        super().initialize(*args, **kwargs)
        # The schedule begins anew, whatever initial_optim_state_dict contains.
        self.ratio_clip, self._schedule_itr = self._ratio_clip, 0
        if self.compile:  # A number that changes would be compiled again.
            self.ratio_clip = torch.full((), self._ratio_clip, device=self.training_device)

    def _check_settings(self, examples: Nested) -> None:
        super()._check_settings(examples)
        check_positive(self, "ratio_clip")
        for name in ("value_clip", "target_kl", "desired_kl"):
            check_positive(self, name, "make it positive, or None")
        if self.desired_kl is not None and self.linear_lr_schedule:
            raise ValueError(
                f"desired_kl is {self.desired_kl}, but linear_lr_schedule sets the learning rate: "
                "pass linear_lr_schedule=False, or desired_kl=None"
            )

    # --- The batch ---------------------------------------------------------------------------

    def prepare(self, samples: Nested) -> Nested:
        self._ratios = []
        self._recorded_unit = self._return_std.std
        batch = super().prepare(samples)
        old_value = None if self.value_clip is None else samples.agent.agent_info.value
        batch = with_fields(batch, old_value=old_value, old_logli=None)
        self._loss_fields = accepted(type(self), "loss", batch._fields)
        if hasattr(self.agent.acting_model, "autocast_dtype"):
            batch = self.with_old_policy(batch)
        if accepted(type(self.agent.distribution), "likelihood_ratio", ("old_logli",)):
            batch = batch._replace(old_logli=self.old_logli(batch))
        return batch

    def old_logli(self, batch: Nested) -> torch.Tensor:
        """Return log pi_old(a|s) [T,B], once for all epochs."""
        logli: torch.Tensor = self.agent.distribution.log_likelihood(
            batch.action, batch.old_dist_info
        )
        # The ratio of blank rows is 0; it could overflow.
        return logli if batch.valid is None else logli.masked_fill(batch.valid == 0, math.inf)

    @torch.no_grad()
    def with_old_policy(self, batch: Nested) -> Nested:
        """Return ``batch`` with ``old_dist_info`` computed in the precision of training.

        Models of :class:`~rlpyt.models.autocast.Autocast` act in full precision: with the recorded
        parameters, the first ratios would not be 1. They are computed in parts of the size of
        minibatches, since rounding depends on the shape.
        """
        (T, B), old_dist_info = self.batch_spec, buffer_method(batch.old_dist_info, "clone")
        n = B if self.agent.recurrent else T * B
        places = torch.arange(n).chunk(self.minibatches)
        sizes, order = [len(x) for x in places], torch.arange(n)
        if self.agent.recurrent:
            parts = iterate_sequences(batch, order, sizes, self.training_device)
        else:
            parts = iterate_parts(batch, order, sizes, n_dims=2)
        for part, rows in zip(parts, places):
            at = (slice(None), rows) if self.agent.recurrent else (rows // B, rows % B)
            inputs = part.agent_inputs, part.init_rnn_state, part.reset
            old_dist_info[at] = self.agent_outputs(*inputs)[0]
        return batch._replace(old_dist_info=old_dist_info)

    @torch.no_grad()
    def prepare_again(self, batch: Nested, samples: Nested) -> Nested:
        """Return ``batch``; with ``recompute_returns``, the targets are those of current values.

        Args:
            batch: record [T,B,...].
            samples: batch [T,B].
        """
        if not self.recompute_returns:
            return batch
        _, value = self.agent_outputs(batch.agent_inputs, batch.init_rnn_state, resets(samples))
        agent = samples.agent
        agent = agent._replace(
            agent_info=agent.agent_info._replace(value=value),
            bootstrap_value=agent.bootstrap_value * (self._recorded_unit / self._return_std.std),
        )
        with self._return_std.held():
            return_, advantage, _ = self.process_returns(samples._replace(agent=agent))
        return batch._replace(return_=return_, advantage=advantage)

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, batch: Nested) -> dict[str, Any]:
        fields = {name: getattr(batch, name) for name in self._loss_fields}
        return self._values_to_log(*self.loss(**fields))

    def loss(
        self,
        agent_inputs: Nested,
        action: Nested,
        return_: Any,
        advantage: Any,
        valid: torch.Tensor | None,
        old_dist_info: Nested,
        init_rnn_state: Nested = None,
        old_value: torch.Tensor | None = None,
        reset: torch.Tensor | None = None,
        old_logli: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one minibatch.

        An overriding method gets, by keyword, the fields of the batch that it names, or all of them
        if it takes ``**kwargs``. Recurrent agents are trained past the end of an episode only if it
        takes ``reset``.

        Args:
            agent_inputs: inputs [B,...] on the device of the agent; for recurrent agents, all
                arguments are [T,B,...].
            action: actions [B,...].
            return_: returns [B].
            advantage: advantages [B].
            valid: mask [B], 1 where an entry counts; None to count all.
            old_dist_info: parameters [B,...] of the policy that acted.
            init_rnn_state: recorded state [B,N,H] before the first step; None without recurrence.
            old_value: values [B] by the network that acted, where values are clipped.
            reset: mask [T,B], True where the recurrent state before the step is zero; None if it
                never is.
            old_logli: log-likelihoods [B] of the actions by ``old_dist_info``; None to compute
                them.

        Returns:
            The scalar loss, the mean entropy and the mean perplexity.
        """
        dist_info, value = self.agent_outputs(agent_inputs, init_rnn_state, reset)
        known = {} if old_logli is None else {"old_logli": old_logli}
        ratio = self.agent.distribution.likelihood_ratio(
            action, old_dist_info=old_dist_info, new_dist_info=dist_info, **known
        )
        pi_loss = valid_mean(clipped_surrogate_loss(ratio, advantage, self.ratio_clip), valid)
        if old_value is None or self.value_clip is None:
            value_errors = squared_value_loss(value, return_)
        else:
            value_errors = clipped_value_loss(value, return_, old_value, self.value_clip)
        self.next_diagnostics["ratio"] = ratio.detach()
        return self.combine_losses(pi_loss, valid_mean(value_errors, valid), dist_info, valid)

    @property
    def _takes_fillers(self) -> bool:
        return type(self).loss is PPO.loss

    # --- Divergence from the policy that acted -----------------------------------------------

    def _apply_optimization(self, batch: Nested, opt_info: Any) -> dict[str, Any]:
        values = super()._apply_optimization(batch, opt_info)
        if "ratio" in values:
            self._ratios.append((values["ratio"], batch.valid))
        return values

    def stops_after_epoch(self) -> bool:
        """Adapt the learning rate; return whether the divergence is greater than ``target_kl``."""
        if self.target_kl is None and self.desired_kl is None:
            return False
        if not self._ratios:
            raise ValueError(
                f"target_kl={self.target_kl} and desired_kl={self.desired_kl} need the "
                f"ratios of new to old likelihoods, which {type(self).__name__}.loss() "
                "does not leave: set self.next_diagnostics['ratio'] there, or both to None"
            )
        kl = float(approximate_kl(self._ratios[-self.minibatches :], self.agent.device).cpu())
        self._adapt_learning_rate(kl)
        return self.target_kl is not None and kl > self.target_kl

    def _adapt_learning_rate(self, kl: float) -> None:
        """Change the learning rate by the divergence ``kl`` of the last epoch."""
        if self.desired_kl is None:
            return
        for group in self.optimizer.param_groups:
            if kl > 2 * self.desired_kl:
                group["lr"] = max(MIN_LR, group["lr"] / LR_FACTOR)
            elif kl < self.desired_kl / 2:
                group["lr"] = min(MAX_LR, group["lr"] * LR_FACTOR)

    def _finish_iteration(self, itr: int, samples: Nested, opt_info: Any) -> Any:
        self.record_opt_info(opt_info, ratio_statistics(self._ratios, self.ratio_clip))
        return super()._finish_iteration(itr, samples, opt_info)

    # --- Schedule and state ------------------------------------------------------------------

    @property
    def _anneals_clip(self) -> bool:
        schedule = self.linear_clip_schedule
        return self.linear_lr_schedule if schedule is None else schedule

    def update_itr_hyperparams(self, itr: int) -> None:
        super().update_itr_hyperparams(itr)
        if self._anneals_clip:
            self._set_ratio_clip(itr + 1)

    def _set_ratio_clip(self, itr: int) -> None:
        self._schedule_itr = itr
        ratio_clip = self._ratio_clip * max(0.0, (self.n_itr - itr) / self.n_itr)
        if isinstance(self.ratio_clip, torch.Tensor):
            self.ratio_clip.fill_(ratio_clip)
        else:
            self.ratio_clip = ratio_clip

    def optim_state_dict(self) -> Any:
        """Return the state of the optimizer and, as further entries, of the schedules."""
        state = super().optim_state_dict()
        return {**state, "schedule_itr": self._schedule_itr} if self._anneals_clip else state

    def load_optim_state_dict(self, state_dict: Any) -> None:
        super().load_optim_state_dict(state_dict)
        if self._anneals_clip and "schedule_itr" in state_dict:
            self._set_ratio_clip(state_dict["schedule_itr"])
