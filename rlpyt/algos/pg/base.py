"""Base class of policy gradient algorithms: returns, terms of the loss, schedule."""

from __future__ import annotations

from collections import namedtuple
from functools import cached_property
from typing import Any

import torch

from rlpyt.algos._compiled import lasting
from rlpyt.algos.checks import check_fraction, check_positive
from rlpyt.algos.on_policy import OnPolicyAlgorithm
from rlpyt.algos.rollouts import (
    indexes_of,
    inputs_when_acting,
    resets,
    to_model_state,
    truncations,
    values_at_truncation,
    with_resets,
)
from rlpyt.algos.statistics import RunningStd, normalize, value_statistics
from rlpyt.core.records import with_fields
from rlpyt.returns.advantages import (
    discount_return,
    discount_return_tl,
    generalized_advantage_estimation,
    generalized_advantage_estimation_tl,
)
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.collections import fields_of, namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import accepts
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "entropy", "perplexity"])
AgentTrain = namedarraytuple("AgentTrain", ["dist_info", "value"])
LossInputs = namedarraytuple(
    "LossInputs", ["agent_inputs", "action", "return_", "advantage", "valid", "old_dist_info"]
)


class LinearDecay(torch.optim.lr_scheduler.LambdaLR):
    """Learning rate that falls linearly from its initial value to zero.

    Args:
        optimizer: optimizer whose rate to set.
        n_itr: number of iterations, one step each, until it is zero.
    """

    def __init__(self, optimizer: Any, n_itr: int) -> None:
        super().__init__(optimizer, lambda itr: max(0.0, (n_itr - itr) / n_itr))

    def state_dict(self) -> dict[str, Any]:
        return {"itr": self.last_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.last_epoch = state_dict["itr"]
        groups = self.optimizer.param_groups
        self.base_lrs = [group.setdefault("initial_lr", group["lr"]) for group in groups]
        for group, lr, factor in zip(groups, self.base_lrs, self.lr_lambdas):
            group["lr"] = lr * factor(self.last_epoch)


class PolicyGradientAlgo(OnPolicyAlgorithm):
    """Base class of algorithms that train a policy and values on a sampler batch, then discard it.

    Subclasses consist of small methods, each of which may be overridden: the targets
    (:meth:`process_returns`, :meth:`compute_returns`), the weights of the losses
    (:meth:`combine_losses`), the loss and the logged values (:meth:`_get_loss_values`), gradient
    clipping (:meth:`clip_gradients`), one whole update (:meth:`_apply_optimization`).

    **Recurrent agents.** Where an episode ends within a batch and another begins, the recurrent
    state is zero, as when acting, and all steps are trained on, if the agent and its model take
    ``reset``. Otherwise only the steps up to the first end in each environment count.

    **Time limits.** Where a time limit truncated an episode (``env_info.timeout``), the return is
    bootstrapped instead of ending (``bootstrap_timelimit``). If the sampler records the true last
    observations (``record_next_observation=True``), their values are used; otherwise V(s_t) of the
    last recorded state replaces its return, so that nothing is learned from that step.

    **Observation normalization.** The agent's running statistics are updated with a batch after
    training on it, so that acting and training use the same statistics.
    """

    opt_info_fields = tuple(OptInfo._fields)
    lr_scheduler: Any = None

    gae_lambda: float
    value_loss_coeff: float
    entropy_loss_coeff: float
    normalize_advantage: bool
    normalize_return: bool = False
    linear_lr_schedule: bool = False
    loss: Any

    _logged_missing_last_observation = False

    # --- Set-up ------------------------------------------------------------------------------

    def _set_up(self, *args: Any) -> None:
        self.lr_scheduler = None
        super()._set_up(*args)

    def optim_initialize(self, rank: int = 0) -> None:
        """Make the optimizer and its schedule, in the process that trains."""
        super().optim_initialize(rank)
        # A graph of torch.compile cannot make it.
        self._return_std = RunningStd(self.training_device)
        if self.compile:
            for x in vars(self._return_std).values():
                lasting(x)
        if self.linear_lr_schedule:
            self.lr_scheduler = LinearDecay(self.optimizer, self.n_itr)

    @cached_property
    def _return_std(self) -> RunningStd:
        return RunningStd(self.training_device)

    def _check_settings(self, examples: Nested) -> None:
        check_fraction(self, "discount")
        check_fraction(self, "gae_lambda")
        check_positive(self, "clip_grad_norm", "make it positive, or None")

    # --- The batch ---------------------------------------------------------------------------

    def to_training_device(self, samples: Nested) -> Nested:
        self._log_missing_last_observation(samples.env)
        samples = self.with_resets(samples) if self._takes_resets else samples
        return super().to_training_device(samples)

    @property
    def _takes_resets(self) -> bool:
        """Whether the loss takes ``reset``; otherwise it gets no steps after the first end."""
        return accepts(type(self), "loss", "reset")

    def with_resets(self, samples: Nested) -> Nested:
        """Return ``samples``, with ``env.reset`` [T,B] if recurrent agents train across episodes.

        The caller must pass ``env.reset`` to :meth:`agent_outputs`.
        """
        spans = self.mid_batch_reset and self.agent.recurrent and self.agent.spans_episodes
        return with_resets(samples) if spans else samples

    def prepare(self, samples: Nested) -> Nested:
        samples = self.with_last_values(samples)
        agent_info = samples.agent.agent_info
        arguments: tuple[Nested, ...] = (samples,)
        if accepts(type(self), "loss_input_from_samples", "advantage"):  # As a fork calls it.
            arguments += (inputs_when_acting(self.agent, samples), *self.process_returns(samples))
        batch = self.loss_input_from_samples(*arguments)
        self.next_diagnostics.update(value_statistics(agent_info, batch.return_, batch.valid))
        state = agent_info.prev_rnn_state[0] if self.agent.recurrent else None
        return with_fields(batch, init_rnn_state=state, reset=resets(samples))

    def loss_input_from_samples(self, samples: Nested) -> Nested:
        """Return the inputs of the loss for a whole batch.

        A subclass may add fields to the record; they are divided into minibatches too, and passed
        to PPO's loss by keyword.

        Args:
            samples: batch [T,B].

        Returns:
            ``LossInputs`` [T,B,...].
        """
        agent_inputs = inputs_when_acting(self.agent, samples)
        return_, advantage, valid = self.process_returns(samples)
        return LossInputs(
            agent_inputs=agent_inputs,
            action=samples.agent.action,
            return_=return_,
            advantage=advantage,
            valid=valid,
            old_dist_info=samples.agent.agent_info.dist_info,
        )

    def with_last_values(self, samples: Nested) -> Nested:
        """Return ``samples``, with ``env.last_value`` [T,B] if last observations are recorded.

        It is the value of the last observation where a time limit truncated an episode, and zero
        elsewhere.
        """
        fields = samples.env._fields
        if not self.bootstrap_timelimit or "next_observation" not in fields:
            return samples
        if "value" not in fields_of(samples.agent.agent_info):  # As with two value heads.
            return samples
        timeout = None if "last_value" in fields else truncations(samples.env)
        if timeout is None:
            return samples
        values = values_at_truncation(
            self.agent, samples, timeout, all_processes=self.world_size > 1
        )
        return samples._replace(env=with_fields(samples.env, last_value=values))

    # --- Returns and advantages --------------------------------------------------------------

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
        samples = self.with_last_values(samples)
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
        if "last_value" in samples.env._fields:
            reward, timeout = reward + self.discount * unit * samples.env.last_value, None
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

    def _log_missing_last_observation(self, env: Nested) -> None:
        """Log once that a value stands in for the last observation of a truncated episode."""
        is_needed = self.bootstrap_timelimit and "next_observation" not in env._fields
        if self._logged_missing_last_observation or not is_needed:
            return
        timeout = truncations(env)
        # Not worth a wait for an accelerator.
        if timeout is None or not timeout.is_cpu or not timeout.numpy().any():
            return
        self._logged_missing_last_observation = True
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

    def run_networks(self, batch: Nested) -> torch.Tensor:
        names = [name for name in ("init_rnn_state", "reset") if name in fields_of(batch)]
        recurrent = {name: getattr(batch, name) for name in names}
        value: torch.Tensor = self.agent_outputs(batch.agent_inputs, **recurrent)[1]
        return value

    def _values_to_log(
        self, loss: torch.Tensor, entropy: torch.Tensor, perplexity: torch.Tensor
    ) -> dict[str, Any]:
        """Return what ``loss`` returned, and its diagnostics, by name."""
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

    def _finish_iteration(self, itr: int, samples: Nested, opt_info: Any) -> Any:
        """Update the agent's statistics and schedules; return ``opt_info`` as numbers."""
        opt_info = super()._finish_iteration(itr, samples, opt_info)
        if hasattr(self.agent, "update_obs_rms"):  # Not every agent is a BaseAgent.
            observation = samples.env.observation
            if not self.mid_batch_reset:  # Rows after an end are blank.
                observation = observation[indexes_of(valid_from_done(samples.env.done))]
            self.agent.update_obs_rms(observation)
        return opt_info

    # --- Schedule and state ------------------------------------------------------------------

    def update_itr_hyperparams(self, itr: int) -> None:
        """Advance the schedule of the learning rate to the iteration after ``itr``."""
        if self.linear_lr_schedule and self.lr_scheduler is not None:
            self.lr_scheduler.step()

    def optim_state_dict(self) -> Any:
        """Return the state of the optimizer and, as a further entry, of the schedule."""
        state = super().optim_state_dict()
        if self.lr_scheduler is None:
            return state
        return {**state, "schedule": self.lr_scheduler.state_dict()}

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Load a state from :meth:`optim_state_dict`, or only the state of an optimizer."""
        super().load_optim_state_dict(state_dict)
        if self.lr_scheduler is not None:
            schedule = state_dict.get("schedule", self.lr_scheduler.state_dict())
            self.lr_scheduler.load_state_dict(schedule)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "return_std": self._return_std.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._return_std.load_state_dict(state["return_std"])
