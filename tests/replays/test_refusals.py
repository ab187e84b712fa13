"""What replay buffers refuse: calls, and what their errors name; batches, which change nothing."""

from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays._window import Window
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.replays.sequence.frame import (
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.time_limit import TlUniformSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.collections import namedarraytuple
from tests.refused import assert_refused
from tests.replays import test_hindsight as goals
from tests.replays.cells import Pixels, RnnState, WithPriorities, rnn_state_of
from tests.replays.test_non_sequence import (
    SamplesTl,
    filled,
    frame_example,
    scalar_example,
    scalar_samples,
    uniform,
)
from tests.replays.test_sequence import make as sequences, samples as steps
from tests.replays.test_sum_tree import weighted_tree

UNIFORM, PRIORITIZED = UniformReplayBuffer, PrioritizedReplayBuffer
SEQUENCE, PRIORITIZED_SEQUENCE = UniformSequenceReplayBuffer, PrioritizedSequenceReplayBuffer
ON_DEVICE = {"device": "cpu"}
Named = namedarraytuple("Named", [*SamplesToBuffer._fields, "return_"])
STACK = frame_example(np.zeros((4, 6, 5), np.uint8))

SETTINGS = [
    *(
        (partial(uniform, cls=cls, **{name: value}), f"{name} is {value}")
        for cls in (UNIFORM, PRIORITIZED)
        for name, value in (("size", 0), ("B", 0), ("n_step_return", 0))
    ),
    *(
        (partial(uniform, cls=PRIORITIZED, **{name: value}), f"{name} is {value}")
        for name, value in (
            ("alpha", -1),
            ("alpha", 1.5),
            ("default_priority", 0),
            ("default_priority", None),
        )
    ),
    (lambda: uniform(size=8, B=4, n_step_return=3), "size"),
    (lambda: uniform(surprise=1), "surprise", TypeError),
    (lambda: UNIFORM(Named(*scalar_example(), np.float32(0)), 10, 1), "return_"),
    (lambda: TlUniformReplayBuffer(scalar_example(), 100, 1), "timeout"),
    *(
        (partial(UniformReplayFrameBuffer, frame_example(x), 100, 1), "UniformReplayBuffer")
        for x in (np.zeros(3, np.float32), np.float32(0), Pixels(0, 1))
    ),
    *(
        (partial(sequences, cls, **{name: value}), words)
        for cls in (SEQUENCE, PRIORITIZED_SEQUENCE)
        for name, value, words in (
            ("interval", -1, "rnn_state_interval is -1"),
            ("interval", 2.5, "rnn_state_interval is 2.5"),
            ("batch_T", 0, "batch_T is 0"),
            ("batch_T", 36, "batch_T=36"),
            ("T", 0, "size is 0"),
        )
    ),
    *(
        (partial(sequences, cls), "observation")
        for cls in (UniformSequenceReplayFrameBuffer, PrioritizedSequenceReplayFrameBuffer)
    ),
    (lambda: sequences(TlUniformSequenceReplayBuffer), "timeout"),
    (lambda: sequences(PRIORITIZED_SEQUENCE, batch_T=None), "batch_T is None"),
    (
        lambda: sequences(PRIORITIZED_SEQUENCE, input_priorities=True, input_priority_shift=4),
        "input_priority_shift is 4",
    ),
    *(
        (partial(SEQUENCE, scalar_example(), 40, 1, interval), "not prev_rnn_state")
        for interval in (1, 4)
    ),
    *(
        (partial(goals.make, **{name: value}), name)
        for name, value in (
            ("relabeled_fraction", 1.5),
            ("horizon", 0),
            ("n_step_return", 3),
            ("device", "cpu"),
        )
    ),
    (lambda: goals.make(example=SamplesToBuffer(np.zeros(3), 0, 0.0, True)), "observ"),
    *(
        (partial(cls, scalar_example(), 20, 2, device=device), f"device is '{device}'")
        for cls, device in ((UNIFORM, "no-such-device"), (AsyncUniformReplayBuffer, "cpu"))
    ),
    *(
        (partial(SumTree, 8, 2, 1, 1, default_value=value), "default_value")
        for value in (0, -1, np.nan, np.inf)
    ),
    # Priorities that came too late were left out without a word.
    *(
        (partial(SumTree, 8, 2, 1, 1, input_priority_shift=n), f"input_priority_shift is {n}")
        for n in (-1, 2)
    ),
    (lambda: Window(T=4, B=4, off_backward=3, off_forward=1), "size at least 20"),
]


def tree(n_rows=0, n_drawn=0):
    made = SumTree(8, 2, 1, 1)
    made.advance(n_rows)
    if n_drawn:
        made.sample(n_drawn)
    return made


def drained():
    made = tree(6, 50)
    made.update_batch_priorities(0)
    return made


def frames():
    return UniformReplayFrameBuffer(STACK, 40, 2)


def sequences_of_frames():
    example = steps(1)[0, 0]._replace(observation=np.zeros((4, 6, 5), np.uint8))
    return UniformSequenceReplayFrameBuffer(example, 80, 2, 1, batch_T=3)


CALLS = [
    *(
        (partial(uniform(cls=cls).sample_batch, 2), "min_steps_learn")
        for cls in (UNIFORM, PRIORITIZED)
    ),
    (lambda: filled(PRIORITIZED, 6, 1, unique=True).sample_batch(16), "only"),
    # Another row of another environment used to be read.
    *(
        (partial(method, *args), words, IndexError)
        for method, args, words in (
            (filled(UNIFORM).extract_batch, ([3, 3], [0, 5]), "0 to 5 -2 to 1"),
            (filled(UNIFORM, **ON_DEVICE).extract_batch, ([3, 3], [0, 5]), "0 to 5 -2 to 1"),
            (filled(UNIFORM).extract_observation, (np.array([3]), np.array([-3])), "-3 to -3"),
        )
    ),
    *(
        (
            partial(frames().extract_observation, np.array([1, t]), np.array([0, b])),
            "(20, 2)",
            IndexError,
        )
        for t, b in ((20, 0), (-1, 0), (0, 2), (0, -1))
    ),
    *(
        (
            partial(
                sequences_of_frames().extract_observation, np.array([1, t]), np.array([0, b]), 5
            ),
            "(40, 2)",
            IndexError,
        )
        for t, b in ((40, 0), (-1, 0), (0, 2), (0, -1))
    ),
    (lambda: sequences(n_filled=40).sample_batch(2, 36), "batch_T=36"),
    (lambda: sequences(n_filled=40).set_batch_T(36), "batch_T=36"),
    (lambda: sequences(n_filled=40).extract_batch([0], [0], 36), "batch_T=36"),
    (lambda: sequences(n_filled=40).extract_batch([4, 6], [0, 0]), "rnn_state_interval=4"),
    (
        lambda: sequences(n_filled=40, device="cpu").read_batch([4, 6], [0, 0], 4),
        "rnn_state_interval=4",
    ),
    (lambda: sequences(batch_T=None, n_filled=30).sample_batch(2), "batch_T is None"),
    (lambda: sequences(PRIORITIZED_SEQUENCE, 40).sample_batch(2, 5), "batch_T=6"),
    (lambda: sequences(PRIORITIZED_SEQUENCE, 40, unique=True).sample_batch(7), "only 6"),
    *(
        (partial(sequences(cls, 8).sample_batch, 2), "min_steps_learn")
        for cls in (SEQUENCE, PRIORITIZED_SEQUENCE)
    ),
    (
        lambda: uniform(cls=AsyncUniformReplayBuffer).update_batch_priorities(np.ones(3)),
        "AsyncUniformReplayBuffer no priorities",
        NotImplementedError,
    ),
    # There used to be duplicates, and an empty tree returned leaf 0.
    (lambda: weighted_tree([1.0, 2, 3, 4]).sample(5, unique=True), "5 distinct only 4"),
    (lambda: tree().sample(1), "0 of T=8 rows"),
    (lambda: tree(2).sample(1), "2 of T=8 rows"),
    (lambda: drained().sample(1), "priorities of all entries are 0"),
    (lambda: tree(6).update_batch_priorities(1.0), "call sample first"),
    (lambda: tree(6, 4).update_batch_priorities(np.ones(3)), "(3,) (4,)"),
    *(
        (partial(tree(6, 2).update_batch_priorities, np.array([1.0, bad])), "finite")
        for bad in (np.nan, np.inf, -1.0)
    ),
    *((partial(weighted_tree([1.0]).advance, 1, bad), "finite") for bad in (np.nan, np.inf, -1.0)),
    (lambda: tree().advance(1, priorities=1.0), "input_priorities=True"),
    (lambda: tree().advance(9), "9 rows at once"),
    (
        lambda: SumTree(8, 2, 1, 1, enable_input_priorities=True).advance(2, np.ones(3)),
        "shape (3,)",
    ),
    (lambda: SumTree(7, 2, 1, 1).load_state_dict(tree().state_dict()), "T=8 B=2"),
    (
        lambda: SumTree(8, 2, 1, 1, enable_input_priorities=True).load_state_dict(
            tree().state_dict()
        ),
        "enable_input_priorities",
    ),
]


@pytest.mark.parametrize("refused", [*SETTINGS, *CALLS])
def test_refused(refused):
    assert_refused(*refused)


# --- Batches --------------------------------------------------------------------------------------

GOOD = scalar_samples(3, B=2)
Swapped = namedarraytuple("Swapped", ["action", "observation", "reward", "done"])
WRONG = [
    (scalar_samples(3, B=1), "B=2"),
    (GOOD._replace(action=np.zeros((2, 2), int)), "action"),
    (scalar_samples(21, B=2), "21 rows size at least 42"),
    (scalar_samples(3, B=2, cls=SamplesTl), "timeout"),
    (GOOD._replace(action=None), "action"),
    (Swapped(GOOD.action, GOOD.observation, GOOD.reward, GOOD.done), "order"),
]
BAD = (-1.0, np.nan, np.inf, np.ones(7), -np.ones((3, 2)))
WRONG_STATES = (
    None,
    RnnState(np.zeros((4, 1, 2, 3), np.float32), None),
    rnn_state_of(np.zeros((3, 1))),
    rnn_state_of(np.zeros((4, 2))),
    np.zeros((4, 1, 2, 3)),
)
WITH_INPUT = {"input_priorities": True}
BATCHES = [
    *(
        (partial(filled, cls, 4, **where), *wrong)
        for cls, where in (
            (UNIFORM, {}),
            (UNIFORM, ON_DEVICE),
            (PRIORITIZED, {}),
            (AsyncPrioritizedReplayBuffer, {}),
        )
        for wrong in WRONG
    ),
    # The rows used to be there then, and the tree behind them.
    *(
        (partial(filled, cls, 4), WithPriorities(1.0, GOOD), "input_priorities")
        for cls in (PRIORITIZED, AsyncPrioritizedReplayBuffer)
    ),
    # With alpha 0 all of them used to become 1.
    *(
        (
            partial(filled, PRIORITIZED, 4, alpha=alpha, **WITH_INPUT),
            WithPriorities(bad, GOOD),
            "priorities",
        )
        for alpha in (0, 0.6)
        for bad in BAD
    ),
    (frames, frame_example(np.zeros((3, 2, 4, 5, 6), np.uint8)), "(2, 4, 6, 5)"),
    *(
        (
            partial(sequences, n_filled=44, interval=n),
            steps(4, 1)._replace(prev_rnn_state=wrong),
            "prev_rnn_state",
        )
        for n in (1, 4)
        for wrong in WRONG_STATES
    ),
    *(
        (partial(sequences, cls, 44), steps(8, 50)._replace(action=np.zeros((8, 2), int)), "action")
        for cls in (SEQUENCE, PRIORITIZED_SEQUENCE)
    ),
    *(
        (
            partial(sequences, PRIORITIZED_SEQUENCE, B=2, **WITH_INPUT),
            WithPriorities(bad, steps(4, B=2)),
            "priorities",
        )
        for bad in (np.ones((3, 2)), np.ones(3), np.full(2, -1.0), np.full(2, np.nan))
    ),
    (partial(sequences, PRIORITIZED_SEQUENCE), WithPriorities(1.0, steps(4)), "input_priorities"),
]


def contents(buffer):
    """Copies of all rows, also of those that were never written."""
    tree = getattr(buffer, "priority_tree", None)
    priorities = None if tree is None else (tree.t, tree.tree.copy())
    return (
        buffer.t,
        priorities,
        {name: as_numpy(x).copy() for name, x in buffer.stored_rows.items()},
    )


@pytest.mark.parametrize(("make", "batch", "words"), BATCHES)
def test_refused_batches_change_nothing(make, batch, words):
    buffer = make()
    before = contents(buffer)
    assert_refused(lambda: buffer.append_samples(batch), words)
    np.testing.assert_equal(contents(buffer), before)


@pytest.mark.parametrize("alpha", [0, 0.6])
def test_refused_priorities_change_nothing(alpha):
    buffer = filled(PRIORITIZED, alpha=alpha)
    buffer.sample_batch(2)
    before = buffer.priority_tree.tree.copy()
    for bad in BAD[:3]:
        assert_refused(
            lambda bad=bad: buffer.update_batch_priorities(torch.tensor([1.0, bad])), "finite"
        )
    np.testing.assert_array_equal(buffer.priority_tree.tree, before)


def test_a_window_that_refuses_its_margins_keeps_the_old_ones():
    window = Window(T=5, B=4, off_backward=3, off_forward=1)
    assert_refused(lambda: window.set_margins(3, 2), "T=5 rows of B=4")
    assert window.off_forward == 1
