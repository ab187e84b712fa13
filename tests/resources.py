"""Open files, processes and shared memory of this process, which a run must give back."""

import os

import psutil


def open_files():
    """Return the open pipes, sockets and files, without those of shared memory, by number."""
    links = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            links[int(number)] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # That of the listed directory.
            continue
    return {n: x for n, x in links.items() if not x.startswith(("/memfd:", "/dev/shm/"))}


def own_children():
    """Return the pids of all processes that were started here, directly or not, and run."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if child.status() != "zombie"}


def named_shared_memory():
    """Return what would be left behind if nobody removed its name."""
    with open("/proc/self/maps") as file:
        paths = {line.split()[-1] for line in file}
    return {path for path in paths if path.startswith("/dev/shm/") and os.path.exists(path)}
