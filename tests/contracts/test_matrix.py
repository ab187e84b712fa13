"""Every algorithm trains with every sampler under every runner.

The tables are in ``matrix_parts``. A further algorithm, sampler or runner is to be added there.
By default every sampler meets several ranks, evaluation, memory and every use of data, and an
algorithm of every family runs; with ``RLPYT_FULL=1`` any three meet.
"""

import gc
import itertools
import threading
import weakref
from itertools import combinations

import numpy as np
import pytest
import torch

from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.ray.async_sampler import AsyncRaySampler
from rlpyt.samplers.ray.sampler import RaySampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.contracts.matrix_parts import (
    ALGOS,
    ASYNC_ALGOS,
    ASYNC_RUNNERS,
    ASYNC_SAMPLERS,
    HORIZON,
    N_ITRS,
    N_RANKS,
    QUEUED,
    REPLAY,
    SAMPLERS,
    STEPS,
    STORED_EVERY,
    SYNC_ALGOS,
    SYNC_RUNNERS,
    T,
    Witness,
    all_parameters_have_changed,
    has_numbers,
    is_lowered,
    make_runner,
    n_updates,
    some_state_was_passed_on,
    states_begin_with_episodes,
    watch_ranks,
)
from tests.resources import open_files
from tests.runners.async_parts import descendants, no_process_is_left, values
from tests.runners.parts import train
from tests.selection import FULL, selected

N_TRAJS = N_ITRS * STEPS // HORIZON  # At least, in each process.
N_EVAL_TRAJS = 4  # At least, in each evaluation.


# These train like another that is in the tables.
FAMILIES = {
    "PPO": "A2C",
    "PPO-lstm": "A2C-lstm",
    "CatDQN": "DQN",
    "M-DQN": "DQN",
    "TD3": "DDPG",
    "REDQ": "SAC",
    "CrossQ": "SAC",
    "DiscreteSAC": "SAC",
    "IMPALA": "IMPALA-lstm",
}


def aspects(cell):
    """Family, runner, and the pairs of sampler, ranks, evaluation, memory and use of data."""
    name, sampler, runner = cell
    use = "queued" if name in QUEUED else "stored" if name in REPLAY else "at once"
    ranks, memory = f"ranks: {runner.startswith('Sync')}", f"memory: {ALGOS[name].is_recurrent}"
    evaluation = f"evaluation: {runner.endswith('Eval')}"
    family = FAMILIES.get(name, name)
    return {family, runner, *combinations((sampler, ranks, evaluation, memory, use), 2)}


def cells(algos, samplers, runners):
    """Parameters of a test: name of an algorithm, class of a sampler, class of a runner."""
    return [
        pytest.param(name, samplers[sampler], runners[runner], id=f"{name}-{sampler}-{runner}")
        for name, sampler, runner in selected(itertools.product(algos, samplers, runners), aspects)
    ]


def with_ray(SamplerCls, runners, pairs):
    """Parameters of the tests for samplers of Ray, whose actors take long to start."""
    marks = [pytest.mark.full, pytest.mark.ray, pytest.mark.timeout(600)]
    marks.append(pytest.mark.filterwarnings("ignore"))
    return [
        pytest.param(name, SamplerCls, runners[runner], id=f"{name}-ray-{runner}", marks=marks)
        for name, runner in pairs
    ]


@pytest.fixture(autouse=True)
def _as_before(request, monkeypatch):
    if request.node.get_closest_marker("ray"):
        request.getfixturevalue("ray_cluster")
        monkeypatch.setenv("RLPYT_START_METHOD", "spawn")  # What Ray has started fails in a fork.
        yield  # Ray keeps and replaces processes as it likes.
        return
    processes = descendants()
    yield
    assert descendants() <= processes
    assert not torch.distributed.is_initialized()


def start(RunnerCls, SamplerCls, name, **kwargs):
    witness = Witness()
    return make_runner(RunnerCls, SamplerCls, name, callbacks=[witness], **kwargs), witness


def check_training(runner, witness, rows, name, n_expected):
    """The agent was changed by as many updates as it should, of which all is logged."""
    assert runner.algo.update_counter == n_expected
    assert all_parameters_have_changed(witness.before, runner.agent)
    for field, numbers in witness.opt_infos.items():
        assert len(numbers) > 0, field
        assert np.isfinite(numbers).all(), field
        assert has_numbers(rows, field), field
    if ALGOS[name].is_recurrent:
        assert some_state_was_passed_on(witness.states_passed)


def check_end(witness, n_children, n_processes):
    """All processes have come to their end by themselves."""
    assert [child.returncode for child in witness.children] == [0] * n_children
    assert len(witness.pids) == n_processes
    assert no_process_is_left(witness.pids)


@pytest.mark.parametrize(
    ("name", "SamplerCls", "RunnerCls"),
    cells(SYNC_ALGOS, SAMPLERS, SYNC_RUNNERS)
    + with_ray(RaySampler, SYNC_RUNNERS, [("A2C", "MinibatchRl"), ("DQN", "MinibatchRlEval")]),
)
def test_synchronous(name, SamplerCls, RunnerCls, tmp_path):
    n_ranks = N_RANKS.get(RunnerCls, 1)
    runner, witness = start(RunnerCls, SamplerCls, name)
    sums = watch_ranks(runner.algo, n_ranks)
    rows = train(runner, tmp_path)
    check_training(runner, witness, rows, name, n_updates(name, N_ITRS, n_ranks))
    assert list(sums) == pytest.approx([sums[0]] * n_ranks)

    logged = [0, N_ITRS // 2, N_ITRS] if runner._eval else [N_ITRS // 2, N_ITRS]
    assert values(rows, "CumSteps") == [n * STEPS * n_ranks for n in logged]
    assert values(rows, "CumUpdates") == [n_updates(name, n, n_ranks) for n in logged]
    if runner._eval:
        assert witness.n_evals == len(rows)
        assert min(values(rows, "TrajsInEval")) >= N_EVAL_TRAJS
    else:
        assert values(rows, "CumCompletedTrajs")[-1] >= n_ranks * N_TRAJS

    if SamplerCls is RaySampler:
        return
    n_workers = 0 if SamplerCls is SerialSampler else 2
    check_end(witness, n_workers + n_ranks - 1, n_ranks * (n_workers + 1) - 1)
    if hasattr(SamplerCls, "gpu"):
        sync = runner.sampler.sync
        assert all(map(is_lowered, (*sync.obs_ready, *sync.act_ready)))


@pytest.mark.parametrize(
    ("name", "SamplerCls", "RunnerCls"),
    cells(ASYNC_ALGOS, ASYNC_SAMPLERS, ASYNC_RUNNERS)
    + with_ray(
        AsyncRaySampler,
        ASYNC_RUNNERS,
        [
            ("DQN", "AsyncRlEval"),
            *[(name, "AsyncRl") for name in ("R2D1", "SAC", "TD3", "IMPALA-lstm")],
        ],
    ),
)
def test_asynchronous(name, SamplerCls, RunnerCls, tmp_path):
    runner, witness = start(RunnerCls, SamplerCls, name)
    rows = train(runner, tmp_path)
    check_training(runner, witness, rows, name, n_updates(name, N_ITRS))

    steps = values(rows, "CumSteps")
    if runner._eval:
        assert steps == [0, N_ITRS // 2 * STEPS, N_ITRS * STEPS]
        assert witness.n_evals == len(rows)
        assert min(values(rows, "TrajsInEval")) >= N_EVAL_TRAJS
    else:
        assert steps[-1] == N_ITRS * STEPS
        assert values(rows, "CumCompletedTrajs")[-1] >= N_TRAJS

    assert values(rows, "CumUpdates")[-1] == n_updates(name, N_ITRS)
    replay = runner.algo.replay_buffer
    if name in QUEUED:
        assert replay.n_read == N_ITRS
    else:
        assert replay.t == N_ITRS * T
    if name == "R2D1" and SamplerCls is not AsyncRaySampler:  # Its actors may change columns.
        stored = replay.samples.done[: N_ITRS * T]
        states = replay.samples_prev_rnn_state.h[1 : len(stored) // STORED_EVERY]
        assert states_begin_with_episodes(states, stored[STORED_EVERY - 1 : -1 : STORED_EVERY])

    if SamplerCls is AsyncRaySampler:
        return
    is_served = hasattr(SamplerCls, "gpu")
    n_workers = 0 if SamplerCls is AsyncSerialSampler else 2
    check_end(witness, 3, 3 + n_workers + is_served)
    ctrl = runner.ctrl
    assert all(map(is_lowered, (ctrl.end, *ctrl.sample_ready, *ctrl.sample_copied)))


# --- What cannot work together --------------------------------------------------------------------


def recurrent(alternating):
    """Runners, recurrent agents, and samplers with and without alternation."""
    for RunnerCls, algos, samplers in (
        (MinibatchRl, SYNC_ALGOS, SAMPLERS),
        (AsyncRl, ASYNC_ALGOS, ASYNC_SAMPLERS),
    ):
        names = [name for name, family in algos.items() if family.is_recurrent]
        chosen = [S for S in samplers.values() if S.alternating == alternating]
        yield from itertools.product([RunnerCls], names, chosen)


@pytest.mark.parametrize(("RunnerCls", "name", "SamplerCls"), list(recurrent(alternating=False)))
def test_two_halves_do_not_serve_one_batch(RunnerCls, name, SamplerCls, tmp_path):
    runner, _ = start(RunnerCls, SamplerCls, name, agent=ALGOS[name].make_alternating_agent())
    with pytest.raises(TypeError, match="for each half.*agent of the same name without"):
        train(runner, tmp_path)


@pytest.mark.parametrize(("RunnerCls", "name", "SamplerCls"), list(recurrent(alternating=True)))
def test_one_state_does_not_serve_two_halves(RunnerCls, name, SamplerCls, tmp_path):
    runner, _ = start(RunnerCls, SamplerCls, name, agent=ALGOS[name].make_agent())
    with pytest.raises(TypeError, match="keeps one recurrent state.*use the agent of the same"):
        train(runner, tmp_path)


@pytest.mark.parametrize("name", ["A2C", "PPO", "PQN"])
def test_algorithms_without_replay_are_not_asynchronous(name, tmp_path):
    runner, _ = start(AsyncRl, AsyncSerialSampler, name)
    with pytest.raises(ValueError, match="has no replay buffer and so cannot train while AsyncRl"):
        train(runner, tmp_path)


@pytest.mark.parametrize("RunnerCls", SYNC_RUNNERS.values())
def test_algorithms_that_train_while_sampling_are_not_synchronous(RunnerCls, tmp_path):
    runner, _ = start(RunnerCls, SerialSampler, "IMPALA")
    with pytest.raises(ValueError, match=f"IMPALA.*use AsyncRl, or give {RunnerCls.__name__} one"):
        train(runner, tmp_path)


@pytest.mark.parametrize(
    ("name", "SamplerCls", "RunnerCls"),
    [
        ("PPO", "CpuSampler", "MinibatchRlEval"),
        *[("SAC", "GpuSampler", "MinibatchRl")] * FULL,
        ("A2C", "CpuSampler", "SyncRl"),
        ("DQN", "AsyncGpuSampler", "AsyncRlEval"),
    ],
)
def test_a_run_gives_everything_back(name, SamplerCls, RunnerCls, tmp_path):
    """Files and threads at its end; its agent's memory as soon as nobody holds the runner."""
    RunnerCls = {**SYNC_RUNNERS, **ASYNC_RUNNERS}[RunnerCls]
    SamplerCls = {**SAMPLERS, **ASYNC_SAMPLERS}[SamplerCls]
    gc.collect()
    gc.disable()
    try:
        for i in range(2):  # Libraries keep some after their first use.
            before = open_files(), threading.active_count()
            runner = make_runner(RunnerCls, SamplerCls, name)
            train(runner, tmp_path / str(i))
            left = open_files(), threading.active_count()
            agent = weakref.ref(runner.agent)
            del runner
    finally:
        gc.enable()
    assert left == before
    assert agent() is None
