"""Categorical DQN agents: a distribution over returns of every discrete action."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.base import AgentStep, setting_of_model
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.core.masks import mask_atoms
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["p"])


class CatDqnAgent(DqnAgent):
    """Agent that acts epsilon-greedily by the expectation of each action's P atoms.

    The model takes ``n_atoms`` and returns probabilities p [...,A,P].

    Args:
        n_atoms: number of atoms P, at least 2; may be in ``model_kwargs`` instead.
        **kwargs: keywords of :class:`~rlpyt.agents.dqn.dqn_agent.DqnAgent`.

    Raises:
        ValueError: if there are fewer than 2 atoms, or ``model_kwargs`` has another number.

    Source: Bellemare et al. 2017, arXiv:1707.06887.
    """

    q_kind = "categorical"

    def __init__(self, n_atoms: int = 51, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        n_atoms = setting_of_model(self.model_kwargs, "n_atoms", n_atoms, 51)
        if n_atoms < 2:
            raise ValueError(f"n_atoms is {n_atoms}: a range of returns needs at least 2")
        self.n_atoms = n_atoms
        self.model_kwargs = {**self.model_kwargs, "n_atoms": n_atoms}

    def _make_distribution(self, env_spaces: EnvSpaces) -> Any:
        # Until give_V_min_max(); greedy actions do not depend on the range.
        z = torch.linspace(-1, 1, self.n_atoms)
        return CategoricalEpsilonGreedy(dim=env_spaces.action.n, z=z)

    def give_V_min_max(self, V_min: float, V_max: float) -> None:
        """Set the range of returns; called by the algorithm.

        Args:
            V_min: return of the first atom.
            V_max: return of the last atom.
        """
        self.V_min, self.V_max = V_min, V_max
        self.distribution.set_z(torch.linspace(V_min, V_max, self.n_atoms))
        self.distribution.copy_to(self.device)

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions; override it for models that return more.

        Args:
            output: probabilities p [B,A,P], on the device of the model.
        """
        p = self.for_sampler(output)
        return AgentStep(action=self.distribution.sample(p), agent_info=AgentInfo(p=p))

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        """Give forbidden actions the lowest mean, by weights that are not probabilities.

        Args:
            outputs: probabilities [...,A,P].
            mask: mask [...,A] of the allowed actions.
        """
        return mask_atoms(outputs, mask)
