"""Mask of the steps in the first episode of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from rlpyt.utils.types import Array

    Mask = Any
else:
    Array = Mask = torch.Tensor  # What torch.jit.script compiles.


def valid_from_done(done: Array) -> Mask:
    """Return the mask of the steps up to and including the first done along time.

        valid_0 = 1,      valid_t = 1 - min(1, sum_{j<t} d_j)

    Args:
        done: flags d_t [T,B,...], any numeric or bool dtype.

    Returns:
        [T,B,...] float32, numpy or torch as ``done`` (and on its device).
    """
    if isinstance(done, torch.Tensor):
        valid = torch.ones(done.shape, dtype=torch.float, device=done.device)
        valid[1:] = (torch.cumsum(done.to(torch.float), dim=0)[:-1] == 0).to(torch.float)
        return valid
    else:  # noqa: RET505  (torch.jit.script leaves out this branch only.)
        mask = np.ones(done.shape, dtype=np.float32)
        mask[1:] = np.cumsum(done, axis=0)[:-1] == 0
        return mask
