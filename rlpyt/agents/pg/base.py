"""Policy gradient agents: a stochastic policy for any kind of action, and a value function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin, without_ddp
from rlpyt.agents.recurrent import finish_step, reset_keyword
from rlpyt.core.masks import mask_probabilities
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.base import Distribution
from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models.space_kinds import Box, Fields, Kind, action_kind
from rlpyt.utils.collections import namedarraytuple, record_class
from rlpyt.utils.quick_args import accepts
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", ["dist_info", "value"])
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["dist_info", "value", "prev_rnn_state"])


# --- Policies: the outputs of a model as a distribution over actions, for each kind of action -----


class Policy:
    """Translation between a network and a distribution over actions.

    Attributes:
        distribution: distribution of actions.
    """

    distribution: Distribution

    def dist_info(self, *parameters: Nested) -> Nested:
        """Return the distribution's record of parameters, given the outputs of a model."""
        raise NotImplementedError(f"{type(self).__name__} does not define dist_info()")

    def encode(self, action: Nested) -> Nested:
        """Return actions as numbers for a network, with the same leading dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not define encode()")

    def mode(self, dist_info: Nested) -> Nested:
        """Return the most likely actions."""
        raise NotImplementedError(f"{type(self).__name__} does not define mode()")


class ChoicePolicy(Policy):
    """Policy for choices, given by probabilities; networks receive one-hot vectors."""

    def __init__(self, distribution: Categorical | MultiCategorical) -> None:
        self.distribution: Categorical | MultiCategorical = distribution

    def dist_info(self, prob: torch.Tensor) -> DistInfo:
        return DistInfo(prob=prob)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.to_onehot(action)

    def mode(self, dist_info: DistInfo) -> torch.Tensor:
        return torch.argmax(dist_info.prob, dim=-1)


class GaussianPolicy(Policy):
    """Policy for real numbers, given by a mean and a log standard deviation.

    The model works in units in which the range of every action is [-1, 1], unless the distribution
    leaves its outputs unscaled.
    """

    def __init__(self, distribution: BoxGaussian) -> None:
        self.distribution: BoxGaussian = distribution

    def dist_info(self, mean: torch.Tensor, log_std: torch.Tensor) -> DistInfoStd:
        return self.distribution.scaled(mean, log_std)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.unscaled(action)

    def mode(self, dist_info: DistInfoStd) -> torch.Tensor:
        return self.distribution.mode(dist_info)


class CompositePolicy(Policy):
    """Policy for records of actions: one policy, and one tuple of parameters, for each field."""

    def __init__(self, names: Sequence[str], policies: Sequence[Policy]) -> None:
        self._policies = list(policies)
        self._names = tuple(names)
        self.distribution = CompositeDistribution(names, [p.distribution for p in policies])

    def dist_info(self, *parameters: Nested) -> Nested:
        DistInfoCls = record_class("DistInfo", self._names)
        return DistInfoCls(*[p.dist_info(*x) for p, x in zip(self._policies, parameters)])

    def encode(self, action: Nested) -> Nested:
        return self._action([p.encode(x) for p, x in zip(self._policies, action)])

    def mode(self, dist_info: Nested) -> Nested:
        return self._action([p.mode(x) for p, x in zip(self._policies, dist_info)])

    def _action(self, parts: Sequence[Nested]) -> Nested:
        # The class is not kept, since classes made at run time cannot be pickled.
        return record_class("Action", self._names)(*parts)


def policy_for(kind: Kind, scale: bool, clip: bool) -> Policy:
    """Make the policy for a kind of action space.

    Args:
        kind: choices, real numbers, or a record of these.
        scale: whether outputs of the model are scaled to the bounds of real numbers.
        clip: whether real numbers are clipped to their bounds.
    """
    if isinstance(kind, Fields):
        return CompositePolicy(kind.names, [policy_for(part, scale, clip) for part in kind.kinds])
    if isinstance(kind, Box):
        return GaussianPolicy(
            BoxGaussian(kind.low, kind.high, scale_to_box=scale, clip_to_box=clip)
        )
    if kind.nvec.ndim == 0:
        return ChoicePolicy(Categorical(dim=int(kind.nvec)))
    return ChoicePolicy(MultiCategorical(kind.nvec))


# --- Agents ---------------------------------------------------------------------------------------


class PolicyAgent(BaseAgent):
    """Base class of policy gradient agents, of any kind of action.

    Bounds of continuous actions may differ from -1 and 1, from each other, and between dimensions.
    The model works in units in which every range is [-1, 1]: its mean 0 is the middle, its
    deviation 1 is half the range, and it receives previous actions in the same units. The options
    for bounds change nothing for actions in [-1, 1] and for discrete actions.

    Args:
        ModelCls: class or factory of the model, see :class:`~rlpyt.agents.base.BaseAgent`.
        model_kwargs: further keywords of ``ModelCls``.
        initial_model_state_dict: state to load into the new model.
        greedy_eval: whether evaluation takes the most likely action instead of drawing one.
        scale_actions: whether continuous actions are scaled to their bounds; False if the model
            works in the units of the environment.
        clip_actions: whether continuous actions are clipped to their bounds before they are
            recorded and passed to the environment; likelihoods account for it, see
            :class:`~rlpyt.distributions.box_gaussian.BoxGaussian`. False if the environment
            handles actions out of bounds.
        **kwargs: keywords of a mixin between this class and
            :class:`~rlpyt.agents.base.BaseAgent`.

    Attributes:
        policy: translation between model, distribution and action space.
    """

    greedy_eval = False
    scale_actions = True
    clip_actions = True
    policy: Policy

    def __init__(
        self,
        ModelCls: Any = None,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Mapping[str, Any] | None = None,
        *,
        greedy_eval: bool = False,
        scale_actions: bool = True,
        clip_actions: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ModelCls=ModelCls,
            model_kwargs=model_kwargs,
            initial_model_state_dict=initial_model_state_dict,
            **kwargs,
        )
        self.greedy_eval = greedy_eval
        self.scale_actions = scale_actions
        self.clip_actions = clip_actions

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        """Make the policy for the action space, or raise ValueError if it is of the wrong kind."""
        return policy_for(action_kind(env_spaces.action), self.scale_actions, self.clip_actions)

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Build the model and the distribution.

        Raises:
            ValueError: if the agent cannot act in the action space.
        """
        self.policy = self.make_policy(env_spaces)
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self.distribution = self.policy.distribution

    def choose_action(self, dist_info: Nested) -> Nested:
        """Draw actions; with ``greedy_eval``, take the most likely ones in evaluation."""
        if self.greedy_eval and self._mode == "eval":
            return self.policy.mode(dist_info)
        return self.distribution.sample(dist_info)

    def update_obs_rms(self: BaseAgent, observation: Nested) -> None:
        """Add a batch of observations to the running statistics of the model, if it has any.

        Algorithms call it with each batch after training on it, so that observations are normalized
        in the same way for acting and training.

        Args:
            observation: observations [T,B,...], torch on any device.
        """
        model = without_ddp(self.model)
        if hasattr(model, "update_obs_rms"):
            if self._mask_reader is not None:
                observation, _ = self._mask_reader.split(observation)
            model.update_obs_rms(*self.to_model_device(observation))

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        """Give forbidden actions probability 0.

        Args:
            outputs: probabilities [...,A], and the other outputs of the model.
            mask: mask [...,A] of the allowed actions.
        """
        prob, *others = outputs
        return mask_probabilities(prob, mask), *others

    def _run(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        *rnn_state: Nested,
        **resets: torch.Tensor,
    ) -> tuple[Any, ...]:
        """Run the model, and return its outputs on its device."""
        inputs = observation, self.policy.encode(prev_action), prev_reward, *rnn_state
        outputs: tuple[Any, ...] = self.run_model(self.model, *inputs, **resets)
        return outputs

    def _policy_and_value(self, outputs: tuple[Any, ...]) -> tuple[Nested, torch.Tensor]:
        """Return ``dist_info`` and value, given what the model returns for both."""
        *parameters, value = outputs
        return self.policy.dist_info(*parameters), value


class FeedForwardPgAgent(PolicyAgent):
    """Base class of feed-forward agents, which act on the present observation.

    The model is called with observation, encoded previous action and previous reward.
    """

    def __call__(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> tuple[Nested, torch.Tensor]:
        """Compute the policy and the value for training, with gradients.

        Args:
            observation: observations [T,B,...] or [B,...].
            prev_action: previous actions [T,B,...] or [B,...].
            prev_reward: previous rewards [T,B] or [B].

        Returns:
            Parameters of the distribution, [...,dim] each, and values [...].
        """
        outputs = self._run(observation, prev_action, prev_reward)
        return self._policy_and_value(self.for_loss(outputs))

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        outputs = self.for_sampler(self._run(observation, prev_action, prev_reward))
        dist_info, value = self._policy_and_value(outputs)
        action = self.choose_action(dist_info)
        return AgentStep(action=action, agent_info=AgentInfo(dist_info=dist_info, value=value))

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        *_, value = self._run(observation, prev_action, prev_reward)
        return cast("torch.Tensor", self.for_sampler(value))


class RecurrentPgAgent(PolicyAgent):
    """Base class of recurrent agents, which act on all past observations.

    The model is called with observation, encoded previous action, previous reward and recurrent
    state, and returns the new state last. If it also takes ``reset`` [T,B], True where the state
    before a step is zero, the agent can be trained on sequences that span several episodes. The
    state is kept by one of the two recurrent mixins, placed before this class among the bases.
    """

    prev_rnn_state: Nested
    advance_rnn_state: Any

    @property
    def spans_episodes(self) -> bool:
        own_states = type(self).reset_one is not RecurrentAgentMixin.reset_one
        takes_reset = accepts(type(self), "__call__", "reset")
        return (
            not own_states and takes_reset and accepts(type(self.acting_model), "forward", "reset")
        )

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> tuple[Nested, torch.Tensor, Nested]:
        """Compute the policy and the value for training, with gradients.

        Args:
            observation: observations [T,B,...].
            prev_action: previous actions [T,B,...].
            prev_reward: previous rewards [T,B].
            init_rnn_state: state [N,B,H] before the first step; None for zeros.
            reset: mask [T,B] on the CPU, True where an episode begins: the state before that step
                is zero; None if there is no such step. Only for models that take ``reset``.

        Returns:
            Parameters of the distribution, [T,B,dim] each, values [T,B], and the recurrent state
            [N,B,H] after the last step, on the device of the model.
        """
        inputs = (observation, prev_action, prev_reward, init_rnn_state)
        *outputs, rnn_state = self._run(*inputs, **reset_keyword(reset))
        return *self._policy_and_value(self.for_loss(tuple(outputs))), rnn_state

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        """Choose actions, and advance the recurrent state.

        ``agent_info.prev_rnn_state`` [B,N,H] is the state before the step.
        """
        *outputs, rnn_state = self._run(observation, prev_action, prev_reward, self.prev_rnn_state)
        found, before = finish_step(self, tuple(outputs), rnn_state)
        dist_info, value = self._policy_and_value(found)
        action = self.choose_action(dist_info)
        info = AgentInfoRnn(dist_info=dist_info, value=value, prev_rnn_state=before)
        return AgentStep(action=action, agent_info=info)

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        *_, value, _ = self._run(observation, prev_action, prev_reward, self.prev_rnn_state)
        return cast("torch.Tensor", self.for_sampler(value))
