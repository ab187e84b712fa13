"""Kept for programs of rlpyt 0.1.2; nothing here uses it."""

from __future__ import annotations

import queue
from typing import Any

from rlpyt.processes.launch import find_port as find_port
from rlpyt.processes.rwlock import ReadWriteLock as RWLock

__all__ = ["RWLock", "drain_queue", "find_port"]


def drain_queue(queue_obj: Any, n_sentinel: int = 0, guard_sentinel: bool = False) -> list[Any]:
    """Take all items out of a queue; None is a sentinel of a producer that is done.

    Args:
        queue_obj: queue with ``get`` and ``put``.
        n_sentinel: number of sentinels to wait for. With 0 nothing is waited for, and an item that
            another process has just put may be left for the next call.
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
