"""Encoders of observations, built for the space of an environment.

An encoder turns an observation into features: images by convolutions, choices by one-hot vectors,
other arrays unchanged or normalized, and records by one branch for each field, whose features are
joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Union

import numpy as np
import torch

from rlpyt.models.autocast import Autocast
from rlpyt.models.conv2d import PG_CONV, Conv2dHeadModel, ConvLayers, scaled
from rlpyt.models.running_mean_std import NormalizedObservationModel
from rlpyt.models.space_kinds import Box, Choices, Fields, Kind, observation_kind
from rlpyt.utils.tensor import LeadingDims, fold_leading_dims, to_onehot
from rlpyt.utils.types import NDArray, Nested

# Images whose shorter side has fewer pixels keep more of their resolution.
SMALL_IMAGE = 36
SMALL_CONV = ConvLayers([16, 32], [3, 3], [1, 2], [1, 1])


class ChoiceEncoder(torch.nn.Module):
    """Encoder of an array of choices as one-hot vectors.

    Args:
        nvec: number of choices of each entry.
    """

    def __init__(self, nvec: NDArray) -> None:
        super().__init__()
        self._ndim, self._n = nvec.ndim, int(nvec.max())
        self.output_size = int(nvec.size) * self._n

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,output_size] and the leading dimensions."""
        folded, lead = fold_leading_dims(observation, self._ndim)
        onehot = to_onehot(folded, self._n, dtype=torch.float)
        return onehot.reshape(lead.T * lead.B, -1), lead

    def update_obs_rms(self, observation: torch.Tensor) -> None:
        """Do nothing: choices have no statistics."""


class VectorEncoder(NormalizedObservationModel):
    """Encoder of an array of numbers as a flat vector, normalized if asked.

    Integers between finite bounds are scaled to [0, 1], unless they are normalized.

    Args:
        box: bounds and shape of the array.
        normalize_observation: whether to normalize by running mean and variance.
        norm_obs_clip: bound of normalized values.
        norm_obs_var_clip: lower limit of the variance.
    """

    _low: torch.Tensor
    _size: torch.Tensor

    def __init__(
        self,
        box: Box,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
    ) -> None:
        super().__init__(box.low.shape, normalize_observation, norm_obs_clip, norm_obs_var_clip)
        self.output_size = self._obs_size
        self._is_scaled = _has_range(box) and not normalize_observation
        if self._is_scaled:
            low, size = box.low, np.maximum(box.high - box.low, 1)
            self.register_buffer("_low", torch.as_tensor(low).float(), persistent=False)
            self.register_buffer("_size", torch.as_tensor(size).float(), persistent=False)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,output_size] and the leading dimensions."""
        if self._is_scaled:
            observation = (observation.float() - self._low) / self._size
        return self.fold_observation(observation)


class ImageEncoder(torch.nn.Module):
    """Convolutions and hidden layers that encode an image.

    Args:
        shape: shape (C, H, W) or (H, W, C) of an image; the smaller of its first and last entry,
            or the last of two equal ones, is the number of channels.
        fc_sizes: widths of the layers after the convolutions.
        **conv_settings: further arguments of :class:`~rlpyt.models.conv2d.Conv2dHeadModel`, such as
            ``channels``, ``kernel_sizes``, ``strides`` and ``paddings`` in place of the defaults
            for this size of images.
    """

    def __init__(self, shape: Sequence[int], fc_sizes: Any = 256, **conv_settings: Any) -> None:
        super().__init__()
        self._channels_last = shape[2] <= shape[0]
        c, h, w = (shape[2], *shape[:2]) if self._channels_last else shape
        layers = SMALL_CONV if min(h, w) < SMALL_IMAGE else PG_CONV
        settings = {**layers._asdict(), **conv_settings}
        self.conv = Conv2dHeadModel(image_shape=(c, h, w), hidden_sizes=fc_sizes, **settings)
        self.output_size = self.conv.output_size

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,output_size] and the leading dimensions."""
        if self._channels_last:
            image = image.movedim(-1, -3)
        images, lead = fold_leading_dims(image, 3)
        return self.conv(scaled(images)), lead

    def update_obs_rms(self, observation: torch.Tensor) -> None:
        """Do nothing: images are not normalized by statistics."""


class RecordEncoder(torch.nn.Module):
    """One branch for each field of a record; their features are joined.

    Args:
        names: names of the fields.
        encoders: encoders of the fields, in the order of ``names``.
    """

    def __init__(self, names: Sequence[str], encoders: Sequence[Any]) -> None:
        super().__init__()
        # A prefix, since a module may not have the name of a method, such as "keys".
        pairs = {f"obs_{name}": encoder for name, encoder in zip(names, encoders)}
        self.branches = torch.nn.ModuleDict(pairs)
        self.output_size = sum(encoder.output_size for encoder in encoders)

    def forward(self, observation: Nested) -> tuple[torch.Tensor, LeadingDims]:
        """Return features [T*B,output_size] and the leading dimensions."""
        outputs = [branch(part) for branch, part in zip(self.branches.values(), observation)]
        features, leads = zip(*outputs)
        return torch.cat(features, dim=-1), leads[0]

    def update_obs_rms(self, observation: Nested) -> None:
        """Update the statistics of the branches with observations."""
        for branch, part in zip(self.branches.values(), observation):
            branch.update_obs_rms(part)  # type: ignore[operator]


class EncodedModel(torch.nn.Module):
    """A model for vectors, with an encoder that turns observations of any kind into vectors.

    Args:
        ModelCls: class of the model; takes ``observation_shape``.
        observation_space: observation space.
        image_kwargs: arguments of :class:`ImageEncoder`.
        **kwargs: further arguments of ``ModelCls``.

    Raises:
        ValueError: if the space is of an unknown kind.
    """

    def __init__(
        self,
        ModelCls: Any,
        observation_space: Any,
        image_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.encoder = make_encoder(observation_space, image_kwargs)
        self.model = ModelCls(**{**kwargs, "observation_shape": (self.encoder.output_size,)})

    def forward(self, observation: Nested, *args: Any, reset: Any = None) -> Any:
        """Run the model on the features of observations, which have zero to two leading dimensions.

        Args:
            observation: observations, [...] in every field.
            *args: further inputs of the model.
            reset: mask [T,B] for recurrent models, True where an episode begins; None for other
                models.
        """
        features, lead = self.encoder(observation)
        kwargs = {} if reset is None else {"reset": reset}
        return self.model(lead.restore(features), *args, **kwargs)


def encoded(ModelCls: Any, space: Any) -> Callable[..., EncodedModel]:
    """Return ``ModelCls`` with an encoder of ``space``, which an Autocast contains too."""
    EncodedCls: Any = EncodedModel
    if isinstance(ModelCls, Autocast):
        EncodedCls, ModelCls = replace(ModelCls, ModelCls=EncodedModel), ModelCls.ModelCls
    return partial(EncodedCls, ModelCls, space)


def needs_encoder(space: Any) -> bool:
    """Return whether observations are anything but one array of numbers of unit size.

    They are images, choices, records, or integers between finite bounds, such as bytes.
    """
    kind = observation_kind(space)
    return not isinstance(kind, Box) or _is_image(kind) or _has_range(kind)


Encoder = Union[ChoiceEncoder, VectorEncoder, ImageEncoder, RecordEncoder]


def make_encoder(
    space: Any,
    image_kwargs: dict[str, Any] | None = None,
    **normalization: Any,
) -> Encoder:
    """Make the encoder of an observation space.

    Integer arrays with three dimensions are images. So are float arrays whose first or last
    dimension has the 1, 3 or 4 channels of an image.

    Args:
        space: observation space.
        image_kwargs: arguments of :class:`ImageEncoder`.
        **normalization: arguments of :class:`VectorEncoder`.

    Raises:
        ValueError: if the space is of an unknown kind.
    """
    return _encoder(observation_kind(space), image_kwargs or {}, normalization)


def _encoder(kind: Kind, image_kwargs: dict[str, Any], normalization: dict[str, Any]) -> Encoder:
    if isinstance(kind, Fields):
        encoders = [_encoder(part, image_kwargs, normalization) for part in kind.kinds]
        return RecordEncoder(kind.names, encoders)
    if isinstance(kind, Choices):
        return ChoiceEncoder(kind.nvec)
    if _is_image(kind):
        return ImageEncoder(kind.low.shape, **image_kwargs)
    return VectorEncoder(kind, **normalization)


def _has_range(box: Box) -> bool:
    """Return whether elements are integers between finite bounds, other than 0 and 1."""
    is_unit = np.all(box.low == 0) and np.all(box.high == 1)
    is_finite = np.isfinite(box.low).all() and np.isfinite(box.high).all()
    return bool(box.is_integer and is_finite and not is_unit)


def _is_image(box: Box) -> bool:
    shape = box.low.shape
    return len(shape) == 3 and (box.is_integer or bool({shape[0], shape[2]} & {1, 3, 4}))
