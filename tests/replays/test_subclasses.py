"""Classes as research code writes them: own compositions and overridden methods."""

import numpy as np
import pytest
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.base import BaseReplayBuffer
from rlpyt.replays.non_sequence import prioritized as transitions
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import (
    PrioritizedReplay,
    PrioritizedReplayBuffer,
    SamplesFromReplayPri,
)
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence import prioritized as sequences
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.replays.sum_tree import AsyncSumTree, SumTree
from rlpyt.utils.collections import namedarraytuple


def samples(T=8, B=1, observation=None):
    number = np.arange(T, dtype=np.float32)[:, None].repeat(B, 1)
    if observation is None:
        observation = number[..., None]
    return SamplesToBuffer(observation, number.astype(int), number, number == 3)


def make(cls, **kwargs):
    buffer = cls(example=samples()[0, 0], size=20, B=1, **kwargs)
    buffer.append_samples(samples())
    return buffer


@pytest.mark.parametrize("base", [UniformReplayBuffer, UniformSequenceReplayBuffer])
def test_overridden_extract_batch_adds_what_else_is_stored(base):
    # The library did so before, and the field came twice.
    class Buffer(base):
        def extract_batch(self, T_idxs, B_idxs, *T):
            batch = super().extract_batch(T_idxs, B_idxs, *T)
            Batch = namedarraytuple("SamplesWithGoal", [*batch._fields, "goal"])
            return Batch(*batch, goal=torch.from_numpy(self.samples.goal[T_idxs, B_idxs]))

    record = namedarraytuple("SamplesWithGoal", [*SamplesToBuffer._fields, "goal"])
    steps = record(*samples(), np.arange(10, 18)[:, None])
    more = {"rnn_state_interval": 0, "batch_T": 2} if base is UniformSequenceReplayBuffer else {}
    buffer = Buffer(example=steps[0, 0], size=20, B=1, **more)
    buffer.append_samples(steps)
    batch = buffer.sample_batch(4)
    assert batch._fields[-1] == "goal"
    assert (batch.goal >= 11).all()


@pytest.mark.parametrize("module", [transitions, sequences])
def test_own_sample_batch_unpacks_the_record_of_the_library(module):
    # Fields that were added to the samples came out of extract_batch, too many for the record.
    is_sequence = module is sequences
    base = module.PrioritizedSequenceReplayBuffer if is_sequence else module.PrioritizedReplayBuffer

    class Buffer(base):
        def sample_batch(self, batch_B):
            self._async_pull()
            (T_idxs, B_idxs), _ = self.priority_tree.sample(batch_B, unique=self.unique)
            batch = self.extract_batch(T_idxs, B_idxs, *([self.batch_T] if is_sequence else []))
            return module.SamplesFromReplayPri(*batch, is_weights=torch.ones(batch_B))

    record = namedarraytuple("SamplesWithGoal", [*SamplesToBuffer._fields, "goal"])
    steps = record(*samples(), np.arange(10, 18)[:, None])
    kwargs = {"rnn_state_interval": 0, "batch_T": 2} if is_sequence else {}
    own, ours = (cls(example=steps[0, 0], size=20, B=1, **kwargs) for cls in (Buffer, base))
    own.append_samples(steps)
    ours.append_samples(steps)
    assert type(own.sample_batch(4)) is module.SamplesFromReplayPri
    batch = ours.sample_batch(4)
    assert batch._fields[-2:] == ("goal", "is_weights")
    action = batch.all_action[1:3] if is_sequence else batch.action
    assert torch.equal(batch.goal, action + 10)


def test_overridden_sample_idxs():
    class Newest(UniformReplayBuffer):
        def sample_idxs(self, batch_B):
            T_idxs = (self.t - 1 - self.off_backward - np.arange(batch_B)) % self.T
            return T_idxs, np.zeros(batch_B, int)

    assert make(Newest).sample_batch(3).action.tolist() == [6, 5, 4]


def test_parts_in_another_order_are_refused():
    Place = namedarraytuple("Place", ["position", "speed"])
    Other = namedarraytuple("Other", ["speed", "position"])
    parts = np.zeros((8, 1)), np.ones((8, 1))
    buffer = UniformReplayBuffer(example=samples(observation=Place(*parts))[0, 0], size=20, B=1)
    buffer.append_samples(samples(observation=Place(*parts)))
    with pytest.raises(ValueError, match="append records with the fields of the example"):
        buffer.append_samples(samples(observation=Other(*parts)))


@pytest.mark.parametrize("in_example", [True, False])
def test_fields_that_are_none_are_not_stored(in_example):
    # DDPG's record of rlpyt 0.1.2 has the field timeout, which is None without time limits.
    plain = samples()
    Record = namedarraytuple("Record", (*plain._fields, "timeout"))
    example, batch = plain[0, 0], Record(*plain, timeout=None)
    if in_example:
        example, batch = Record(*example, timeout=None), plain
    buffer = UniformReplayBuffer(example=example, size=20, B=1)
    buffer.append_samples(batch)
    assert buffer.samples._fields == plain._fields
    assert "timeout" not in buffer.extract_batch([2], [0])._fields


def test_a_buffer_that_a_program_shares_has_a_shared_tree():
    class Shared(PrioritizedReplayBuffer):
        async_ = True

    assert type(make(Shared).priority_tree) is AsyncSumTree
    assert type(make(PrioritizedReplayBuffer).priority_tree) is SumTree


def test_overridden_append_samples_and_own_keyword():
    class Scaled(PrioritizedReplayBuffer):
        def __init__(self, reward_scale, **kwargs):
            super().__init__(**kwargs)
            self.reward_scale = reward_scale

        def append_samples(self, samples):
            n_rows, rows = super().append_samples(samples)
            self.samples.reward[rows] *= self.reward_scale
            return n_rows, rows

    buffer = make(Scaled, reward_scale=10, alpha=0.7, beta=0.5)
    assert buffer.samples.reward[:8, 0].tolist() == [0, 10, 20, 30, 40, 50, 60, 70]
    assert (buffer.alpha, buffer.beta, buffer.unique) == (0.7, 0.5, False)


def test_sharing_the_cursor_of_a_replay_class_of_ones_own():
    # The mixin asked for a part that only the library's storage has.
    class Own(BaseReplayBuffer):
        def __init__(self):
            super().__init__()
            self.t, self._buffer_full, self.rows = 0, False, np.zeros(4)

        def append_samples(self, samples):
            self.rows[self.t] = samples
            self._buffer_full |= self.t == 3
            self.t = (self.t + 1) % 4

        def sample_batch(self, batch_B):
            return self.rows[: 4 if self._buffer_full else self.t].sum()

    class Shared(AsyncReplayBufferMixin, Own): ...

    buffer = Shared()
    for i in range(1, 6):
        buffer.t, buffer._buffer_full = 0, False  # Another process would not know.
        buffer.append_samples(i)
        assert buffer.sample_batch(1) == [1, 3, 6, 10, 14][i - 1]
        assert buffer.async_t.value == i % 4


def test_overridden_extract_batch_under_priorities():
    WithDelta = namedarraytuple("WithDelta", [*SamplesFromReplay._fields, "delta"])
    Weighted = namedarraytuple("Weighted", [*SamplesFromReplayPri._fields, "delta"])

    class Storage(NStepReturnBuffer):
        def extract_batch(self, T_idxs, B_idxs):
            batch = super().extract_batch(T_idxs, B_idxs)
            return WithDelta(*batch, delta=batch.return_ * 2)

    class Buffer(PrioritizedReplay, Storage):
        def weight_batch_samples(self, batch, is_weights):
            return Weighted(**dict(batch.items()), is_weights=is_weights)

    batch = make(Buffer).sample_batch(4)
    assert type(batch) is Weighted
    assert torch.equal(batch.delta, batch.return_ * 2)
    assert batch.is_weights.tolist() == [1, 1, 1, 1]


def test_priorities_over_a_replay_class_of_ones_own():
    class Own(BaseReplayBuffer):
        def __init__(self):
            super().__init__()
            self.T, self.B, self.off_backward, self.off_forward = 8, 1, 1, 1

        def append_samples(self, samples):
            return len(samples.reward), slice(len(samples.reward))

        def extract_batch(self, T_idxs, B_idxs):
            return namedarraytuple("OwnBatch", ["row"])(torch.from_numpy(T_idxs))

    class Prioritized(PrioritizedReplay, Own): ...

    buffer = Prioritized(unique=True)
    buffer.append_samples(samples(5))
    batch = buffer.sample_batch(3)
    assert batch._fields == ("row", "is_weights")
    assert sorted(batch.row.tolist()) == [1, 2, 3]


@pytest.mark.parametrize("n_step_return", [1, 2])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_samples_that_a_program_changes_are_drawn_and_saved(n_step_return, device):
    record = namedarraytuple("Steps", [*SamplesToBuffer._fields, "timeout", "goal"])

    def steps(first):
        flags = np.zeros((4, 1), bool)
        number = np.arange(first, first + 4, dtype=np.float32)[:, None]
        return record(number[..., None], number, number, flags, flags, number)

    kwargs = {"size": 8, "B": 1, "n_step_return": n_step_return, "device": device}
    buffer, other = (TlUniformReplayBuffer(example=steps(0)[0, 0], **kwargs) for _ in range(2))
    buffer.append_samples(steps(1))
    buffer.samples.goal[:4] = 7
    buffer.samples.timeout[:1] = True
    buffer.append_samples(steps(5))
    batch = buffer.read_batch(np.array([0, 4]), np.zeros(2, int))
    assert batch.action.tolist() == [1, 5]
    assert batch.return_.tolist() == ([1, 5] if n_step_return == 1 else [3, 11])
    assert batch.timeout.tolist() == [True, False]
    assert batch.goal.tolist() == [7, 5]
    other.load_state_dict(buffer.state_dict())
    assert other.samples.action[:, 0].tolist() == list(range(1, 9))
