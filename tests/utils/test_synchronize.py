"""Draining of queues, and free ports."""

from __future__ import annotations

import multiprocessing as mp
import queue
import socket
from typing import Any

import pytest

from rlpyt.processes import launch
from rlpyt.utils.synchronize import drain_queue, find_port

FORK = mp.get_context("fork")
LATE = 30


def run(target: Any, *args: Any) -> Any:
    process = FORK.Process(target=target, args=args)
    process.start()
    return process


def full(*items: Any) -> Any:
    q: Any = queue.Queue()
    for item in items:
        q.put(item)
    return q


@pytest.mark.parametrize(
    ("items", "kwargs", "taken", "left"),
    [
        ((), {}, [], 0),
        ((1, 2), {}, [1, 2], 0),
        ((1, None, 2, None), {}, [1, 2], 0),
        ((1, None, 2), {"guard_sentinel": True}, [1], 2),
        ((1, 2), {"guard_sentinel": True}, [1, 2], 0),
        ((1, None, 2), {"n_sentinel": 1}, [1], 1),
        ((None, 1, None, 2), {"n_sentinel": 2}, [1], 1),
        ((0, False, None), {"n_sentinel": 1}, [0, False], 0),
    ],
)
def test_drain_queue(items: Any, kwargs: Any, taken: list[Any], left: int) -> None:
    q = full(*items)
    assert drain_queue(q, **kwargs) == taken
    assert q.qsize() == left


def put_all(q: Any, items: list[Any]) -> None:
    for item in items:
        q.put(item)


def test_drain_queue_waits_for_the_sentinels_of_all_producers() -> None:
    q = FORK.Queue()
    producers = [run(put_all, q, [i, i + 10, None]) for i in range(2)]
    assert sorted(drain_queue(q, n_sentinel=2)) == [0, 1, 10, 11]
    for producer in producers:
        producer.join(LATE)
    assert drain_queue(q) == []


def test_find_port_skips_ports_in_use() -> None:
    first = find_port(57)
    assert first % 100 == 57
    assert 29500 <= first < 65000
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        second = find_port(57)
    assert second > first
    assert second % 100 == 57


def test_find_port_takes_any_offset() -> None:
    """On machines with more than 100 CPUs the offset, a CPU, used to be refused."""
    assert find_port(40_057) % 100 == 57


def test_find_port_without_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_LAST_PORT", 29600)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", find_port(58)))
        with pytest.raises(RuntimeError, match="29558"):
            find_port(58)
