"""Vector environments whose arrays are tensors on a device, such as simulators on a GPU.

The interface is the one of gymnasium's vector environments, with tensors [B,...] in place of
arrays, as in Isaac Lab and ManiSkill. No step waits for the device, so masks take the place of
conditions.

* ``SAME_STEP``: the info has the last observations of finished episodes in ``final_obs`` (or
  ``final_observation``), a tensor [B,...] or a dictionary of them; rows of other environments are
  ignored. Without this entry, the first observation of the next episode takes their place.
* ``NEXT_STEP`` and ``DISABLED``: ``reset`` is called in every step. It takes
  ``options["reset_mask"]``, a tensor [B] that may be False everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.core.rows import fitted
from rlpyt.envs._info import infill_info
from rlpyt.envs.vector import SAME_STEP, VectorEnvWrapper, VectorStep
from rlpyt.spaces.gym_wrapper import field_names
from rlpyt.utils.buffer import buffer_to, map_buffer, torchify_buffer
from rlpyt.utils.collections import record_class
from rlpyt.utils.logging import logger
from rlpyt.utils.types import BoolArray, Nested

_FINAL = ("final_obs", "final_observation", "final_info")


class DeviceEnvWrapper(VectorEnvWrapper):
    """Vector environment of tensors, with converted spaces, whose info becomes a record.

    Its arguments are as for :class:`~rlpyt.envs.vector.VectorEnvWrapper`. Entries of the info
    that are tensors [B,...] are recorded, others are left out.

    Attributes:
        device: device of the tensors.
    """

    device: torch.device

    def _try_one_step(self, info_example: dict[Any, Any]) -> Any:
        found: Any = self.env.reset()[0]
        while isinstance(found, (Mapping, tuple)):
            found = next(iter(found.values() if isinstance(found, Mapping) else found))
        if not isinstance(found, torch.Tensor):
            raise TypeError(
                f"{self.env} observes a {type(found).__name__} instead of a tensor: wrap it in "
                "VectorEnvWrapper, for VectorSampler"
            )
        self.device = found.device
        _, reward, *_, info = self.env.step(self.action_space.revert_tensors(self._first_actions()))
        if reward.shape != (self.num_envs,):
            raise ValueError(
                f"{self.env} returned rewards of shape {tuple(reward.shape)}: return one for each "
                f"of its {self.num_envs} environments"
            )
        self._is_seed_due = True
        timeout = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        example = infill_info(info_example, {**info, "timeout": timeout})
        return TensorLayout(example, self.num_envs)

    def step(self, action: Nested) -> VectorStep:
        """Apply ``action`` [B,...] and start the next episode wherever one ended."""
        gym_action = self.action_space.revert_tensors(action)
        observation, reward, terminated, truncated, info = self.env.step(gym_action)
        observation = next_inputs = self.observation_space.convert_tensors(observation)
        terminated, truncated = terminated.bool(), truncated.bool()
        done = terminated | truncated
        if self.autoreset_mode == SAME_STEP:
            final = info.get("final_obs", info.get("final_observation"))
            if final is not None:
                final = self.observation_space.convert_tensors(final)
                observation = where(done, final, observation)
            info = _final_infos(info, info.get("final_info"), done)
        timeout = truncated & ~terminated
        if "timeout" in info:
            timeout |= done & info["timeout"].bool()
        reward = reward.float()
        env_info = self._info_layout.read({**info, "timeout": timeout})
        if self.autoreset_mode != SAME_STEP:  # The reset may write into the tensors.
            observation, reward, env_info = (
                map_buffer(torch.clone, part) for part in (observation, reward, env_info)
            )
            next_inputs = self.reset_some(done, observation)
        return VectorStep(observation, reward, done, env_info, next_inputs)

    def _converted(self, observation: Any) -> Nested:
        return self.observation_space.convert_tensors(observation)

    def _reset_where(self, which: Any, observation: Nested, seeds: Any) -> Nested:
        mask = torch.as_tensor(which, device=self.device)
        first = self.env.reset(seed=seeds, options={"reset_mask": mask})[0]
        return where(mask, self._converted(first), observation)

    def sample_actions(self, which: BoolArray | None = None) -> Nested:
        """Return the random actions [B,...] of :class:`VectorEnvWrapper`, on the device."""
        return buffer_to(torchify_buffer(super().sample_actions(which)), self.device)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, if ``env`` has a ``state_dict``.

        Raises:
            NotImplementedError: if it has none.
        """
        if not hasattr(self.env, "state_dict"):
            raise NotImplementedError(
                f"{type(self.env).__name__} cannot save its state: give it state_dict() and "
                "load_state_dict(state) to resume runs"
            )
        return {"env": self.env.state_dict(), **self._state_of_draws()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, saved by an environment with the same arguments."""
        self.env.load_state_dict(state["env"])
        self._load_draws(state)


class TensorLayout:
    """Fields of info records [B,...], declared by an example of an info dictionary.

    Args:
        example: example of the dictionary; nested dictionaries become nested records.
        n_envs: number of environments B; entries other than tensors [B,...] are left out.
        name: name of the record class; sub-records are named ``<name>_<field>``.
    """

    def __init__(self, example: Mapping[str, Any], n_envs: int, name: str = "info") -> None:
        self._parts: dict[str, Any] = {}
        for key, value in example.items():
            if key in _FINAL:
                continue
            if isinstance(value, Mapping):
                layout = TensorLayout(value, n_envs, f"{name}_{key}")
                if layout._parts:
                    self._parts[key] = layout
            elif isinstance(value, torch.Tensor) and value.shape[:1] == (n_envs,):
                self._parts[key] = torch.zeros_like(value)
        self.record_cls: Any = record_class(name, field_names(self._parts))

    def read(self, info: Mapping[str, Any]) -> Nested:
        """Return the record of ``info``: unknown keys are dropped, missing ones are zero.

        So are entries of another shape, with one notice in the log.
        """
        values = []
        for key, part in self._parts.items():
            value = info.get(key)
            if isinstance(part, TensorLayout):
                values.append(part.read(value if isinstance(value, Mapping) else {}))
                continue
            fits = isinstance(value, torch.Tensor) and value.shape == part.shape
            if value is not None and not fits:
                logger.log_once(
                    f"WARNING: info[{key!r}] is left out where it is not {tuple(part.shape)}"
                )
            values.append(value if fits else part)
        return self.record_cls(*values)


def where(mask: torch.Tensor, chosen: Nested, other: Nested) -> Nested:
    """Return ``chosen`` [B,...] where ``mask`` [B] is true, else ``other``, leaf by leaf."""
    if isinstance(other, tuple):
        parts = [where(mask, *pair) for pair in zip(chosen, other, strict=True)]
        return other._make(parts)  # type: ignore[attr-defined]
    if other is None:
        return None
    chosen = fitted(chosen, tuple(other.shape), "observation")
    return torch.where(mask.view(-1, *[1] * (other.dim() - 1)), chosen, other)


def _final_infos(info: Mapping[str, Any], final: Any, done: torch.Tensor) -> dict[str, Any]:
    """Return ``info`` with the entries of finished episodes where ``done`` is true."""
    merged = dict(info)
    for key, value in (final or {}).items():
        mine = info.get(key)
        if isinstance(value, Mapping):
            merged[key] = _final_infos(mine or {}, value, done)
        elif isinstance(value, torch.Tensor):
            merged[key] = value if mine is None else where(done, value, mine)
    return merged
