"""Freed memory stays in the process; measured in page faults, in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import pytest

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
