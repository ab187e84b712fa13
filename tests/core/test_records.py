"""The shared records and what is computed in them."""

import numpy as np
import pytest

from rlpyt.core.records import SamplesToBuffer, TrajInfo, extended, stacking_of


def test_returns_of_long_episodes_keep_their_digits():
    # Sums of float32 rewards used to be float32 with numpy 2.
    traj_info = TrajInfo()
    for _ in range(100_000):
        traj_info.step(None, None, np.float32(0.1), False, None, None)
    assert abs(traj_info.Return - 100_000 * float(np.float32(0.1))) < 1e-6


def test_rewards_may_be_vectors():
    traj_info = TrajInfo()
    for _ in range(2):
        traj_info.step(None, None, np.array([1.0, 0.0]), False, None, None)
    assert traj_info.Return.tolist() == [2, 0]
    assert traj_info.NonzeroRewards.tolist() == [2, 0]


def test_records_with_more_fields():
    cls = extended(SamplesToBuffer, ("lives", "level"), "Lives")
    assert cls.__name__ == "SamplesToBufferLives"
    assert cls._fields == (*SamplesToBuffer._fields, "lives", "level")
    assert extended(SamplesToBuffer, ("lives", "level"), "Lives") is cls
    assert extended(SamplesToBuffer, ()) is SamplesToBuffer
    with pytest.raises(ValueError, match=r"SamplesToBuffer already has fields \['done'\]"):
        extended(SamplesToBuffer, ("done",))


def _stacks(begin, n=5):
    frames = list(np.random.default_rng(0).integers(1, 256, (n, 4, 5), dtype=np.uint8))
    past = [frames[0] if begin == "repeated" else np.zeros_like(frames[0])] * 2
    return [np.stack((past + frames)[t : t + 3]) for t in range(n)]


@pytest.mark.parametrize("begin", ["zeros", "repeated"])
def test_stacks_of_frames_are_known_by_their_steps(begin):
    stacks = _stacks(begin)
    assert stacking_of(stacks, stacks[0]) == begin
    assert stacking_of([image[::-1] for image in stacks], stacks[0]) == "none"  # Newest first.
    assert stacking_of([np.ones_like(stacks[0])] * 3, stacks[0]) is None  # Nothing moves.


def test_colors_are_no_stack_of_frames():
    # Shape and type were taken for frames, and the run ended with the first batch.
    images = list(np.random.default_rng(0).integers(0, 256, (4, 3, 3, 3), dtype=np.uint8))
    assert stacking_of(images, images[0]) == "none"


@pytest.mark.parametrize("begin", ["zeros", "repeated"])
def test_stacks_that_keep_frames_over_a_reset_are_stored_whole(begin):
    # The first reset alone looks like those of the others.
    stacks = _stacks(begin)
    assert stacking_of(stacks, stacks[2]) == "none"
