"""Slots of a sweep: the CPUs and GPUs of each run, on this machine or a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from rlpyt.experiments.sweeps import affinity as codes
from rlpyt.processes.machine import look_at_machine


@dataclass(frozen=True)
class Slot:
    """CPUs and GPUs of one run."""

    options: dict[str, int]
    number: int = 0

    @cached_property
    def affinity(self) -> Any:
        """Affinity of the run, in the form that its runner takes."""
        return codes.affinity_of_slot(self.number, self.options)

    @property
    def code(self) -> str:
        """Affinity code that passes this slot to a script."""
        return codes.prepend_run_slot(self.number, codes.write_code(self.options))

    @property
    def cpus(self) -> list[int]:
        """CPUs of all processes in the run."""
        processes = self.affinity if isinstance(self.affinity, list) else [self.affinity]
        return list(dict.fromkeys(cpu for one in processes for cpu in one["all_cpus"]))

    @property
    def gpus(self) -> list[int]:
        """GPUs of the run; GPUs that optimize come first."""
        affinity = self.affinity
        if not isinstance(affinity, list):
            sampler = affinity.get("sampler", [])
            samplers = sampler if isinstance(sampler, list) else [sampler]
            affinity = [*affinity.get("optimizer", [affinity]), *samplers]
        gpus = (one.get("cuda_idx") for one in affinity)
        return list(dict.fromkeys(gpu for gpu in gpus if gpu is not None))

    @property
    def is_pinned(self) -> bool:
        """Whether the run is confined to its CPUs."""
        return bool(self.options.get(codes.SET_AFFINITY, 1))


def slots_of(affinity_code: str) -> list[Slot]:
    """Return all slots of a code without a slot."""
    options = codes.decode_affinity(affinity_code)
    slots = [Slot(options, number) for number in range(codes.count_slots(options))]
    if not slots:
        raise ValueError(
            f"affinity_code={affinity_code!r} has no slot, since a run needs more GPUs than there "
            "are: lower gpr and sgr, the GPUs per run"
        )
    return slots


def slot_elsewhere(affinity_code: str) -> Slot:
    """Return a slot of a code for a cluster, which chooses the CPUs and GPUs."""
    options = slots_of(affinity_code)[0].options
    free = {codes.HYPERTHREAD_OFFSET: 0, codes.N_SOCKET: 1, codes.SET_AFFINITY: 0}
    return Slot({**options, **free})


def affinity_code(
    roles: Mapping[str, str],
    is_local: bool = True,
    slots: int | None = None,
    cpus_per_run: int | None = None,
    gpus: int | None = None,
    gpus_per_run: int = 1,
) -> str:
    """Return the code for runs that share the CPUs and GPUs that this process may use.

    Args:
        roles: roles of the runs, which asynchronous runners and alternating samplers depend on.
        is_local: whether the runs are on this machine; otherwise the code is for a single run.
        slots: number of runs at a time; None for one on each GPU, or without GPUs one on each
            ``cpus_per_run`` CPUs, within the CPU quota of the container.
        cpus_per_run: cores of each run; None for an equal share, or on a cluster for the fewest.
        gpus: GPUs of all runs together; None for all, or on a cluster for none.
        gpus_per_run: GPUs that train in each run.
    """
    is_async = roles.get("runner") == "async"
    serves = roles.get("sampler") in ("gpu", "alternating")
    machine = look_at_machine()
    n_core, hyperthread_offset, n_socket = codes.usable_cores()
    if gpus is None:
        gpus = torch.cuda.device_count() if is_local else 0
    elif is_local and gpus > torch.cuda.device_count():
        n_gpu = torch.cuda.device_count()
        raise ValueError(f"--gpus {gpus}: give at most {n_gpu}, which this machine has")
    groups = gpus // gpus_per_run
    if not groups and (gpus or gpus_per_run > 1):
        raise ValueError(f"--gpus-per-run {gpus_per_run}: there are {gpus} GPUs in all, see --gpus")
    n_optimizer = gpus_per_run if groups else 1
    # An asynchronous run has further cores to sample.
    least = n_optimizer + is_async * (n_optimizer if serves else 1)
    if not is_local:
        slots, n_socket, hyperthread_offset = 1, 1, 0
        n_core = cpus_per_run or least
    step = 1 if is_async else n_optimizer
    n_by_default = min(n_core, machine.n_cpus)
    need = cpus_per_run or least
    slots = slots or max(1, min(groups, n_core // need) if groups else n_by_default // need)
    cpus_per_run = cpus_per_run or max(least, n_by_default // slots // step * step)
    if slots * cpus_per_run > n_core:
        raise ValueError(
            f"{slots} runs at a time, each on {cpus_per_run} CPU cores, need more than the "
            f"{n_core} that this process may use: lower --slots or --cpus-per-run"
        )
    if is_async and cpus_per_run < least:
        raise ValueError(
            f"--cpus-per-run {cpus_per_run}: give at least {least}, to optimize and to sample"
        )
    if not is_async and cpus_per_run % n_optimizer:
        raise ValueError(f"--cpus-per-run {cpus_per_run}: give a multiple of {n_optimizer}")
    if groups and slots > groups:
        if is_async or n_optimizer > 1:
            raise ValueError(
                f"--slots {slots}: give at most {groups}, since asynchronous runs and runs on "
                "several GPUs do not share GPUs"
            )
        if slots % groups:
            raise ValueError(
                f"--slots {slots}: give a multiple of {groups}, so that GPUs are shared"
            )
    return codes.encode_affinity(
        n_cpu_core=slots * cpus_per_run,
        n_gpu=min(groups, slots) * gpus_per_run,
        contexts_per_gpu=max(1, slots // groups) if groups else 1,
        gpu_per_run=n_optimizer,
        cpu_per_run=cpus_per_run,
        cpu_reserved=int(is_async),
        hyperthread_offset=hyperthread_offset,
        n_socket=1 if slots % n_socket else n_socket,
        async_sample=is_async,
        optim_sample_share_gpu=bool(is_async and groups and serves),
        alternating=roles.get("sampler") == "alternating",
        # A container may have a quota of time on all CPUs.
        set_affinity=machine.n_cpus == len(machine.cpus),
    )
