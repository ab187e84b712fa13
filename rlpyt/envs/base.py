"""Base class of environments, and the records that they exchange."""

from __future__ import annotations

from collections import namedtuple as namedtuple
from typing import Any

from rlpyt.core.records import EnvInfo as EnvInfo, EnvSpaces as EnvSpaces, EnvStep as EnvStep
from rlpyt.utils.types import Nested


class Env:
    """Base class of environments: numpy in, numpy out.

    A subclass sets ``_action_space`` and ``_observation_space``; it defines ``reset`` and ``step``.
    The ``env_info`` of a step is a namedtuple with the same fields, shapes and dtypes at every
    step. Two fields have a meaning: ``traj_done`` (the environment must be reset; without it,
    ``done`` decides) and ``timeout`` (a time limit truncated the episode).

    An environment with a random generator also defines ``seed(seed)``, after which everything
    random from the next reset on depends on that number alone. The base class has no such method,
    so that ``seed`` can also be an attribute. Samplers always seed the spaces.

    :func:`rlpyt.envs.check.check_env` tests whether an environment follows these rules.
    """

    _action_space: Any
    _observation_space: Any

    def step(self, action: Nested) -> EnvStep:
        """Apply ``action``, an element of the action space, and return the result.

        Later steps must not write into the returned observation.
        """
        raise NotImplementedError

    def reset(self) -> Nested:
        """Start an episode and return its first observation."""
        raise NotImplementedError

    @property
    def action_space(self) -> Any:
        """Space of all actions."""
        return self._action_space

    @property
    def observation_space(self) -> Any:
        """Space of all observations."""
        return self._observation_space

    @property
    def spaces(self) -> EnvSpaces:
        """Spaces of observations and actions."""
        return EnvSpaces(observation=self.observation_space, action=self.action_space)

    @property
    def horizon(self) -> int:
        """Maximum number of steps in an episode."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which :meth:`load_state_dict` continues exactly."""
        raise NotImplementedError(f"{type(self).__name__} cannot save its state: add state_dict()")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot restore a state: add load_state_dict()"
        )

    def close(self) -> None:
        """Release windows and processes, if any."""
