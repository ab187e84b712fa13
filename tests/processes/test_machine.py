"""What this process may use: limits of its cgroups, of both versions."""

from __future__ import annotations

import psutil
import pytest

from rlpyt.processes.machine import cgroup_limits, look_at_machine


@pytest.fixture
def group(tmp_path):
    """The cgroup of version 2 that the file system at ``tmp_path`` says this process is in."""
    directory = tmp_path / "sys/fs/cgroup/user/job"
    directory.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user/job\n")
    return directory


def test_limits_of_cgroups_of_version_2(group, tmp_path):
    (group / "cpu.max").write_text("max 100000\n")
    (group / "memory.max").write_text("max\n")
    assert cgroup_limits(tmp_path) == (None, None)
    (group / "cpu.max").write_text("150000 100000\n")
    (group.parent / "memory.max").write_text("1073741824\n")
    assert cgroup_limits(tmp_path) == (1.5, 2**30)


def test_limits_of_cgroups_of_version_1(tmp_path):
    mount = tmp_path / "sys/fs/cgroup"
    (mount / "cpu").mkdir(parents=True)
    (mount / "memory/job").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/job\n1:cpu,cpuacct:/not/mounted\n")
    (mount / "cpu/cpu.cfs_quota_us").write_text("400000\n")
    (mount / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (mount / "memory/job/memory.limit_in_bytes").write_text("4096\n")
    assert cgroup_limits(tmp_path) == (4.0, 4096)
    (mount / "memory/job/memory.usage_in_bytes").write_text("4000\n")
    (mount / "memory/job/memory.stat").write_text("inactive_file 100\ntotal_inactive_file 600\n")
    (mount / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    assert cgroup_limits(tmp_path) == (None, 696)


def test_free_memory_is_what_the_narrowest_cgroup_has_left(group, tmp_path):
    (group.parent / "memory.max").write_text("10000\n")
    (group.parent / "memory.current").write_text("9000\n")
    (group / "memory.max").write_text("8000\n")
    (group / "memory.current").write_text("6000\n")
    (group / "memory.stat").write_text("anon 5500\ninactive_file 500\n")
    assert look_at_machine(tmp_path).memory == 1000
    (group.parent / "memory.current").write_text("10001\n")
    assert look_at_machine(tmp_path).memory == 0


def test_as_many_processes_as_the_quota_has_time_for(group, tmp_path, monkeypatch):
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: [1, 4, 7], raising=False)
    assert look_at_machine(tmp_path).n_cpus == 3
    for quota, n_cpus in ((800000, 3), (200000, 2), (20000, 1)):
        (group / "cpu.max").write_text(f"{quota} 100000\n")
        assert look_at_machine(tmp_path).n_cpus == n_cpus
