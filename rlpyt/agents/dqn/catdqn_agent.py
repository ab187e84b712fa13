"""Categorical DQN agents: a distribution over returns for every discrete action."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["p"])


class CatDqnAgent(DqnAgent):
    """Acts epsilon-greedily by the expectation of each action's distribution over P atoms.

    The model takes ``n_atoms`` and returns probabilities p [...,A,P].

    Args:
        n_atoms: P, number of the returns to which a probability is given, at least 2.
        **kwargs: of :class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent`.

    Raises:
        ValueError: if there are fewer atoms.

    Source: Bellemare et al. 2017, arXiv:1707.06887.
    """

    q_kind = "categorical"

    def __init__(self, n_atoms: int = 51, **kwargs: Any) -> None:
        if n_atoms < 2:
            raise ValueError(f"n_atoms is {n_atoms}: a range of returns needs at least 2")
        super().__init__(**kwargs)
        self.n_atoms = n_atoms
        self.model_kwargs = {**self.model_kwargs, "n_atoms": n_atoms}

    def _make_distribution(self, env_spaces: EnvSpaces) -> Any:
        # Until the algorithm gives the range of returns; greedy actions are those of any range.
        z = torch.linspace(-1, 1, self.n_atoms, device=self.device)
        return CategoricalEpsilonGreedy(dim=env_spaces.action.n, z=z)

    def give_V_min_max(self, V_min: float, V_max: float) -> None:
        """Learn the range of returns from the algorithm.

        Args:
            V_min: return of the first atom.
            V_max: return of the last atom.
        """
        self.V_min, self.V_max = V_min, V_max
        self.distribution.set_z(torch.linspace(V_min, V_max, self.n_atoms, device=self.device))

    def to_device(self, cuda_idx: int | None = None) -> None:
        super().to_device(cuda_idx)
        self.distribution.set_z(self.distribution.z.to(self.device))

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions from the model's output; override it for models which return more.

        Args:
            output: p [B,A,P], on the device of the model.
        """
        action = self.distribution.sample(output)
        return AgentStep(action=self.to_cpu(action), agent_info=AgentInfo(p=self.to_cpu(output)))
