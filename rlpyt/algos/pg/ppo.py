"""Proximal policy optimization: several epochs of minibatches on each batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch

from rlpyt.algos._settings import check_at_least_one, check_positive
from rlpyt.algos.losses import clipped_surrogate_loss, clipped_value_loss
from rlpyt.algos.pg._minibatches import flatten_time, iterate_parts, shuffled_parts
from rlpyt.algos.pg._resets import resets
from rlpyt.algos.pg.base import OptInfo as OptInfo, PolicyGradientAlgo
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    extended,
)
from rlpyt.utils._subclassing import names_parameter, overrides
from rlpyt.utils.buffer import buffer_method as buffer_method, buffer_to as buffer_to
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.misc import iterate_mb_idxs as iterate_mb_idxs
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested
from rlpyt.utils.unroll import takes

LossInputs = namedarraytuple(
    "LossInputs", ["agent_inputs", "action", "return_", "advantage", "valid", "old_dist_info"]
)
N_POSITIONAL = len(LossInputs._fields)


class PPO(PolicyGradientAlgo):
    """Improves the policy as long as it stays near to the one which acted.

        ratio = pi(a|s) / pi_old(a|s)
        loss  = mean of -min(ratio * A, clip(ratio, 1 - c, 1 + c) * A)
                + value_loss_coeff * (V(s) - R)^2 / 2 - entropy_loss_coeff * H(pi(s))

    In each epoch the samples of a batch are divided anew into random minibatches, of sizes which
    differ by one at most, so that none is left out. Of recurrent agents, whole environments (T
    steps from the recorded state) are divided.

    Args:
        discount: per step, in [0, 1].
        learning_rate: of the optimizer, in the first iteration.
        value_loss_coeff: weight of the error of values.
        entropy_loss_coeff: weight of the entropy of the policy.
        OptimCls: class of the optimizer.
        optim_kwargs: of ``OptimCls``.
        clip_grad_norm: largest norm of the gradient; None does not clip.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`; schedules start anew.
        gae_lambda: in [0, 1], of generalized advantages; 1 for discounted returns minus values.
        minibatches: in one epoch; for recurrent agents at most the number of environments.
        epochs: in one iteration.
        ratio_clip: c, in the first iteration.
        linear_lr_schedule: let ``learning_rate`` and ``ratio_clip`` fall to zero over the run.
        normalize_advantage: to mean 0 and standard deviation 1, over the batches of all processes.
        bootstrap_timelimit: an episode which its time limit cut is valued as if it went on; False
            takes it for ended, as rlpyt 0.1.2 did.
        normalize_return: learn values in units of the running standard deviation of returns.
        value_clip: also limit the gain from changing a value by more than this, in units of the
            values; None for no such limit.
        recompute_returns: compute returns and advantages again before each epoch but the first,
            with the present values; that of the observation after the batch stays as recorded.

    Source: Schulman et al. 2017, arXiv:1707.06347; recomputation and the other options:
    Andrychowicz et al. 2021, arXiv:2006.05990.
    """

    minibatches: int
    epochs: int
    ratio_clip: float
    value_clip: float | None
    recompute_returns: bool
    optional_settings = {
        **PolicyGradientAlgo.optional_settings,
        "value_clip": None,
        "recompute_returns": False,
    }
    _schedule_itr = 0

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
        self._ratio_clip = self.ratio_clip
        super().initialize(*args, **kwargs)
        self._batch_size = self.batch_spec.size // self.minibatches
        self._rng = make_generator()

    @cached_property
    def _rng(self) -> np.random.Generator:
        """Divides samples into minibatches; there is one also without :meth:`initialize`."""
        return make_generator()

    def _fill_in_defaults(self) -> None:
        super()._fill_in_defaults()
        # Of configurations in JSON, in which every number may be a float.
        self.minibatches, self.epochs = int(self.minibatches), int(self.epochs)

    def _check_settings(self, examples: Nested) -> None:
        super()._check_settings(examples)
        check_at_least_one(self, "minibatches", "epochs")
        check_positive(self, "ratio_clip")
        check_positive(self, "value_clip", "make it positive, or None")
        T, B = self.batch_spec
        if self.agent.recurrent and self.minibatches > B:
            raise ValueError(
                f"minibatches is {self.minibatches}, but of a recurrent agent whole environments "
                f"are divided, and batch_B is {B}: choose minibatches <= {B}, or a larger batch_B"
            )
        if self.minibatches > T * B:
            raise ValueError(
                f"minibatches is {self.minibatches}, more than the {T * B} samples of a batch "
                f"{tuple(self.batch_spec)}: choose fewer, or a larger batch_T or batch_B"
            )

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        opt_info = self._get_empty_optim_info()
        for loss_inputs, init_rnn_state in self.iterate_minibatches(samples):
            values = self._get_loss_values(loss_inputs, init_rnn_state)
            self._apply_optimization(values, opt_info)
        self.update_obs_rms(samples)
        self.update_itr_hyperparams(itr)
        return self.fetch_opt_info(opt_info)

    def loss_input_from_samples(self, samples: Nested) -> Nested:
        """What the loss is computed of, before it is divided into minibatches.

        Further fields, which a subclass may add to the record, are divided as well and passed to
        :meth:`loss` by keyword.

        Args:
            samples: [T,B].

        Returns:
            ``LossInputs`` [T,B,...].
        """
        return_, advantage, valid = self.process_returns(samples)
        return LossInputs(
            agent_inputs=self.agent_inputs(samples),
            action=samples.agent.action,
            return_=return_,
            advantage=advantage,
            valid=valid,
            old_dist_info=samples.agent.agent_info.dist_info,
        )

    def with_resets(self, samples: Nested) -> Nested:
        return super().with_resets(samples) if takes(self, "loss", "reset") else samples

    def _with_options(self, loss_inputs: Nested, samples: Nested) -> Nested:
        """``loss_inputs`` with those optional arguments of :meth:`loss` which are in use."""
        options = {}
        if self.value_clip is not None:
            options["old_value"] = samples.agent.agent_info.value
        if self._takes_old_log_likelihood():  # Once, not in every epoch.
            options["old_log_likelihood"] = self.agent.distribution.log_likelihood(
                loss_inputs.action, loss_inputs.old_dist_info
            )
        if resets(samples) is not None:
            options["reset"] = resets(samples)
        return extended(type(loss_inputs), tuple(options))(*loss_inputs, *options.values())

    def _takes_old_log_likelihood(self) -> bool:
        """Whether no method of a subclass might put other old distributions in their place."""
        users = ((self, "loss"), (self, "pi_loss"), (self.agent.distribution, "likelihood_ratio"))
        return not overrides(self, "_get_loss_values") and all(
            names_parameter(user, name, "old_log_likelihood") for user, name in users
        )

    def iterate_minibatches(self, samples: Nested) -> Iterator[tuple[Nested, Nested]]:
        """The minibatches of all epochs.

        Yields:
            ``LossInputs`` [B',...] (of recurrent agents [T,B',...]), and the recorded state
            [B',N,H] before the first step, or None.
        """
        self._fill_in_defaults()
        samples = self.with_resets(samples)
        unit = self._return_std.std
        loss_inputs = self._with_options(self.loss_input_from_samples(samples), samples)
        init_rnn_state = self.init_rnn_state(samples)
        for epoch in range(self.epochs):
            if epoch and self.recompute_returns:
                loss_inputs = self.with_new_returns(loss_inputs, samples, unit)
            yield from self._divided(loss_inputs, init_rnn_state)

    def _divided(
        self, loss_inputs: Nested, init_rnn_state: Nested
    ) -> Iterator[tuple[Nested, Nested]]:
        """The minibatches of one epoch; what no minibatch can be trained on is left out."""
        T, B = self.batch_spec
        if self.agent.recurrent:
            order, sizes = shuffled_parts(torch.arange(B), self.minibatches, self._rng)
            parts = iterate_parts(loss_inputs, order, sizes, dim=1)
            yield from zip(parts, iterate_parts(init_rnn_state, order, sizes), strict=True)
            return
        valid = loss_inputs.valid
        rows = torch.arange(T * B) if valid is None else valid.reshape(-1).nonzero()[:, 0]
        order, sizes = shuffled_parts(rows, self.minibatches, self._rng)
        for part in iterate_parts(flatten_time(loss_inputs), order, sizes):
            yield part, None

    @torch.no_grad()
    def with_new_returns(self, loss_inputs: Nested, samples: Nested, unit: float) -> Nested:
        """``loss_inputs`` with the returns and advantages which follow from the present values.

        Args:
            loss_inputs: [T,B,...].
            samples: [T,B].
            unit: of the recorded values, if returns are normalised.
        """
        _, value = self.agent_outputs(
            loss_inputs.agent_inputs, self.init_rnn_state(samples), resets(samples)
        )
        agent = samples.agent
        agent = agent._replace(
            agent_info=agent.agent_info._replace(value=value),
            bootstrap_value=agent.bootstrap_value * (unit / self._return_std.std),
        )
        with self._return_std.held():
            return_, advantage, _ = self.process_returns(samples._replace(agent=agent))
        return loss_inputs._replace(return_=return_, advantage=advantage)

    def _call_loss(self, *inputs: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if takes(self, "loss", "loss_inputs"):
            return self.loss(*inputs)
        loss_inputs, init_rnn_state = inputs
        fields = tuple(loss_inputs)  # Whose slices are not those of the arrays.
        further = dict(zip(loss_inputs._fields[N_POSITIONAL:], fields[N_POSITIONAL:]))
        arguments = (*fields[:N_POSITIONAL], init_rnn_state)
        return self.loss(*arguments, **further)

    def loss(
        self,
        agent_inputs: Nested,
        action: Nested = None,
        return_: Any = None,
        advantage: Any = None,
        valid: torch.Tensor | None = None,
        old_dist_info: Nested = None,
        init_rnn_state: Nested = None,
        old_value: torch.Tensor | None = None,
        reset: torch.Tensor | None = None,
        old_log_likelihood: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one minibatch.

        Also called as ``loss(loss_inputs, init_rnn_state)``; a subclass whose ``loss`` names its
        first parameter ``loss_inputs`` is called in that form. Recurrent agents are trained past
        ends of episodes only if ``loss`` takes ``reset``, or ``**kwargs`` which it hands on.

        Args:
            agent_inputs: [B,...] on the device of the agent; for recurrent agents this and all
                others [T,B,...].
            action: [B,...].
            return_: [B].
            advantage: [B].
            valid: [B] 1 where an entry counts; None: all count.
            old_dist_info: [B,...] of the policy which acted.
            init_rnn_state: [B,N,H] as recorded, before the first step; None for agents without.
            old_value: [B] by the network which acted, where values are clipped.
            reset: [T,B] where the recurrent state is zero before a step; None is nowhere.
            old_log_likelihood: [B] of the actions by ``old_dist_info``, if that is known already.

        Returns:
            The scalar loss, the mean entropy and the mean perplexity.
        """
        if "old_dist_info" in getattr(agent_inputs, "_fields", ()):
            record, init_rnn_state = agent_inputs, action
            fields = tuple(record)[:N_POSITIONAL]
            agent_inputs, action, return_, advantage, valid, old_dist_info = fields
            old_value, reset, old_log_likelihood = (
                getattr(record, name, None) for name in ("old_value", "reset", "old_log_likelihood")
            )
        dist_info, value = self.agent_outputs(agent_inputs, init_rnn_state, reset)
        known = _known(old_log_likelihood)
        pi_loss = self.pi_loss(action, advantage, valid, dist_info, old_dist_info, **known)
        value_loss = self.value_loss(value, return_, valid, old_value)
        return self.combine_losses(pi_loss, value_loss, dist_info, valid)

    def pi_loss(
        self,
        action: Nested,
        advantage: torch.Tensor,
        valid: torch.Tensor | None,
        dist_info: Nested,
        old_dist_info: Nested,
        old_log_likelihood: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Scalar loss of the policy."""
        ratio = self.agent.distribution.likelihood_ratio(
            action,
            old_dist_info=old_dist_info,
            new_dist_info=dist_info,
            **_known(old_log_likelihood),
        )
        return valid_mean(clipped_surrogate_loss(ratio, advantage, self.ratio_clip), valid)

    def value_loss(
        self,
        value: torch.Tensor,
        return_: torch.Tensor,
        valid: torch.Tensor | None,
        old_value: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if old_value is None or self.value_clip is None:
            return super().value_loss(value, return_, valid)
        return valid_mean(clipped_value_loss(value, return_, old_value, self.value_clip), valid)

    def update_itr_hyperparams(self, itr: int) -> None:
        super().update_itr_hyperparams(itr)
        if self.lr_scheduler is not None:
            self._set_ratio_clip(itr + 1)

    def _set_ratio_clip(self, itr: int) -> None:
        self._schedule_itr = itr
        self.ratio_clip = self._ratio_clip * max(0.0, (self.n_itr - itr) / self.n_itr)

    # --- State -------------------------------------------------------------------------------

    def optim_state_dict(self) -> Any:
        """State of the optimizer and, as further entries, of the schedule."""
        state = super().optim_state_dict()
        if self.lr_scheduler is None:
            return state
        return {**state, "schedule_itr": self._schedule_itr}

    def load_optim_state_dict(self, state_dict: Any) -> None:
        super().load_optim_state_dict(state_dict)
        if self.lr_scheduler is not None:
            self._set_ratio_clip(state_dict.get("schedule_itr", self._schedule_itr))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "rng": generator_state(self._rng)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        set_generator_state(self._rng, state["rng"])


def _known(old_log_likelihood: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The keyword for methods which may not take it."""
    return {} if old_log_likelihood is None else {"old_log_likelihood": old_log_likelihood}
