"""What policy gradient algorithms share: set-up, returns and advantages, the parts of the loss."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch

from rlpyt.algos._optim import optimized_parameters
from rlpyt.algos._settings import check_fraction, check_positive
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.losses import squared_value_loss
from rlpyt.algos.pg._moments import RunningStd, normalize
from rlpyt.algos.pg._resets import inputs_when_acting, resets, with_resets
from rlpyt.algos.pg._returns import returns_and_advantages
from rlpyt.algos.pg._schedule import LinearDecay
from rlpyt.algos.pg._time_limits import timeouts, to_model_state, values_of_cut_episodes
from rlpyt.core.records import BatchSpec
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "entropy", "perplexity"])
AgentTrain = namedarraytuple("AgentTrain", ["dist_info", "value"])


class PolicyGradientAlgo(RlAlgorithm):
    """Trains a policy and a value function on each batch of the sampler, and then forgets it.

    Subclasses define :meth:`optimize_agent` and ``loss`` of small methods, each of which may be
    replaced: the targets (:meth:`process_returns`), the parts of the loss (:meth:`pi_loss`,
    :meth:`value_loss`, :meth:`combine_losses`), what is logged (:meth:`_get_loss_values`), how
    gradients are clipped (:meth:`clip_gradients`), and what one update is
    (:meth:`_apply_optimization`).

    **Recurrent agents.** Where an episode ends within a batch and another begins, the recurrent
    state is zero, as when acting, and all steps are trained on, if the agent and its model take
    ``reset``. Otherwise only the steps up to the first end in each environment count.

    **Time limits.** Where ``env_info.timeout`` says that an episode was cut by its time limit, the
    return goes on with a value instead of ending (``bootstrap_timelimit``). If the sampler records
    the true last observations (``record_next_observation=True``), it is theirs; otherwise the value
    of the last state which the batch holds, V(s_t), stands in for its whole return, so that nothing
    is learned from that step.

    **Observation normalisation.** Running statistics of the agent take a batch into account after
    the agent was trained on it, so that it is trained with those it acted with.
    """

    bootstrap_value = True
    opt_info_fields = tuple(OptInfo._fields)
    # Of settings which constructors of subclasses may lack.
    optional_settings: dict[str, Any] = {
        "bootstrap_timelimit": True,
        "normalize_return": False,
        "linear_lr_schedule": False,
    }
    lr_scheduler: Any = None

    gae_lambda: float
    value_loss_coeff: float
    entropy_loss_coeff: float
    normalize_advantage: bool
    bootstrap_timelimit: bool
    normalize_return: bool
    linear_lr_schedule: bool
    loss: Any

    _told_of_stand_in = False
    # Parts of the last loss, which are logged if ``opt_info_fields`` names them.
    _loss_parts: Mapping[str, torch.Tensor] = {}

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(
        self,
        agent: Any,
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
        self.agent = agent
        self.n_itr = n_itr
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.world_size = world_size
        self._fill_in_defaults()
        self._check_settings(examples)
        self._return_std = RunningStd()
        self.lr_scheduler = None  # Of an earlier run.
        self.optim_initialize(rank)
        if self.linear_lr_schedule:
            self.lr_scheduler = LinearDecay(self.optimizer, self.n_itr)

    @cached_property
    def _return_std(self) -> RunningStd:
        """Deviation of the returns so far; there is one also without :meth:`initialize`."""
        return RunningStd()

    def _fill_in_defaults(self) -> None:
        """Complete the settings; changes nothing the second time.

        Called by the set-up and, for subclasses which replaced that, again before settings are used
        first.
        """
        for name, default in self.optional_settings.items():
            if not hasattr(self, name):
                setattr(self, name, default)

    def _check_settings(self, examples: Nested) -> None:
        """Raise ``ValueError`` for what fails later: a setting, or what the agent records."""
        check_fraction(self, "discount")
        check_fraction(self, "gae_lambda")
        check_positive(self, "clip_grad_norm", "make it positive, or None")
        if not examples:
            return
        names = getattr(examples["agent_info"], "_fields", ())
        needed = ("dist_info", "value", *(["prev_rnn_state"] if self.agent.recurrent else []))
        lacking = [name for name in needed if name not in names]
        if lacking:
            raise ValueError(
                f"agent_info of {type(self.agent).__name__} has the fields {tuple(names)}, but "
                f"{type(self).__name__} is trained on {lacking} as well: use a policy gradient "
                "agent, or add them to what the agent's step() returns"
            )

    # --- One iteration -----------------------------------------------------------------------

    def agent_inputs(self, samples: Nested) -> Nested:
        """What the agent is called with for training, [T,B,...] on its device."""
        return buffer_to(inputs_when_acting(self.agent, samples), device=self.agent.device)

    def agent_outputs(
        self,
        agent_inputs: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> Any:
        """The agent's distributions and values, with gradients.

        Args:
            agent_inputs: [T,B,...] or [B,...].
            init_rnn_state: [B,N,H] as recorded, before the first step; None for agents without.
            reset: [T,B] where the recurrent state is zero before a step; None is nowhere.

        Returns:
            ``dist_info`` and ``value``, a pair.
        """
        if init_rnn_state is None:
            return self.agent(*agent_inputs)[:2]
        kwargs = {} if reset is None else {"reset": reset}
        return self.agent(*agent_inputs, to_model_state(init_rnn_state), **kwargs)[:2]

    def init_rnn_state(self, samples: Nested) -> Nested:
        """The recorded state [B,N,H] before the first step; None if the agent has none."""
        return samples.agent.agent_info.prev_rnn_state[0] if self.agent.recurrent else None

    def with_resets(self, samples: Nested) -> Nested:
        """``samples``, with ``env.reset`` [T,B] if a recurrent agent is trained past ends.

        Who asks for it has to hand ``env.reset`` to :meth:`agent_outputs`.
        """
        if not (self.mid_batch_reset and self.agent.recurrent):
            return samples
        return with_resets(self.agent, samples)

    def process_returns(
        self, samples: Nested
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Compute what policy and values are trained towards.

        Args:
            samples: [T,B] a batch of the sampler, with ``agent_info.value`` and
                ``bootstrap_value``.

        Returns:
            return_ [T,B], advantage [T,B], and valid [T,B] or None. Where a batch goes on after the
            end of an episode which the agent is not trained on, because it waits for a reset or is
            recurrent without ``env.reset``, valid is 0, otherwise 1; None if that cannot be.
        """
        self._fill_in_defaults()
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
        """Returns and advantages [T,B], in units of the reward.

        Args:
            samples: [T,B] as in :meth:`process_returns`.
            done: [T,B] numbers.
        """
        # Values are learned in units of the returns' deviation, if those are normalised.
        unit = self._return_std.std if self.normalize_return else 1.0
        reward = samples.env.reward
        value = samples.agent.agent_info.value * unit
        bootstrap_value = samples.agent.bootstrap_value * unit
        timeout = timeouts(samples) if self.bootstrap_timelimit else None
        if timeout is not None and "next_observation" in samples.env._fields:
            cut_value = values_of_cut_episodes(
                self.agent, samples, timeout, all_processes=self.world_size > 1
            )
            reward, timeout = reward + self.discount * unit * cut_value, None
        self._tell_of_stand_in(timeout)
        return returns_and_advantages(
            reward, value, done, bootstrap_value, self.discount, self.gae_lambda, timeout
        )

    def _tell_of_stand_in(self, timeout: torch.Tensor | None) -> None:
        if timeout is not None and not self._told_of_stand_in and timeout.any():
            self._told_of_stand_in = True
            logger.log(
                "Episodes are cut by a time limit: the value of the state before stands in for "
                "the rest of their return. Give the sampler record_next_observation=True to use "
                "that of the true last observation, or the algorithm bootstrap_timelimit=False to "
                "take time limits for ends."
            )

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, *inputs: Nested) -> dict[str, Any]:
        """Compute what is minimised and what is logged, of one update.

        Args:
            inputs: of A2C the samples; of PPO ``LossInputs`` and the recurrent state.

        Returns:
            Values by the names of ``opt_info_fields``; of names that are not among them ("piLoss",
            "valueLoss"), nothing is logged. The entry "loss" is minimised.
        """
        self._loss_parts = {}
        loss, entropy, perplexity = self._call_loss(*inputs)
        return {**self._loss_parts, "loss": loss, "entropy": entropy, "perplexity": perplexity}

    def _call_loss(self, *inputs: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The loss, the mean entropy and the mean perplexity, by ``loss``."""
        outputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = self.loss(*inputs)
        return outputs

    def value_loss(
        self, value: torch.Tensor, return_: torch.Tensor, valid: torch.Tensor | None
    ) -> torch.Tensor:
        """Scalar error of the values, not yet weighted by ``value_loss_coeff``."""
        return valid_mean(squared_value_loss(value, return_), valid)

    def combine_losses(
        self,
        pi_loss: torch.Tensor,
        value_loss: torch.Tensor,
        dist_info: Nested,
        valid: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weigh the parts of the loss.

            loss = pi_loss + value_loss_coeff * value_loss - entropy_loss_coeff * entropy

        Args:
            pi_loss: scalar.
            value_loss: scalar.
            dist_info: [...] of the policy, with gradient.
            valid: [...] 1 where an entry counts; None: all count.

        Returns:
            The loss, the mean entropy and the mean perplexity; the latter without gradient.
        """
        distribution = self.agent.distribution
        entropy = distribution.mean_entropy(dist_info, valid)
        loss = pi_loss + self.value_loss_coeff * value_loss
        if self.entropy_loss_coeff:
            loss = loss - self.entropy_loss_coeff * entropy
        with torch.no_grad():
            perplexity = distribution.mean_perplexity(dist_info, valid)
        self._loss_parts = {"piLoss": pi_loss, "valueLoss": value_loss}
        return loss, entropy, perplexity

    def _apply_optimization(self, values: dict[str, Any], opt_info: Any) -> None:
        """Update the agent once, down the gradient of ``values["loss"]``; add to ``opt_info``."""
        values["loss"], values["gradNorm"] = self.minimize(
            values["loss"], self.optimizer, self._parameters()
        )
        self.record_opt_info(opt_info, values)
        self.update_counter += 1

    def _parameters(self) -> list[torch.nn.Parameter]:
        """Those whose gradients are clipped together."""
        return optimized_parameters(self.optimizer)

    def update_obs_rms(self, samples: Nested) -> None:
        """Take the observations into the agent's running statistics, if it has any."""
        if not hasattr(self.agent, "update_obs_rms"):
            return
        observation = samples.env.observation
        if not self.mid_batch_reset:  # Blank after the end of an episode.
            observation = observation[valid_from_done(samples.env.done) > 0]
        self.agent.update_obs_rms(observation)

    def update_itr_hyperparams(self, itr: int) -> None:
        """Advance the schedule to the iteration after ``itr``."""
        if self.lr_scheduler is not None:
            self.lr_scheduler.step()

    # --- State -------------------------------------------------------------------------------

    def optim_state_dict(self) -> Any:
        """State of the optimizer and, as a further entry, of the schedule."""
        state = super().optim_state_dict()
        if self.lr_scheduler is None:
            return state
        return {**state, "schedule": self.lr_scheduler.state_dict()}

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Take the state of :meth:`optim_state_dict`, or that of an optimizer alone."""
        super().load_optim_state_dict(state_dict)
        if self.lr_scheduler is not None:
            schedule = state_dict.get("schedule", self.lr_scheduler.state_dict())
            self.lr_scheduler.load_state_dict(schedule)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "return_std": self._return_std.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._return_std.load_state_dict(state["return_std"])
