"""Augmentation of the images in replayed batches, drawn anew for every update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlpyt.core.records import is_image
from rlpyt.models.conv2d import scaled
from rlpyt.utils.types import Nested

Images = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class RandomShift:
    """Random shifts of images, and noise of their intensity.

    ::

        x'[c, i, j] = s x[c, clip(i + u, 0, H-1), clip(j + v, 0, W-1)]
        u, v ~ U{-pad, ..., pad},    s = 1 + intensity clip(e, -2, 2),  e ~ N(0, 1)

    This is a random crop of the image padded by ``pad`` pixels, with copies of its edge. Each image
    of a batch has its own u, v and s, which all its channels (frames) share. Numbers come from
    torch's global generators.

    Args:
        pad: largest shift in each direction, in pixels.
        intensity: scale of the noise; with 0 the type of the images stays, otherwise bytes become
            floats in [0, 1], before the noise.

    Source: Yarats, Kostrikov and Fergus 2021, arXiv:2004.13649, sections 3.1 and 5 and appendix.
    """

    pad: int = 4
    intensity: float = 0.0

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return new images for ``images`` [B,C,H,W]."""
        B, _, H, W = images.shape
        device = images.device
        u, v = torch.randint(-self.pad, self.pad + 1, (2, B, 1), device=device)
        rows = (torch.arange(H, device=device) + u).clamp_(0, H - 1)
        columns = (torch.arange(W, device=device) + v).clamp_(0, W - 1)
        pixels = (rows[:, :, None] * W + columns[:, None, :]).flatten(1)  # [B,H*W]
        flat = images.flatten(2)
        shifted = flat.gather(2, pixels[:, None].expand_as(flat)).reshape(images.shape)
        if not self.intensity:
            return shifted
        e = torch.randn((B, 1, 1, 1), device=device).clamp_(-2, 2)
        return scaled(shifted) * (1 + self.intensity * e)


@dataclass(frozen=True)
class BatchAugmentation:
    """Augmentation of the observations in a batch of transitions from replay."""

    of_images: Images

    def __call__(self, samples: Nested) -> Nested:
        """Return ``samples`` with other observations, and, drawn apart, target observations."""
        agent, target = samples.agent_inputs, samples.target_inputs
        return samples._replace(
            agent_inputs=agent._replace(observation=self.of_images(agent.observation)),
            target_inputs=target._replace(observation=self.of_images(target.observation)),
        )


def batch_augmentation(given: Any, example: Nested) -> BatchAugmentation:
    """Return the function of batches for an algorithm's setting ``augmentation``.

    Args:
        given: function of images [B,C,H,W], or keywords of :class:`RandomShift`.
        example: example of one observation.

    Raises:
        ValueError: if observations are not images, or ``pad`` or ``intensity`` is negative.
    """
    if not is_image(example):
        raise ValueError(
            f"augmentation is {given}, but observations are not single images [C,H,W] of bytes: "
            "leave it None"
        )
    of_images = RandomShift(**given) if isinstance(given, Mapping) else given
    if isinstance(of_images, RandomShift) and min(of_images.pad, of_images.intensity) < 0:
        raise ValueError(f"augmentation is {of_images}: make pad and intensity at least 0")
    return BatchAugmentation(of_images)
