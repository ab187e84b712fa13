"""Shared buffers, in one process: they give what their counterparts give, and take their states."""

import copy
import itertools
import multiprocessing as mp
import pickle
import queue

import numpy as np
import pytest

from rlpyt.core.records import AgentSamples, Samples
from rlpyt.replays.async_ import BatchQueue
from rlpyt.replays.non_sequence.prioritized import AsyncPrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from rlpyt.utils.buffer import np_mp_array_spawn
from rlpyt.utils.shared_array import shared_memory_for
from tests.replays.cells import assert_same, cells, go_on
from tests.replays.test_subclasses import samples
from tests.selection import FULL, pairs_of, selected
from tests.waiting import wait_until

SHARED = cells(is_shared=True)


def pair(cell):
    """A shared buffer, its counterpart, and a stream for both."""
    buffer, stream, _ = cell.make()
    return buffer, cell._replace(is_shared=False).make()[0], stream


@pytest.mark.parametrize("cell", SHARED, ids=str)
def test_equals_its_counterpart(cell):
    """In every bit, from the same seed."""
    shared, other, stream = pair(cell)
    for n_rows in (18, 5, 2, 21, 7):
        assert_same(*go_on(cell, (shared, other), stream, n_rows))
    np.testing.assert_equal(shared.state_dict(), other.state_dict())


def either_way(cell):
    """A buffer with the direction of its state, of which any two parts meet."""
    return pairs_of((*cell[0], cell[1]))


@pytest.mark.parametrize(
    ("cell", "to_shared"), selected(itertools.product(SHARED, (True, False)), either_way), ids=str
)
def test_goes_on_from_the_state_of_its_counterpart(cell, to_shared):
    one, other, stream = pair(cell)
    if to_shared:
        one, other = other, one
    go_on(cell, [one], stream, 18)
    go_on(cell, [one], stream, 5)
    other.load_state_dict(pickle.loads(pickle.dumps(one.state_dict())))
    for n_rows in (4, 9):
        assert_same(*go_on(cell, (one, other), stream, n_rows))


def test_a_fork_draws_as_after_the_state_it_loads():
    """Elsewhere a fork begins a stream of random numbers of its own."""
    shared, _, stream = pair(cell := cells(is_shared=True, is_prioritized=True)[0])
    go_on(cell, [shared], stream, 18)
    state = shared.state_dict()

    def draw(draws):
        shared.load_state_dict(state)
        draws.put(shared.sample_batch(8).action.numpy())

    here, there = queue.SimpleQueue(), mp.get_context("fork").SimpleQueue()
    process = mp.get_context("fork").Process(target=draw, args=(there,))
    process.start()
    draw(here)
    np.testing.assert_array_equal(there.get(), here.get())
    process.join()


def test_state_is_a_copy():
    """Other processes go on writing while it is saved."""
    cell = cells(is_shared=True, is_prioritized=True)[0]
    shared, _, stream = pair(cell)
    go_on(cell, [shared], stream, 18)
    state = shared.state_dict()
    before = copy.deepcopy(state)
    go_on(cell, [shared], stream, 21)
    np.testing.assert_equal(state, before)


def test_frozen_it_is_no_copy_and_nobody_writes():
    cell = cells(is_shared=True, is_prioritized=True)[0]
    shared, _, stream = pair(cell)
    go_on(cell, [shared], stream, 18)
    batch = cell.samples(stream.steps(7))
    context = mp.get_context("fork")
    begun = context.Event()

    def append():
        begun.set()
        shared.append_samples(batch)

    process = context.Process(target=append)
    with shared.frozen():
        state = shared.state_dict()
        assert np.shares_memory(state["rows"]["reward"], shared.samples.reward)
        process.start()
        assert begun.wait(60)
        process.join(0.3)
        assert process.is_alive()
        np.testing.assert_equal(shared.state_dict(), state)
    process.join(60)
    assert process.exitcode == 0
    assert not np.shares_memory(shared.state_dict()["rows"]["reward"], shared.samples.reward)
    assert shared.t == (18 + 7) % shared.T


def make(cls=AsyncUniformReplayBuffer, **kwargs):
    buffer = cls(example=samples()[0, 0], size=20, B=1, **kwargs)
    buffer.append_samples(samples())
    return buffer


def test_subclass_that_reads_and_writes_the_storage_itself():
    class Own(AsyncPrioritizedReplayBuffer):
        def sample_batch(self, batch_B):
            with self.rw_lock:
                self._async_pull()
                (T_idxs, B_idxs), _ = self.priority_tree.sample(batch_B, unique=self.unique)
                return self.extract_batch(T_idxs, B_idxs)

        def append_samples(self, samples):
            with self.rw_lock.write_lock:
                self._async_pull()
                first = self.t
                result = super().append_samples(samples)
                self.samples.reward[first] = 100
                self._async_push()
                return result

    buffer = make(Own)
    assert buffer.samples.reward[:3, 0].tolist() == [100, 1, 2]
    assert buffer.sample_batch(5).action.shape == (5,)


def test_an_error_while_rows_are_written_makes_the_buffer_useless():
    class Failing(AsyncUniformReplayBuffer):
        def compute_returns(self, T):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        make(Failing)
    buffer = Failing(example=samples()[0, 0], size=20, B=1)
    with pytest.raises(OSError, match="no space"):
        buffer.append_samples(samples())
    for call in (lambda: buffer.append_samples(samples()), lambda: buffer.sample_batch(1)):
        with pytest.raises(RuntimeError, match="ended or failed while it wrote"):
            call()


def test_memory_that_only_forks_inherit_is_not_copied_in_silence(monkeypatch):
    """A process that was spawned used to fill a copy of its own."""
    monkeypatch.setattr(mp, "get_start_method", lambda **kwargs: "fork")
    with pytest.raises(RuntimeError, match=r"multiprocessing.set_start_method before it is made"):
        pickle.dumps(make())


@pytest.mark.parametrize("cell", SHARED, ids=str)
def test_all_arrays_are_in_shared_memory(cell, monkeypatch):
    monkeypatch.setattr(mp, "get_start_method", lambda **kwargs: "spawn")
    buffer, _, stream = pair(cell)
    go_on(cell, [buffer], stream, 18)
    arrays = [*buffer.stored_rows.values()]
    if cell.is_prioritized:
        arrays += [buffer.priority_tree.tree, buffer.priority_tree._inputs]
    assert len(arrays) > 4
    assert all(isinstance(array, np_mp_array_spawn) for array in arrays)


# --- Queues of batches ----------------------------------------------------------------------------


def numbered(number):
    """A batch [2,3] of equal numbers; not every field is an array."""
    array = np.full((2, 3), number)
    return Samples(AgentSamples(array, array.astype(np.float32), None), array.astype(bool))


def read(queue):
    """The number of the next batch, whose fields belong together."""
    batch = queue.next_batch()
    if batch is None:
        return None
    number = int(batch.agent.action[0, 0])
    assert all(
        (np.asarray(x) == number).all() for x in (batch.agent.action, batch.agent.prev_action)
    )
    assert batch.agent.agent_info is None
    assert bool(batch.env.all()) == (number > 0)
    return number


def test_a_queue_gives_each_batch_once_in_order():
    queue = BatchQueue(numbered(0), capacity=3)
    assert read(queue) is None
    queue.append_samples(numbered(1))
    batch = queue.next_batch()
    for number in (2, 3, 4):
        queue.append_samples(numbered(number))
    assert (batch.agent.action == 1).all(), "it is a copy"
    assert [read(queue) for _ in range(4)] == [2, 3, 4, None]


def test_a_full_queue_loses_the_oldest():
    queue = BatchQueue(numbered(0), capacity=3)
    for number in range(1, 6):
        queue.append_samples(numbered(number))
    assert [read(queue) for _ in range(4)] == [3, 4, 5, None]
    assert queue.n_read == 5


def test_a_queue_continues_from_its_state():
    queue, other = (BatchQueue(numbered(0), capacity=3) for _ in range(2))
    for number in range(1, 5):
        queue.append_samples(numbered(number))
    assert read(queue) == 2
    state = queue.state_dict()
    queue.append_samples(numbered(9))  # The state is a copy.
    other.load_state_dict(pickle.loads(pickle.dumps(state)))
    other.append_samples(numbered(5))
    assert [read(other) for _ in range(4)] == [3, 4, 5, None]


def fill(queue, n_batches, begun):
    begun.set()
    for number in range(1, n_batches + 1):
        queue.append_samples(numbered(number))


@pytest.mark.parametrize("start_method", ["fork", *["spawn"] * FULL])
def test_another_process_fills_a_queue_while_it_is_read(start_method):
    with shared_memory_for(start_method):
        queue = BatchQueue(numbered(0), capacity=2)
        context = mp.get_context(start_method)
        begun = context.Event()
        process = context.Process(target=fill, args=(queue, 50, begun))
        process.start()
    assert begun.wait(60)
    numbers = []

    def has_come():
        numbers.extend(number for number in [read(queue)] if number is not None)
        return numbers and numbers[-1] == 50

    wait_until(has_come, pause_s=0)  # Each is whole, and none comes twice.
    process.join()
    assert numbers == sorted(set(numbers))
