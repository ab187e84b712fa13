"""Buffers on a device give the batches of those in host memory, draw for draw."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays import _memory, _store
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.returns.n_step import discount_return_n_step
from rlpyt.utils.buffer import buffer_to, map_buffer, torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.accelerator import apart, on_each_device, present
from tests.agents.parts import VectorDqnAgent, made
from tests.algos.parts import SETTINGS, SPEC, examples, make_algo
from tests.replays.cells import Cell, WithPriorities, assert_same, cells
from tests.replays.test_last_observations import episodes
from tests.selection import FULL, selected

CELLS = cells(is_shared=False)
ROWS = (5, 9, 1, 7, 21, 8, 2, 13)  # Numbers of appended rows, to a buffer of 21.


def on_host(batch: Any) -> Any:
    return map_buffer(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, batch)


class Twins:
    """A buffer in host memory and one on a device, which are treated alike."""

    def __init__(self, cell: Cell, device: str, **settings: Any) -> None:
        self.cell = cell
        self.host, self.stream, _ = cell.make(**settings)
        self.other, _, _ = cell.make(**settings, device=device)
        self.rng = np.random.default_rng(0)

    def append(self, n_rows: int) -> None:
        samples = self.cell.samples(self.stream.steps(n_rows))
        given = torchify_buffer(samples) if n_rows % 2 else samples
        if n_rows == 21:
            given = buffer_to(given, self.other.store.device)
        if self.cell.is_prioritized and n_rows % 3:
            priorities = self.rng.random((n_rows, self.host.B)) + 0.1
            samples = WithPriorities(priorities, samples)
            given = WithPriorities(priorities, given)
        expected, actual = self.host.append_samples(samples), self.other.append_samples(given)
        np.testing.assert_equal(actual, expected)

    def truncate(self, b: int) -> None:
        for buffer in (self.host, self.other):
            buffer.truncate([b])
        self.stream.restart(b)

    def draw(self) -> Any:
        """Draw, set priorities, and return the batch from the device; None without rows."""
        try:
            expected = self.host.sample_batch(8)
        except ValueError:
            with pytest.raises(ValueError, match="min_steps_learn"):
                self.other.sample_batch(8)
            return None
        batch = self.other.sample_batch(8)
        if self.cell.is_prioritized:
            priorities = self.rng.random(8)
            for buffer in (self.host, self.other):
                buffer.update_batch_priorities(priorities)
        return expected, batch


def settings_of(cell: Cell) -> list[dict[str, Any]]:
    """Numbers of steps and intervals of states; each meets each with ``RLPYT_FULL=1``."""
    intervals = (0, 1, 3) if cell.is_sequence else (1,)
    pairs = itertools.product((1, 3), intervals)
    if cell.is_sequence and not FULL:
        pairs = [(3, 0), (1, 1), (3, 3)]
    return [{"n_step": n, "interval": k} for n, k in pairs]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_equals_the_buffer_in_host_memory(cell: Cell) -> None:
    """Around the end of the circle, with truncations, and from each other's states."""
    for settings in settings_of(cell):
        twins = Twins(cell, "cpu", **settings)
        for i, n_rows in enumerate(ROWS):
            if i in (2, 5):
                twins.truncate(i % 2)
            twins.append(n_rows)
            assert_same(*(twins.draw() or ()))
            assert_same(*(twins.draw() or ()))
            if i in (0, 4):  # With free rows, and with none.
                states = [buffer.state_dict() for buffer in (twins.host, twins.other)]
                np.testing.assert_equal(*states)
                host, other = (state["rows"] for state in states)
                assert [x.capacity for x in host.values()] == [x.capacity for x in other.values()]
                twins = Twins(cell, "cpu", **settings, seed=1)
                twins.append(6)
                twins.host.load_state_dict(pickle.loads(pickle.dumps(states[1])))
                twins.other.load_state_dict(pickle.loads(pickle.dumps(states[0])))


def draws_on_an_accelerator(device: str) -> None:
    """Indexes and weights cross in one copy, nothing comes back, and nothing waits."""
    with present(device) as accelerator:
        for cell in selected(CELLS):
            twins = Twins(cell, device, n_step=3)
            for n_rows in ROWS:
                twins.append(n_rows)
                accelerator.counts.clear()
                drawn = twins.draw()
                if drawn is not None:
                    assert accelerator.counts == {"in": 1}, (str(cell), accelerator.places)
                    assert_same(drawn[0], on_host(drawn[1]))
            twins.truncate(0)
            np.testing.assert_equal(twins.other.state_dict(), twins.host.state_dict())
            twins.other.load_state_dict(twins.host.state_dict())
            assert_same(*map(on_host, twins.draw()))
        accelerator.counts.clear()
        assert_same(*map(on_host, draw_at_time_limits(3, device)))
        assert accelerator.counts["waits"] == 0
        check_rounding(device)


@on_each_device
def test_draws_on_an_accelerator(device: str) -> None:
    apart(draws_on_an_accelerator, device)


def draw_at_time_limits(n: int, device: str) -> tuple[Any, Any]:
    """Batches of two buffers that store last observations, the second one on ``device``."""
    steps = episodes(0, 40, 5, True)
    buffers = [
        TlUniformReplayBuffer(example=steps[0, 0], size=24, B=1, n_step_return=n, device=where)
        for where in (None, device)
    ]
    buffers[1].load_state_dict(buffers[0].state_dict())  # With the same generator.
    for first in range(0, 40, 4):
        for buffer in buffers:
            buffer.append_samples(steps[first : first + 4])
    host, other = (buffer.sample_batch(64) for buffer in buffers)
    return host, other


@pytest.mark.parametrize("n", [1, 3, 8])
def test_last_observations(n: int) -> None:
    host, other = draw_at_time_limits(n, "cpu")
    assert (host.target_inputs.observation < 0).any()
    assert_same(host, other)


def test_checkpoints(tmp_path: Path) -> None:
    twins = Twins(Cell(True, True, "frames", True, False), "cpu")
    twins.append(20)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(twins.other.state_dict(), 1)
    assert checkpoints.wait()
    other, _, _ = twins.cell.make(seed=1, device="cpu")
    other.load_state_dict(checkpoints.load())
    assert_same(twins.host.sample_batch(8), other.sample_batch(8))


def test_returns_are_rounded_alike() -> None:
    check_rounding("cpu")


def check_rounding(device: str) -> None:
    rng = np.random.default_rng(0)
    done = (rng.random((40, 3)) < 0.2).astype(np.uint8)
    for dtype in (np.int64, np.float16, np.float32, np.float64):
        reward = (10 * rng.standard_normal((40, 3))).astype(dtype)
        steps = SamplesToBuffer(reward, reward, reward, done)
        host, other = (
            UniformReplayBuffer(
                example=steps[0, 0], size=90, B=3, discount=0.97, n_step_return=5, device=where
            )
            for where in (None, device)
        )
        for buffer in (host, other):
            buffer.append_samples(steps[:25])
            buffer.append_samples(steps[25:])
        np.testing.assert_equal(other.state_dict()["rows"], host.state_dict()["rows"])


def returns_on_an_accelerator(device: str) -> None:
    rng = np.random.default_rng(0)
    reward = rng.standard_normal((9, 3)).astype(np.float32)
    done = rng.random((9, 3)) < 0.2
    with present(device):
        tensors = buffer_to(torchify_buffer((reward, done)), device)
        for is_truncated in (False, True):
            expected = discount_return_n_step(reward, done, 4, 0.9, do_truncated=is_truncated)
            dests = map_buffer(torch.zeros_like, buffer_to(torchify_buffer(expected), device))
            discount_return_n_step(*tensors, 4, 0.9, *dests, do_truncated=is_truncated)
            assert_same(expected, on_host(dests))
        with pytest.raises(ValueError, match="requires grad"):
            discount_return_n_step(tensors[0].requires_grad_(), tensors[1], 4, 0.9)


@on_each_device
def test_returns_on_an_accelerator(device: str) -> None:
    apart(returns_on_an_accelerator, device)


@pytest.mark.parametrize("cell", cells(is_shared=False, is_prioritized=False), ids=str)
def test_indexes_of_the_user(cell: Cell) -> None:
    twins = Twins(cell, "cpu")
    twins.append(15)
    n_steps = (4,) if cell.is_sequence else ()
    batches = [
        buffer.read_batch(np.array([6, 3 - buffer.T]), [1, 0], *n_steps)
        for buffer in (twins.host, twins.other)
    ]
    assert_same(*batches)
    with pytest.raises(IndexError, match="B_idxs"):
        twins.other.read_batch(np.array([6, 3]), np.array([0, 2]), *n_steps)
    if cell.is_sequence:
        with pytest.raises(ValueError, match="rnn_state_interval"):
            twins.other.read_batch(np.array([7]), np.array([0]), 4)


def test_fields_of_the_user_and_scalars() -> None:
    Record = namedarraytuple("Record", [*SamplesToBuffer._fields, "cost"])
    zeros = np.zeros((8, 2), np.float32)
    steps = Record(zeros[..., None], zeros, zeros, False, np.arange(16).reshape(8, 2))
    example = Record(zeros[0, :1], zeros[0, 0], zeros[0, 0], False, 0)
    buffer = UniformReplayBuffer(example=example, size=20, B=2, device="cpu")
    buffer.append_samples(steps)
    assert buffer.read_batch([2, 3], [0, 1]).cost.tolist() == [4, 7]


# --- Memory ---------------------------------------------------------------------------------------


def test_memory_is_named_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("rlpyt.replays._store.logger.log", lines.append)
    twins = Twins(Cell(False, True, "frames", True, False), "cpu", interval=3)
    n_bytes = sum(rows.nbytes for rows in twins.host.stored_rows.values())
    assert len(lines) == 1
    assert f"{n_bytes:,} bytes" in lines[0]
    monkeypatch.setattr(_store, "free_memory", lambda device: n_bytes)
    Twins(twins.cell, "cpu", interval=3)
    assert f"of {n_bytes:,}" in lines[1]
    monkeypatch.setattr(_store, "free_memory", lambda device: n_bytes - 1)
    with pytest.raises(ValueError, match=f"{n_bytes:,} bytes.*replay_size.*replay_device"):
        Twins(twins.cell, "cpu", interval=3)


def test_memory_that_torch_has_reserved_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    assert _memory.free_memory(torch.device("cuda", 0)) == 1200


# --- The setting of algorithms --------------------------------------------------------------------


def agent_on(device: str) -> Any:
    agent = made(VectorDqnAgent())
    agent.device = torch.device(device)
    return agent


def test_replay_device_reaches_the_buffer() -> None:
    for name in ("agent", "meta", torch.device("meta")):
        algo = make_algo(agent=agent_on("meta"), replay_device=name)
        assert algo.replay_buffer.store.device == torch.device("meta")
    for name in (None, "cpu"):
        algo = make_algo(agent=agent_on("meta"), replay_device=name)
        assert algo.replay_buffer.store.device is None
    assert make_algo(replay_device="agent").replay_buffer.store.device is None


def test_replay_device_that_cannot_work() -> None:
    with pytest.raises(ValueError, match="replay_device is 'meta'"):
        make_algo(replay_device="meta")
    with pytest.raises(ValueError, match="replay_device is 'agent'"):
        DQN(**SETTINGS, replay_device="agent").async_initialize(
            agent_on("cpu"), 50, SPEC, True, examples()
        )

    def without_device(*, example: Any, size: float, B: int, discount: float, n_step_return: int):
        raise AssertionError

    with pytest.raises(TypeError, match="ReplayBufferCls.*replay_device"):
        make_algo(agent=agent_on("meta"), replay_device="agent", ReplayBufferCls=without_device)
