"""How environments and CPUs are shared among action servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlpyt.samplers._split import WorkerSpec, split_envs


@dataclass(frozen=True)
class ServerSpec:
    """The share of one action server.

    Args:
        first_worker: index of its first worker among those of all servers.
        envs: its environments, and what of the batch they fill.
        eval_envs: those of evaluation, of which there may be none.
    """

    first_worker: int
    envs: slice
    eval_envs: slice


def split_over_servers(n_envs: int, n_server: int, n_groups: int) -> list[WorkerSpec]:
    """The share of each server, of which every group of its workers has the same."""
    return [
        WorkerSpec(share.rank, 0, share.start * n_groups, share.stop * n_groups)
        for share in split_envs(n_envs // n_groups, n_server)
    ]


def starts_of(sizes: Sequence[int]) -> list[int]:
    """Where each of adjacent parts begins."""
    return [sum(sizes[:i]) for i in range(len(sizes))]


def joined_cpus(affinities: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The CPUs of all servers, for the process which waits for them; of all, if one may use all."""
    cpus: list[int] = []
    for affinity in affinities:
        if affinity.get("master_cpus") is None or not affinity.get("set_affinity", True):
            return {}
        cpus += affinity["master_cpus"]
    return {"master_cpus": cpus}
