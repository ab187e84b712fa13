"""What models of vector observations share: running normalisation, and flattening."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rlpyt.models._inputs import LeadingDims, fold_vectors
from rlpyt.models.running_mean_std import RunningMeanStdModel


class NormalizedObservationModel(torch.nn.Module):
    """Base of models which may normalise observations by their running mean and variance.

    ::

        o' = clamp((o - mean) / sqrt(max(var, norm_obs_var_clip)), -norm_obs_clip, norm_obs_clip)

    Args:
        observation_shape: Shape of one observation.
        normalize_observation: Whether to normalise; then the statistics are buffers of the model
            (``obs_rms``), which change only in :meth:`update_obs_rms`.
        norm_obs_clip: Bound of normalised values.
        norm_obs_var_clip: Lower limit of the variance.
    """

    obs_rms: RunningMeanStdModel

    def __init__(
        self,
        observation_shape: Sequence[int],
        normalize_observation: bool,
        norm_obs_clip: float,
        norm_obs_var_clip: float,
    ) -> None:
        super().__init__()
        self._obs_ndim = len(observation_shape)
        self._obs_size = math.prod(observation_shape)
        self.normalize_observation = normalize_observation
        self.norm_obs_clip = norm_obs_clip
        self.norm_obs_var_clip = norm_obs_var_clip
        if normalize_observation:
            self.obs_rms = RunningMeanStdModel(observation_shape)

    def update_obs_rms(self, observation: torch.Tensor) -> None:
        """Take observations with any leading dimensions into the statistics, if there are any."""
        if self.normalize_observation:
            self.obs_rms.update(observation)

    def fold_observation(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Normalised flat observations [T*B,size], and the leading dimensions."""
        if self.normalize_observation:
            std = self.obs_rms.var.clamp(min=self.norm_obs_var_clip).sqrt()
            observation = (observation - self.obs_rms.mean) / std
            observation = observation.clamp(-self.norm_obs_clip, self.norm_obs_clip)
        return fold_vectors(observation, self._obs_ndim)
