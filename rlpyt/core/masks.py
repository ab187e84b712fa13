"""Action masks: which discrete actions are allowed, True or 1 in a field of the observation.

An agent masks the outputs of its network by the functions here, so that losses, targets and
distributions need no mask: a forbidden action has the lowest value, or probability 0. Where a mask
allows nothing, as in many environments after the end of an episode, every action counts as allowed.
Nothing here waits for a number from the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.types import NDArray, Nested

ACTION_MASK = "action_mask"  # The field, as in PettingZoo and in the info of gymnasium's Taxi.
# Finite, since it may be multiplied by 0: by 1 - done at an end, or by a probability of 0.
FORBIDDEN = -1e15
_LEAST_PROB = 1e-30  # Keeps the sum over allowed actions above 0.


def allowed_actions(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask as booleans [...,A], all True where it allows nothing."""
    allowed = mask.bool()
    return allowed | ~allowed.any(dim=-1, keepdim=True)


def mask_values(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return values with :data:`FORBIDDEN` for the forbidden actions.

    Args:
        values: values [...,A], or N quantiles of each [...,A,N].
        mask: mask [...,A] of the allowed actions.

    Returns:
        Values of the same shape.
    """
    allowed = allowed_actions(mask)
    if values.dim() > allowed.dim():
        allowed = allowed.unsqueeze(-1)
    return torch.where(allowed, values, FORBIDDEN)


def mask_atoms(p: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the probabilities of atoms, with weights of a very low mean for forbidden actions.

    These weights are -FORBIDDEN at the first atom and FORBIDDEN at the last, so that the mean
    sum_i p_i z_i is far below every return, whatever the atoms z_1 < ... < z_P.

    Args:
        p: probabilities [...,A,P].
        mask: mask [...,A] of the allowed actions.

    Returns:
        Weights [...,A,P].
    """
    place = torch.arange(p.shape[-1], device=p.device)
    is_end = (place == p.shape[-1] - 1).to(p.dtype) - (place == 0).to(p.dtype)
    return torch.where(allowed_actions(mask).unsqueeze(-1), p, FORBIDDEN * is_end)


def mask_probabilities(prob: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return probabilities [...,A] given that the action is allowed: 0 for forbidden ones.

    Equal to a softmax over the logits of the allowed actions.

    Args:
        prob: probabilities [...,A].
        mask: mask [...,A] of the allowed actions.
    """
    prob = torch.where(allowed_actions(mask), prob + _LEAST_PROB, 0)
    return prob / prob.sum(dim=-1, keepdim=True)


def is_allowed(values: torch.Tensor) -> torch.Tensor:
    """Return a mask [...,A] of the values that belong to allowed actions."""
    return values > FORBIDDEN * 1e-6  # Means of atoms are FORBIDDEN times the range of returns.


def mask_of(observation: Nested, action_space: Any) -> NDArray | None:
    """Return the mask [...,A] in an observation as a boolean array, or None if there is none."""
    mask = getattr(observation, ACTION_MASK, None)
    if mask is None or np.shape(mask)[-1:] != (getattr(action_space, "n", None),):
        return None
    return as_numpy(mask).astype(bool)


def random_action(action_space: Any, observation: Nested) -> Any:
    """Return a random element of the action space, allowed by the mask of the observation."""
    action, mask = action_space.sample(), mask_of(observation, action_space)
    while mask is not None and mask.any() and not mask[action]:
        action = action_space.sample()
    return action


def redrawn(action: Any, observation: Nested, action_space: Any, draw: Any) -> Any:
    """Replace the forbidden actions of a batch by allowed ones.

    Args:
        action: actions [B], an array or a tensor, which is changed in place.
        observation: observations [B,...], with or without a mask.
        action_space: action space of one environment.
        draw: function of a boolean array [B] that returns actions [B], random ones where the
            array is True.

    Returns:
        The actions [B].
    """
    mask = mask_of(observation, action_space)
    if mask is None:
        return action
    rows = np.arange(len(mask))
    while (bad := ~mask[rows, as_numpy(action)] & mask.any(axis=-1)).any():
        which = np.flatnonzero(bad).tolist()
        action[which] = draw(bad)[which]
    return action
