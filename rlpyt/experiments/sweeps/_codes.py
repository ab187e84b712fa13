"""Codes of affinities: a table of options and letters, and functions that write and read codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlpyt.experiments.sweeps._placement import check_slot, divided

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


class Option(NamedTuple):
    """Entry of a code."""

    letters: str
    argument: str  # Parameter of ``encode_affinity``.
    default: int | None  # Value that a code leaves out.


# Options in the order in which a code has them.
OPTIONS = (
    Option(RUN_SLOT, "run_slot", None),
    Option(N_CPU_CORE, "n_cpu_core", None),
    Option(N_GPU, "n_gpu", None),
    Option(CONTEXTS_PER_GPU, "contexts_per_gpu", 1),
    Option(GPU_PER_RUN, "gpu_per_run", 1),
    Option(CPU_PER_RUN, "cpu_per_run", None),
    Option(CPU_PER_WORKER, "cpu_per_worker", 1),
    Option(HYPERTHREAD_OFFSET, "hyperthread_offset", None),
    Option(N_SOCKET, "n_socket", 1),
    Option(CPU_RESERVED, "cpu_reserved", 0),
    Option(ASYNC_SAMPLE, "async_sample", 0),
    Option(SAMPLE_GPU_PER_RUN, "sample_gpu_per_run", 0),
    Option(OPTIM_SAMPLE_SHARE_GPU, "optim_sample_share_gpu", 0),
    Option(ALTERNATING, "alternating", 0),
    Option(SET_AFFINITY, "set_affinity", 1),
)
ABBREVS = [option.letters for option in OPTIONS]


def options_of(arguments: Mapping[str, Any]) -> dict[str, int]:
    """Return the options of a code, from the arguments of ``encode_affinity``.

    Raises:
        ValueError: if options exclude each other or there is no such slot.
    """
    # Values that follow from other options are left out too.
    omitted = {"hyperthread_offset": arguments["n_cpu_core"]}
    if arguments["n_gpu"]:
        omitted["cpu_per_run"] = arguments["cpu_per_run"]
    options = {
        letters: int(arguments[argument])
        for letters, argument, default in OPTIONS
        if arguments[argument] != omitted.get(argument, default)
    }
    n_slots = count_slots(options)
    if RUN_SLOT in options:
        check_slot(options[RUN_SLOT], n_slots)
    return options


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
        if match is None or match[2] not in ABBREVS:
            raise ValueError(
                f"affinity_code={affinity_code!r} has the part {part!r}, which is not a number "
                f"followed by one of {', '.join(ABBREVS)}"
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
    slot, _, code = run_slot_affinity_code.partition("_")
    if not re.fullmatch(rf"\d+{RUN_SLOT}", slot):
        raise ValueError(
            f"run_slot_affinity_code={run_slot_affinity_code!r} must begin with a run slot, "
            f"such as 0{RUN_SLOT}_"
        )
    return int(slot[: -len(RUN_SLOT)]), code


def get_n_run_slots(affinity_code: str) -> int:
    """Return the number of runs that share the machine of a code.

    Raises:
        ValueError: if options are missing or exclude each other.
    """
    return count_slots(decode_affinity(affinity_code))


def count_slots(options: dict[str, int]) -> int:
    """Return the number of runs that share a machine with these options."""
    gpu, gpr = _consistent(options).get(N_GPU, 0), options.get(GPU_PER_RUN, 1)
    if gpu and options.get(ASYNC_SAMPLE):
        shared = options.get(OPTIM_SAMPLE_SHARE_GPU)
        return gpu // (gpr + (0 if shared else options.get(SAMPLE_GPU_PER_RUN, 0)))
    if gpu:
        return gpu * options.get(CONTEXTS_PER_GPU, 1) // gpr
    return divided(options[N_CPU_CORE], options[CPU_PER_RUN], N_CPU_CORE, CPU_PER_RUN)


def checked(options: dict[str, int]) -> dict[str, int]:
    """Return the options, after all checks that the placement of a run needs."""
    _refuse(options, (RUN_SLOT in options, "slt (run slot) is there twice"))
    _consistent(options)
    if options.get(CONTEXTS_PER_GPU, 1) > 1:
        _refuse(
            options,
            (options.get(GPU_PER_RUN, 1) > 1, "cxg (runs per GPU) excludes gpr > 1"),
            (options.get(ASYNC_SAMPLE), "cxg (runs per GPU) excludes ass (asynchronous)"),
        )
    return options


def _consistent(options: dict[str, int]) -> dict[str, int]:
    """Return the options, after a check that each has the options that it needs."""
    gpu = options.get(N_GPU, 0)
    needed = [N_CPU_CORE, N_GPU] if gpu else [N_CPU_CORE, N_GPU, CPU_PER_RUN]
    missing = [key for key in needed if key not in options]
    if missing:
        raise ValueError(f"the affinity has {options} and lacks {', '.join(missing)}: add them")
    asynchronous = options.get(ASYNC_SAMPLE, 0)
    _refuse(
        options,
        (not gpu and options.get(GPU_PER_RUN, 1) > 1, "gpr (GPUs per run) needs gpu"),
        (not gpu and options.get(CONTEXTS_PER_GPU, 1) > 1, "cxg (runs per GPU) needs gpu"),
        (options.get(SAMPLE_GPU_PER_RUN) and not asynchronous, "sgr needs ass (asynchronous)"),
        (options.get(SAMPLE_GPU_PER_RUN) and not gpu, "sgr (GPUs to sample) needs gpu"),
        (options.get(OPTIM_SAMPLE_SHARE_GPU) and not asynchronous, "oss needs ass (asynchronous)"),
    )
    return options


def _refuse(options: dict[str, int], *cases: tuple[Any, str]) -> None:
    """Raise ``ValueError`` with the reason of the first true case."""
    for excluded, reason in cases:
        if excluded:
            raise ValueError(f"the affinity has {options}, but {reason}: change one of them")
