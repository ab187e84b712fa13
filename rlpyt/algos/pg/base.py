"""Base class of policy gradient algorithms: set-up, returns, one update, schedule, state."""

from __future__ import annotations

from collections import namedtuple
from functools import cached_property
from typing import Any

import torch

from rlpyt.algos._compiled import lasting
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.checks import (
    check_clip_grad_norm,
    check_fraction,
    keeps_methods,
    warn_without_timeout,
)
from rlpyt.algos.pg._episode_ends import (
    indexes_of,
    resets,
    to_model_state,
    truncations,
    values_at_truncation,
    with_resets,
)
from rlpyt.algos.pg._minibatches import RunningStd, normalize
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec
from rlpyt.models.rnn import move_with_resets
from rlpyt.returns.advantages import (
    discount_return,
    discount_return_tl,
    generalized_advantage_estimation,
    generalized_advantage_estimation_tl,
)
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.collections import fields_of, namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "entropy", "perplexity"])
AgentTrain = namedarraytuple("AgentTrain", ["dist_info", "value"])

# Fields of agent_info, and the methods of the library that read them.
READERS = {
    "dist_info": ("loss", "loss_input_from_samples"),
    "value": ("process_returns", "compute_returns"),
    "prev_rnn_state": ("loss",),
}


class PolicyGradientAlgo(RlAlgorithm):
    """Base class of algorithms that train a policy and values on a sampler batch, then discard it.

    Subclasses define :meth:`optimize_agent` and ``loss`` by small methods, each of which may be
    replaced: the targets (:meth:`process_returns`, :meth:`compute_returns`), the weights of the
    losses (:meth:`combine_losses`), the loss and the logged values (:meth:`_get_loss_values`),
    gradient clipping (:meth:`clip_gradients`), one whole update (:meth:`_apply_optimization`).

    **Recurrent agents.** Where an episode ends within a batch and another begins, the recurrent
    state is zero, as when acting, and all steps are trained on, if the agent and its model take
    ``reset``. Otherwise only the steps up to the first end in each environment count.

    **Time limits.** Where a time limit truncated an episode (``env_info.timeout``), the return is
    bootstrapped instead of ending (``bootstrap_timelimit``). If the sampler records the true last
    observations (``record_next_observation=True``), their values are used; otherwise V(s_t) of the
    last recorded state replaces its return, so that nothing is learned from that step.

    **Observation normalization.** The agent's running statistics are updated with a batch after
    training on it, so that acting and training use the same statistics.

    Attributes:
        next_diagnostics: values of the next update to log, by name. A loss may add its own; they
            are logged if ``opt_info_fields`` names them.
    """

    bootstrap_value = True
    opt_info_fields = tuple(OptInfo._fields)
    lr_scheduler: Any = None

    gae_lambda: float
    value_loss_coeff: float
    entropy_loss_coeff: float
    normalize_advantage: bool
    bootstrap_timelimit: bool
    normalize_return: bool
    linear_lr_schedule: bool
    loss: Any

    _cutting_loss: Any = None  # If given, resets are added only for this loss, not for others.
    _linear_decay: Any = None
    _logged_stand_in = False

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool = False,
        examples: Nested = None,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up the optimizer, and the schedule of its learning rate.

        Raises:
            ValueError: if a setting cannot work, alone or with this agent and sampler.
        """
        self._set_up(agent, n_itr, batch_spec, mid_batch_reset, examples, world_size)
        self.optim_initialize(rank)

    def _set_up(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int,
    ) -> None:
        """Set up all but the optimizer, which is made in the process that trains."""
        self._begin_run(agent)
        self.n_itr = n_itr
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.world_size = world_size
        self._check_settings(examples)
        if examples and "env_info" in examples:
            warn_without_timeout(self, examples["env_info"])
        self.lr_scheduler = None

    def optim_initialize(self, rank: int = 0) -> None:
        """Make the optimizer and its schedule, in the process that trains."""
        super().optim_initialize(rank)
        # A graph of torch.compile cannot make it.
        self._return_std = RunningStd(self.training_device)
        if self.compile:
            for x in vars(self._return_std).values():
                lasting(x)
        if self.linear_lr_schedule:
            self._decay_linearly(0)

    # Subclasses may replace the constructor and the set-up.
    @cached_property
    def _return_std(self) -> RunningStd:
        return RunningStd(self.training_device)

    @cached_property
    def next_diagnostics(self) -> dict[str, Any]:
        return {}

    def _check_settings(self, examples: Nested) -> None:
        """Raise ``ValueError`` for bad settings, or fields that ``agent_info`` lacks."""
        check_fraction(self, "discount")
        check_fraction(self, "gae_lambda")
        check_clip_grad_norm(self)

    def _check_agent_info(self, examples: Nested, OwnCls: Any) -> None:
        """Raise ``ValueError`` if methods of ``OwnCls`` read fields that the agent does not record.

        A subclass that replaces one of these methods may need other fields.
        """
        if not examples:
            return

        names = fields_of(examples["agent_info"])
        lacking = [
            name
            for name, readers in READERS.items()
            if name not in names
            and keeps_methods(self, OwnCls, ("optimize_agent", *readers))
            and (name != "prev_rnn_state" or self.agent.recurrent)
        ]
        if lacking:
            raise ValueError(
                f"agent_info of {type(self.agent).__name__} has the fields {tuple(names)}, but "
                f"{type(self).__name__} also trains on {lacking}: use a policy gradient "
                "agent, or add them to what the agent's step() returns"
            )

    # --- Returns and advantages --------------------------------------------------------------

    def with_resets(self, samples: Nested) -> Nested:
        """Return ``samples``, with ``env.reset`` [T,B] if recurrent agents train across episodes.

        The caller must pass ``env.reset`` to :meth:`agent_outputs`.
        """
        if not (self.mid_batch_reset and self.agent.recurrent):
            return samples
        return with_resets(self.agent, samples)

    def process_returns(
        self, samples: Nested
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Compute the targets of policy and values.

        Args:
            samples: batch [T,B] of the sampler, with ``agent_info.value`` and ``bootstrap_value``.

        Returns:
            return_ [T,B], advantage [T,B], and valid [T,B] or None. valid is 0 for steps after the
            end of an episode that are not trained on, because the environment waits for a reset or
            a recurrent agent lacks ``env.reset``, and 1 elsewhere; None if there are no such steps.
        """
        done = samples.env.done.to(samples.env.reward.dtype)
        stops_at_ends = self.agent.recurrent and resets(samples) is None
        valid = valid_from_done(done) if stops_at_ends or not self.mid_batch_reset else None
        return_, advantage = self.compute_returns(samples, done)
        if self.normalize_return:
            self._return_std.update(return_, valid, self.agent.device)
            return_, advantage = (x / self._return_std.std for x in (return_, advantage))
        if self.normalize_advantage:
            advantage = normalize(advantage, valid, self.agent.device)
        return return_, advantage, valid

    def compute_returns(
        self, samples: Nested, done: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute returns and advantages [T,B], in units of the reward.

        Args:
            samples: batch [T,B], as for :meth:`process_returns`.
            done: numbers [T,B], nonzero where an episode ends.
        """
        reward, value = samples.env.reward, samples.agent.agent_info.value
        bootstrap_value = samples.agent.bootstrap_value
        unit: Any = 1.0
        if self.normalize_return:  # Values are learned in units of the returns' deviation.
            unit = self._return_std.std
            value, bootstrap_value = value * unit, bootstrap_value * unit
        timeout = truncations(samples.env) if self.bootstrap_timelimit else None
        if timeout is not None and "next_observation" in samples.env._fields:
            last_value = values_at_truncation(
                self.agent, samples, timeout, all_processes=self.world_size > 1
            )
            reward, timeout = reward + self.discount * unit * last_value, None
        return self._estimate(samples, reward, value, done, bootstrap_value, timeout)

    def _estimate(
        self,
        samples: Nested,
        reward: torch.Tensor,
        value: torch.Tensor,
        done: torch.Tensor,
        bootstrap_value: torch.Tensor,
        timeout: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return returns and advantages [T,B] of rewards and values [T,B], in one unit."""
        if self.gae_lambda == 1:  # Avoids the rounding of summed differences.
            targets = (reward, done, bootstrap_value, self.discount)
            if timeout is None:
                return_ = discount_return(*targets)
            else:
                return_ = discount_return_tl(*targets, timeout, value)
            return return_, return_ - value
        inputs = (reward, value, done, bootstrap_value, self.discount, self.gae_lambda)
        if timeout is None:
            advantage, return_ = generalized_advantage_estimation(*inputs)
        else:
            advantage, return_ = generalized_advantage_estimation_tl(*inputs, timeout)
        return return_, advantage

    def to_training_device(self, samples: Nested) -> Nested:
        """Move a batch [T,B] in one copy; its resets stay on the CPU too, to cut sequences."""
        self._log_stand_in(samples.env)
        if self._cutting_loss is None or type(self).loss is type(self)._cutting_loss:
            samples = self.with_resets(samples)
        reset = resets(samples)
        if reset is None:
            return super().to_training_device(samples)
        samples = samples._replace(env=samples.env._replace(reset=None))
        moved, (reset,) = move_with_resets(samples, [reset.cpu()], self.training_device)
        return moved._replace(env=moved.env._replace(reset=reset))

    def _log_stand_in(self, env: Nested) -> None:
        """Log once that a value stands in for the last observation of a truncated episode."""
        is_needed = self.bootstrap_timelimit and "next_observation" not in env._fields
        if self._logged_stand_in or not is_needed:
            return
        timeout = truncations(env)
        # Not worth a wait for an accelerator.
        if timeout is None or not timeout.is_cpu or not timeout.numpy().any():
            return
        self._logged_stand_in = True
        logger.log(
            "A time limit truncates episodes: the value of the last recorded state replaces the "
            "rest of their return. Give the sampler record_next_observation=True to use the value "
            "of the true last observation, or the algorithm bootstrap_timelimit=False to count "
            "time limits as ends."
        )

    # --- One update --------------------------------------------------------------------------

    def agent_outputs(
        self,
        agent_inputs: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> Any:
        """Return the agent's ``dist_info`` and ``value``, with gradients.

        Args:
            agent_inputs: inputs of the agent, [T,B,...] or [B,...].
            init_rnn_state: recorded state [B,N,H] before the first step; None without recurrence.
            reset: mask [T,B], True where the recurrent state before the step is zero; None if it
                never is.
        """
        if init_rnn_state is None:
            return self.agent(*agent_inputs)[:2]
        kwargs = {} if reset is None else {"reset": reset}
        return self.agent(*agent_inputs, to_model_state(init_rnn_state), **kwargs)[:2]

    def _get_loss_values(self, *inputs: Nested, **options: Nested) -> dict[str, Any]:
        """Compute the loss to minimize, and all values to log for one update.

        Args:
            *inputs: arguments of ``loss``; for PPO ``LossInputs`` and the recurrent state.
            **options: keyword arguments of ``loss``.

        Returns:
            Values by the names of ``opt_info_fields``; other names are not logged. The entry
            "loss" is minimized.
        """
        loss, entropy, perplexity = self.loss(*inputs, **options)
        diagnostics, self.next_diagnostics = self.next_diagnostics, {}
        return {**diagnostics, "loss": loss, "entropy": entropy, "perplexity": perplexity}

    def combine_losses(
        self,
        pi_loss: torch.Tensor,
        value_loss: torch.Tensor,
        dist_info: Nested,
        valid: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weigh the terms of the loss.

            loss = pi_loss + value_loss_coeff * value_loss - entropy_loss_coeff * entropy

        Args:
            pi_loss: scalar.
            value_loss: scalar.
            dist_info: parameters [...] of the policy, with gradient.
            valid: mask [...], 1 where an entry counts; None to count all.

        Returns:
            The loss, the mean entropy, and the mean perplexity without gradient.
        """
        distribution = self.agent.distribution
        entropy = distribution.mean_entropy(dist_info, valid)
        loss = pi_loss + self.value_loss_coeff * value_loss
        if self.entropy_loss_coeff:
            loss = loss - self.entropy_loss_coeff * entropy
        with torch.no_grad():
            perplexity = distribution.mean_perplexity(dist_info, valid)
        self.next_diagnostics.update(piLoss=pi_loss.detach(), valueLoss=value_loss.detach())
        return loss, entropy, perplexity

    def update_networks(self, *inputs: Nested) -> dict[str, Any]:
        """Take one step down the gradient of the loss; return values to log, by name."""
        values = self._get_loss_values(*inputs)
        values["loss"], values["gradNorm"] = self.minimize(values["loss"], self.optimizer)
        return values

    def _apply_optimization(self, inputs: tuple[Nested, ...], opt_info: Any) -> dict[str, Any]:
        """Update the agent once, and add to ``opt_info``.

        Args:
            inputs: arguments of :meth:`_get_loss_values`.
            opt_info: record of lists.

        Returns:
            The values of the update, by name.
        """
        diagnostics, self.next_diagnostics = self.next_diagnostics, {}
        values = {**diagnostics, **self.run_update(self.update_networks, *inputs)}
        self.record_opt_info(opt_info, values)
        self.update_counter += 1
        return values

    def _finish_iteration(self, itr: int, samples: Nested, opt_info: Any) -> Any:
        """Update the agent's statistics and the schedule; return ``opt_info`` as numbers."""
        opt_info = self.fetch_opt_info(opt_info)
        if hasattr(self.agent, "update_obs_rms"):  # Not every agent is a BaseAgent.
            observation = samples.env.observation
            if not self.mid_batch_reset:  # Rows after an end are blank.
                observation = observation[indexes_of(valid_from_done(samples.env.done))]
            self.agent.update_obs_rms(observation)
        self.update_itr_hyperparams(itr)
        return opt_info

    # --- Schedule and state ------------------------------------------------------------------

    def _decay_linearly(self, itr: int) -> None:
        """Set up a learning rate that falls to zero linearly, from iteration ``itr`` on."""
        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.lr_scheduler = self._linear_decay = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda i: max(0.0, (self.n_itr - i) / self.n_itr), last_epoch=itr - 1
        )

    def update_itr_hyperparams(self, itr: int) -> None:
        """Advance the linear schedule to the iteration after ``itr``."""
        if self.linear_lr_schedule and self.lr_scheduler is self._linear_decay is not None:
            self.lr_scheduler.step()

    def optim_state_dict(self) -> Any:
        """Return the state of the optimizer and, as a further entry, of the schedule."""
        state = super().optim_state_dict()
        if self.lr_scheduler is None:
            return state
        if self.lr_scheduler is self._linear_decay:
            return {**state, "schedule": {"itr": self.lr_scheduler.last_epoch}}
        return {**state, "schedule": self.lr_scheduler.state_dict()}

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Load a state from :meth:`optim_state_dict`, or only the state of an optimizer."""
        super().load_optim_state_dict(state_dict)
        if self.lr_scheduler is None:
            return
        if self.lr_scheduler is self._linear_decay:
            schedule = state_dict.get("schedule", {"itr": self.lr_scheduler.last_epoch})
            self._decay_linearly(schedule["itr"])
        elif "schedule" in state_dict:
            self.lr_scheduler.load_state_dict(state_dict["schedule"])

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "return_std": self._return_std.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._return_std.load_state_dict(state["return_std"])
