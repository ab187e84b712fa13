"""Action masks in observations; agents remove them before their networks run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from rlpyt.core.masks import ACTION_MASK
from rlpyt.core.records import EnvSpaces
from rlpyt.models.autocast import model_class
from rlpyt.models.space_kinds import Choices, action_kind, record_parts
from rlpyt.utils.collections import record_class
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent


class MaskField(NamedTuple):
    """Name of the mask's field, and names of the other fields, which go to the networks."""

    name: str
    others: tuple[str, ...]

    def split(self, observation: Any) -> tuple[Nested, torch.Tensor]:
        """Return the observation without the mask, and the mask [...,A].

        If there is only one other field, its value is returned instead of a record.
        """
        parts = [getattr(observation, name) for name in self.others]
        rest = parts[0] if len(parts) == 1 else record_class("obs", self.others)(*parts)
        return rest, getattr(observation, self.name)


def find_mask(agent: BaseAgent, spaces: EnvSpaces) -> tuple[MaskField | None, EnvSpaces]:
    """Find the mask in the observations of an environment.

    Args:
        agent: agent, with ``ModelCls`` and ``mask_field``.
        spaces: spaces of the environment.

    Returns:
        The field, or None if there is no mask for the agent, and the spaces without it.

    Raises:
        ValueError: if an action is not one discrete choice, or the mask has another length.
    """
    agent_name = type(agent).__name__
    parts, name = record_parts(spaces.observation), agent.mask_field or ACTION_MASK
    if name not in parts:
        return None, spaces
    if agent.mask_field is None and not _is_of_library(agent.ModelCls):
        logger.log(
            f"Observations have an {name}, which is left to the network: with {agent_name}."
            f"mask_field = {name!r}, the agent would respect it, and the network not see it."
        )
        return None, spaces
    kind, shape = action_kind(spaces.action), parts[name].shape
    if not (isinstance(kind, Choices) and kind.nvec.ndim == 0):
        raise ValueError(
            f"observations have an {name}, which {agent_name} takes for one discrete action, but "
            f"the action space is {spaces.action}: rename the field"
        )
    if tuple(shape) != (int(kind.nvec),):
        raise ValueError(
            f"{name} has shape {tuple(shape)}, but there are {int(kind.nvec)} actions: give one "
            "entry for each, or rename the field"
        )
    # Without other fields the network gets the mask.
    rest = {key: part for key, part in parts.items() if key != name} or parts
    space = next(iter(rest.values()))
    if len(rest) > 1:
        record_space = getattr(spaces.observation, "space", spaces.observation)
        space = type(record_space)(list(rest.values()), record_class("obs", tuple(rest)))
    return MaskField(name, tuple(rest)), spaces._replace(observation=space)


def _is_of_library(ModelCls: Any) -> bool:
    """Return whether networks of ``ModelCls`` have a forward pass of this library."""
    cls = model_class(ModelCls)
    forward = getattr(cls.func if isinstance(cls, partial) else cls, "forward", None)
    return getattr(forward, "__module__", "").startswith("rlpyt.models.")
