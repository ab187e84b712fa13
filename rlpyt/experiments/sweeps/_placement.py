"""Placement of runs on the CPU cores and GPUs of a machine: arithmetic without side effects.

Cores are numbered from 0 without gaps, socket after socket. The second hyperthread of core ``c`` is
CPU ``c + hto``. Arguments have the letters of the affinity codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Cores = tuple[int, ...]
Placed = list[tuple[Cores, int | None]]  # Cores and GPU of each process.


class CoreLayout(NamedTuple):
    """Cores and sockets of a machine."""

    cpu: int  # Number of cores in use.
    hto: int  # Offset of hyperthreads, 0 to leave them unused.
    skt: int  # Number of sockets.

    def socket_size(self) -> int:
        """Return the distance between the first cores of neighboring sockets."""
        cpu, hto, skt = self
        if cpu < 1 or skt < 1:
            raise ValueError(f"cpu={cpu} and skt={skt} must be at least 1")
        if hto and hto < cpu:
            raise ValueError(
                f"hto={hto} is below cpu={cpu}, but hyperthreads are numbered after all cores: "
                "give the number of physical cores, or 0 to leave hyperthreads unused"
            )
        if max(cpu, hto) % skt:
            raise ValueError(
                f"hto={hto} and cpu={cpu} do not divide into skt={skt} sockets: give multiples of "
                "skt"
            )
        return max(cpu, hto) // skt


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
    size = layout.socket_size()
    n_slots = divided(layout.cpu, cpr, "cpu", "cpr")
    check_slot(slot, n_slots)
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


def place_async(
    layout: CoreLayout, slot: int, gpu: int, gpr: int, sgr: int, oss: int, cpw: int, res: int
) -> tuple[Placed, Placed]:
    """Return cores and GPUs of optimizers and samplers, with cores on the sockets of the GPUs.

    Without GPUs that choose actions there is one sampler. Optimizers without reserved cores share
    those of the sampler.
    """
    size, (cpu, _, skt) = layout.socket_size(), layout
    n_acting = gpr if oss else sgr
    total = gpr if oss else gpr + sgr
    if gpu < total:
        raise ValueError(
            f"gpu={gpu}, but a run needs {total}, gpr={gpr} to optimize and sgr={sgr} to sample: "
            "lower these"
        )
    n_slots, on_socket = gpu // total, gpu // skt
    check_slot(slot, n_slots)
    cpr = cpu // n_slots
    n_cores = sampling_cores(cpr, gpr, n_acting, cpw, res)
    if total <= on_socket:
        socket, place = divmod(slot, divided(n_slots, skt, "number of slots", "skt"))
        starts = [(socket * on_socket + place * total, socket * size + place * cpr)]
    else:
        sockets = divided(skt, n_slots, "skt", "number of slots")
        starts = [(s * on_socket, s * size) for s in block(slot * sockets, sockets)]
    gpr = divided(gpr, len(starts), "gpr", "sockets per run")
    n_acting = divided(n_acting, len(starts), "sgr", "sockets per run")
    optimizers: Placed = []
    samplers: Placed = []
    every: Cores = ()
    for first_gpu, core in starts:
        cores = block(core + gpr * res, n_cores // len(starts))
        every += cores
        optimizers += [(block(core + i * res, res) or cores, first_gpu + i) for i in range(gpr)]
        first_acting = first_gpu if oss else first_gpu + gpr
        # All action servers have equally many cores; a remainder stays unused.
        n_each = len(cores) // max(1, n_acting) // cpw * cpw
        samplers += [
            (cores[i * n_each : (i + 1) * n_each], first_acting + i) for i in range(n_acting)
        ]
    return optimizers, samplers or [(every, None)]


def sampling_cores(cpr: int, gpr: int, n_acting: int, cpw: int, res: int) -> int:
    """Return how many of a run's ``cpr`` cores its workers have."""
    n_cores = cpr - res * gpr
    n_cores -= n_cores % cpw
    if n_cores < cpw * max(1, n_acting):
        raise ValueError(
            f"a run has {cpr} cores, of which res={res} for each of gpr={gpr} optimizers, which "
            f"leaves too few for workers of cpw={cpw} cores: lower res or cpw"
        )
    return n_cores
