"""Placement of runs on the CPU cores and GPUs of a machine: arithmetic without side effects.

Cores are numbered from 0 without gaps, socket after socket. The second hyperthread of core ``c`` is
CPU ``c + hto``. Arguments have the letters of the affinity codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Cores = tuple[int, ...]


class CoreLayout(NamedTuple):
    """Cores and sockets of a machine."""

    cpu: int  # Number of cores in use.
    hto: int  # Offset of hyperthreads, 0 to leave them unused.
    skt: int  # Number of sockets.

    @property
    def socket_size(self) -> int:
        """Distance between the first cores of neighboring sockets."""
        return max(self.cpu, self.hto) // self.skt

    def check(self) -> CoreLayout:
        """Return this layout, after a check that all sockets have equally many cores."""
        if self.cpu < 1 or self.skt < 1:
            raise ValueError(f"cpu={self.cpu} and skt={self.skt} must be at least 1")
        if self.hto and self.hto < self.cpu:
            raise ValueError(
                f"hto={self.hto} is below cpu={self.cpu}, but hyperthreads are numbered after all "
                "cores: give the number of physical cores, or 0 to leave hyperthreads unused"
            )
        if max(self.cpu, self.hto) % self.skt:
            raise ValueError(
                f"hto={self.hto} and cpu={self.cpu} do not divide into skt={self.skt} sockets: "
                "give multiples of skt"
            )
        return self


def block(start: int, length: int) -> Cores:
    """Return consecutive cores."""
    return tuple(range(start, start + length))


def check_slot(slot: int, n_slots: int) -> None:
    """Raise ``ValueError`` unless ``slot`` is below ``n_slots``."""
    if not 0 <= slot < n_slots:
        raise ValueError(
            f"run slot {slot} does not exist: this affinity has {n_slots} slots, counted from 0"
        )


def divided(total: int, parts: int, what: str, by: str) -> int:
    """Return ``total / parts``; raise ``ValueError`` unless it is a whole number."""
    if parts < 1 or total % parts:
        raise ValueError(f"{what}={total} must be a multiple of {by}={parts}")
    return total // parts


def cores_of_slot(layout: CoreLayout, slot: int, cpr: int) -> Cores:
    """Return the ``cpr`` cores of a run, on one socket if they fit there."""
    layout.check()
    n_slots = divided(layout.cpu, cpr, "cpu", "cpr")
    check_slot(slot, n_slots)
    size = layout.socket_size
    if n_slots >= layout.skt:
        per_socket = divided(n_slots, layout.skt, "number of slots", "skt")
        return block(slot // per_socket * size + slot % per_socket * cpr, cpr)
    n_sockets = divided(layout.skt, n_slots, "skt", "number of slots")
    n_each = divided(cpr, n_sockets, "cpr", "sockets per run")
    sockets = block(slot * n_sockets, n_sockets)
    return tuple(core for socket in sockets for core in block(socket * size, n_each))


def with_hyperthreads(cores: Sequence[int], hto: int) -> Cores:
    """Return the cores, followed by their second hyperthreads."""
    return (*cores, *(core + hto for core in cores if hto))


def worker_groups(cores: Sequence[int], cpw: int, hto: int, alt: bool) -> tuple[Cores, ...]:
    """Return the CPUs of each worker: ``cpw`` cores with their hyperthreads.

    In an alternating sampler only one half of the workers runs at a time. The second half gets the
    second hyperthreads of the first half's cores, or shares the cores if hyperthreads are unused.
    """
    n_workers = divided(len(cores), cpw, "number of worker cores", "cpw")
    groups = tuple(tuple(cores[i * cpw : (i + 1) * cpw]) for i in range(n_workers))
    if alt:
        return (*groups, *(tuple(core + hto for core in group) for group in groups))
    return tuple(with_hyperthreads(group, hto) for group in groups)


class AsyncPlacement(NamedTuple):
    """Cores and GPU of each process in an asynchronous run."""

    optimizer: Sequence[tuple[Cores, int | None]]  # One entry per optimizer process.
    sampler: Sequence[tuple[Cores, int | None]]  # One per action server, or one without GPU.


class AsyncDemand(NamedTuple):
    """Resources of an asynchronous run, as in the affinity codes."""

    gpu: int
    gpr: int
    sgr: int
    oss: bool
    cpw: int
    res: int

    @property
    def sampler_gpus(self) -> int:
        """Number of GPUs that choose actions."""
        return self.gpr if self.oss else self.sgr

    @property
    def gpus_per_run(self) -> int:
        """Number of GPUs of a run."""
        return self.gpr if self.oss else self.gpr + self.sgr


def place_async(layout: CoreLayout, demand: AsyncDemand, slot: int) -> AsyncPlacement:
    """Return the GPUs of a run, with cores on the sockets of these GPUs."""
    layout.check()
    total = demand.gpus_per_run
    if demand.gpu < total:
        raise ValueError(
            f"gpu={demand.gpu}, but a run needs {total}, gpr={demand.gpr} to optimize and "
            f"sgr={demand.sgr} to sample: lower these"
        )
    n_slots = demand.gpu // total
    check_slot(slot, n_slots)
    gpus_per_socket = demand.gpu // layout.skt
    cpr = layout.cpu // n_slots
    sampling = _sampling_cores(cpr, demand)
    if total <= gpus_per_socket:
        per_socket = divided(n_slots, layout.skt, "number of slots", "skt")
        socket, place = divmod(slot, per_socket)
        return _on_socket(
            demand,
            first_gpu=socket * gpus_per_socket + place * total,
            first_core=socket * layout.socket_size + place * cpr,
            n_optimizers=demand.gpr,
            n_samplers=demand.sampler_gpus,
            sampling=sampling,
        )
    n_sockets = divided(layout.skt, n_slots, "skt", "number of slots")
    parts = [
        _on_socket(
            demand,
            first_gpu=socket * gpus_per_socket,
            first_core=socket * layout.socket_size,
            n_optimizers=divided(demand.gpr, n_sockets, "gpr", "sockets per run"),
            n_samplers=divided(demand.sampler_gpus, n_sockets, "sgr", "sockets per run"),
            sampling=sampling // n_sockets,
        )
        for socket in block(slot * n_sockets, n_sockets)
    ]
    sampler = [entry for part in parts for entry in part.sampler]
    if not demand.sampler_gpus:  # One sampler has the cores of all sockets.
        sampler = [(tuple(core for cores, _ in sampler for core in cores), None)]
    return AsyncPlacement([entry for part in parts for entry in part.optimizer], sampler)


def place_async_on_cpu(
    layout: CoreLayout, slot: int, cpr: int, cpw: int, res: int
) -> AsyncPlacement:
    """Return the cores of a run without GPU.

    ``res`` cores optimize, or all if it is 0; workers of ``cpw`` cores each sample on the rest.
    """
    cores = cores_of_slot(layout, slot, cpr)
    sampling = _sampling_cores(cpr, AsyncDemand(0, 1, 0, False, cpw, res))
    return AsyncPlacement([(cores[:res] or cores, None)], [(cores[res : res + sampling], None)])


def _sampling_cores(cpr: int, demand: AsyncDemand) -> int:
    n_cores = cpr - demand.res * demand.gpr
    n_cores -= n_cores % demand.cpw
    if n_cores < demand.cpw * max(1, demand.sampler_gpus):
        raise ValueError(
            f"a run has {cpr} cores, of which res={demand.res} for each of gpr={demand.gpr} "
            f"optimizers, which leaves too few for workers of cpw={demand.cpw} cores: lower res or "
            "cpw"
        )
    return n_cores


def _on_socket(
    demand: AsyncDemand,
    first_gpu: int,
    first_core: int,
    n_optimizers: int,
    n_samplers: int,
    sampling: int,
) -> AsyncPlacement:
    res = demand.res
    first_sampling_core = first_core + n_optimizers * res
    everything = block(first_sampling_core, sampling)
    optimizer = [
        # An optimizer without reserved cores shares the cores of the sampler.
        (block(first_core + i * res, res) or everything, first_gpu + i)
        for i in range(n_optimizers)
    ]
    if not n_samplers:
        return AsyncPlacement(optimizer, [(everything, None)])
    first_sampling_gpu = first_gpu if demand.oss else first_gpu + n_optimizers
    # All action servers have equally many cores; a remainder stays unused.
    n_each = sampling // n_samplers // demand.cpw * demand.cpw
    sampler = [
        (block(first_sampling_core + i * n_each, n_each), first_sampling_gpu + i)
        for i in range(n_samplers)
    ]
    return AsyncPlacement(optimizer, sampler)
