"""Action masks in observations; agents remove them before their networks run."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from rlpyt.core.records import EnvSpaces
from rlpyt.models.space_kinds import Choices, action_kind, record_parts
from rlpyt.utils.collections import record_class
from rlpyt.utils.types import Nested


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


def find_mask(
    agent_name: str, name: str | None, spaces: EnvSpaces
) -> tuple[MaskField | None, EnvSpaces]:
    """Find the mask in the observations of an environment.

    Args:
        agent_name: class of the agent, for errors.
        name: ``mask_field`` of the agent.
        spaces: spaces of the environment.

    Returns:
        The field, or None if there is no mask for the agent, and the spaces without it.

    Raises:
        ValueError: if an action is not one discrete choice, or the mask has another length.
    """
    parts = record_parts(spaces.observation)
    if name is None or name not in parts:
        return None, spaces
    remedy = f"rename the field, or set {agent_name}.mask_field = None to leave it to the network"
    kind, shape = action_kind(spaces.action), parts[name].shape
    if not (isinstance(kind, Choices) and kind.nvec.ndim == 0):
        raise ValueError(
            f"observations have an {name}, which {agent_name} takes for one discrete action, but "
            f"the action space is {spaces.action}: {remedy}"
        )
    if tuple(shape) != (int(kind.nvec),):
        raise ValueError(
            f"{name} has shape {tuple(shape)}, but there are {int(kind.nvec)} actions: give one "
            f"entry for each, or {remedy}"
        )
    # Without other fields the network gets the mask.
    rest = {key: part for key, part in parts.items() if key != name} or parts
    space = next(iter(rest.values()))
    if len(rest) > 1:
        record_space = getattr(spaces.observation, "space", spaces.observation)
        space = type(record_space)(list(rest.values()), record_class("obs", tuple(rest)))
    return MaskField(name, tuple(rest)), spaces._replace(observation=space)
