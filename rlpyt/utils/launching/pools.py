"""Places where the runs of a sweep are started, and the command of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from rlpyt.utils.launching import run as run_module
from rlpyt.utils.launching.affinity import affinity_from_code, get_n_run_slots, prepend_run_slot
from rlpyt.utils.launching.run import RunCommand
from rlpyt.utils.processes.launch import check_cpus


class Pool(Protocol):
    """Machine or cluster on which runs are started."""

    slot_codes: Sequence[str]  # Code of the affinity of each slot: as many runs at a time.

    def start(self, command: RunCommand) -> Any:
        """Start a run, and return a handle of it."""
        ...

    def ended(self, handle: Any) -> bool:
        """Return whether a run is over."""
        ...

    def stop(self, handle: Any) -> None:
        """Ask a run to end."""
        ...


class LocalSlots:
    """Slots of this machine, each with its own CPUs and GPUs.

    Args:
        affinity_code: code from :func:`~rlpyt.utils.launching.affinity.encode_affinity`.

    Raises:
        ValueError: if the code does not fit this machine.
    """

    def __init__(self, affinity_code: str) -> None:
        n_slots = get_n_run_slots(affinity_code)
        if n_slots < 1:
            raise ValueError(
                f"affinity_code={affinity_code!r} has no slot: a run needs more GPUs than there are"
            )
        slots = range(n_slots)
        self.slot_codes: Sequence[str] = [prepend_run_slot(n, affinity_code) for n in slots]
        n_gpu = torch.cuda.device_count()
        for code in self.slot_codes:
            affinity = affinity_from_code(code)
            check_cpus(_cpus_of(affinity))
            missing = [gpu for gpu in _gpus_of(affinity) if gpu >= n_gpu]
            if missing:
                raise ValueError(
                    f"slot {code!r} has GPU {missing[0]}, but this machine has {n_gpu} GPUs, "
                    "counted from 0: lower n_gpu"
                )

    def start(self, command: RunCommand) -> subprocess.Popen[bytes]:
        return run_module.start(command)

    def ended(self, handle: subprocess.Popen[bytes]) -> bool:
        if handle.poll() is None:
            return False
        self.stop(handle)
        return True

    def stop(self, handle: subprocess.Popen[bytes]) -> None:
        assert handle.stdin is not None
        handle.stdin.close()


# --- Command of a run ----------------------------------------------------------------------------


def no_script(script: Any) -> FileNotFoundError:
    """Return the error of a script that is missing."""
    return FileNotFoundError(f"script {str(script)!r} does not exist: give the path of the file")


def run_call(
    script: str | os.PathLike[str],
    slot_affinity_code: str,
    log_dir: str,
    run_ID: int,
    args: Sequence[Any],
    python_executable: str | None = None,
) -> list[str]:
    """Return the command of a run, confined to its CPUs where the system can do that."""
    call = [python_executable or sys.executable, script, slot_affinity_code, log_dir, run_ID, *args]
    cpus = _cpus_of(affinity_from_code(slot_affinity_code))
    if not cpus:
        return list(map(str, call))
    if shutil.which("taskset") is None:
        print("The program taskset is missing: processes of the run set their affinity themselves.")
        return list(map(str, call))
    return ["taskset", "-c", ",".join(map(str, cpus)), *map(str, call)]


def egl_device(slot_affinity_code: str) -> dict[str, str]:
    """Return the environment variable of the device that renders, the first GPU of a run."""
    gpus = _gpus_of(affinity_from_code(slot_affinity_code))
    return {"EGL_DEVICE_ID": str(gpus[0])} if gpus else {}


def _cpus_of(affinity: Any) -> list[int]:
    """Return the CPUs of a run; none if they are not to be set."""
    halves = affinity if isinstance(affinity, list) else [affinity]
    if not all(half.get("set_affinity", True) for half in halves):
        return []
    return list(dict.fromkeys(cpu for half in halves for cpu in half.get("all_cpus", ())))


def _gpus_of(affinity: Any) -> list[int]:
    """Return the GPUs of a run in order, those of the samplers last."""
    gpus = [half.get("cuda_idx") for half in _halves(affinity)]
    return [gpu for gpu in gpus if gpu is not None]


def _halves(affinity: Any) -> list[Any]:
    """Return the affinities of a run's processes: one, one per GPU, or optimizers and samplers."""
    if isinstance(affinity, (list, tuple)):
        return [half for one in affinity for half in _halves(one)]
    if "optimizer" not in affinity:
        return [affinity]
    return [*affinity["optimizer"], *_halves(affinity["sampler"])]
