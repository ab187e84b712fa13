"""Every composition of parts equals a twin that remembers everything, over random sequences."""

import itertools

import numpy as np
import pytest

from rlpyt.replays.non_sequence.frame import PrioritizedReplayFrameBuffer, UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import (
    TlPrioritizedReplayBuffer,
    TlPrioritizedReplayFrameBuffer,
    TlUniformReplayBuffer,
    TlUniformReplayFrameBuffer,
)
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.reference.naive_replay import NaiveReplay, Stream

# (prioritized, frames, time limit)
CLASSES = {
    (False, False, False): UniformReplayBuffer,
    (False, False, True): TlUniformReplayBuffer,
    (False, True, False): UniformReplayFrameBuffer,
    (False, True, True): TlUniformReplayFrameBuffer,
    (True, False, False): PrioritizedReplayBuffer,
    (True, False, True): TlPrioritizedReplayBuffer,
    (True, True, False): PrioritizedReplayFrameBuffer,
    (True, True, True): TlPrioritizedReplayFrameBuffer,
}
N_SEQUENCES = 40
N_APPENDS = 12

Samples = namedarraytuple("Samples", ["observation", "action", "reward", "done", "timeout", "note"])


def as_samples(steps):
    """Arrays [T,B,...] of a list over time of lists over environments."""
    columns = [np.array([[step[i] for step in row] for row in steps]) for i in range(6)]
    columns[2] = columns[2].astype(np.float32)
    return Samples(*columns)


def make(cls, rng, n_step):
    B, n_frames = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    T = n_step + n_frames + int(rng.integers(2, 9))
    stream = Stream(rng, B, n_frames, done_prob=rng.choice([0.0, 0.1, 0.4, 0.8]))
    example = as_samples(stream.steps(1))[0, 0]
    # A float, and not always a multiple of B.
    size = float(T * B - rng.integers(B))
    buffer = cls(example=example, size=size, B=B, discount=0.9, n_step_return=n_step)
    assert T == buffer.T
    fill_with_magic(buffer)
    return buffer, stream, NaiveReplay(T, B, n_step, 0.9, buffer.off_forward)


def fill_with_magic(buffer):
    """No cell which was not written looks like one that was."""
    for rows in buffer.stored_rows.values():
        rows[...] = {"f": np.nan, "b": True, "u": 255, "i": -777}[rows.dtype.kind]


def flat_fields(batch):
    fields = dict(batch.items())
    inputs, target = fields.pop("agent_inputs"), fields.pop("target_inputs")
    fields.update(inputs.items())
    fields.update(("target_" + name, x) for name, x in target.items())
    return {name: x.numpy() for name, x in fields.items()}


def assert_equals_twin(batch, twin, rows, envs):
    expected = [twin.transition(g, b) for g, b in zip(rows, envs, strict=True)]
    for name, actual in flat_fields(batch).items():
        if name == "is_weights":
            continue
        desired = np.array([e[name] for e in expected])
        # Not assert_allclose, which takes most of the time; rewards are small whole numbers.
        is_float = actual.dtype.kind == "f"
        is_same = np.abs(actual - desired) < 1e-4 if is_float else actual == desired
        assert is_same.all(), (name, actual, desired)


def check_all_valid(buffer, twin):
    """Every valid entry is right, whether drawn or not."""
    entries = list(itertools.product(twin.valid_rows(), range(buffer.B)))
    assert buffer.window.newest_valid(buffer.T)[1] == len(twin.valid_rows())
    if not entries:
        with pytest.raises(ValueError, match="min_steps_learn"):
            buffer.sample_batch(1)
        return
    rows, envs = zip(*entries, strict=True)
    batch = buffer.extract_batch(np.array(rows) % buffer.T, np.array(envs))
    assert_equals_twin(batch, twin, rows, envs)


def check_sample(buffer, twin):
    """A drawn batch holds only valid entries; the field ``note`` tells which they are."""
    if not twin.valid_rows():
        return
    batch = buffer.sample_batch(8)
    count = {twin.logs[b][g].note: (g, b) for g in twin.valid_rows() for b in range(buffer.B)}
    rows, envs = zip(*(count[int(note)] for note in batch.note), strict=True)
    assert_equals_twin(batch, twin, rows, envs)
    if hasattr(buffer, "priority_tree"):
        check_weights(buffer, batch)
        buffer.update_batch_priorities(buffer.rng.random(8) + 0.1)


def check_weights(buffer, batch):
    leaves = buffer.priority_tree.prev_tree_idxs - buffer.priority_tree.low_idx
    priorities = buffer.priority_tree.priorities.ravel()[leaves]
    weights = (1 / (priorities + 1e-6)) ** buffer.beta
    np.testing.assert_allclose(batch.is_weights.numpy(), weights / weights.max(), rtol=1e-5)


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("parts", CLASSES)
def test_equals_naive_replay(parts, n_step):
    cls = CLASSES[parts]
    rng = np.random.default_rng([n_step, *map(int, parts)])
    for _ in range(N_SEQUENCES):
        buffer, stream, twin = make(cls, rng, n_step)
        for i in range(N_APPENDS):
            longest = min(buffer.T, rng.choice([2, 5, 100]))
            steps = stream.steps(int(rng.integers(1, 1 + longest)))
            samples = as_samples(steps)
            buffer.append_samples(torchify_buffer(samples) if i % 2 else samples)
            twin.append(steps)
            check_all_valid(buffer, twin)
            check_sample(buffer, twin)


@pytest.mark.parametrize("parts", CLASSES)
def test_all_valid_entries_are_drawn(parts):
    rng = np.random.default_rng(3)
    buffer, stream, twin = make(CLASSES[parts], rng, 2)
    for n_steps in (buffer.T - 1, 4, 3):
        steps = stream.steps(n_steps)
        buffer.append_samples(as_samples(steps))
        twin.append(steps)
        notes = {int(note) for note in buffer.sample_batch(3000).note}
        assert notes == {twin.logs[b][g].note for g in twin.valid_rows() for b in range(buffer.B)}
