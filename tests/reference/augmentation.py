"""Naive twin of the random shifts of images: pad, then crop, one image at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def shifted(images: Any, u: Sequence[int], v: Sequence[int], pad: int) -> Any:
    """Images [B,C,H,W], padded by their edges and cropped; u, v [B] in [-pad, pad]."""
    _, _, H, W = images.shape
    crops = []
    for image, down, right in zip(images, u, v, strict=True):
        padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), mode="edge")
        top, left = pad + int(down), pad + int(right)
        crops.append(padded[:, top : top + H, left : left + W])
    return np.stack(crops)
