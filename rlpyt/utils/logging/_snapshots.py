"""Which iterations of a run are saved, and under which file names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from rlpyt.utils.files import replacing

SNAPSHOT_MODES = ("all", "last", "gap", "last+gap", "none")


def check_snapshot_mode(mode: str) -> str:
    """``mode``, if there is such a mode.

    Raises:
        ValueError: if not.
    """
    if mode not in SNAPSHOT_MODES:
        raise ValueError(f"Unknown snapshot mode {mode!r}: use one of {', '.join(SNAPSHOT_MODES)}.")
    return mode


@dataclass
class Snapshots:
    """Saves parameters of a run, whole or not at all.

    Attributes:
        directory: where files go; ``None`` saves nothing.
        mode: ``all``: ``itr_<itr>.pkl`` at every call; ``last``: ``params.pkl``, overwritten;
            ``gap``: ``itr_<itr>.pkl`` at iteration 0 and at the end of every ``gap`` iterations;
            ``last+gap``: both; ``none``: nothing.
        gap: in iterations.
    """

    directory: str | None = None
    mode: str = "all"
    gap: int = 1

    def file_names(self, itr: int) -> list[str]:
        """The files to write at iteration ``itr``."""
        is_gap = itr == 0 or (itr + 1) % self.gap == 0
        names = []
        if self.mode == "all" or ("gap" in self.mode and is_gap):
            names.append(f"itr_{itr}.pkl")
        if "last" in self.mode:
            names.append("params.pkl")
        return names

    def save(self, itr: int, params: Any) -> None:
        """Write ``params`` with ``torch.save`` where mode and gap ask for it.

        A save that fails raises, and leaves the files of earlier saves as they were.
        """
        if self.directory is None:
            return
        for name in self.file_names(itr):
            with replacing(os.path.join(self.directory, name), "wb") as file:
                torch.save(params, file)
