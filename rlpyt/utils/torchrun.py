"""Ranks that ``torchrun`` or a similar launcher gives to the processes that it starts."""

from __future__ import annotations

import os
from typing import NamedTuple


class TorchrunRanks(NamedTuple):
    """Rank of this process among those that ``torchrun`` started; local: on this machine."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def torchrun_ranks() -> TorchrunRanks | None:
    """Return the ranks that ``torchrun`` or a similar launcher gave this process; None without."""
    if not {"MASTER_ADDR", "RANK", "WORLD_SIZE"} <= os.environ.keys():
        return None
    rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    local_rank = os.environ.get("LOCAL_RANK", rank)
    local_world_size = os.environ.get("LOCAL_WORLD_SIZE", world_size)
    return TorchrunRanks(int(rank), int(world_size), int(local_rank), int(local_world_size))
