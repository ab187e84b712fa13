"""Proximal policy optimization: several epochs of minibatches on each batch."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch

from rlpyt.algos.checks import check_minibatches, check_positive, make_whole
from rlpyt.algos.losses import clipped_surrogate_loss, clipped_value_loss, squared_value_loss
from rlpyt.algos.pg._episode_ends import inputs_when_acting, resets
from rlpyt.algos.pg._minibatches import (
    approximate_kl,
    filled_parts,
    iterate_parts,
    iterate_sequences,
    ratio_statistics,
    shuffled_parts,
    value_statistics,
)
from rlpyt.algos.pg.base import OptInfo as OptInfo, PolicyGradientAlgo
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    extended,
)
from rlpyt.models.rnn import takes
from rlpyt.utils.buffer import buffer_method as buffer_method, buffer_to as buffer_to
from rlpyt.utils.collections import fields_of, namedarraytuple
from rlpyt.utils.misc import iterate_mb_idxs as iterate_mb_idxs
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

# Of the learning rate that adapts to the divergence.
LR_FACTOR, MIN_LR, MAX_LR = 1.5, 1e-5, 1e-2

LossInputs = namedarraytuple(
    "LossInputs", ["agent_inputs", "action", "return_", "advantage", "valid", "old_dist_info"]
)


def as_arguments(
    loss_inputs: Nested, init_rnn_state: Nested = None
) -> tuple[list[Nested], dict[str, Nested]]:
    """Return a record as positional and keyword arguments of :meth:`PPO.loss`."""
    further = dict(zip(loss_inputs._fields, loss_inputs))
    return [*(further.pop(name) for name in LossInputs._fields), init_rnn_state], further


def takes_record(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate :meth:`PPO.loss` to accept the call ``loss(loss_inputs, init_rnn_state)`` too."""

    @functools.wraps(loss)
    def adapted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and "old_dist_info" in fields_of(args[0]):
            args, further = as_arguments(*args, **kwargs)  # type: ignore[assignment]
            kwargs = {name: further.get(name) for name in ("old_value", "reset", "old_logli")}
        return loss(self, *args, **kwargs)

    return adapted


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

    minibatches: int
    epochs: int
    ratio_clip: Any
    value_clip: float | None
    recompute_returns: bool
    target_kl: float | None
    desired_kl: float | None
    linear_clip_schedule: bool | None
    _schedule_itr = 0
    _last_ratio_clip: Any = None

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
        """Set up as :meth:`PolicyGradientAlgo.initialize`.

        Raises:
            ValueError: if a setting cannot work, alone or with this agent and sampler.
        """
        if self.ratio_clip is not self._last_ratio_clip:  # Unless an earlier run has scaled it.
            self._ratio_clip = float(self.ratio_clip)
        self.ratio_clip = self._ratio_clip
        super().initialize(*args, **kwargs)
        # The schedule begins anew, whatever initial_optim_state_dict contains.
        self.ratio_clip, self._schedule_itr = self._ratio_clip, 0
        if self.compile:  # A number that changes would be compiled again.
            self.ratio_clip = torch.full((), self._ratio_clip, device=self.training_device)
        self._last_ratio_clip = self.ratio_clip
        self._batch_size = self.batch_spec.size // self.minibatches
        self._minibatch_rng = make_generator()

    @cached_property
    def _minibatch_rng(self) -> np.random.Generator:
        """Generator that divides samples into minibatches."""
        return make_generator()

    def _check_settings(self, examples: Nested) -> None:
        super()._check_settings(examples)
        self._check_agent_info(examples, PPO)
        make_whole(self, "minibatches", "epochs")
        check_minibatches(self)
        check_positive(self, "ratio_clip")
        for name in ("value_clip", "target_kl", "desired_kl"):
            check_positive(self, name, "make it positive, or None")
        if self.desired_kl is not None and self.linear_lr_schedule:
            raise ValueError(
                f"desired_kl is {self.desired_kl}, but linear_lr_schedule sets the learning rate: "
                "pass linear_lr_schedule=False, or desired_kl=None"
            )

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        opt_info = self._get_empty_optim_info()
        ratios = []
        samples = self.to_training_device(samples)
        watches_kl = self.target_kl is not None or self.desired_kl is not None
        for i, inputs in enumerate(self.iterate_minibatches(samples), start=1):
            values = self._apply_optimization(inputs, opt_info)
            if "ratio" in values:
                ratios.append((values["ratio"], inputs[0].valid))
            if watches_kl and i % self.minibatches == 0:
                if not ratios:
                    raise ValueError(
                        f"target_kl={self.target_kl} and desired_kl={self.desired_kl} need the "
                        f"ratios of new to old likelihoods, which {type(self).__name__}.loss() "
                        "does not leave: set self.next_diagnostics['ratio'] there, or both to None"
                    )
                kl = float(approximate_kl(ratios[-self.minibatches :], self.agent.device).cpu())
                self._adapt_learning_rate(kl)
                if self.target_kl is not None and kl > self.target_kl:
                    break
        self.record_opt_info(opt_info, ratio_statistics(ratios, self.ratio_clip))
        return self._finish_iteration(itr, samples, opt_info)

    def iterate_minibatches(self, samples: Nested) -> Iterator[tuple[Nested, Nested]]:
        """Yield the minibatches of all epochs.

        Yields:
            ``LossInputs`` [B',...] (for recurrent agents [T,B',...]), and the recorded state
            [B',N,H] before the first step, or None.
        """
        is_recurrent, (T, B) = self.agent.recurrent, self.batch_spec
        samples = self.with_resets(samples)
        agent_info = samples.agent.agent_info
        reset = resets(samples) if is_recurrent else None
        unit = self._return_std.std if self.recompute_returns else None
        loss_inputs = self.loss_input_from_samples(samples)
        valid = loss_inputs.valid
        self.next_diagnostics.update(value_statistics(agent_info, loss_inputs.return_, valid))
        options = {}
        if self.value_clip is not None:
            options["old_value"] = agent_info.value
        if reset is not None:
            options["reset"] = None  # Divided below, in each epoch.
        distribution = self.agent.distribution
        likelihoods_are_kept = takes(self, "loss", "old_logli") and takes(
            distribution, "likelihood_ratio", "old_logli"
        )
        if likelihoods_are_kept:
            options["old_logli"] = None  # Computed below, once instead of in every epoch.
        if options:
            LossInputsCls = extended(type(loss_inputs), tuple(options))
            loss_inputs = LossInputsCls(*loss_inputs, *options.values())
        rows = np.arange(B if is_recurrent else T * B)
        if valid is not None and not is_recurrent:
            rows = rows[valid.cpu().numpy().reshape(-1) > 0]
        # A graph is of one shape: minibatches are filled up with entries that do not count.
        size = -(-T * B // self.minibatches)
        is_divisible = valid is None and len(rows) % self.minibatches == 0
        is_filled = self.compile and not is_recurrent and not is_divisible

        def parts(loss_inputs: Nested) -> Iterator[tuple[Nested, Nested]]:
            if not is_recurrent:
                batches = iterate_parts(loss_inputs, order, sizes, n_dims=2)
                if is_filled:
                    batches = (p._replace(valid=mask) for p, mask in zip(batches, masks))
                return zip(batches, itertools.repeat(None))
            states, device = agent_info.prev_rnn_state, self.training_device
            divided = iterate_sequences(loss_inputs, states, reset, order, sizes, device)
            if reset is None:
                return ((part, state) for part, state, _ in divided)
            return ((part._replace(reset=mask), state) for part, state, mask in divided)

        for epoch in range(self.epochs):
            if epoch and self.recompute_returns:
                loss_inputs = self.with_new_returns(loss_inputs, samples, unit)
            order, sizes = shuffled_parts(rows, self.minibatches, self._minibatch_rng)
            if is_filled:
                order, sizes, masks = filled_parts(order, sizes, size, self.training_device)
            if epoch == 0 and hasattr(self.agent.acting_model, "autocast_dtype"):
                loss_inputs = self.with_old_policy(
                    loss_inputs, parts(loss_inputs), order.split(sizes)
                )
            if epoch == 0 and likelihoods_are_kept:
                action, old_dist_info = loss_inputs.action, loss_inputs.old_dist_info
                old_logli = distribution.log_likelihood(action, old_dist_info)
                if valid is not None:  # The ratio of blank rows is 0; it could overflow.
                    old_logli = old_logli.masked_fill(valid == 0, math.inf)
                loss_inputs = loss_inputs._replace(old_logli=old_logli)
            yield from parts(loss_inputs)

    def with_resets(self, samples: Nested) -> Nested:
        return super().with_resets(samples) if takes(self, "loss", "reset") else samples

    def loss_input_from_samples(self, samples: Nested) -> Nested:
        """Return the inputs of the loss, before they are divided into minibatches.

        A subclass may add fields to the record; they are divided too, and passed to :meth:`loss` by
        keyword.

        Args:
            samples: batch [T,B].

        Returns:
            ``LossInputs`` [T,B,...].
        """
        return_, advantage, valid = self.process_returns(samples)
        return LossInputs(
            agent_inputs=inputs_when_acting(self.agent, samples),
            action=samples.agent.action,
            return_=return_,
            advantage=advantage,
            valid=valid,
            old_dist_info=samples.agent.agent_info.dist_info,
        )

    @torch.no_grad()
    def with_new_returns(self, loss_inputs: Nested, samples: Nested, unit: Any) -> Nested:
        """Return ``loss_inputs`` with returns and advantages from the current values.

        Args:
            loss_inputs: record [T,B,...].
            samples: batch [T,B].
            unit: unit of the recorded values, if returns are normalized.
        """
        agent = samples.agent
        init_rnn_state = agent.agent_info.prev_rnn_state[0] if self.agent.recurrent else None
        _, value = self.agent_outputs(loss_inputs.agent_inputs, init_rnn_state, resets(samples))
        agent = agent._replace(
            agent_info=agent.agent_info._replace(value=value),
            bootstrap_value=agent.bootstrap_value * (unit / self._return_std.std),
        )
        with self._return_std.held():
            return_, advantage, _ = self.process_returns(samples._replace(agent=agent))
        return loss_inputs._replace(return_=return_, advantage=advantage)

    @torch.no_grad()
    def with_old_policy(
        self,
        loss_inputs: Nested,
        parts: Iterable[tuple[Nested, Nested]],
        rows: Iterable[torch.Tensor],
    ) -> Nested:
        """Return ``loss_inputs`` with ``old_dist_info`` computed in the precision of training.

        Models of :class:`~rlpyt.models.autocast.Autocast` act in full precision: with the recorded
        parameters, the first ratios would not be 1.

        Args:
            loss_inputs: record [T,B,...].
            parts: minibatches of the first epoch and recurrent states, computed one by one because
                rounding depends on the shape.
            rows: places of each minibatch in [T * B]; for recurrent agents in [B].
        """
        old_dist_info = buffer_method(loss_inputs.old_dist_info, "clone")
        B = self.batch_spec.B
        for (part, state), places in zip(parts, rows):
            at = (slice(None), places) if self.agent.recurrent else (places // B, places % B)
            reset = part.reset if "reset" in part._fields else None
            old_dist_info[at] = self.agent_outputs(part.agent_inputs, state, reset)[0]
        return loss_inputs._replace(old_dist_info=old_dist_info)

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, *inputs: Nested, **options: Nested) -> dict[str, Any]:
        if type(self).loss is not PPO._own_loss and not takes(self, "loss", "loss_inputs"):
            inputs, options = as_arguments(*inputs)  # type: ignore[assignment]
        return super()._get_loss_values(*inputs, **options)

    @takes_record
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

        May be called as ``loss(loss_inputs, init_rnn_state)``; a subclass whose ``loss`` names its
        first parameter ``loss_inputs`` is called in that form. Recurrent agents are trained past
        the end of an episode only if ``loss`` takes ``reset``, or passes on ``**kwargs``.

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

    _own_loss = loss  # A program may replace ``PPO.loss``.

    # --- Schedule and state ------------------------------------------------------------------

    def _adapt_learning_rate(self, kl: float) -> None:
        """Change the learning rate by the divergence ``kl`` of the last epoch."""
        if self.desired_kl is None:
            return
        for group in self.optimizer.param_groups:
            if kl > 2 * self.desired_kl:
                group["lr"] = max(MIN_LR, group["lr"] / LR_FACTOR)
            elif kl < self.desired_kl / 2:
                group["lr"] = min(MAX_LR, group["lr"] * LR_FACTOR)

    @property
    def _anneals_clip(self) -> bool:
        schedule = self.linear_clip_schedule
        return self.linear_lr_schedule if schedule is None else schedule

    def update_itr_hyperparams(self, itr: int) -> None:
        super().update_itr_hyperparams(itr)
        if self.linear_lr_schedule and self.lr_scheduler not in (None, self._linear_decay):
            self.lr_scheduler.step()  # A program's, as in 0.1.2.
        if self._anneals_clip:
            self._set_ratio_clip(itr + 1)

    def _set_ratio_clip(self, itr: int) -> None:
        self._schedule_itr = itr
        ratio_clip = self._ratio_clip * max(0.0, (self.n_itr - itr) / self.n_itr)
        if isinstance(self.ratio_clip, torch.Tensor):
            self.ratio_clip.fill_(ratio_clip)
        else:
            self.ratio_clip = self._last_ratio_clip = ratio_clip

    def optim_state_dict(self) -> Any:
        """Return the state of the optimizer and, as further entries, of the schedule."""
        state = super().optim_state_dict()
        if not self._anneals_clip:
            return state
        return {**state, "schedule_itr": self._schedule_itr}

    def load_optim_state_dict(self, state_dict: Any) -> None:
        super().load_optim_state_dict(state_dict)
        if self._anneals_clip and "schedule_itr" in state_dict:
            self._set_ratio_clip(state_dict["schedule_itr"])

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "rng": generator_state(self._minibatch_rng)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        set_generator_state(self._minibatch_rng, state["rng"])
