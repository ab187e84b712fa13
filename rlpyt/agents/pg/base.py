"""Policy gradient agents: a stochastic policy beside a value function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.base import Distribution
from rlpyt.distributions.box_gaussian import BoxGaussian
from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.composite import CompositeDistribution
from rlpyt.distributions.gaussian import DistInfoStd
from rlpyt.distributions.multi_categorical import MultiCategorical
from rlpyt.models.space_kinds import Box, Fields, Kind, action_kind
from rlpyt.utils.buffer import buffer_func, buffer_method
from rlpyt.utils.collections import namedarraytuple, record_class
from rlpyt.utils.types import Nested


class ObsRmsMixin(BaseAgent):
    """Hands observations to the running statistics of the model; stands first among the bases."""

    def update_obs_rms(self, observation: Nested) -> None:
        """Take a batch into account, if the model has ``update_obs_rms`` and normalises.

        Algorithms call it once with each batch, after the updates on it: what is trained is what
        acted.

        Args:
            observation: [T,B,...], torch on any device.
        """
        if hasattr(self.acting_model, "update_obs_rms"):
            (observation,) = self.to_model_device(observation)
            self.acting_model.update_obs_rms(observation)


class Policy:
    """How an agent uses its distribution.

    Attributes:
        distribution: of actions.
    """

    distribution: Distribution

    def dist_info(self, *parameters: Nested) -> Nested:
        """The record of parameters of the distribution, of the outputs of a model."""
        raise NotImplementedError

    def encode(self, action: Nested) -> Nested:
        """Actions as numbers for a network, with the same leading dimensions."""
        raise NotImplementedError

    def mode(self, dist_info: Nested) -> Nested:
        """The most likely actions."""
        raise NotImplementedError


class ChoicePolicy(Policy):
    """Choices by their probabilities; networks see one-hot vectors."""

    def __init__(self, distribution: Categorical | MultiCategorical) -> None:
        self.distribution: Categorical | MultiCategorical = distribution

    def dist_info(self, prob: torch.Tensor) -> DistInfo:
        return DistInfo(prob=prob)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.to_onehot(action)

    def mode(self, dist_info: DistInfo) -> torch.Tensor:
        return torch.argmax(dist_info.prob, dim=-1)


class GaussianPolicy(Policy):
    """Real numbers by mean and log standard deviation; networks see every box as [-1, 1]."""

    def __init__(self, distribution: BoxGaussian) -> None:
        self.distribution: BoxGaussian = distribution

    def dist_info(self, mean: torch.Tensor, log_std: torch.Tensor) -> DistInfoStd:
        return self.distribution.scaled(mean, log_std)

    def encode(self, action: torch.Tensor) -> torch.Tensor:
        return self.distribution.unscaled(action)

    def mode(self, dist_info: DistInfoStd) -> torch.Tensor:
        return self.distribution.mode(dist_info)


class CompositePolicy(Policy):
    """One policy for each field of a record, given a tuple of parameters for each."""

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


def gaussian_policy(agent_name: str, space: Any, scale: bool, clip: bool) -> Policy:
    """Make the policy for an array of real numbers.

    Args:
        agent_name: for the error.
        space: of actions.
        scale: whether outputs of the model are scaled to the bounds.
        clip: whether actions are clipped to the bounds.

    Raises:
        ValueError: if the space is another one.
    """
    kind = action_kind(space)
    if not isinstance(kind, Box):
        raise ValueError(
            f"{agent_name} needs continuous actions, an array of real numbers, but the action "
            f"space is {space}: use a categorical agent, or GenericFfAgent, which takes any"
        )
    return _policy(kind, scale, clip)


def make_policy(space: Any, scale: bool, clip: bool) -> Policy:
    """Make the policy for any action space.

    Args:
        space: of actions: choices, real numbers, or a record of such.
        scale: whether outputs of the model are scaled to the bounds of real numbers.
        clip: whether real numbers are clipped to their bounds.

    Raises:
        ValueError: if the space is of an unknown kind.
    """
    return _policy(action_kind(space), scale, clip)


def _policy(kind: Kind, scale: bool, clip: bool) -> Policy:
    if isinstance(kind, Fields):
        return CompositePolicy(kind.names, [_policy(part, scale, clip) for part in kind.kinds])
    if isinstance(kind, Box):
        return GaussianPolicy(
            BoxGaussian(kind.low, kind.high, scale_to_box=scale, clip_to_box=clip)
        )
    if kind.nvec.ndim == 0:
        return ChoicePolicy(Categorical(dim=int(kind.nvec)))
    return ChoicePolicy(MultiCategorical(kind.nvec))


AgentInfo = namedarraytuple("AgentInfo", ["dist_info", "value"])
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["dist_info", "value", "prev_rnn_state"])


class PolicyAgent(BaseAgent):
    """Base of all: a policy, which says what outputs of the model mean for the action space.

    Args:
        *args: of :class:`~rlpyt.agents.base.BaseAgent`.
        greedy_eval: in evaluation, take the most likely action instead of drawing one.
        **kwargs: of :class:`~rlpyt.agents.base.BaseAgent`.

    Attributes:
        policy: couples the outputs of the model, the distribution and the action space.
    """

    greedy_eval = False
    policy: Policy

    def __init__(self, *args: Any, greedy_eval: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.greedy_eval = greedy_eval

    def make_policy(self, env_spaces: EnvSpaces) -> Policy:
        """Make the policy for an action space, or raise an error if it is of the wrong kind."""
        raise NotImplementedError(f"{type(self).__name__} does not define make_policy()")

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
            ValueError: if the agent has no use for the action space.
        """
        self.policy = self.make_policy(env_spaces)
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self.distribution = self.policy.distribution

    def choose_action(self, dist_info: Nested) -> Nested:
        """Draw an action, or take the most likely one in evaluation if ``greedy_eval``."""
        if self.greedy_eval and self._mode == "eval":
            return self.policy.mode(dist_info)
        return self.distribution.sample(dist_info)

    def _model_inputs(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, *rnn_state: Nested
    ) -> tuple[Nested, ...]:
        """The previous action as numbers for a network, and all on the device of the model."""
        prev_action = self.policy.encode(prev_action)
        return self.to_model_device(observation, prev_action, prev_reward, *rnn_state)

    def _read(self, *outputs: Nested) -> tuple[Nested, torch.Tensor]:
        """Parameters of the distribution, and the value, both on the CPU."""
        *parameters, value = self.to_cpu(outputs)
        return self.policy.dist_info(*parameters), value


class FeedForwardPgAgent(PolicyAgent):
    """Acts on the present observation; base of the feed-forward agents.

    The model is called with observation, encoded previous action and previous reward.
    """

    def __call__(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> tuple[Nested, torch.Tensor]:
        """Policy and value for training, with gradients, on the CPU.

        Args:
            observation: [T,B,...] or [B,...].
            prev_action: [T,B,...] or [B,...].
            prev_reward: [T,B] or [B].

        Returns:
            Parameters of the distribution, [...,dim] each, and values [...].
        """
        inputs = self._model_inputs(observation, prev_action, prev_reward)
        return self._read(*self.model(*inputs))

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        inputs = self._model_inputs(observation, prev_action, prev_reward)
        dist_info, value = self._read(*self.acting_model(*inputs))
        action = self.choose_action(dist_info)
        return AgentStep(action=action, agent_info=AgentInfo(dist_info=dist_info, value=value))

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        inputs = self._model_inputs(observation, prev_action, prev_reward)
        _, value = self._read(*self.acting_model(*inputs))
        return value


class RecurrentPgAgent(PolicyAgent):
    """Acts on all past observations; base of the recurrent agents.

    The model is called with observation, encoded previous action, previous reward and recurrent
    state, and returns the new state last. If it also takes ``reset`` [T,B], where states are zero
    before a step, the agent is trained on sequences in which episodes end. One of the two mixins,
    which stands before this class among the bases, keeps the state.
    """

    prev_rnn_state: Nested
    advance_rnn_state: Any

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> tuple[Nested, torch.Tensor, Nested]:
        """Policy and value for training, with gradients.

        Args:
            observation: [T,B,...]
            prev_action: [T,B,...]
            prev_reward: [T,B]
            init_rnn_state: [N,B,H] before the first step; None is zeros.
            reset: [T,B] bool on the CPU, True where an episode begins: the state before that step
                is zero; None is nowhere. Only for models which take it.

        Returns:
            Parameters of the distribution, [T,B,dim] each, and values [T,B], on the CPU; and the
            recurrent state [N,B,H] after the last step, on the device of the model.
        """
        inputs = self._model_inputs(observation, prev_action, prev_reward, init_rnn_state)
        resets = {} if reset is None or not reset.any() else {"reset": reset}
        *outputs, rnn_state = self.model(*inputs, **resets)
        return (*self._read(*outputs), rnn_state)

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        """Choose actions, and advance the recurrent state.

        ``agent_info.prev_rnn_state`` [B,N,H] is the state before the step.
        """
        inputs = self._model_inputs(observation, prev_action, prev_reward)
        *outputs, rnn_state = self.acting_model(*inputs, self.prev_rnn_state)
        dist_info, value = self._read(*outputs)
        action = self.choose_action(dist_info)
        before = self.prev_rnn_state
        if before is None:
            before = buffer_func(rnn_state, torch.zeros_like)
        # The layer dimension N goes second, so that the batch comes first as in all samples.
        before = self.to_cpu(buffer_method(before, "transpose", 0, 1))
        self.advance_rnn_state(rnn_state)
        info = AgentInfoRnn(dist_info=dist_info, value=value, prev_rnn_state=before)
        return AgentStep(action=action, agent_info=info)

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> torch.Tensor:
        inputs = self._model_inputs(observation, prev_action, prev_reward)
        *outputs, _ = self.acting_model(*inputs, self.prev_rnn_state)
        _, value = self._read(*outputs)
        return value
