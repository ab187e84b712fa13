"""Division of environments and CPUs among worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlpyt.processes.launch import check_cpus
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, derived_seed

# --- Environments ---------------------------------------------------------------------------------


class WorkerSpec(NamedTuple):
    """Share of one worker.

    Args:
        rank: index of the worker.
        group: index of its group; alternating sampling serves two groups in turn.
        start: index of its first environment in the batch.
        stop: index after its last environment.
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
        """Slice of the batch dimension."""
        return slice(self.start, self.stop)


def worker_specs(n_envs_list: Sequence[int], n_groups: int = 1) -> list[WorkerSpec]:
    """Return the share of each worker.

    Args:
        n_envs_list: each worker's number of environments.
        n_groups: number of groups, which have the same number of workers each.
    """
    specs, start = [], 0
    for rank, n_envs in enumerate(n_envs_list):
        specs.append(WorkerSpec(rank, rank * n_groups // len(n_envs_list), start, start + n_envs))
        start += n_envs
    return specs


def split_envs(B: int, n_workers: int, n_groups: int = 1) -> list[WorkerSpec]:
    """Spread environments over workers as evenly as possible, in their order.

    Args:
        B: number of environments.
        n_workers: number of workers, at least one in each group.
        n_groups: number of groups, which have the same number of environments and workers each.

    Returns:
        A share for each worker; if environments do not divide evenly, the first workers of a group
        have one more.

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
    each, extra = divmod(B // n_groups, n_workers // n_groups)
    one_group = [each + (i < extra) for i in range(n_workers // n_groups)]
    return worker_specs(one_group * n_groups, n_groups)


def n_envs_of_workers(B: int, n_workers: int, n_groups: int = 1) -> list[int]:
    """Return each worker's number of environments, and warn if they are uneven.

    Args:
        B: number of environments.
        n_workers: number of workers; reduced to one for each environment.
        n_groups: number of groups.
    """
    if n_workers > B:
        logger.log(f"WARNING: {n_workers} workers for {B} environments: only {B} are started.")
        n_workers = B
    n_envs_list = [spec.n_envs for spec in split_envs(B, n_workers, n_groups)]
    if len(set(n_envs_list)) > 1:
        logger.log(
            f"WARNING: {B} environments on {n_workers} workers are {n_envs_list}: the workers "
            "wait for the largest share."
        )
    return n_envs_list


# --- CPUs -----------------------------------------------------------------------------------------


def check_affinity(affinity: Any) -> None:
    """Raise ``ValueError`` unless ``affinity`` gives the number of workers and usable CPUs."""
    if affinity is not None and not isinstance(affinity, Mapping):
        raise ValueError(
            f"affinity is {affinity!r}: give a dict, as in dict(workers_cpus=[0, 1]); a list of "
            "affinities is for asynchronous sampling only"
        )
    workers_cpus = None if affinity is None else affinity.get("workers_cpus")
    if workers_cpus is None or (isinstance(workers_cpus, Sequence) and not workers_cpus):
        raise ValueError(
            f"the affinity has workers_cpus {workers_cpus}: give a list with the CPU (or list "
            "of CPUs) of each worker, as in dict(workers_cpus=[0, 1]), or the number of workers"
        )
    if _is_pinned(affinity):
        named = {int(cpu) for cpus in workers_cpus for cpu in _as_list(cpus)}
        check_cpus(sorted(named))


def count_workers(affinity: Any) -> int:
    """Return the number of workers."""
    workers_cpus = affinity["workers_cpus"]
    return workers_cpus if isinstance(workers_cpus, int) else len(workers_cpus)


def cpus_of_worker(affinity: Any, rank: int) -> Any:
    """Return the CPU of worker ``rank`` or a list of them; None if it may run anywhere."""
    return affinity["workers_cpus"][rank] if _is_pinned(affinity) else None


def _is_pinned(affinity: Any) -> bool:
    return affinity.get("set_affinity", True) and not isinstance(affinity["workers_cpus"], int)


def _as_list(cpus: Any) -> list[Any]:
    if cpus is None:
        return []
    return [cpus] if isinstance(cpus, int) else list(cpus)


# --- Arguments of workers -------------------------------------------------------------------------


class Offset(NamedTuple):
    """Indices within the batch at which the workers of one process begin.

    Args:
        worker: index of the first worker.
        env: index of the first environment.
        eval_env: index of the first evaluation environment.
    """

    worker: int = 0
    env: int = 0
    eval_env: int = 0


def share_of_worker(
    spec: WorkerSpec, first: Offset, n_before: int, affinity: Any, seed: int
) -> dict[str, Any]:
    """Return the arguments of a worker that name its environments, seeds and CPUs.

    Args:
        spec: share of the worker in its process.
        first: indices at which this process begins.
        n_before: number of environments in lower ranks.
        affinity: affinity of this process.
        seed: seed of the sampler.
    """
    rank, start = first.worker + spec.rank, first.env + spec.start
    return dict(
        rank=rank,
        env_ranks=list(range(n_before + start, n_before + start + spec.n_envs)),
        seed=derived_seed(seed, Purpose.WORKER, rank),
        envs_seed=seed,
        cpus=cpus_of_worker(affinity, spec.rank),
        n_envs=spec.n_envs,
        first_env=start,
        columns=slice(start, start + spec.n_envs),
    )


def share_of_evaluation(
    spec: WorkerSpec, first: Offset, n_before: int, quota: Sequence[int] | None
) -> dict[str, Any]:
    """Return the arguments of a worker that name its evaluation environments.

    Args:
        spec: share of the worker in its process.
        first: indices at which this process begins.
        n_before: number of evaluation environments in lower ranks.
        quota: number of trajectories for each evaluation environment of this process; None for no
            quota.
    """
    start = first.eval_env + spec.start
    stop = start + spec.n_envs
    return dict(
        n_eval_envs=spec.n_envs,
        first_eval_env=start,
        eval_env_ranks=list(range(n_before + start, n_before + stop)),
        eval_quota=None if quota is None else quota[spec.columns],
    )
