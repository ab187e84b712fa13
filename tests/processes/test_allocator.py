"""Freed memory stays in the process, by page faults; tcmalloc and threads that do not spin."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlpyt.processes import allocator

SCRIPT = """
import resource, sys
import numpy as np
from rlpyt.processes.allocator import tune_allocator
took_effect = [tune_allocator(), tune_allocator()] if sys.argv[1] == "tune" else []
def use():
    x = np.full(1 << 20, 2.0)
    return (x * x)[-1]
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(took_effect, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(mode: str, **env: str) -> tuple[str, int]:
    environ: dict[str, Any] = {k: v for k, v in os.environ.items() if "MALLOC" not in k.upper()}
    environ.update(env, PYTHONPATH=os.pathsep.join(sys.path), OMP_NUM_THREADS="1")
    command = [sys.executable, "-c", SCRIPT, mode]
    output = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    took_effect, _, faults = output.strip().rpartition(" ")
    return took_effect, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_memory_is_used_again_without_page_faults() -> None:
    took_effect, tuned = run("tune")
    assert took_effect == "[True, True]"
    assert tuned < 200
    assert run("default")[1] > 10 * max(tuned, 100)


def test_the_environment_prevails() -> None:
    assert run("tune", MALLOC_TRIM_THRESHOLD_="131072")[0] == "[False, False]"


def test_what_a_process_starts_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(allocator, "_TCMALLOC", "libof_this_test.so")
    for name in ("LD_PRELOAD", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 9.0, 9.0))
    assert allocator.startup_environment() == {}
    monkeypatch.setattr(os, "getloadavg", lambda: (os.cpu_count() + 0.5, 0.0, 0.0))
    assert allocator.startup_environment() == {"GOMP_SPINCOUNT": "1000"}
    library = tmp_path / "lib" / "libof_this_test.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert allocator.startup_environment() == {"LD_PRELOAD": str(library)}
    monkeypatch.setenv("LD_PRELOAD", "")
    assert allocator.startup_environment() == {}


RESTART = """
import os, sys
from rlpyt.processes import allocator
sys.prefix, allocator._TCMALLOC = sys.argv[1], "libof_this_test.so"
os.getloadavg = lambda: (1000.0,)
is_there = "libof_this_test" in open("/proc/self/maps").read()
print(os.getpid(), is_there, os.environ.get("GOMP_SPINCOUNT"), flush=True)
allocator.restart_faster()
"""


def test_a_program_starts_again_as_the_same_process(tmp_path: Path) -> None:
    maps = Path("/proc/self/maps").read_text().split()
    library = tmp_path / "lib" / "libof_this_test.so"
    library.parent.mkdir()
    shutil.copy(next(path for path in maps if "/libm.so" in path), library)  # Any library will do.
    set_by_us = ("LD_PRELOAD", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environ = {name: value for name, value in os.environ.items() if name not in set_by_us}
    command = [sys.executable, "-c", RESTART, str(tmp_path)]
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    output = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    first, second = map(str.split, output.splitlines())
    assert first[1:] == ["False", "None"]
    assert second == [first[0], "True", "1000"]
