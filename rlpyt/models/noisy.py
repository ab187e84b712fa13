"""Linear layers that explore by noise in their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from rlpyt.utils.buffer import buffer_to


class NoisyLinear(torch.nn.Linear):
    """A linear layer whose weights are random, with learned means and standard deviations.

    ::

        y = (W + W_sigma * f(e_out) f(e_in)^T) x + b + b_sigma * f(e_out),    e ~ N(0, 1)
        f(e) = sign(e) sqrt(|e|)

    In training mode (``train()``) every call draws new noise for the whole batch. In evaluation
    mode (``eval()``) the layer uses the noise that :meth:`draw_noise` drew last. Before that call,
    and after :meth:`remove_noise`, the layer computes with its mean weights.

    The noise is neither a parameter nor a buffer: snapshots leave it out, and processes that share
    the parameters draw it separately. ``weight`` and ``bias`` are W and b, as in
    ``torch.nn.Linear``.

    Args:
        in_features: number of inputs.
        out_features: number of outputs.
        bias: whether to add b.
        sigma_init: the initial standard deviation is sigma_init / sqrt(in_features).

    Raises:
        ValueError: if ``sigma_init`` is negative.

    Source: Fortunato et al. 2018, arXiv:1706.10295, eq. 9 to 11 and section 3.2 (factorised
    Gaussian noise).
    """

    bias_sigma: torch.Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, sigma_init: float = 0.5
    ) -> None:
        if sigma_init < 0:
            raise ValueError(f"sigma_init is {sigma_init}: give a standard deviation, at least 0")
        super().__init__(in_features, out_features, bias)  # Means start as in the source.
        sigma = sigma_init / math.sqrt(in_features)
        self.weight_sigma = torch.nn.Parameter(torch.full_like(self.weight, sigma))
        bias_sigma = torch.nn.Parameter(torch.full_like(self.bias, sigma)) if bias else None
        self.register_parameter("bias_sigma", bias_sigma)
        self._noise: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map features [...,in_features] to [...,out_features]."""
        if self.training:
            noise_out, noise_in = self._new_noise()
            noise = torch.outer(noise_out, noise_in)
            weight = torch.addcmul(self.weight, self.weight_sigma, noise)
            return linear(input, weight, self._noisy_bias(noise_out))
        if self._noise is None:
            return super().forward(input)
        # The noisy weights are never formed: that costs more than their product with a few inputs.
        noise_out, noise_in = self._noise
        noisy = linear(input * noise_in, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(super().forward(input), noisy, noise_out)

    def draw_noise(self, e: torch.Tensor | None = None) -> None:
        """Draw the noise for all further calls in evaluation mode.

        Args:
            e: standard normal samples [out_features + in_features]; None to draw them.
        """
        self._noise = self._new_noise(e)

    def remove_noise(self) -> None:
        """Compute with the mean weights in all further calls in evaluation mode."""
        self._noise = None

    def _new_noise(self, e: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return f(e_out) [out_features] and f(e_in) [in_features]."""
        n, weight = self.out_features + self.in_features, self.weight
        if e is None:
            e = torch.randn(n, device=weight.device, dtype=weight.dtype)
        noise_out, noise_in = torch.copysign(e.abs().sqrt(), e).split(
            [self.out_features, self.in_features]
        )
        return noise_out, noise_in

    def _noisy_bias(self, noise_out: torch.Tensor) -> torch.Tensor | None:
        if self.bias_sigma is None:
            return None
        return torch.addcmul(self.bias, self.bias_sigma, noise_out)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Move the noise with the parameters, to another device or type."""
        if self._noise is not None:
            noise_out, noise_in = self._noise
            self._noise = fn(noise_out), fn(noise_in)
        apply: Callable[..., Any] = super()._apply
        return apply(fn, *args, **kwargs)


def linear_layer(noisy: bool) -> type[torch.nn.Linear]:
    """Return the class of linear layers, :class:`NoisyLinear` or the usual one."""
    return NoisyLinear if noisy else torch.nn.Linear


def noisy_layers(model: torch.nn.Module) -> Iterator[NoisyLinear]:
    """Return an iterator over the noisy layers of ``model``."""
    return (layer for layer in model.modules() if isinstance(layer, NoisyLinear))


def is_noisy(model: torch.nn.Module) -> bool:
    """Return whether ``model`` has noisy layers."""
    return next(noisy_layers(model), None) is not None


def draw_noise(model: torch.nn.Module, rng: np.random.Generator | None = None) -> None:
    """Draw the noise of ``model`` in evaluation mode; see :meth:`NoisyLinear.draw_noise`.

    Args:
        model: model with noisy layers.
        rng: generator to draw from; None for torch's global one.
    """
    layers = list(noisy_layers(model))
    if rng is None:
        for layer in layers:
            layer.draw_noise()
        return
    sizes = [layer.out_features + layer.in_features for layer in layers]
    e = torch.from_numpy(rng.standard_normal(sum(sizes), np.float32))
    weight = layers[0].weight
    e = buffer_to(e, weight.device).to(weight.dtype)  # One copy to the device for all layers.
    for layer, part in zip(layers, e.split(sizes)):
        layer.draw_noise(part)


def remove_noise(model: torch.nn.Module) -> None:
    """Let ``model`` compute with its mean weights in evaluation mode."""
    for layer in noisy_layers(model):
        layer.remove_noise()
