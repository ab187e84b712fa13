"""Which worker steps which environments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerSpec:
    """The share of one worker.

    Args:
        rank: of the worker.
        group: of workers which are served together; alternating sampling has two.
        start: index of its first environment in the batch.
        stop: index after its last one.
    """

    rank: int
    group: int
    start: int
    stop: int

    @property
    def n_envs(self) -> int:
        """Number of environments, which may be 0."""
        return self.stop - self.start

    @property
    def columns(self) -> slice:
        """Its part of the batch dimension."""
        return slice(self.start, self.stop)


def split_envs(B: int, n_workers: int, n_groups: int = 1) -> tuple[WorkerSpec, ...]:
    """Spread environments over workers as evenly as possible, in their order.

    Args:
        B: number of environments.
        n_workers: at least one in each group.
        n_groups: which have the same number of environments and of workers each.

    Returns:
        A share for each worker; the first ones of a group have one environment more, if these do
        not divide.

    Raises:
        ValueError: if environments or workers do not divide into groups.
    """
    for name, number in (("environments", B), ("workers", n_workers)):
        if number % n_groups:
            raise ValueError(
                f"{number} {name} do not divide into {n_groups} halves, which are stepped in turn: "
                "choose an even number"
            )
    if n_workers < 1:
        raise ValueError("there are no workers: name at least one CPU in workers_cpus")
    group_B, group_workers = B // n_groups, n_workers // n_groups
    each, extra = divmod(group_B, group_workers)
    specs = []
    start = 0
    for rank in range(n_workers):
        group, position = divmod(rank, group_workers)
        stop = start + each + (position < extra)
        specs.append(WorkerSpec(rank, group, start, stop))
        start = stop
    return tuple(specs)
