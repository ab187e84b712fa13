"""Quantile regression DQN agents: quantiles of every discrete action's return."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import AgentStep, setting_of_model
from rlpyt.agents.dqn.dqn_agent import AgentInfo as AgentInfo, DqnAgent


class QrDqnAgent(DqnAgent):
    """Agent that acts epsilon-greedily by the mean of each action's N quantiles.

    The model takes ``n_quantiles`` and returns quantiles [...,A,N] at the fractions (i - 1/2) / N
    for i = 1, ..., N. Calls of the agent and :meth:`target` return quantiles too. The agent info
    has the means q [...,A] of the quantiles.

    Args:
        n_quantiles: number of quantiles N, at least 1; may be in ``model_kwargs`` instead.
        **kwargs: keywords of :class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent`.

    Raises:
        ValueError: if there are no quantiles, or ``model_kwargs`` has another number.

    Source: Dabney et al. 2018, arXiv:1710.10044.
    """

    q_kind = "quantile"

    def __init__(self, n_quantiles: int = 200, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        n_quantiles = setting_of_model(self.model_kwargs, "n_quantiles", n_quantiles, 200)
        if n_quantiles < 1:
            raise ValueError(f"n_quantiles is {n_quantiles}: make it at least 1")
        self.n_quantiles = n_quantiles
        self.model_kwargs = {**self.model_kwargs, "n_quantiles": n_quantiles}

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions; override it for models that return more.

        Args:
            output: quantiles [B,A,N], on the device of the model.
        """
        return super().to_agent_step(output.mean(dim=-1))
