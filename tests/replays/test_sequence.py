"""Sequence buffers: recurrent states, memory of batches, sizes."""

import numpy as np
import pytest
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.sequence.frame import PrioritizedSequenceReplayFrameBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from tests.replays.cells import rnn_state_of

SamplesToBufferRnn = namedarraytuple(
    "SamplesToBufferRnn", [*SamplesToBuffer._fields, "prev_rnn_state"]
)


def samples(T, first=0, B=1, done=()):
    """Steps first, first + 1, ...: everything is the number of the step."""
    number = np.arange(first, first + T)[:, None].repeat(B, 1)
    return SamplesToBufferRnn(
        np.stack([number] * 3, -1).astype(np.float32),
        number,
        number.astype(np.float32),
        np.isin(number, done),
        rnn_state_of(number),
    )


def make(cls=UniformSequenceReplayBuffer, n_filled=0, B=1, T=40, interval=4, **kwargs):
    kwargs = {"batch_T": 6, "n_step_return": 2, "discount": 0.5, **kwargs}
    example = samples(1, B=B)[0, 0]
    buffer = cls(example=example, size=T * B, B=B, rnn_state_interval=interval, **kwargs)
    for first in range(0, n_filled, 4):
        buffer.append_samples(samples(min(4, n_filled - first), first, B))
    return buffer


@pytest.mark.parametrize("interval", [0, 1, 4])
def test_where_recurrent_states_are(interval):
    buffer = make(interval=interval, T=38)
    stored = buffer.samples_prev_rnn_state
    assert (40 if interval == 4 else 38) == buffer.T
    if interval == 0:
        assert stored is None
        assert "prev_rnn_state" not in buffer.samples._fields
    elif interval == 1:
        assert stored.h is buffer.samples.prev_rnn_state.h
    else:
        assert stored.h.shape == (10, 1, 2, 3)
        assert "prev_rnn_state" not in buffer.samples._fields


def test_a_state_may_be_one_array():
    example = samples(1)[0, 0]._replace(prev_rnn_state=np.zeros((1, 5), np.float32))
    buffer = UniformSequenceReplayBuffer(example, 40, 1, 4, batch_T=3)
    states = np.arange(20, dtype=np.float32)[:, None, None, None].repeat(5, 3)
    buffer.append_samples(torchify_buffer(samples(20)._replace(prev_rnn_state=states)))
    batch = buffer.sample_batch(7)
    assert batch.init_rnn_state.shape == (7, 1, 5)
    assert torch.equal(batch.init_rnn_state[:, 0, 0], batch.all_observation[0, :, 0])


@pytest.mark.parametrize(
    "cls", [PrioritizedSequenceReplayBuffer, PrioritizedSequenceReplayFrameBuffer]
)
def test_a_large_batch_is_not_overwritten_while_it_is_held(cls):
    """Memory of 23 MB is used again, once nobody has the batch any more."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (63, 1, 104, 80), dtype=np.uint8)
    stacks = np.stack([frames[t : t + 4].swapaxes(0, 1) for t in range(60)])
    steps = samples(60)._replace(observation=stacks)
    buffer = cls(example=steps[0, 0], size=60, B=1, rnn_state_interval=4, batch_T=20)
    buffer.append_samples(steps)
    held = [buffer.sample_batch(32) for _ in range(4)]
    places = set()
    for batch in held:
        first = batch.init_rnn_state.h[:, 0, 0].long().numpy()
        for t, observation in enumerate(batch.all_observation):
            np.testing.assert_array_equal(observation, stacks[first + t, 0])
        places.add(batch.all_observation.data_ptr())
    assert len(places) == 4
    batch = held = None
    assert buffer.sample_batch(32).all_observation.data_ptr() in places


def test_sequences_of_single_environments_are_drawn_equally():
    buffer = make(n_filled=40, B=3)
    T_idxs, B_idxs = buffer.sample_idxs(6000, 6)
    counts = np.unique(T_idxs * 3 + B_idxs, return_counts=True)[1]
    assert len(counts) == 7 * 3
    assert counts.min() > 0.7 * 6000 / 21


@pytest.mark.parametrize("interval", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("cls", [UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer])
def test_the_size_asked_for_is_enough(cls, interval):
    with pytest.raises(ValueError, match="size at least (\\d+)") as error:
        make(cls, T=7, interval=interval, B=2)
    T = int(str(error.value).split("size at least ")[1].split()[0]) // 2
    buffer = make(cls, T=T, interval=interval, B=2)
    for first in range(0, 5 * T, 3):
        buffer.append_samples(samples(3, first, 2))
        if first > 2 * T:
            assert (buffer.sample_batch(20).all_reward.diff(dim=0) == 1).all()


def test_floats_are_accepted():
    buffer = UniformSequenceReplayBuffer(samples(1)[0, 0], 1e2, 2.0, 4.0, batch_T=6.0)
    assert (buffer.T, buffer.size, buffer.rnn_state_interval, buffer.batch_T) == (52, 104, 4, 6)


def test_an_example_without_recurrent_state():
    example = SamplesToBuffer(*tuple(samples(1)[0, 0])[:4])
    buffer = UniformSequenceReplayBuffer(example, 40, 1, 0, batch_T=4)
    buffer.append_samples(SamplesToBuffer(*tuple(samples(20))[:4]))
    assert buffer.sample_batch(2).init_rnn_state is None
