"""Stacks of two-dimensional convolutions, alone or followed by a perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch

from rlpyt.models.mlp import MlpModel, Sizes, as_list
from rlpyt.models.utils import Size, conv2d_output_shape


class ConvLayers(NamedTuple):
    """Settings of a stack of convolutions, one element for each layer."""

    channels: Sizes
    kernel_sizes: Sizes
    strides: Sizes
    paddings: Sizes

    def override(
        self, channels: Sizes, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes
    ) -> dict[str, Any]:
        """Return keyword arguments, with these settings in place of arguments that are None."""
        given = (channels, kernel_sizes, strides, paddings)
        return {
            name: default if value is None else value
            for name, default, value in zip(self._fields, self, given)
        }


# Mnih et al. 2015 (Nature 518), with paddings that fit images of 104 x 80 pixels.
DQN_CONV = ConvLayers([32, 64, 64], [8, 4, 3], [4, 2, 1], [0, 1, 1])
# Mnih et al. 2016, arXiv:1602.01783, section 5.1, with paddings that fit such images.
PG_CONV = ConvLayers([16, 32], [8, 4], [4, 2], [0, 1])


class Conv2dModel(torch.nn.Module):
    """Convolutions, each followed by a nonlinearity.

    Args:
        in_channels: number of channels of the images.
        channels: number of output channels of each convolution.
        kernel_sizes: kernel size of each convolution.
        strides: stride of each convolution.
        paddings: zero padding of each convolution, by default 0.
        nonlinearity: class of the modules after the convolutions.
        use_maxpool: whether to stride by max-pooling: convolutions have stride 1, and a stride
            above 1 becomes a max-pooling of that size after the nonlinearity.
        head_sizes: not used; :class:`Conv2dHeadModel` adds a perceptron.
        layer_norm: whether to normalize the output of each convolution, over channels and pixels,
            before its nonlinearity.

    Raises:
        ValueError: if the lists differ in length.
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sizes,
        kernel_sizes: Sizes,
        strides: Sizes,
        paddings: Sizes = None,
        nonlinearity: Callable[[], torch.nn.Module] = torch.nn.ReLU,
        use_maxpool: bool = False,
        head_sizes: Any = None,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for out_channels, kernel_size, stride, padding in _layer_settings(
            channels, kernel_sizes, strides, paddings
        ):
            layers.append(
                torch.nn.Conv2d(
                    in_channels,
                    out_channels,
                    kernel_size=kernel_size,
                    stride=1 if use_maxpool else stride,
                    padding=padding,
                )
            )
            if layer_norm:
                layers.append(torch.nn.GroupNorm(1, out_channels))
            layers.append(nonlinearity())
            if use_maxpool and stride not in (1, (1, 1)):
                layers.append(torch.nn.MaxPool2d(stride))
            in_channels = out_channels
        self.conv = torch.nn.Sequential(*layers)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map images [B,C,H,W] to feature maps [B,C',H',W']; uint8 is scaled by 1/255."""
        weight = next(self.parameters(), None)
        images = scaled(input).to(torch.float32 if weight is None else weight.dtype)
        if torch.is_grad_enabled() and images.is_cpu:  # Their backward pass is faster.
            images = images.contiguous(memory_format=torch.channels_last)
        output: torch.Tensor = self.conv(images)
        return output

    def conv_out_size(self, h: int, w: int, c: int | None = None) -> int:
        """Return the number of features, C' H' W', of an image of ``h`` x ``w`` pixels.

        Args:
            h: height of the image.
            w: width of the image.
            c: number of channels of the image, only needed without convolutions.

        Raises:
            ValueError: if the image is too small for a layer.
        """
        size = (h, w)
        for layer in self.conv:
            if isinstance(layer, torch.nn.Conv2d):
                c = layer.out_channels
            elif not isinstance(layer, torch.nn.MaxPool2d):
                continue
            padding = cast("Size", layer.padding)  # May be a string in torch, but not here.
            out = conv2d_output_shape(*size, layer.kernel_size, layer.stride, padding)
            if min(out) < 1:
                raise ValueError(
                    f"an image_shape of height {h} and width {w} is too small: {size[0]} x "
                    f"{size[1]} pixels are left for {layer}. Use larger images, smaller "
                    "kernel_sizes, or smaller strides."
                )
            size = out
        if c is None:
            raise ValueError(
                "c is None: without convolutions, give the number of channels of the image."
            )
        return size[0] * size[1] * c


class Conv2dHeadModel(torch.nn.Module):
    """Convolutions, then a perceptron on their flattened output.

    Args:
        image_shape: shape (C, H, W) of an image.
        channels: number of output channels of each convolution; for ``kernel_sizes``,
            ``strides``, ``paddings`` and ``use_maxpool`` see :class:`Conv2dModel`.
        hidden_sizes: widths of the hidden layers after the convolutions, or None.
        output_size: width of the last linear layer, or None. With neither, the output is the
            flattened feature map.
        nonlinearity: class of the modules after convolutions and hidden layers.
        layer_norm: whether to normalize convolutions and hidden layers before their nonlinearity.

    Raises:
        ValueError: if the lists differ in length, or the image is too small for them.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        channels: Sizes,
        kernel_sizes: Sizes,
        strides: Sizes,
        hidden_sizes: Sizes,
        output_size: int | None = None,
        paddings: Sizes = None,
        nonlinearity: Callable[[], torch.nn.Module] = torch.nn.ReLU,
        use_maxpool: bool = False,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        c, h, w = read_image_shape(image_shape)
        self.conv = Conv2dModel(
            in_channels=c,
            channels=channels,
            kernel_sizes=kernel_sizes,
            strides=strides,
            paddings=paddings,
            nonlinearity=nonlinearity,
            use_maxpool=use_maxpool,
            layer_norm=layer_norm,
        )
        conv_out_size = self.conv.conv_out_size(h, w, c)
        self.head = MlpModel(
            conv_out_size, hidden_sizes, output_size, nonlinearity, layer_norm=layer_norm
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map images [B,C,H,W] to features [B,output_size]."""
        output: torch.Tensor = self.head(self.conv(input).flatten(1))
        return output

    @property
    def output_size(self) -> int:
        """Number of output features."""
        return self.head.output_size


def scaled(images: torch.Tensor) -> torch.Tensor:
    """Return images [B,C,H,W] of bytes as floats in [0, 1], and all others unchanged.

    For training on the CPU the channels become adjacent, for which convolutions are faster. Moving
    bytes instead of floats saves up to 15% of both passes of PPO's network on Pong.
    """
    if images.dtype != torch.uint8:
        return images
    if torch.is_grad_enabled() and images.is_cpu and images.dim() == 4:
        images = torch.stack(images.unbind(1), dim=-1).permute(0, 3, 1, 2)
    return images.float().mul_(1 / 255)


def read_image_shape(image_shape: Sequence[int]) -> tuple[int, int, int]:
    """Return (C, H, W) from ``image_shape``; raise ValueError if it is not an image shape."""
    if len(image_shape) != 3 or min(image_shape) < 1:
        raise ValueError(
            f"image_shape={tuple(image_shape)} must be (channels, height, width), all positive."
        )
    c, h, w = image_shape
    return c, h, w


def _layer_settings(
    channels: Sizes, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes
) -> list[tuple[Any, ...]]:
    n_layers = len(as_list(channels))
    settings = {
        "channels": as_list(channels),
        "kernel_sizes": as_list(kernel_sizes),
        "strides": as_list(strides),
        "paddings": [0] * n_layers if paddings is None else as_list(paddings),
    }
    if any(len(values) != n_layers for values in settings.values()):
        raise ValueError(
            "channels, kernel_sizes, strides and paddings need one element for each layer, but "
            + ", ".join(f"{name}={values}" for name, values in settings.items())
            + ": give all of them, of the same length."
        )
    return list(zip(*settings.values()))
