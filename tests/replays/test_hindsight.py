"""Goals that were reached later: which transitions get them, and that a task is learned by them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.core.records import SamplesToBuffer, extended
from rlpyt.replays.non_sequence.hindsight import HindsightReplayBuffer, TlHindsightReplayBuffer
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from tests.envs.lock import Lock, is_open_lock, lock_reward, make_lock
from tests.learning.test_dqn import SEEDS, best_return

Observation = namedarraytuple("Observation", ["observation", "achieved_goal", "desired_goal"])
TlRecord = extended(SamplesToBuffer, ("timeout", "last_observation"), "Tl")


def distance(achieved: Any, desired: Any, info: Any) -> Any:
    assert info == {}
    return -np.abs(achieved - desired)[:, 0]


def is_near(achieved: Any, desired: Any, info: Any) -> Any:
    return np.abs(achieved - desired)[:, 0] <= 1


def rows(first: int, T: int) -> Any:
    """Rows [T,2]; the achieved goal is the number of the step, in episodes of 6 and 1 steps."""
    steps = np.arange(first, first + T, dtype=np.float32)[:, None, None].repeat(2, axis=1)
    done = np.stack([steps[:, 0, 0] % 6 == 5, np.ones(T, bool)], axis=1)
    observation = Observation(steps, steps, np.full_like(steps, -7))
    reward = np.full((T, 2), 100, np.float32)
    last = Observation(steps + 0.5, steps + 0.5, np.full_like(steps, -7))
    return TlRecord(observation, steps[..., 0].astype(int), reward, done, done, last)


def without_limits(samples: Any) -> Any:
    return SamplesToBuffer(samples.observation, samples.action, samples.reward, samples.done)


def make(BufferCls: Any = HindsightReplayBuffer, **kwargs: Any) -> Any:
    example = without_limits(rows(0, 1))[0, 0]
    return BufferCls(**{"example": example, **kwargs}, size=40, B=2, compute_reward=distance)


def filled(BufferCls: Any, **kwargs: Any) -> Any:
    convert = without_limits if BufferCls is HindsightReplayBuffer else lambda x: x
    buffer = make(BufferCls, example=convert(rows(0, 1))[0, 0], **kwargs)
    for first in range(0, 28, 4):  # Around the end of the circle.
        buffer.append_samples(convert(rows(first, 4)))
    return buffer


@pytest.mark.parametrize("BufferCls", [HindsightReplayBuffer, TlHindsightReplayBuffer])
def test_goals_and_rewards(BufferCls):
    batch = filled(BufferCls, compute_terminated=is_near, horizon=4).sample_batch(2000)
    seen = set()
    for i in range(2000):
        step = int(batch.agent_inputs.observation.achieved_goal[i])
        goal = float(batch.agent_inputs.observation.desired_goal[i])
        assert batch.target_inputs.observation.desired_goal[i] == goal
        if goal == -7:
            assert batch.return_[i] == 100
            assert step < 27
            continue
        later = goal - step
        seen.add((step, later))
        # In the same episode, written already, and within four rows.
        assert 1 <= later <= 4
        assert goal // 6 == step // 6
        assert goal <= 27
        assert batch.return_[i] == -(later - 1)
        assert bool(batch.done_n[i]) == (later <= 2)
    # Every pair of rows of a whole episode is drawn.
    assert {(s, k) for s in range(12, 18) for k in range(1, 5) if s + k < 18} <= seen


def test_fraction_and_state():
    buffer = filled(HindsightReplayBuffer, relabeled_fraction=0.25)
    goals = buffer.sample_batch(20000).agent_inputs.observation.desired_goal
    # In the first environment 3 of 18 rows end episodes; those of the other always do.
    assert float((goals != -7).float().mean()) == pytest.approx(0.25 * 0.5 * 5 / 6, abs=0.02)
    other = filled(HindsightReplayBuffer, relabeled_fraction=0.25)
    other.load_state_dict(buffer.state_dict())
    mine, others = buffer.sample_batch(50), other.sample_batch(50)
    assert (mine.return_ == others.return_).all()
    unchanged = filled(HindsightReplayBuffer, relabeled_fraction=0).sample_batch(50)
    assert (unchanged.return_ == 100).all()


@pytest.mark.parametrize("name", ["compute_reward", "compute_terminated"])
def test_one_number_for_each_transition(name):
    # One number for all of them was the reward of each.
    for function in (lambda a, d, info: -1.0, lambda a, d, info: -np.abs(a - d)):
        buffer = filled(HindsightReplayBuffer)
        setattr(buffer, name, function)
        with pytest.raises(ValueError, match=rf"{name} returned the shape \(.*one number for each"):
            buffer.sample_batch(50)


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bootstrap_timelimit", [False, True])
def test_a_task_with_goals_is_learned(bootstrap_timelimit, seed):
    BufferCls = TlHindsightReplayBuffer if bootstrap_timelimit else HindsightReplayBuffer
    buffer = partial(BufferCls, compute_reward=lock_reward, compute_terminated=is_open_lock)
    best = best_return(
        DQN(
            learning_rate=1e-3,
            discount=0.95,
            batch_size=128,
            eps_steps=5e3,
            target_update_tau=0.05,
            target_update_interval=1,
            replay_size=5e4,
            replay_ratio=16,
            min_steps_learn=1e3,
            bootstrap_timelimit=bootstrap_timelimit,
            ReplayBufferCls=buffer,
        ),
        MlpDqnAgent(model_kwargs={"hidden_sizes": [128]}),
        SerialSampler(
            EnvCls=make_lock,
            env_kwargs={},
            batch_T=4,
            batch_B=8,
            eval_n_envs=20,
            eval_max_steps=20 * Lock.N * 5,
        ),
        n_steps=3e4,
        threshold=-4.5,
        seed=seed,
    )
    assert best >= -4.5, "a closed lock gives -8, and without hindsight it stays there"
