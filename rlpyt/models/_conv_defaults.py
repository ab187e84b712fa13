"""The convolutions of the Atari models, where the caller does not give others."""

from __future__ import annotations

from typing import Any, NamedTuple

from rlpyt.models._sizes import Sizes


class ConvLayers(NamedTuple):
    """Settings of a stack of convolutions, one element for each layer."""

    channels: Sizes
    kernel_sizes: Sizes
    strides: Sizes
    paddings: Sizes

    def override(
        self, channels: Sizes, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes
    ) -> dict[str, Any]:
        """Keyword arguments with these settings in place of arguments that are None."""
        given = (channels, kernel_sizes, strides, paddings)
        return {
            name: default if value is None else value
            for name, default, value in zip(self._fields, self, given)
        }


# Mnih et al. 2015 (Nature 518), with paddings which fit images of 104 x 80 pixels.
DQN_CONV = ConvLayers([32, 64, 64], [8, 4, 3], [4, 2, 1], [0, 1, 1])
# Mnih et al. 2016, arXiv:1602.01783, section 5.1, with the same change.
PG_CONV = ConvLayers([16, 32], [8, 4], [4, 2], [0, 1])
