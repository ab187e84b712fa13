"""The loss of R2D1 and the priorities, against one step at a time of what was sampled."""

import itertools

import numpy as np
import pytest
import torch

from rlpyt.core.records import BatchSpec
from rlpyt.envs.toy import TMaze
from rlpyt.spaces.int_box import IntBox
from tests.algos.dqn.r2d1_parts import Run
from tests.reference.recurrent_q_learning import input_priority, rows_of, sequence_loss
from tests.selection import FULL, each_once, selected

CASES = [
    {"warmup_T": 0, "mid_batch_reset": False, "store_rnn_state_interval": 1},
    {"n_step_return": 7, "delta_clip": 0.2, "store_rnn_state_interval": 1},
    {"prioritized_replay": False, "value_scale_eps": 0.1},
    {"pri_eta": 0.3, "warmup_T": 8, "batch_T": 2, "mid_batch_reset": False},
    {"bootstrap_timelimit": True, "mid_batch_reset": False, "n_step_return": 1},
    {"bootstrap_timelimit": True, "recorded": True, "mid_batch_reset": False, "n_step_return": 1},
    {"bootstrap_timelimit": True, "recorded": True, "n_step_return": 7, "double_dqn": False},
    {"batch_T": 1, "warmup_T": 1, "n_step_return": 3, "double_dqn": False},
    # Where no state is stored, the first step of an episode had the last action of the one before.
    {"store_rnn_state_interval": 0},
]
if FULL:
    CASES += [
        {},
        {"mid_batch_reset": False},
        {"warmup_T": 0},
        {"double_dqn": False, "n_step_return": 1},
        {"bootstrap_timelimit": True},
        {"bootstrap_timelimit": True, "recorded": True},
        {"batch_T": 1, "n_step_return": 1},
        {"store_rnn_state_interval": 0, "warmup_T": 0, "mid_batch_reset": False},
    ]


def all_starts(run):
    """Every place at which a whole sequence begins, the first row of all excepted."""
    algo = run.algo
    stride = max(1, algo.store_rnn_state_interval)
    last = len(run.rows[0]) - algo.sequence_T - algo.n_step_return
    return [(i, b) for b in range(len(run.rows)) for i in range(stride, last, stride)]


def some_starts(run):
    """A dozen of these places: they meet all kinds of boundaries, see below."""
    starts = all_starts(run)
    return starts[:: max(3, len(starts) // 15)]


def extract(run, starts):
    """These sequences from the replay buffer, with weights if prioritized."""
    T_idxs, B_idxs = map(np.array, zip(*starts))
    buffer = run.algo.replay_buffer
    batch = buffer.read_batch(T_idxs, B_idxs, run.algo.sequence_T)
    if run.algo.prioritized_replay:
        batch = buffer.weight_batch_samples(batch, torch.linspace(0.5, 1.5, len(starts)))
    return batch


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loss_like_its_naive_twin(case):
    run = Run(**case)
    run.store(9)
    run.disturb()
    starts = some_starts(run)
    samples = extract(run, starts)
    assert not case.get("recorded") or (samples.at_limit.any(0) & (samples.done.sum(0) > 1)).any()
    loss, td_abs_errors, priorities = run.algo.loss(samples)
    loss.backward()
    gradients = [p.grad for p in run.agent.parameters()]
    assert all(p.grad is None for p in run.agent.target_model.parameters())

    run.agent.model.zero_grad(set_to_none=True)
    weights = samples.is_weights.tolist() if run.algo.prioritized_replay else [1.0] * len(starts)
    total = 0.0
    n_losses = 0
    for k, (i, b) in enumerate(starts):
        state = None
        if run.algo.store_rnn_state_interval > 0:
            state = tuple(part[:, None] for part in run.rows[b][i].rnn_state)
        one = sequence_loss(
            run.agent.model, run.agent.target_model, run.rows[b], i, state, run.naive_settings()
        )
        total = total + weights[k] * sum(one.losses)
        n_losses += len(one.losses)
        assert td_abs_errors[:, k].tolist() == pytest.approx(one.errors, abs=2e-5)
        assert priorities[k].item() == pytest.approx(one.priority, abs=2e-5)
    expected = total / n_losses
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for p, found in zip(run.agent.parameters(), gradients):
        assert torch.allclose(found, p.grad, atol=1e-5)


def test_the_data_of_these_tests_have_all_kinds_of_boundaries():
    for mid_batch_reset in (True, False):
        run = Run(mid_batch_reset=mid_batch_reset)
        run.store(9)
        done = extract(run, some_starts(run)).done
        for step in (0, 1, 2, 3, 7):  # In the warm-up, its last step, in the loss, its last step.
            assert done[step].any()
            assert not done[step].all()
        assert (done.sum(0) > 1).any(), "several episodes in one sequence"


@pytest.mark.parametrize(
    ("mid_batch_reset", "interval", "warmup_T", "null_action"),
    selected(itertools.product((True, False), (1, 4), (0, 3), (0, 2))),
)
def test_values_are_those_of_acting(mid_batch_reset, interval, warmup_T, null_action):
    """With unchanged networks, training sees what the agent saw when it acted."""

    class Maze(TMaze):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self._action_space = IntBox(0, 3, null_value=null_action)

    run = Run(
        mid_batch_reset=mid_batch_reset,
        store_rnn_state_interval=interval,
        warmup_T=warmup_T,
        EnvCls=Maze,
    )
    run.store(9)
    starts = all_starts(run)
    samples = extract(run, starts)
    qs, _ = run.algo.sequence_values(samples)
    valid = run.algo.valid_steps(samples)[warmup_T:]
    n_compared = 0
    for k, (i, b) in enumerate(starts):
        for t in range(run.algo.batch_T):
            row = run.rows[b][i + warmup_T + t]
            assert bool(valid[t, k]) == (not row.waits)
            if not row.waits:
                # The state was zeroed if an episode had ended anywhere in the warm-up, but not if
                # at its last step; nor were the previous action and reward of a new episode zero.
                assert torch.allclose(qs[t, k].detach(), row.q, atol=1e-5)
                n_compared += 1
    assert n_compared > 80


def test_batch_in_which_nothing_counts():
    # Its mean was NaN.
    run = Run(mid_batch_reset=False)
    run.store(9)
    samples = extract(run, all_starts(run))
    samples.valid[:] = False
    loss, _, priorities = run.algo.loss(samples)
    assert loss.item() == 0
    assert not priorities.any()


class OldModel(torch.nn.Module):
    """A model as programs wrote it, without the argument ``reset``."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, observation, prev_action, prev_reward, state):
        return self.model(observation, prev_action, prev_reward, state)


@pytest.mark.parametrize("mid_batch_reset", [True, False])
def test_models_that_cannot_reset_give_the_same(mid_batch_reset):
    run = Run(mid_batch_reset=mid_batch_reset)
    run.store(9)
    run.disturb()
    samples = extract(run, all_starts(run))
    expected = run.algo.loss(samples)
    run.agent.model = OldModel(run.agent.model)
    run.agent.target_model = OldModel(run.agent.target_model)
    for a, b in zip(expected, run.algo.loss(samples)):
        assert torch.allclose(a, b, atol=1e-6)


def test_agent_that_overrides_the_call_gives_the_same():
    run = Run()
    run.store(9)
    run.disturb()
    samples = extract(run, all_starts(run))
    expected = run.algo.loss(samples)

    class Mine(type(run.agent)):
        def __call__(self, observation, action, reward, state):
            return super().__call__(observation, action, reward, state)

        def target(self, observation, action, reward, state):
            return super().target(observation, action, reward, state)

    run.agent.__class__ = Mine
    for a, b in zip(expected, run.algo.loss(samples)):
        assert torch.allclose(a, b, atol=1e-6)


def test_network_runs_once_over_every_step():
    run = Run()
    run.store(9)
    n_steps = {"model": 0, "target_model": 0}
    for name in n_steps:

        def count(module, inputs, output, name=name):
            n_steps[name] += len(inputs[0])

        getattr(run.agent, name).register_forward_hook(count)
    run.algo.loss(extract(run, all_starts(run)))
    assert n_steps == {"model": 3 + 5 + 2, "target_model": 3 + 5 + 2}


# --- Priorities of new samples ------------------------------------------------------------------


PRIORITIES = {
    "plain": {},
    "clipped": {"delta_clip": 0.1, "pri_eta": 0.2},
    "bootstrap": {"bootstrap_timelimit": True},
}


@pytest.mark.parametrize(
    ("mid_batch_reset", "n_step_return", "name"),
    each_once((True, False), (1, 2, 5, 6, 9), PRIORITIES),
)
def test_input_priorities_like_their_naive_twin(mid_batch_reset, n_step_return, name):
    # The formula left out discount^n and took the value one step early; n = 1 was an error.
    settings = PRIORITIES[name]
    run = Run(mid_batch_reset=mid_batch_reset, n_step_return=n_step_return, **settings)
    for _ in range(3):
        samples = run.collect()
        priorities = run.algo.compute_input_priorities(samples)
        assert priorities.shape == (3,)
        for b in range(3):
            rows, default = rows_of(samples, b, mid_batch_reset), run.algo.default_priority
            expected = input_priority(rows, run.naive_settings(), default)
            assert priorities[b] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_batch_of_one_step_has_the_default_priority():
    run = Run(spec=BatchSpec(1, 2), default_priority=0.7)
    assert run.algo.compute_input_priorities(run.collect()).tolist() == pytest.approx([0.7] * 2)


def test_environment_without_targets_has_the_default_priority():
    # It was 0, so that its sequences were hardly drawn.
    run = Run(bootstrap_timelimit=True, default_priority=0.7, n_step_return=3)
    samples = run.collect()
    env_info = samples.env.env_info
    samples.env.done[2], env_info.timeout[2] = (torch.arange(3) != 1,) * 2
    priorities = run.algo.compute_input_priorities(samples)
    assert priorities[[0, 2]].tolist() == pytest.approx([0.7] * 2)
    assert priorities[1] != pytest.approx(0.7)


def test_input_priorities_are_those_of_the_sequences_with_the_samples_behind_their_warm_up():
    run = Run(warmup_T=4, replay_size=600, spec=BatchSpec(4, 3))  # One slot per batch.
    assert run.algo.input_priority_shift == 1
    given = []
    for _ in range(12):
        samples = run.collect()
        record = run.algo.samples_to_buffer(samples)
        given.append(record.priorities)
        run.algo.replay_buffer.append_samples(record)
    stored = run.algo.replay_buffer.priority_tree.priorities
    active = np.flatnonzero(stored.any(1))
    assert len(active) > 5
    for slot in active:
        assert stored[slot] == pytest.approx(given[slot + 1] ** run.algo.pri_alpha)
