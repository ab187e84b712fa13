"""Recurrent soft actor-critic agents: a policy and critics that each have their own memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.agents.base import AgentStep, AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.recurrent import finish_step, reset_keyword
from rlpyt.distributions.gaussian import DistInfoStd
from rlpyt.models.qpg.lstm import PiLstmModel, QofMuLstmModel
from rlpyt.models.rnn import Memory
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["dist_info", "prev_rnn_state"])


class RecurrentSacAgent(SacAgent):
    """Base class of agents for recurrent SAC, whose policy and critics each have a recurrent state.

    The policy is called with observation, previous action, previous reward and recurrent state
    [N,B,H] (or None for zeros), and returns mean, log standard deviation and the state after the
    last step. Critics get the action before the state, and return values and state; their state
    must not depend on this action. All also take ``reset`` [T,B], True where the state before a
    step is zero. Only the policy runs when acting.

    A mixin keeps the states while sampling: use :class:`SacLstmAgent`, or
    :class:`AlternatingSacLstmAgent` in alternating sampling. ``agent_info`` has ``dist_info`` [B,A]
    and the policy's state [B,N,H] before the step.

    Args:
        ModelCls: class of the policy.
        QModelCls: class of the critics.
        model_kwargs: keywords of ``ModelCls``.
        q_model_kwargs: keywords of ``QModelCls``.
        **kwargs: arguments of :class:`~rlpyt.agents.qpg.sac_agent.SacAgent`, but not
            ``target_networks``, which recurrent SAC needs.

    Source: Ni et al. 2022, arXiv:2110.05038, section 4.
    """

    vector_models: Any = (PiLstmModel, QofMuLstmModel)

    prev_rnn_state: Nested
    advance_rnn_state: Any

    def __init__(
        self,
        ModelCls: Any = PiLstmModel,
        QModelCls: Any = QofMuLstmModel,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(ModelCls, QModelCls, model_kwargs or {}, q_model_kwargs or {}, **kwargs)

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> tuple[Nested, Nested]:
        """Compute the policy, with gradients.

        Args:
            observation: observations [T,B,...].
            prev_action: previous actions [T,B,A], 0 at the start of an episode.
            prev_reward: previous rewards [T,B], 0 at the start of an episode.
            init_rnn_state: state [N,B,H] before the first step; None for zeros.
            reset: mask [T,B] on the CPU, True where an episode begins; None if none does.

        Returns:
            ``DistInfoStd`` [T,B,A], and the state [N,B,H] after the last step.
        """
        inputs = (observation, prev_action, prev_reward, init_rnn_state)
        *outputs, rnn_state = self.run_model(self.model, *inputs, **reset_keyword(reset))
        return DistInfoStd(*outputs), rnn_state

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        inputs = (observation, prev_action, prev_reward, self.prev_rnn_state)
        dist_info, before = finish_step(self, *self(*inputs))
        info = AgentInfoRnn(dist_info=dist_info, prev_rnn_state=before)
        action = self.to_action(self.distribution.sample(dist_info))
        return AgentStep(action=action, agent_info=info)

    def pi(  # type: ignore[override]
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        memory: Memory,
        reparameterize: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor, Nested]:
        """Draw actions with the policy's standard deviation, in every mode.

        Args:
            observation: observations [T,B,...].
            prev_action: previous actions [T,B,A], 0 at the start of an episode.
            prev_reward: previous rewards [T,B], 0 at the start of an episode.
            memory: state of the policy before the first step.
            reparameterize: whether gradients flow through the actions.

        Returns:
            Actions [T*B,A] on the device of the model; their log-likelihoods [T*B] and
            ``DistInfoStd`` [T*B,A].
        """
        inputs = (observation, prev_action, prev_reward)
        dist_info, _ = self(*inputs, memory.rnn_states.get("model"), memory.reset)
        return self.draw(buffer_func(dist_info, torch.flatten, 0, 1), reparameterize)

    def q(  # type: ignore[override]
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        memory: Memory,
        action: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Compute the values [T*B] of actions [T*B,A] by each critic, with gradients.

        The other arguments are as for :meth:`pi`; ``memory`` has the states of the critics.
        """
        inputs = (observation, prev_action, prev_reward, action)
        qs = (self._run_critic(name, inputs, memory)[0] for name in self.critic_names)
        return self.for_loss(tuple(q.flatten(0, 1) for q in qs))

    @torch.no_grad()
    def target_q(  # type: ignore[override]
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        memory: Memory,
        action: torch.Tensor,
        subset: Sequence[int] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Compute the values [T*B] of actions [T*B,A] by each target critic.

        The other arguments are as for :meth:`q`; ``subset`` lists the critics to run.
        """
        inputs = (observation, prev_action, prev_reward, action)
        names = self.critic_names if subset is None else [self.critic_names[i] for i in subset]
        qs = (self._run_critic("target_" + name, inputs, memory)[0] for name in names)
        return self.for_loss(tuple(q.flatten(0, 1) for q in qs))

    @torch.no_grad()
    def burn_in(
        self,
        critics: Sequence[str],
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        action: torch.Tensor,
        memory: Memory,
    ) -> dict[str, Nested]:
        """Run the policy and some critics over past steps.

        Args:
            critics: names of the critics, or of their target copies.
            observation: observations [T,B,...].
            prev_action: previous actions [T,B,A], 0 at the start of an episode.
            prev_reward: previous rewards [T,B], 0 at the start of an episode.
            action: actions [T,B,A].
            memory: states before the first step.

        Returns:
            The state [N,B,H] after the last step of each network, by name.
        """
        inputs = (observation, prev_action, prev_reward)
        _, state = self(*inputs, memory.rnn_states.get("model"), memory.reset)
        states = {name: self._run_critic(name, (*inputs, action), memory)[1] for name in critics}
        return {"model": state, **states}

    def _run_critic(self, name: str, inputs: tuple[Nested, ...], memory: Memory) -> Any:
        state = memory.rnn_states.get(name)
        return self.run_model(getattr(self, name), *inputs, state, **reset_keyword(memory.reset))


class SacLstmAgent(RecurrentAgentMixin, RecurrentSacAgent):
    """:class:`RecurrentSacAgent` with one state for all environments."""


class AlternatingSacLstmAgent(AlternatingRecurrentAgentMixin, RecurrentSacAgent):
    """:class:`RecurrentSacAgent` for alternating sampling, with one state for each half."""
