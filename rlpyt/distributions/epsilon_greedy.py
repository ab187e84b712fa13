"""Actions of highest value, mixed with a fraction epsilon of random actions."""

from __future__ import annotations

from typing import Any, Union

import numpy as np
import torch

from rlpyt.core.masks import is_allowed
from rlpyt.distributions.base import Distribution
from rlpyt.distributions.discrete import DiscreteMixin
from rlpyt.distributions.noise import integers_like, uniform
from rlpyt.utils.types import Array

Epsilon = Union[float, Array]


class EpsilonGreedy(DiscreteMixin, Distribution):
    """Uniformly random action with probability epsilon, else the action of highest value.

    A random draw may hit the greedy action as well: its probability is ``1 - epsilon + epsilon/A``.

    Args:
        epsilon: probability of a random action, a scalar in [0,1] or one per environment [B].
        dim: number of actions A.
        dtype: type of action indexes.
        onehot_dtype: type of one-hot vectors.

    Attributes:
        masked: whether actions may be forbidden (see :mod:`rlpyt.core.masks`); forbidden actions
            are never drawn, and A counts the allowed ones.

    Source: Mnih et al. 2015 (Nature 518), Methods; a vector: Horgan et al. 2018, arXiv:1803.00933.
    """

    masked = False

    def __init__(
        self,
        epsilon: Epsilon = 1,
        *,
        dim: int,
        dtype: torch.dtype = torch.long,
        onehot_dtype: torch.dtype = torch.float,
    ) -> None:
        super().__init__(dim, dtype, onehot_dtype)
        self.set_epsilon(epsilon)

    @property
    def epsilon(self) -> Epsilon:
        """The probability of a random action."""
        return self._epsilon

    def set_epsilon(self, epsilon: Epsilon) -> None:
        """Set the probability of a random action: a scalar, or a vector [B]."""
        self._epsilon = epsilon

    def sample(self, q: torch.Tensor) -> torch.Tensor:
        """Choose an action for each datum.

        Args:
            q: values of the actions [A], [B,A] or [T,B,A]. A vector epsilon is indexed by the
                last leading dimension; for a single datum its first element is used.

        Returns:
            Actions [], [B] or [T,B] on the device of ``q``.

        Raises:
            ValueError: if there is not one value for each action, or if a vector epsilon has
                neither one element nor one for each of the batch.
        """
        self.check_width(q)
        greedy = torch.argmax(q, dim=-1).type(self.dtype)
        epsilon = self._epsilon_for(greedy)
        if isinstance(epsilon, float) and epsilon == 0.0:
            return greedy
        explore = uniform(greedy.shape, greedy.device) < epsilon
        if self.masked:
            race = torch.where(is_allowed(q), uniform(q.shape, q.device), -1.0)
            anything = torch.argmax(race, dim=-1).type(self.dtype)
        else:
            anything = integers_like(greedy, q.shape[-1])
        return torch.where(explore, anything, greedy)

    def _epsilon_for(self, actions: torch.Tensor) -> float | torch.Tensor:
        epsilon = self._epsilon
        if not isinstance(epsilon, (np.ndarray, torch.Tensor)) or epsilon.ndim == 0:
            return float(epsilon)
        if actions.dim() == 0:
            return float(epsilon[0])
        if len(epsilon) not in (1, actions.shape[-1]):
            raise ValueError(
                f"epsilon has {len(epsilon)} elements but the batch has {actions.shape[-1]}: set "
                "a scalar, or one element for each environment."
            )
        return torch.as_tensor(epsilon, dtype=torch.float, device=actions.device)


class CategoricalEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy in the expectation of a distribution over values: ``q_a = sum_i p_ai z_i``.

    Args:
        z: values of the atoms [P]; may be set or given later.
        **kwargs: arguments of :class:`EpsilonGreedy`.

    Source: Bellemare, Dabney and Munos 2017, arXiv:1707.06887, algorithm 1.
    """

    def __init__(self, z: torch.Tensor | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.z = z

    def set_z(self, z: torch.Tensor) -> None:
        """Set the values of the atoms, [P]."""
        self.z = z

    def sample(self, p: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """Choose an action for each datum.

        Args:
            p: probability of each atom, for each action [...,A,P].
            z: values of the atoms [P]; by default the values set before.

        Returns:
            Actions [...].

        Raises:
            ValueError: if there are no atoms.
        """
        if z is None and self.z is None:
            raise ValueError("z is None: set the values of the atoms with set_z(z), or pass them.")
        return super().sample(torch.matmul(p, self._like(p, "z") if z is None else z.to(p)))
