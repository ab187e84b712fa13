"""Places where the runs of a sweep are started, and the command of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from rlpyt.experiments.sweeps import run as run_module
from rlpyt.experiments.sweeps.affinity import CONTEXTS_PER_GPU
from rlpyt.experiments.sweeps.run import RunCommand
from rlpyt.experiments.sweeps.slots import Slot, slot_elsewhere, slots_of
from rlpyt.processes.launch import check_cpus
from rlpyt.processes.machine import LAUNCHER_CPUS, numbered_cpus
from rlpyt.utils.names import import_extra

POOLS = ("local", "ray", "slurm")


class Pool(Protocol):
    """Machine or cluster on which runs are started."""

    slots: Sequence[Slot]  # One for each of the runs at a time.

    def start(self, command: RunCommand) -> Any:
        """Start a run, and return its handle."""
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
        self.slots: Sequence[Slot] = slots_of(affinity_code)
        n_gpu = torch.cuda.device_count()
        for slot in self.slots:
            check_cpus(slot.cpus if slot.is_pinned else [])
            missing = [gpu for gpu in slot.gpus if gpu >= n_gpu]
            if missing:
                raise ValueError(
                    f"slot {slot.code!r} has GPU {missing[0]}, but this machine has {n_gpu} GPUs, "
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
            requests the resources of one slot.
        address: address of the cluster; None for ``RAY_ADDRESS``, or this machine.
        n_parallel: number of runs at a time; None for as many as the cluster has room for now.

    Raises:
        ImportError: if Ray is not installed.
        ValueError: if no machine of the cluster has room for a run.
    """

    def __init__(
        self, affinity_code: str, address: str | None = None, n_parallel: int | None = None
    ) -> None:
        ray = import_extra("ray", "RayCluster", "ray")
        slot = slot_elsewhere(affinity_code)
        n_cpu, gpus = len(slot.cpus), len(slot.gpus) / slot.options.get(CONTEXTS_PER_GPU, 1)
        if not ray.is_initialized():
            ray.init(address=address, include_dashboard=False)
        if n_parallel is None:
            machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            needed = {"CPU": n_cpu, "GPU": gpus} if gpus else {"CPU": n_cpu}
            rooms = [[has.get(name, 0) // n for name, n in needed.items()] for has in machines]
            n_parallel = int(sum(map(min, rooms)))
        if n_parallel < 1:
            raise ValueError(
                f"affinity_code={affinity_code!r} gives each run {n_cpu} CPUs and {gpus:g} GPUs, "
                "which no machine of the Ray cluster has free: lower them, or wait"
            )
        self.slots: Sequence[Slot] = [slot] * n_parallel
        self._ray = ray
        self._task = ray.remote(run_module.run_to_end).options(
            num_cpus=n_cpu,
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
    """Jobs of SLURM, one for each run, submitted by submitit.

    The directory of the sweep must be the same on all machines. Jobs outlive the launcher. Jobs
    never share GPUs, even if the code lets runs share them.

    Args:
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`; a job
            requests the resources of one slot.
        folder: directory for submitit's files.
        cluster: name of the submitit executor, "slurm", or "local" to try it without SLURM.
        n_parallel: number of jobs that are queued or at work at a time.
        parameters: further parameters of ``submitit.AutoExecutor``: ``timeout_min``, after which
            a job is ended, and others, such as ``slurm_partition``.

    Raises:
        ImportError: if submitit is not installed.
        ValueError: if there is no SLURM on this machine, or no time limit is given.
    """

    def __init__(
        self,
        affinity_code: str,
        folder: str | os.PathLike[str],
        cluster: str = "slurm",
        n_parallel: int = 100,
        **parameters: Any,
    ) -> None:
        submitit = import_extra("submitit", "SlurmCluster", "slurm")
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "SLURM needs the program sbatch, which this machine lacks: launch on a machine of "
                "the cluster, or here with --pool local, in Python cluster='local'"
            )
        slot = slot_elsewhere(affinity_code)
        self.slots: Sequence[Slot] = [slot] * n_parallel
        self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        resources = {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": len(slot.cpus)}
        if slot.gpus:
            resources["gpus_per_node"] = len(slot.gpus)
        self._executor.update_parameters(**{"name": "rlpyt", **resources, **parameters})
        if not {"timeout_min", "slurm_time"} & parameters.keys():
            raise ValueError(
                "submitit would end jobs after 5 minutes: give timeout_min, the minutes of a run, "
                "as --job timeout_min=600 does"
            )

    def start(self, command: RunCommand) -> Any:
        return self._executor.submit(run_module.run_to_end, command)

    def ended(self, handle: Any) -> bool:
        return bool(handle.done())

    def stop(self, handle: Any) -> None:
        handle.cancel(check=False)


def make_pool(
    kind: str, code: str, n_parallel: int | None, log_dir: str, job: Mapping[str, Any]
) -> Pool:
    """Return the machine or cluster on which a sweep runs, one of ``POOLS``."""
    if job and kind != "slurm":
        raise ValueError("--job has parameters of --pool slurm: use both or none")
    if kind == "ray":
        return RayCluster(code, n_parallel=n_parallel)
    if kind == "slurm":
        folder = os.path.join(log_dir, "jobs")
        try:
            return SlurmCluster(code, folder, n_parallel=n_parallel or 100, **job)
        except (NameError, AssertionError) as error:  # Of submitit: unknown, or of another type.
            words = " ".join(f"--job {name}={value}" for name, value in job.items())
            raise ValueError(f"{words}: {error}") from error
    return LocalSlots(code)


# --- Command of a run ----------------------------------------------------------------------------


def no_script(script: Any) -> FileNotFoundError:
    """Return the error of a script that is missing."""
    return FileNotFoundError(f"script {str(script)!r} does not exist: give the path of the file")


def run_call(
    script: str | os.PathLike[str],
    slot: Slot,
    log_dir: str,
    run_ID: int,
    args: Sequence[Any],
    python_executable: str | None = None,
) -> list[str]:
    """Return the command of a run, pinned to its CPUs if the system allows it."""
    call = [python_executable or sys.executable, script, slot.code, log_dir, run_ID, *args]
    if slot.is_pinned and shutil.which("taskset") is None:
        print("The program taskset is missing: processes of the run set their affinity themselves.")
    elif slot.is_pinned:
        pinned = ["taskset", "-c", ",".join(map(str, slot.cpus))]
        cpus = numbered_cpus()
        if cpus != [*range(len(cpus))]:
            pinned += ["env", f"{LAUNCHER_CPUS}={','.join(map(str, cpus))}"]
        call = [*pinned, *call]
    return list(map(str, call))


def egl_device(slot: Slot) -> dict[str, str]:
    """Return the environment variable of the device that renders, the first GPU of a run."""
    return {"EGL_DEVICE_ID": str(slot.gpus[0])} if slot.gpus else {}
