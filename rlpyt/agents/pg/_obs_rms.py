"""Agents whose model may normalise observations by statistics of those it was trained on."""

from __future__ import annotations

from rlpyt.agents.base import BaseAgent
from rlpyt.utils.types import Nested


class ObsRmsMixin(BaseAgent):
    """Hands observations to the running statistics of the model; stands first among the bases."""

    def update_obs_rms(self, observation: Nested) -> None:
        """Take a batch into account; does nothing unless the model normalises observations.

        Algorithms call it once with each new batch, before the loss.

        Args:
            observation: [T,B,...], torch on any device.
        """
        (observation,) = self.to_model_device(observation)
        self.acting_model.update_obs_rms(observation)
