"""Places where the runs of a sweep are started, and the command of a run."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from rlpyt.experiments.sweeps import run as run_module
from rlpyt.experiments.sweeps.affinity import (
    affinity_from_code,
    get_n_run_slots,
    one_slot,
    prepend_run_slot,
)
from rlpyt.experiments.sweeps.run import RunCommand
from rlpyt.processes.launch import check_cpus


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
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`.

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


class RayCluster:
    """Slots of a Ray cluster, which places each run where its CPUs and GPUs are free.

    The directory of the sweep must be the same on all of its machines. A cluster is joined, or
    started on this machine, unless ``ray.init`` was called before.

    Args:
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`; a run
            asks for what one slot of it has.
        address: address of the cluster; None for that of ``RAY_ADDRESS``, or this machine.
        n_parallel: number of runs at a time; None for as many as there is room for now.

    Raises:
        ImportError: if Ray is not installed.
        ValueError: if no machine of the cluster has room for a run.
    """

    def __init__(
        self, affinity_code: str, address: str | None = None, n_parallel: int | None = None
    ) -> None:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise _not_installed("RayCluster", "ray") from error
        slot = one_slot(affinity_code)
        gpus: float = slot.n_gpu / slot.runs_per_gpu
        if not ray.is_initialized():
            ray.init(address=address, include_dashboard=False)
        if n_parallel is None:
            machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            n_parallel = 0
            for machine in machines:
                rooms = [machine.get("CPU", 0) // slot.n_cpu]
                rooms += [machine.get("GPU", 0) // gpus] if gpus else []
                n_parallel += int(min(rooms))
        if n_parallel < 1:
            raise ValueError(
                f"affinity_code={affinity_code!r} gives each run {slot.n_cpu} CPUs and {gpus:g} "
                "GPUs, for which no machine of the Ray cluster has room"
            )
        self.slot_codes: Sequence[str] = [slot.code] * n_parallel
        self._ray = ray
        self._task = ray.remote(run_module.run_to_end).options(
            num_cpus=slot.n_cpu,
            num_gpus=gpus,
            max_retries=0,
            runtime_env={"env_vars": run_module.library_path()},
        )

    def start(self, command: RunCommand) -> Any:
        return self._task.remote(command)

    def ended(self, handle: Any) -> bool:
        return bool(self._ray.wait([handle], timeout=0)[0])

    def stop(self, handle: Any) -> None:
        self._ray.cancel(handle)


class SlurmCluster:
    """Jobs of SLURM, one for each run, by way of submitit.

    The directory of the sweep must be the same on all machines. Jobs outlive the launcher. A job
    has GPUs of its own, also where the code lets several runs share one.

    Args:
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`; a job
            asks for what one slot of it has.
        folder: directory for the files of submitit.
        cluster: name of the executor of submitit, "slurm", or "local" to try it without SLURM.
        n_parallel: number of jobs that are queued or at work at a time.
        parameters: further parameters of ``submitit.AutoExecutor``, such as ``timeout_min`` and
            ``slurm_partition``.

    Raises:
        ImportError: if submitit is not installed.
        ValueError: if there is no SLURM on this machine.
    """

    def __init__(
        self,
        affinity_code: str,
        folder: str | os.PathLike[str],
        cluster: str = "slurm",
        n_parallel: int = 100,
        **parameters: Any,
    ) -> None:
        try:
            submitit: Any = importlib.import_module("submitit")
        except ImportError as error:
            raise _not_installed("SlurmCluster", "slurm") from error
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "cluster='slurm' needs the program sbatch, which this machine lacks: launch on a "
                "machine of the cluster, or pass cluster='local'"
            )
        slot = one_slot(affinity_code)
        self.slot_codes: Sequence[str] = [slot.code] * n_parallel
        self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        resources = {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": slot.n_cpu}
        if slot.n_gpu:
            resources["gpus_per_node"] = slot.n_gpu
        self._executor.update_parameters(**{"name": "rlpyt", **resources, **parameters})

    def start(self, command: RunCommand) -> Any:
        return self._executor.submit(run_module.run_to_end, command)

    def ended(self, handle: Any) -> bool:
        return bool(handle.done())

    def stop(self, handle: Any) -> None:
        handle.cancel(check=False)


def _not_installed(name: str, extra: str) -> ImportError:
    return ImportError(f"{name} needs a package of its own: pip install 'rlpyt[{extra}]'")


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
