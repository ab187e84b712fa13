"""Returns that a time limit truncates, bootstrapped from the recorded last observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlpyt.core.records import SamplesToBuffer, extended
from rlpyt.replays.non_sequence.time_limit import (
    AsyncTlUniformReplayBuffer,
    TlPrioritizedReplayBuffer,
    TlUniformReplayBuffer,
    TlUniformReplayFrameBuffer,
)
from rlpyt.replays.sequence.time_limit import (
    AsyncTlUniformSequenceReplayBuffer,
    TlPrioritizedSequenceReplayBuffer,
    TlUniformSequenceReplayBuffer,
    TlUniformSequenceReplayFrameBuffer,
)

Record = extended(SamplesToBuffer, ("timeout", "last_observation"), "Last")
DISCOUNT = 0.5


def episodes(first: int, T: int, length: int, limited: bool) -> Any:
    """Rows [T,1] of one environment whose episodes have ``length`` steps.

    The observation of step i is i, the reward 2^i modulo 7, and the last observation -i - 1.
    """
    steps = np.arange(first, first + T)[:, None]
    done = steps % length == length - 1
    return Record(
        observation=steps.astype(np.float32),
        action=steps,
        reward=(2.0**steps % 7).astype(np.float32),
        done=done,
        timeout=done & limited,
        last_observation=(-steps - 1).astype(np.float32),
    )


def example() -> Any:
    return episodes(0, 1, 5, True)[0, 0]


@pytest.mark.parametrize(
    "BufferCls", [TlUniformReplayBuffer, TlPrioritizedReplayBuffer, AsyncTlUniformReplayBuffer]
)
@pytest.mark.parametrize("n", [1, 3, 8])
def test_targets_at_the_limit(BufferCls: Any, n: int) -> None:
    buffer = BufferCls(example=example(), size=24, B=1, discount=DISCOUNT, n_step_return=n)
    for first in range(0, 40, 4):  # Around the end of the circle.
        buffer.append_samples(episodes(first, 4, 5, True))
    batch = buffer.sample_batch(64)
    assert not batch.timeout_n.any()
    assert not batch.done_n.any()
    steps = batch.bootstrap_steps if n > 1 else np.full(64, 1)
    for i in range(64):
        t = int(batch.agent_inputs.observation[i])
        k = min(n, 5 - t % 5)
        is_truncated = n >= 5 - t % 5
        rewards = [DISCOUNT**j * (2.0 ** (t + j) % 7) for j in range(k)]
        assert batch.return_[i] == pytest.approx(sum(rewards))
        assert steps[i] == k
        target = batch.target_inputs
        assert target.observation[i] == (-(t + k) if is_truncated else t + n)
        assert target.prev_action[i] == t + k - 1
        assert target.prev_reward[i] == 2.0 ** (t + k - 1) % 7


@pytest.mark.parametrize(
    ("BufferCls", "device"),
    [
        (TlUniformSequenceReplayBuffer, None),
        (TlUniformSequenceReplayBuffer, "cpu"),
        (TlPrioritizedSequenceReplayBuffer, None),
        (AsyncTlUniformSequenceReplayBuffer, None),
    ],
)
@pytest.mark.parametrize("n", [1, 3, 8])
def test_sequences_across_the_limit(BufferCls: Any, device: Any, n: int) -> None:
    buffer = BufferCls(
        example=example(), size=36, B=1, rnn_state_interval=0, batch_T=7, discount=DISCOUNT,
        n_step_return=n, device=device,
    )  # fmt: skip
    for first in range(0, 60, 4):  # Around the end of the circle.
        buffer.append_samples(episodes(first, 4, 5, True))
    batch = buffer.sample_batch(16)
    assert not batch.timeout_n.any()
    assert not batch.done_n.any()
    steps = batch.all_observation  # [T+n,B]
    assert (batch.at_limit == (steps[:-1] % 5 == 4)).all()
    assert (batch.last_observation == -steps[:-1][batch.at_limit] - 1).all()
    left = 5 - steps[:7] % 5
    assert (batch.bootstrap_steps == left.clamp(max=n)).all()


def test_real_ends_stay_ends() -> None:
    buffer = TlUniformReplayBuffer(example=example(), size=24, B=1, n_step_return=3)
    buffer.append_samples(episodes(0, 20, 5, False))
    batch = buffer.sample_batch(64)
    assert (batch.done_n.numpy() == (batch.action.numpy() % 5 >= 2)).all()
    assert (batch.bootstrap_steps == 3).all()


def test_frame_buffers_leave_them_out() -> None:
    record = example()._replace(
        observation=np.zeros((2, 3, 3), np.uint8), last_observation=np.zeros((2, 3, 3), np.uint8)
    )
    for buffer in (
        TlUniformReplayFrameBuffer(example=record, size=24, B=1),
        TlUniformSequenceReplayFrameBuffer(record, 24, 1, 0, batch_T=4),
    ):
        assert "last_observation" not in buffer.stored_rows
