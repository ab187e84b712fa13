"""The shared records and what is computed in them."""

import numpy as np
import pytest

from rlpyt.core.records import SamplesToBuffer, TrajInfo, extended


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
