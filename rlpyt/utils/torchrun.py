"""Ranks of processes that ``torchrun`` or a similar launcher started."""

from __future__ import annotations

import os
from typing import NamedTuple


class TorchrunRanks(NamedTuple):
    """Rank of this process in the whole run, and on this machine (local)."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def torchrun_ranks() -> TorchrunRanks | None:
    """Return the ranks of this process; None if no launcher such as ``torchrun`` started it."""
    if not {"MASTER_ADDR", "RANK", "WORLD_SIZE"} <= os.environ.keys():
        return None
    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    local_rank = os.environ.get("LOCAL_RANK", rank)
    local_world_size = os.environ.get("LOCAL_WORLD_SIZE", world_size)
    return TorchrunRanks(int(rank), int(world_size), int(local_rank), int(local_world_size))
