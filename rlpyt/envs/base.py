"""What every environment can do, and the records it exchanges."""

from __future__ import annotations

from collections import namedtuple as namedtuple
from typing import Any

from rlpyt.core.records import EnvInfo as EnvInfo, EnvSpaces as EnvSpaces, EnvStep as EnvStep
from rlpyt.utils.types import Nested


class Env:
    """An environment: numpy in, numpy out.

    A subclass sets ``_action_space`` and ``_observation_space``, and gives ``reset`` and ``step``.
    The ``env_info`` of a step is a namedtuple with the same fields, shapes and dtypes at every
    step. Two fields have a meaning: ``traj_done`` (the environment must be reset; without it,
    ``done`` says so) and ``timeout`` (the episode was cut by a time limit before its end).

    An environment with a generator of its own also gives ``seed(seed)``, which makes everything
    random from the next reset on a function of that number. The base class has no such method, so
    that ``seed`` may as well be an attribute; samplers seed the spaces in any case.

    :func:`rlpyt.envs.check.check_env` tests whether an environment keeps these rules.
    """

    _action_space: Any
    _observation_space: Any

    def step(self, action: Nested) -> EnvStep:
        """Apply ``action``, an element of the action space, and return what follows.

        The observation is not written to by later steps.
        """
        raise NotImplementedError

    def reset(self) -> Nested:
        """Start an episode and return its first observation."""
        raise NotImplementedError

    @property
    def action_space(self) -> Any:
        """All actions."""
        return self._action_space

    @property
    def observation_space(self) -> Any:
        """All observations."""
        return self._observation_space

    @property
    def spaces(self) -> EnvSpaces:
        """Both spaces."""
        return EnvSpaces(observation=self.observation_space, action=self.action_space)

    @property
    def horizon(self) -> int:
        """The greatest number of steps in an episode."""
        raise NotImplementedError

    def _seed_spaces(self, seed: int) -> None:
        """Seed both spaces; for a method ``seed``."""
        for space in self.spaces:
            if hasattr(space, "seed"):  # A user's own space needs none.
                space.seed(seed)

    def state_dict(self) -> dict[str, Any]:
        """Return all that :meth:`load_state_dict` needs to continue exactly from here."""
        raise NotImplementedError(f"{type(self).__name__} cannot give its state: add state_dict()")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, which an environment with the same arguments gave."""
        raise NotImplementedError(f"{type(self).__name__} takes no state: add load_state_dict()")

    def close(self) -> None:
        """Release windows and processes, if any."""
