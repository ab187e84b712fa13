"""The base of all agents, the two recurrent mixins, and the records which agents exchange."""

from __future__ import annotations

from rlpyt.agents._agent import BaseAgent as BaseAgent, without_ddp as without_ddp
from rlpyt.agents._recurrent import (
    AlternatingRecurrentAgentMixin as AlternatingRecurrentAgentMixin,
    RecurrentAgentMixin as RecurrentAgentMixin,
)
from rlpyt.core.records import (
    AgentInputs as AgentInputs,
    AgentInputsRnn as AgentInputsRnn,
    AgentStep as AgentStep,
)
