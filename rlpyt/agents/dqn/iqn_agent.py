"""Implicit quantile network agents: the return of every discrete action at random fractions."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.dqn.dqn_agent import AgentInfo as AgentInfo, DqnAgent
from rlpyt.distributions.noise import uniform
from rlpyt.utils.types import Nested


class IqnAgent(DqnAgent):
    """Agent that acts epsilon-greedily by the mean of each action's quantiles, at random fractions.

    The model is called with observation, one-hot previous action, previous reward and fractions tau
    [...,N], and returns quantiles [...,A,N]. The agent info has their means q [...,A].

    Args:
        n_tau: number of fractions to draw for every action, K in the source.
        **kwargs: keywords of :class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent`.

    Raises:
        ValueError: if ``n_tau`` is less than 1.

    Source: Dabney et al. 2018, arXiv:1806.06923.
    """

    q_kind = "implicit quantile"

    def __init__(self, n_tau: int = 32, **kwargs: Any) -> None:
        if n_tau < 1:
            raise ValueError(f"n_tau is {n_tau}: make it at least 1")
        super().__init__(**kwargs)
        self.n_tau = n_tau

    def __call__(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        n_tau: int | None = None,
    ) -> Any:
        """Compute quantiles of all actions, with gradients, at random fractions in [0, 1).

        Args:
            observation: observations [B,...].
            prev_action: indexes [B] of previous actions.
            prev_reward: previous rewards [B].
            n_tau: number of fractions N; None for ``n_tau`` of the agent.

        Returns:
            Quantiles [B,A,N] and fractions tau [B,N].
        """
        outputs = self._quantiles(self.model, observation, prev_action, prev_reward, n_tau)
        return self.for_loss(outputs)

    @torch.no_grad()
    def target(
        self,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        n_tau: int | None = None,
    ) -> Any:
        """Compute quantiles [B,A,N] and fractions [B,N] by the target network."""
        outputs = self._quantiles(self.target_model, observation, prev_action, prev_reward, n_tau)
        return self.for_loss(outputs)

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        quantiles, _ = self._quantiles(self.model, observation, prev_action, prev_reward, None)
        return self.to_agent_step(quantiles)

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions; override it for models that return more.

        Args:
            output: quantiles [B,A,N], on the device of the model.
        """
        return super().to_agent_step(output.mean(dim=-1))

    def _quantiles(
        self,
        model: Any,
        observation: Nested,
        prev_action: Nested,
        prev_reward: Nested,
        n_tau: int | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute quantiles and fractions, on the device of the model."""
        prev_action = self.distribution.to_onehot(prev_action)
        n_tau = self.n_tau if n_tau is None else n_tau
        tau = uniform((*prev_reward.shape, n_tau), self.device)
        return self.run_model(model, observation, prev_action, prev_reward, tau), tau
