"""Keywords of models for images and discrete actions."""

from __future__ import annotations

from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.space_kinds import array_shape


class AtariMixin(BaseAgent):
    """Mixin that passes the image shape and the number of actions to the model; list it first."""

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``image_shape`` [C,H,W] and ``output_size``, the number of actions."""
        return {
            "image_shape": array_shape(type(self).__name__, env_spaces.observation),
            "output_size": env_spaces.action.n,
        }
