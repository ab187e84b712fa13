"""Parallelised Q-network agents: a value for every discrete action, and no target network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", "value")


class PqnAgent(DqnAgent):
    """:class:`DqnAgent` without a target network, which records the greatest value of each step.

    Source: Gallici et al. 2024, arXiv:2407.04811.
    """

    q_kind = "value alone"

    @torch.no_grad()
    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Return max_a Q(s, a) [B]."""
        prev_action = self.distribution.to_onehot(prev_action)
        q = self.run_model(self.model, observation, prev_action, prev_reward)
        return self.for_sampler(q.max(dim=-1).values)

    def to_agent_step(self, output: Any) -> AgentStep:
        q = self.for_sampler(output)
        value = q.max(dim=-1).values
        return AgentStep(action=self.distribution.sample(q), agent_info=AgentInfo(value=value))

    # The model is the only network.

    def _build_models(self) -> None:
        super(DqnAgent, self)._build_models()

    def to_device(self, cuda_idx: int | str | torch.device | None = None) -> None:
        super(DqnAgent, self).to_device(cuda_idx)

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and buffers of the model."""
        return super(DqnAgent, self).state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the model from :meth:`state_dict`, or from that of a :class:`DqnAgent`."""
        super(DqnAgent, self).load_state_dict(state_dict.get("model", state_dict))
