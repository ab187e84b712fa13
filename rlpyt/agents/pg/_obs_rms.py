"""Agents whose model may normalise observations by statistics of those it was trained on."""

from __future__ import annotations

from rlpyt.agents.base import BaseAgent
from rlpyt.utils.types import Nested


class ObsRmsMixin(BaseAgent):
    """Hands observations to the running statistics of the model; stands first among the bases."""

    def update_obs_rms(self, observation: Nested) -> None:
        """Take a batch into account, if the model has ``update_obs_rms`` and normalises.

        Algorithms call it once with each batch, after the updates on it: what is trained is what
        acted.

        Args:
            observation: [T,B,...], torch on any device.
        """
        if hasattr(self.acting_model, "update_obs_rms"):
            (observation,) = self.to_model_device(observation)
            self.acting_model.update_obs_rms(observation)
