"""Recurrent Q-network agents, whose network remembers what it saw."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.base import (
    AgentStep,
    AlternatingRecurrentAgentMixin,
    RecurrentAgentMixin,
    without_ddp,
)
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested
from rlpyt.utils.unroll import takes, unroll

AgentInfo = namedarraytuple("AgentInfo", ["q", "prev_rnn_state"])


class R2d1AgentBase(DqnAgent):
    """Acts epsilon-greedily by the values of a recurrent Q-network.

    The model is called with observation, one-hot previous action, previous reward and recurrent
    state [N,B,H] (or None for zeros), and returns q [...,A] and the state after the last step. If
    it also takes ``reset`` [T,B], where states are zero before a step, it is called once for
    sequences in which episodes end, instead of once for every piece without an end.

    A mixin says how states are kept while sampling: use :class:`R2d1Agent`, or
    :class:`R2d1AlternatingAgent` in alternating sampling. ``agent_info`` holds q [B,A] and
    the state [B,N,H] before the step. Parameters are those of the base classes, by keyword.

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
        """Remember the state [N,B,H] after a step; defined by the mixin."""
        raise NotImplementedError

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> Any:
        """Values of all actions, with gradients.

        Args:
            observation: [T,B,...].
            prev_action: [T,B] indexes, 0 at the start of an episode.
            prev_reward: [T,B], 0 at the start of an episode.
            init_rnn_state: [N,B,H] before the first step; None is zeros.
            reset: [T,B] bool on the CPU, True where an episode begins: the state before that step
                is zero; None is nowhere.

        Returns:
            q [T,B,A] on the CPU, and the state [N,B,H] after the last step, on the device of the
            model.
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
        """The same by the target network, without gradients."""
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
        prev_action = self.distribution.to_onehot(prev_action)
        *moved, rnn_state = self.to_model_device(
            observation, prev_action, prev_reward, init_rnn_state
        )
        takes_reset = takes(without_ddp(model), "forward", "reset")
        q, rnn_state = unroll(model, tuple(moved), rnn_state, reset, takes_reset)
        return self.to_cpu(q), rnn_state

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        prev_action = self.distribution.to_onehot(prev_action)
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        return self.to_agent_step(self.acting_model(*inputs, self.prev_rnn_state))

    _step_of_one_choice = step

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions from the model's output, and remember its state.

        Args:
            output: q [B,A] and the state [N,B,H] after the step, on the device of the model.
        """
        q, rnn_state = output
        q = self.to_cpu(q)
        before = self.prev_rnn_state
        if before is None:
            before = buffer_func(rnn_state, torch.zeros_like)
        # [N,B,H] is the order of the model, [B,N,H] that of all that is sampled.
        before = self.to_cpu(buffer_func(before, torch.transpose, 0, 1))
        self.advance_rnn_state(rnn_state)
        return AgentStep(
            action=self.distribution.sample(q), agent_info=AgentInfo(q=q, prev_rnn_state=before)
        )


class R2d1Agent(RecurrentAgentMixin, R2d1AgentBase):
    """:class:`R2d1AgentBase` which remembers the state of every environment."""


class R2d1AlternatingAgent(AlternatingRecurrentAgentMixin, R2d1AgentBase):
    """:class:`R2d1AgentBase` for alternating sampling, with a state for each half."""
