"""The statistics of B running trajectories, updated by one call for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.core.records import TrajInfo
from rlpyt.utils.types import BoolArray, NDArray, Nested

_COUNTED = ("Length", "Return", "NonzeroRewards", "DiscountedReturn", "_cur_discount")


class Trajectories:
    """B running trajectories; the object of ``TrajInfoCls`` is made where one is complete.

    A class which counts more than :class:`~rlpyt.core.records.TrajInfo` does, that is one with a
    ``step`` of its own, is asked for every environment in turn.

    Args:
        TrajInfoCls: of the trajectories.
        B: environments.
    """

    def __init__(self, TrajInfoCls: Any, B: int) -> None:
        self.TrajInfoCls = TrajInfoCls
        self._infos = [TrajInfoCls() for _ in range(B)]
        self._is_vectorised = getattr(TrajInfoCls, "step", None) is TrajInfo.step
        if self._is_vectorised:
            self._discount: float = self._infos[0]._discount
            self._length: NDArray = np.zeros(B, dtype=np.int64)
            self._nonzero: NDArray = np.zeros(B, dtype=np.int64)
            self._return: NDArray = np.zeros(B)
            self._discounted: NDArray = np.zeros(B)
            self._cur_discount: NDArray = np.ones(B)

    @property
    def reads_info(self) -> bool:
        """Whether the agent's info is looked at."""
        return not self._is_vectorised

    def step(
        self,
        observation: Nested,
        action: Nested,
        reward: NDArray,
        done: BoolArray,
        agent_info: Nested,
        env_info: Nested,
    ) -> None:
        """Count one step of every environment, [B,...], as ``TrajInfo.step`` does for one."""
        if not self._is_vectorised:
            for b, traj_info in enumerate(self._infos):
                info = agent_info[b] if agent_info else None
                own_info = env_info[b] if env_info else env_info
                traj_info.step(observation[b], action[b], reward[b], done[b], info, own_info)
            return
        self._length += 1
        self._return += reward
        self._nonzero += reward != 0
        self._discounted += self._cur_discount * reward
        self._cur_discount *= self._discount

    def complete(self, b: int, observation: Nested) -> Any:
        """Return the trajectory info of environment ``b``, whose next one begins.

        Args:
            b: index of the environment.
            observation: its last one.
        """
        traj_info = self._info(b)
        self.restart(b)
        return traj_info.terminate(observation)

    def restart(self, b: int) -> None:
        """Begin a trajectory of environment ``b``."""
        self._infos[b] = self.TrajInfoCls()
        if self._is_vectorised:
            self._load_counts(b)

    def _info(self, b: int) -> Any:
        """The object of environment ``b``, up to date."""
        traj_info = self._infos[b]
        if self._is_vectorised:
            traj_info.Length = int(self._length[b])
            traj_info.Return = self._return[b]
            traj_info.NonzeroRewards = int(self._nonzero[b])
            traj_info.DiscountedReturn = self._discounted[b]
            traj_info._cur_discount = float(self._cur_discount[b])
        return traj_info

    def _load_counts(self, b: int) -> None:
        counts = (
            self._length,
            self._return,
            self._nonzero,
            self._discounted,
            self._cur_discount,
        )
        for name, count in zip(_COUNTED, counts):
            count[b] = self._infos[b][name]

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the entries of all running trajectories."""
        return [dict(self._info(b)) for b in range(len(self._infos))]

    def load_state_dict(self, state: list[dict[str, Any]]) -> None:
        """Take back what :meth:`state_dict` returned."""
        for b, saved in enumerate(state):
            self._infos[b].clear()
            self._infos[b].update(saved)
            if self._is_vectorised:
                self._load_counts(b)
