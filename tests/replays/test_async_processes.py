"""Buffers that processes share, between processes: draws, stress, and kills."""

import multiprocessing as mp
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from tests.replays.cells import ALPHA, DEFAULT, Cell, Samples, cells, fill_with_magic
from tests.selection import FULL, selected

WAIT_S = 60.0

fork = mp.get_context("fork")


def run(process):
    process.start()
    process.join(WAIT_S)
    assert process.exitcode == 0


ALL_PARTS = Cell(True, False, "frames", True, True)


def draw(buffer, tell, n):
    tell.send(buffer.sample_batch(n).note.tolist())


def test_every_process_draws_its_own_batches():
    """Forked readers used to draw the same ones, from a copy of one random stream."""
    buffer, stream, _ = ALL_PARTS.make(T=400)
    buffer.append_samples(ALL_PARTS.samples(stream.steps(390)))
    listen, tell = fork.Pipe(duplex=False)
    for _ in range(2):
        run(fork.Process(target=draw, args=(buffer, tell, 64)))
    one, two = listen.recv(), listen.recv()
    three = buffer.sample_batch(64).note.tolist()
    for x, y in ((one, two), (two, three), (one, three)):
        assert len(set(x) & set(y)) < 40


# --- Stress: every transition that is ever drawn belongs together ---------------------------------

N_ENVS, N_FRAMES, N_STEP = 2, 3, 3
N_BATCHES, MAX_STEPS = 250, 9


def n_steps_of(batch):
    """Steps of a batch, from its number."""
    return 2 + batch * 7 % (MAX_STEPS - 1)


def frame_of(note):
    """Pixels [...,4] that are the bytes of numbers [...]."""
    return np.ascontiguousarray(note, np.int32)[..., None].view(np.uint8)


def steps_of(batch, n_frames=N_FRAMES):
    """A batch [T,B] that begins after a reset and ends with one; ``note`` says everything."""
    n = n_steps_of(batch)
    t, b = np.meshgrid(np.arange(n), np.arange(N_ENVS), indexing="ij")
    note = (batch * 16 + t + 1) * N_ENVS + b
    frames = np.zeros((n + n_frames - 1, N_ENVS, 1, 4), np.uint8)
    frames[n_frames - 1 :, :, 0] = frame_of(note)
    stacks = np.stack([frames[i : i + n] for i in range(n_frames)], axis=2)
    done = t == n - 1
    return Samples(
        stacks, note, (note % 97).astype(np.float32), done, done & (batch % 2 == 0), note
    )


def assert_belongs_together(batch):
    """Every field is what the note of the transition says."""
    note = batch.note.numpy()
    step, b = np.divmod(note, N_ENVS)
    number, t = np.divmod(step, 16)
    t = t - 1
    n_steps = np.array([n_steps_of(i) for i in number])
    ends = t + N_STEP >= n_steps
    returns = np.zeros(len(note))
    for k in range(N_STEP):
        returns += 0.5**k * np.where(t + k < n_steps, (note + k * N_ENVS) % 97, 0)
    expected = np.stack([steps_of(i).observation[j, k] for i, j, k in zip(number, t, b)])
    last = n_steps - 1 - t  # Steps to the end of the batch.
    before = np.where(t > 0, note - N_ENVS, 0)
    np.testing.assert_array_equal(batch.agent_inputs.observation, expected)
    np.testing.assert_array_equal(batch.agent_inputs.prev_action, before)
    np.testing.assert_array_equal(batch.agent_inputs.prev_reward, before % 97)
    np.testing.assert_array_equal(batch.action, note)
    np.testing.assert_array_equal(batch.done, last == 0)
    np.testing.assert_array_equal(batch.done_n, ends)
    np.testing.assert_array_equal(batch.timeout, (last == 0) & (number % 2 == 0))
    np.testing.assert_array_equal(batch.timeout_n, ends & (number % 2 == 0))
    np.testing.assert_allclose(batch.return_, returns, rtol=1e-6)
    inside = ~ends
    newest = frame_of(note + N_STEP * N_ENVS)
    target = batch.target_inputs.observation.numpy()[inside, -1, 0]
    np.testing.assert_array_equal(target, newest[inside])


def write(buffer, first, stop, begun, may_end=None):
    """Append every second batch; the second half only after the event ``may_end``."""
    rng = np.random.default_rng(first)
    begun.set()
    for batch in range(first, stop, 2):
        if may_end is not None and batch >= stop // 2:
            assert may_end.wait(WAIT_S)
        buffer.append_samples(steps_of(batch))
        if rng.random() < 0.3:
            time.sleep(0.002 * rng.random())


def read(buffer, n_batches):
    for i in range(n_batches):
        assert_belongs_together(buffer.sample_batch(32))
        if i % 2 and hasattr(buffer, "priority_tree"):
            buffer.update_batch_priorities(np.random.random(32) + 0.1)


def stress_buffer(cell):
    example = steps_of(0)[0, 0]
    buffer = cell.cls(example=example, size=120, B=N_ENVS, discount=0.5, n_step_return=N_STEP)
    fill_with_magic(buffer)
    buffer.append_samples(steps_of(0))
    buffer.append_samples(steps_of(3))
    return buffer


STRESSED = [
    cell
    for cell in cells(is_shared=True, is_sequence=False, knows_time_limits=True)
    if cell.storage != "dict"
]


@pytest.mark.parametrize("cell", selected(STRESSED, lambda cell: set(enumerate(cell))), ids=str)
def test_two_writers_and_two_readers(cell):
    buffer = stress_buffer(cell)
    begun, may_end = fork.Event(), fork.Event()
    writers = [
        fork.Process(target=write, args=(buffer, first, N_BATCHES, begun, may_end))
        for first in (0, 1)
    ]
    reader = fork.Process(target=read, args=(buffer, 150))
    for process in (*writers, reader):
        process.start()
    n_drawn = 0
    assert begun.wait(WAIT_S)
    while any(writer.is_alive() for writer in writers):
        assert_belongs_together(buffer.sample_batch(32))
        n_drawn += 1
        if n_drawn == 6:
            may_end.set()
        if n_drawn % 2 and cell.is_prioritized:
            buffer.update_batch_priorities(np.random.random(32) + 0.1)
    for process in (*writers, reader):
        process.join(WAIT_S)
        assert process.exitcode == 0
    assert n_drawn > 5
    read(buffer, 3)
    n_rows = sum(n_steps_of(i) for i in (0, 3, *range(N_BATCHES)))
    assert buffer.t == n_rows % buffer.T
    if cell.is_prioritized:
        assert_tree_is_sound(buffer.priority_tree)


def assert_tree_is_sound(tree):
    nodes, k = tree.tree, np.arange(tree.low_idx)
    np.testing.assert_array_equal(nodes[k], nodes[2 * k + 1] + nodes[2 * k + 2])
    off = np.arange(tree.t - tree.off_backward, tree.t + tree.off_forward) % tree.T
    assert not tree.priorities[off].any()
    assert (np.delete(tree.priorities, off, axis=0) > 0).all()


def test_priorities_of_rows_that_another_process_wrote_anew():
    """A learner that was slower than the samplers gave new transitions the priority of old ones."""
    cell = Cell(True, False, "whole", False, True)
    buffer, stream, _ = cell.make(T=20, B=1, n_step=1)
    buffer.append_samples(cell.samples(stream.steps(20)))
    buffer.sample_batch(300)
    run(fork.Process(target=buffer.append_samples, args=(cell.samples(stream.steps(8)),)))
    buffer.update_batch_priorities(np.full(300, 50.0))
    new, old = DEFAULT**ALPHA, 50.0**ALPHA
    expected = [new] * 7 + [0, 0] + [old] * 10 + [new]  # Row 19 was not complete when drawn.
    np.testing.assert_allclose(buffer.priority_tree.priorities[:, 0], expected)


# --- Kills ----------------------------------------------------------------------------------------


class Stuck(AsyncUniformReplayBuffer):
    """Stands still in the middle of writing or reading."""

    where = ""
    reached = fork.Event()

    def _stop_at(self, where):
        if self.where == where:
            self.reached.set()
            time.sleep(WAIT_S)

    def compute_returns(self, T):
        self._stop_at("write")
        super().compute_returns(T)

    def extract_batch(self, T_idxs, B_idxs):
        self._stop_at("read")
        return super().extract_batch(T_idxs, B_idxs)


def stuck_buffer():
    example = steps_of(0, 1)[0, 0]
    buffer = Stuck(example=example, size=120, B=N_ENVS, n_step_return=N_STEP)
    Stuck.reached.clear()
    for batch in (5, 6):
        buffer.append_samples(steps_of(batch, 1))
    return buffer


def get_stuck(buffer, where):
    buffer.where = where
    if where == "write":
        buffer.append_samples(steps_of(1, 1))
    else:
        buffer.sample_batch(3)


def kill_while(buffer, where):
    """Kill a process in the middle; its pid."""
    process = fork.Process(target=get_stuck, args=(buffer, where))
    process.start()
    assert buffer.reached.wait(WAIT_S)
    os.kill(process.pid, signal.SIGKILL)
    process.join(WAIT_S)
    return process.pid


def test_a_killed_writer_is_named():
    """Everyone used to wait for it for ever."""
    buffer = stuck_buffer()
    pid = kill_while(buffer, "write")
    start = time.monotonic()
    for call in (
        lambda: buffer.sample_batch(3),
        lambda: buffer.append_samples(steps_of(2, 1)),
        lambda: buffer.update_batch_priorities(np.ones(3)),
        buffer.state_dict,
    ):
        with pytest.raises(RuntimeError, match=f"process {pid} ended or failed while it wrote"):
            call()
    assert time.monotonic() - start < WAIT_S


def test_a_killed_reader_is_forgotten():
    buffer = stuck_buffer()
    kill_while(buffer, "read")
    buffer.append_samples(steps_of(2, 1))
    assert buffer.sample_batch(3).action.shape == (3,)


@pytest.mark.parametrize("seed", range(6 if FULL else 3))
def test_kills_at_any_time(seed):
    """Either what is there is whole, or it is refused; nobody waits."""
    buffer = stress_buffer(ALL_PARTS)
    begun = fork.Event()
    writer = fork.Process(target=write, args=(buffer, 0, 10**6, begun))
    reader = fork.Process(target=read, args=(buffer, 10**6))
    for process in (writer, reader):
        process.start()
    assert begun.wait(WAIT_S)
    time.sleep(0.02 + 0.1 * np.random.default_rng(seed).random())
    for process in (reader, writer):
        os.kill(process.pid, signal.SIGKILL)
        process.join(WAIT_S)
    try:
        read(buffer, 3)
    except RuntimeError as error:
        message = str(error)
    else:
        message = f"process {writer.pid}"
        buffer.append_samples(steps_of(2))
        read(buffer, 3)
    assert message.startswith((f"process {writer.pid}", f"process {reader.pid}"))


def test_no_shared_memory_is_left_behind(tmp_path):
    script = textwrap.dedent("""
        import multiprocessing as mp, os, signal
        from tests.replays.test_async_processes import ALL_PARTS

        def main():
            mp.set_start_method("spawn")
            buffer, stream, _ = ALL_PARTS.make()
            buffer.append_samples(ALL_PARTS.samples(stream.steps(18)))
            buffer.sample_batch(3)
            print(os.getpid(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        main()
    """)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    pid = done.stdout.split()[-1]
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(tmp_path.iterdir()) == []
    shm = Path("/dev/shm")
    assert not shm.exists() or not [p for p in shm.iterdir() if pid in p.name]
