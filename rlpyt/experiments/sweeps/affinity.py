"""Affinities, the CPUs and GPUs that a run may use, and the codes that pass them to a script.

A code such as ``2slt_8cpu_2gpu_2cxg`` describes the part of the machine that a set of runs uses,
and the slot of this run in it. It has a number and three letters for each option of
:func:`encode_affinity`::

    slt  run slot, the only option that differs between runs on one machine
    cpu  cores in use              gpu  GPUs in use
    cxg  runs per GPU              gpr  GPUs per run, to optimize
    cpr  cores per run, on CPU     cpw  cores per sampler worker
    hto  hyperthread offset        skt  CPU sockets
    res  cores for the master      ass  asynchronous
    sgr  GPUs per run, to sample   oss  GPUs both optimize and sample
    alt  alternating sampler       saf  set the affinity of the processes

A number of a CPU is its position in the list of CPUs that the process may use: a job that has the
CPUs 4 to 7 calls them 0 to 3. The first hyperthread of core ``c`` is CPU ``c``, its second is CPU
``c + hto``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import torch

from rlpyt.experiments.sweeps._placement import (
    CoreLayout,
    Cores,
    check_slot,
    cores_of_slot,
    divided,
    place_async,
    sampling_cores,
    with_hyperthreads,
    worker_groups,
)
from rlpyt.processes.machine import numbered_cpus
from rlpyt.utils.collections import AttrDict

N_GPU = "gpu"
CONTEXTS_PER_GPU = "cxg"
GPU_PER_RUN = "gpr"
N_CPU_CORE = "cpu"
HYPERTHREAD_OFFSET = "hto"
N_SOCKET = "skt"
RUN_SLOT = "slt"
CPU_PER_WORKER = "cpw"
CPU_PER_RUN = "cpr"
CPU_RESERVED = "res"
ASYNC_SAMPLE = "ass"
SAMPLE_GPU_PER_RUN = "sgr"
OPTIM_SAMPLE_SHARE_GPU = "oss"
ALTERNATING = "alt"
SET_AFFINITY = "saf"

# In the order of a code: the argument of ``encode_affinity``, and the value that a code leaves out.
OPTIONS: dict[str, tuple[str, int | None]] = {
    RUN_SLOT: ("run_slot", None),
    N_CPU_CORE: ("n_cpu_core", None),
    N_GPU: ("n_gpu", None),
    CONTEXTS_PER_GPU: ("contexts_per_gpu", 1),
    GPU_PER_RUN: ("gpu_per_run", 1),
    CPU_PER_RUN: ("cpu_per_run", None),
    CPU_PER_WORKER: ("cpu_per_worker", 1),
    HYPERTHREAD_OFFSET: ("hyperthread_offset", None),
    N_SOCKET: ("n_socket", 1),
    CPU_RESERVED: ("cpu_reserved", 0),
    ASYNC_SAMPLE: ("async_sample", 0),
    SAMPLE_GPU_PER_RUN: ("sample_gpu_per_run", 0),
    OPTIM_SAMPLE_SHARE_GPU: ("optim_sample_share_gpu", 0),
    ALTERNATING: ("alternating", 0),
    SET_AFFINITY: ("set_affinity", 1),
}
ABBREVS = [*OPTIONS]

# --- Codes -----------------------------------------------------------------------------------


def quick_affinity_code(
    n_parallel: int | None = None, use_gpu: bool = True, contexts_per_gpu: int = 1
) -> str:
    """Return the code for ``n_parallel`` simultaneous runs that share all CPUs of this process.

    There are at most as many runs as cores.

    Args:
        n_parallel: number of simultaneous runs on CPU; on GPUs the number of GPUs to use at most,
            None for all.
        use_gpu: whether to use GPUs, if there are any.
        contexts_per_gpu: number of runs per GPU.

    Raises:
        ValueError: if no GPU is used and ``n_parallel`` is None, or a number is below 1.
    """
    for name, number in (("n_parallel", n_parallel), ("contexts_per_gpu", contexts_per_gpu)):
        if number is not None and number < 1:
            raise ValueError(f"{name} is {number}: give at least 1")
    n_core, hyperthread_offset, all_sockets = usable_cores()
    n_gpu = torch.cuda.device_count() if use_gpu else 0
    if n_gpu and n_parallel is not None:
        n_gpu = min(n_gpu, n_parallel)
    if n_gpu:
        n_gpu = min(n_gpu, n_core)
        contexts_per_gpu = min(contexts_per_gpu, n_core // n_gpu)
        n_runs = n_gpu * contexts_per_gpu
        n_core = n_core // n_runs * n_runs
        n_socket = math.gcd(all_sockets, n_runs)  # Sockets share the runs evenly.
        return encode_affinity(n_core, n_gpu, contexts_per_gpu, n_socket=n_socket)
    if n_parallel is None:
        raise ValueError("n_parallel=None without GPUs: give the number of simultaneous runs")
    n_parallel = min(n_parallel, n_core)
    cpu_per_run = n_core // n_parallel
    n_socket = math.gcd(all_sockets, n_parallel)
    n_core = cpu_per_run * n_parallel
    return encode_affinity(n_core, cpu_per_run=cpu_per_run, n_socket=n_socket)


def encode_affinity(
    n_cpu_core: int = 1,
    n_gpu: int = 0,
    contexts_per_gpu: int = 1,
    gpu_per_run: int = 1,
    cpu_per_run: int = 1,
    cpu_per_worker: int = 1,
    cpu_reserved: int = 0,
    hyperthread_offset: int | None = None,
    n_socket: int | None = None,
    run_slot: int | None = None,
    async_sample: bool = False,
    sample_gpu_per_run: int = 0,
    optim_sample_share_gpu: bool = False,
    alternating: bool = False,
    set_affinity: bool = True,
) -> str:
    """Return the code for a division of a machine among runs.

    Args:
        n_cpu_core: number of cores of all runs together.
        n_gpu: number of GPUs of all runs together.
        contexts_per_gpu: number of runs that share a GPU.
        gpu_per_run: number of GPUs that optimize in each run.
        cpu_per_run: number of cores of each run, for runs without GPU.
        cpu_per_worker: number of cores of each sampler worker.
        cpu_reserved: number of cores for the master, per GPU; at least one in asynchronous runs.
        hyperthread_offset: CPU of the second hyperthread of core 0, or 0 to leave hyperthreads
            unused; None for the value of the CPUs that this process may use.
        n_socket: number of CPU sockets; None in the same way.
        run_slot: slot of the run, from 0; None leaves it out.
        async_sample: whether the run is asynchronous.
        sample_gpu_per_run: number of GPUs that sample in each asynchronous run.
        optim_sample_share_gpu: whether the GPUs that optimize also sample.
        alternating: whether workers of an alternating sampler share cores.
        set_affinity: whether the processes restrict themselves to their CPUs.

    Raises:
        ValueError: if options exclude each other or there is no such slot.
    """
    given, usable = locals(), usable_cores()
    given["hyperthread_offset"] = usable.hto if hyperthread_offset is None else hyperthread_offset
    given["n_socket"] = usable.skt if n_socket is None else n_socket
    # Values that follow from other options are left out too.
    left_out = {"hyperthread_offset": n_cpu_core, **({"cpu_per_run": cpu_per_run} if n_gpu else {})}
    options = {
        letters: int(given[argument])
        for letters, (argument, default) in OPTIONS.items()
        if given[argument] != left_out.get(argument, default)
    }
    n_slots = count_slots(options)
    if RUN_SLOT in options:
        check_slot(options[RUN_SLOT], n_slots)
    return write_code(options)


def write_code(options: Mapping[str, int]) -> str:
    """Return the code of these options."""
    return "_".join(f"{value}{letters}" for letters, value in options.items())


def decode_affinity(affinity_code: str) -> dict[str, int]:
    """Return the options of a code by their letters.

    Raises:
        ValueError: if a part of the code is not a number followed by known letters.
    """
    options = {}
    for part in affinity_code.split("_"):
        match = re.fullmatch(r"(\d+)([a-z]+)", part)
        if match is None or match[2] not in OPTIONS:
            raise ValueError(
                f"affinity_code={affinity_code!r} has the part {part!r}, which is not a number "
                f"followed by one of {', '.join(OPTIONS)}"
            )
        options[match[2]] = int(match[1])
    return options


def prepend_run_slot(run_slot: int, affinity_code: str) -> str:
    """Return the code with the run slot in front."""
    return f"{run_slot}{RUN_SLOT}_{affinity_code}"


def remove_run_slot(run_slot_affinity_code: str) -> tuple[int, str]:
    """Split a code into its run slot and the rest.

    Raises:
        ValueError: if it does not begin with a run slot.
    """
    match = re.fullmatch(rf"(\d+){RUN_SLOT}_?(.*)", run_slot_affinity_code)
    if match is None:
        raise ValueError(
            f"run_slot_affinity_code={run_slot_affinity_code!r} must begin with a run slot, "
            f"such as 0{RUN_SLOT}_"
        )
    return int(match[1]), match[2]


def get_n_run_slots(affinity_code: str) -> int:
    """Return the number of runs that share the machine of a code.

    Raises:
        ValueError: if options are missing or exclude each other.
    """
    return count_slots(decode_affinity(affinity_code))


def count_slots(options: Mapping[str, int]) -> int:
    """Return the number of runs that share a machine with these options."""
    _check(options)
    gpu, gpr = options[N_GPU], options.get(GPU_PER_RUN, 1)
    if gpu and options.get(ASYNC_SAMPLE):
        shared = options.get(OPTIM_SAMPLE_SHARE_GPU)
        return gpu // (gpr + (0 if shared else options.get(SAMPLE_GPU_PER_RUN, 0)))
    if gpu:
        return gpu * options.get(CONTEXTS_PER_GPU, 1) // gpr
    return divided(options[N_CPU_CORE], options[CPU_PER_RUN], N_CPU_CORE, CPU_PER_RUN)


def _check(options: Mapping[str, int], to_place: bool = False) -> None:
    """Raise ``ValueError`` if options are missing, or exclude each other."""
    gpu, ass = options.get(N_GPU, 0), options.get(ASYNC_SAMPLE, 0)
    cxg, gpr = (options.get(key, 1) for key in (CONTEXTS_PER_GPU, GPU_PER_RUN))
    sgr, oss = (options.get(key, 0) for key in (SAMPLE_GPU_PER_RUN, OPTIM_SAMPLE_SHARE_GPU))
    needed = [N_CPU_CORE, N_GPU, *([] if gpu else [CPU_PER_RUN])]
    missing = [key for key in needed if key not in options]
    if missing:
        raise ValueError(f"the affinity has {options} and lacks {', '.join(missing)}: add them")
    at_least_1 = (N_CPU_CORE, CONTEXTS_PER_GPU, GPU_PER_RUN, CPU_PER_RUN, CPU_PER_WORKER, N_SOCKET)
    cases = {
        **{f"{key} must be at least 1": options.get(key, 1) < 1 for key in at_least_1},
        "gpr (GPUs per run) needs gpu": not gpu and gpr > 1,
        "cxg (runs per GPU) needs gpu": not gpu and cxg > 1,
        "sgr needs ass (asynchronous)": sgr and not ass,
        "sgr (GPUs to sample) needs gpu": sgr and not gpu,
        "oss needs ass (asynchronous)": oss and not ass,
        "slt (run slot) is there twice": to_place and RUN_SLOT in options,
        "cxg (runs per GPU) excludes gpr > 1": to_place and cxg > 1 and gpr > 1,
        "cxg (runs per GPU) excludes ass (asynchronous)": to_place and cxg > 1 and ass,
    }
    for reason, is_wrong in cases.items():
        if is_wrong:
            raise ValueError(f"the affinity has {options}, but {reason}: change one of them")


# --- Affinities ------------------------------------------------------------------------------


def make_affinity(run_slot: int = 0, **kwargs: Any) -> Any:
    """Return the affinity of a run: :func:`encode_affinity` and :func:`affinity_from_code` in one.

    Args:
        run_slot: slot of the run on this machine, from 0.
        kwargs: arguments of :func:`encode_affinity`.
    """
    return affinity_from_code(encode_affinity(run_slot=run_slot, **kwargs))


def affinity_from_code(run_slot_affinity_code: str) -> Any:
    """Return the affinity of a code with a run slot.

    Returns:
        An AttrDict; for a run over several GPUs a list of them, one per GPU; for an asynchronous
        run one with the entries ``all_cpus, optimizer, sampler, set_affinity``.

    Raises:
        ValueError: if the code is malformed or contradictory.
    """
    slot, code = remove_run_slot(run_slot_affinity_code)
    return affinity_of_slot(slot, decode_affinity(code))


def affinity_of_slot(slot: int, options: dict[str, int]) -> Any:
    """Return the affinity of a run, as :func:`affinity_from_code` does, from decoded options."""
    affinity, cpus = _placed(slot, options), numbered_cpus()
    parts = affinity if isinstance(affinity, list) else [affinity]
    is_elsewhere = max(cpu for part in parts for cpu in part["all_cpus"]) >= len(cpus)
    return affinity if is_elsewhere else _with_cpus(affinity, cpus)


def _with_cpus(part: Any, cpus: list[int], is_cpus: bool = False) -> Any:
    """Return an affinity, or a part of it, with CPUs in place of their positions in ``cpus``."""
    if isinstance(part, AttrDict):
        return AttrDict({k: _with_cpus(x, cpus, k.endswith("cpus")) for k, x in part.items()})
    if isinstance(part, (list, tuple)):
        return type(part)(_with_cpus(x, cpus, is_cpus) for x in part)
    return cpus[part] if is_cpus else part


def _placed(slot: int, options: Mapping[str, int]) -> Any:
    """Return the affinity of a run with positions in place of CPUs."""
    _check(options, to_place=True)
    if options.get(ASYNC_SAMPLE):
        build: Any = build_async_affinity
        others = {ASYNC_SAMPLE, CONTEXTS_PER_GPU}
    else:
        others = {ASYNC_SAMPLE, SAMPLE_GPU_PER_RUN, OPTIM_SAMPLE_SHARE_GPU}
        if not options[N_GPU]:
            build, others = build_cpu_affinity, others | {GPU_PER_RUN, CONTEXTS_PER_GPU}
        elif options.get(GPU_PER_RUN, 1) > 1:
            build, others = build_multigpu_affinity, others | {CPU_PER_RUN, CONTEXTS_PER_GPU}
        else:
            build, others = build_gpu_affinity, others | {CPU_PER_RUN, GPU_PER_RUN}
    return build(slot, **{key: value for key, value in options.items() if key not in others})


def build_cpu_affinity(
    slt: int,
    cpu: int,
    cpr: int,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    gpu: int = 0,
    alt: int = 0,
    saf: int = 1,
) -> AttrDict:
    """Return the affinity of one run on CPU; the options are as in the codes."""
    if gpu:
        raise ValueError(f"gpu={gpu} in an affinity for CPU: use build_gpu_affinity")
    hto = cpu if hto is None else hto
    cores = cores_of_slot(CoreLayout(cpu, hto, skt), slt, cpr)
    if not 0 <= res < len(cores):
        raise ValueError(f"res={res} of cpr={cpr} cores leaves none for the workers: lower it")
    return _sampling_affinity(cores, cores[res:], cpw, hto, alt, saf)


def build_gpu_affinity(
    slt: int,
    gpu: int,
    cpu: int,
    cxg: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
) -> AttrDict:
    """Return the affinity of one run on one GPU; runs are spread over the GPUs first."""
    check_slot(slt, gpu * cxg)
    cpr = divided(cpu, gpu * cxg, "cpu", "number of runs")
    place = slt % gpu * cxg + slt // gpu
    affinity = build_cpu_affinity(place, cpu, cpr, cpw, hto, res, skt, 0, alt, saf)
    affinity["cuda_idx"] = place // cxg
    return affinity


def build_multigpu_affinity(
    run_slot: int,
    gpu: int,
    cpu: int,
    gpr: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 0,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
) -> list[AttrDict]:
    """Return the affinities of a run's processes, one for each GPU of a synchronous run."""
    check_slot(run_slot, gpu // gpr)
    slots = range(run_slot * gpr, (run_slot + 1) * gpr)
    return [build_gpu_affinity(slot, gpu, cpu, 1, cpw, hto, res, skt, alt, saf) for slot in slots]


def build_async_affinity(
    run_slot: int,
    gpu: int,
    cpu: int,
    gpr: int = 1,
    sgr: int = 0,
    oss: int = 0,
    cpw: int = 1,
    hto: int | None = None,
    res: int = 1,
    skt: int = 1,
    alt: int = 0,
    saf: int = 1,
    cpr: int | None = None,
) -> AttrDict:
    """Return the affinity of an asynchronous run, with separate optimizers and samplers.

    Args:
        run_slot: slot of the run; the options except ``cpr`` are as in the codes. With ``res=0``
            the optimizers share the cores of the sampler.
        cpr: number of cores per run, if there is no GPU; None for all.
    """
    layout = CoreLayout(cpu, cpu if hto is None else hto, skt)
    if gpu:
        optimizers, samplers = place_async(layout, run_slot, gpu, gpr, sgr, oss, cpw, res)
    else:
        cores = cores_of_slot(layout, run_slot, cpr or cpu)
        n_cores = sampling_cores(len(cores), 1, 0, cpw, res)
        optimizers = [(cores[:res] or cores, None)]
        samplers = [(cores[res : res + n_cores], None)]
    optimizer = [
        AttrDict(
            cpus=with_hyperthreads(cores, layout.hto),
            cuda_idx=cuda_idx,
            torch_threads=len(cores),
            set_affinity=bool(saf),
        )
        for cores, cuda_idx in optimizers
    ]
    sampler = []
    for cores, cuda_idx in samplers:
        sampler.append(_sampling_affinity(cores, cores, cpw, layout.hto, alt, saf))
        sampler[-1]["cuda_idx"] = cuda_idx
    cpus = [*(one["cpus"] for one in optimizer), *(one["all_cpus"] for one in sampler)]
    return AttrDict(
        all_cpus=tuple(dict.fromkeys(cpu for group in cpus for cpu in group)),
        optimizer=optimizer,
        sampler=sampler if samplers[0][1] is not None else sampler[0],
        set_affinity=bool(saf),
    )


def build_affinities_gpu_1cpu_drive(
    slt: int,
    gpu: int,
    cpu: int,
    cxg: int = 1,
    gpr: int = 1,
    cpw: int = 1,
    hto: int | None = None,
    skt: int = 1,
) -> Any:
    """Return the affinity of a run on one GPU, with one core per GPU for the master alone."""
    if gpr > 1:
        affinity: Any = build_multigpu_affinity(slt, gpu, cpu, gpr, cpw, hto, 1, skt)
    else:
        affinity = build_gpu_affinity(slt, gpu, cpu, cxg, cpw, hto, 1, skt)
    for one in affinity if gpr > 1 else [affinity]:
        one["master_cpus"] = with_hyperthreads(one["all_cpus"][:1], cpu if hto is None else hto)
        one["master_torch_threads"] = 1
    return affinity


def _sampling_affinity(
    cores: Cores, worker_cores: Cores, cpw: int, hto: int, alt: int, saf: int
) -> AttrDict:
    cpus = with_hyperthreads(cores, hto)
    return AttrDict(
        all_cpus=cpus,
        master_cpus=cpus,
        workers_cpus=worker_groups(worker_cores, cpw, hto, bool(alt)),
        master_torch_threads=len(cores),
        worker_torch_threads=cpw,
        alternating=bool(alt),
        set_affinity=bool(saf),
    )


def get_master_cpus(cores: Any, hto: int) -> Cores:
    """Return the CPUs of a master on these cores: all of them, with their hyperthreads."""
    return with_hyperthreads(tuple(cores), hto)


def get_workers_cpus(cores: Any, cpw: int, hto: int, alt: int) -> tuple[Cores, ...]:
    """Return the CPUs of each worker on these cores, see :func:`encode_affinity`."""
    return worker_groups(tuple(cores), cpw, hto, bool(alt))


# --- This machine ----------------------------------------------------------------------------


def usable_cores() -> CoreLayout:
    """Return the number of cores that this process may use, and their hyperthreads and sockets."""
    cpus, offset = numbered_cpus(), get_hyperthread_offset()
    cores = [cpu for cpu in cpus if cpu < offset]
    n_socket = get_n_socket() if cpus == [*range(psutil.cpu_count() or 1)] else 1
    if cores and cpus == [*cores, *(core + offset for core in cores)]:
        return CoreLayout(len(cores), len(cores), n_socket)
    return CoreLayout(len(cpus), 0, n_socket)


def get_n_socket() -> int:
    """Return the number of CPU sockets of this machine; 1 if the system does not report it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return 1
    return max(1, len(set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))))


def get_hyperthread_offset() -> int:
    """Return the number of cores if each has two hyperthreads, otherwise 0."""
    logical, physical = psutil.cpu_count() or 1, psutil.cpu_count(logical=False)
    return logical // 2 if physical and logical == 2 * physical else 0
