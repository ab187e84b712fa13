"""Queue draining, free ports, and the read-write lock by its name in rlpyt 0.1.2."""

from __future__ import annotations

import queue
import socket
from typing import Any

from rlpyt.utils.processes.rwlock import ReadWriteLock as RWLock

__all__ = ["RWLock", "drain_queue", "find_port"]

_FIRST_PORT, _LAST_PORT, _PORT_STEP = 29500, 65000, 100


def drain_queue(queue_obj: Any, n_sentinel: int = 0, guard_sentinel: bool = False) -> list[Any]:
    """Take all items out of a queue; None is a sentinel: its producer is done.

    Args:
        queue_obj: queue with ``get`` and ``put``.
        n_sentinel: number of sentinels to wait for. With 0, wait for nothing: an item that another
            process has just put may be left for the next call.
        guard_sentinel: whether to stop at a sentinel and put it back, with ``n_sentinel=0``.

    Returns:
        The items that are not None, in order.
    """
    items: list[Any] = []
    waits, n_seen = n_sentinel > 0, 0
    while not waits or n_seen < n_sentinel:
        try:
            item = queue_obj.get(block=waits)
        except queue.Empty:
            break
        if item is not None:
            items.append(item)
        elif guard_sentinel and not waits:
            queue_obj.put(None)
            break
        else:
            n_seen += 1
    return items


def find_port(offset: int) -> int:
    """Return a free TCP port, the first of 29500 + offset, 29600 + offset, ... below 65000.

    Args:
        offset: number that keeps runs on one machine apart, e.g. a CPU; taken modulo 100.

    Raises:
        RuntimeError: if none is free.
    """
    first = _FIRST_PORT + offset % _PORT_STEP
    for port in range(first, _LAST_PORT, _PORT_STEP):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port {first}, {first + _PORT_STEP}, ... is free: use another offset")
