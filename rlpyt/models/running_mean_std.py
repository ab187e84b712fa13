"""Running mean and variance of a stream of batches, and models that normalize by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.distributed

from rlpyt.utils.tensor import LeadingDims, as_float, fold_vectors


class RunningMeanStdModel(torch.nn.Module):
    """Mean and variance of all data seen so far, merged exactly over batches and processes.

    Buffers (keys of the state dict): ``mean`` and ``var`` of shape ``shape``, the biased variance
    over all data, and ``count`` [], the number of data points (an integer, since float32 is exact
    only to 2^24). Initially mean, var and count are 0, 1 and 0.

    Args:
        shape: shape of one datum.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm, eq. 2.1.
    """

    mean: torch.Tensor
    var: torch.Tensor
    count: torch.Tensor

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.register_buffer("mean", torch.zeros(self.shape))
        self.register_buffer("var", torch.ones(self.shape))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, x: torch.Tensor) -> None:
        """Update the statistics with a batch; with torch.distributed, the batches of all processes.

        If the c earlier data points have mean m and variance v, and the c' new ones m' and v'::

            w = c' / (c + c'),      m <- m + w (m' - m)
            v <- (1 - w) v + w v' + w (1 - w) (m' - m)^2

        Processes are merged by the same rule, so the result equals that of a single process with
        all data. (An average of the variances would ignore that the means differ.)

        Args:
            x: data [...,*shape] with any leading dimensions.

        Raises:
            ValueError: if the last dimensions of ``x`` are not ``shape``.
        """
        n_lead = x.dim() - len(self.shape)
        if n_lead < 0 or x.shape[n_lead:] != self.shape:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: its last dimensions must be {self.shape}, the "
                "shape this model was made for."
            )
        count, mean, var = _moments(x.reshape(-1, *self.shape))
        total = self.count + count
        weight = count / total.double()
        delta = mean - self.mean
        var = (1 - weight) * self.var + weight * var + weight * (1 - weight) * delta**2
        self.mean.copy_(self.mean + weight * delta)  # No rounding where all data are equal.
        self.var.copy_(var)
        self.count.copy_(total)


def _moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return count, mean and biased variance of the data [N,...] of all processes together."""
    x = x.double()
    count = torch.full((), len(x), device=x.device)
    mean = x.mean(dim=0)
    square = ((x - mean) ** 2).sum(dim=0)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        local_count, local_mean = count.clone(), mean
        torch.distributed.all_reduce(count)
        mean = local_count * local_mean / count
        torch.distributed.all_reduce(mean)
        square += local_count * (local_mean - mean) ** 2
        torch.distributed.all_reduce(square)
    return count, mean, square / count


class NormalizedObservationModel(torch.nn.Module):
    """Base class of models that may normalize observations by their running mean and variance.

    ::

        o' = clamp((o - mean) / sqrt(max(var, norm_obs_var_clip)), -norm_obs_clip, norm_obs_clip)

    Args:
        observation_shape: shape of one observation.
        normalize_observation: whether to normalize; then the statistics are buffers of the model
            (``obs_rms``), which change only in :meth:`update_obs_rms`.
        norm_obs_clip: bound of normalized values.
        norm_obs_var_clip: lower limit of the variance.
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
        """Update the statistics, if there are any, with observations of any leading dimensions."""
        if self.normalize_observation:
            self.obs_rms.update(observation)

    def fold_observation(self, observation: torch.Tensor) -> tuple[torch.Tensor, LeadingDims]:
        """Return normalized flat observations [T*B,size], and the leading dimensions."""
        if self.normalize_observation:
            std = self.obs_rms.var.clamp(min=self.norm_obs_var_clip).sqrt()
            observation = (as_float(observation) - self.obs_rms.mean) / std
            observation = observation.clamp(-self.norm_obs_clip, self.norm_obs_clip)
        return fold_vectors(observation, self._obs_ndim)
