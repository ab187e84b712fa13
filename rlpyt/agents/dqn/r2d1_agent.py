"""Recurrent Q-network agents."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from rlpyt.agents.base import (
    AgentStep,
    AlternatingRecurrentAgentMixin,
    RecurrentAgentMixin,
    without_ddp,
)
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.recurrent import finish_step
from rlpyt.models.rnn import unroll
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", ["q", "prev_rnn_state"])


class R2d1AgentBase(DqnAgent):
    """Agent that acts epsilon-greedily by the values of a recurrent Q-network.

    The model is called with observation, one-hot previous action, previous reward and recurrent
    state [N,B,H] (or None for zeros), and returns q [...,A] and the state after the last step. If a
    model also takes ``reset`` [T,B], True where the state before a step is zero, a sequence that
    spans several episodes needs one call, instead of one for every piece.

    A mixin keeps the states while sampling: use :class:`R2d1Agent`, or
    :class:`R2d1AlternatingAgent` in alternating sampling. ``agent_info`` has q [B,A] and the state
    [B,N,H] before the step. The constructor takes the parameters of the base classes, by keyword.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR).
    """

    @property
    def prev_rnn_state(self) -> Nested:
        """The state [N,B,H] before the next step, or None for zeros."""
        raise NotImplementedError(
            f"{type(self).__name__} keeps no recurrent state: put RecurrentAgentMixin, or "
            "AlternatingRecurrentAgentMixin, before it among the bases"
        )

    def advance_rnn_state(self, new_rnn_state: Nested) -> None:
        """Keep the state [N,B,H] after a step; defined by the mixin."""
        raise NotImplementedError

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> Any:
        """Compute the values of all actions, with gradients.

        Args:
            observation: observations [T,B,...].
            prev_action: indexes [T,B] of previous actions, 0 at the start of an episode.
            prev_reward: previous rewards [T,B], 0 at the start of an episode.
            init_rnn_state: state [N,B,H] before the first step; None for zeros.
            reset: mask [T,B] on the CPU, True where an episode begins: the state before that step
                is zero; None if there is no such step.

        Returns:
            q [T,B,A], and the state [N,B,H] after the last step, on the device of the model.
        """
        inputs = (observation, prev_action, prev_reward)
        return self._unroll(self.model, inputs, init_rnn_state, reset)

    @torch.no_grad()
    def target(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> Any:
        """Compute q and the state by the target network, without gradients."""
        inputs = (observation, prev_action, prev_reward)
        return self._unroll(self.target_model, inputs, init_rnn_state, reset)

    def _unroll(
        self,
        model: Any,
        inputs: tuple[Nested, Nested, Nested],
        init_rnn_state: Nested,
        reset: torch.Tensor | None,
    ) -> Any:
        observation, prev_action, prev_reward = inputs
        inputs = observation, self.distribution.to_onehot(prev_action), prev_reward
        network = partial(self.run_model, model)
        q, rnn_state = unroll(network, inputs, init_rnn_state, reset, without_ddp(model))
        return self.for_loss(q), rnn_state

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        inputs = observation, self.distribution.to_onehot(prev_action), prev_reward
        return self.to_agent_step(self.run_model(self.model, *inputs, self.prev_rnn_state))

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions, and advance the recurrent state.

        Args:
            output: values q [B,A] and the state [N,B,H] after the step, on the model's device.
        """
        q, before = finish_step(self, *output)
        return AgentStep(
            action=self.distribution.sample(q), agent_info=AgentInfo(q=q, prev_rnn_state=before)
        )

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        q, rnn_state = outputs
        return super().mask_outputs(q, mask), rnn_state


class R2d1Agent(RecurrentAgentMixin, R2d1AgentBase):
    """:class:`R2d1AgentBase` with one state for all environments."""


class R2d1AlternatingAgent(AlternatingRecurrentAgentMixin, R2d1AgentBase):
    """:class:`R2d1AgentBase` for alternating sampling, with one state for each half."""
