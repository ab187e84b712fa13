"""Asynchronous runs: evaluation, data, the throttle, the log, several optimizers."""

import itertools
import math
import time

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import TMaze
from rlpyt.experiments.sweeps.affinity import make_affinity
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.callbacks import SaveBest
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import Purpose, derived_seed, set_seed
from tests.runners.async_parts import (
    SETTINGS,
    SMALL,
    WORKERS,
    AtIteration,
    BiasedDQN,
    RecordingDQN,
    SlowTMaze,
    make_runner,
    values,
)
from tests.runners.parts import train
from tests.selection import FULL

KINDS = ["serial", "cpu", "served", "alternating", "no_overlap"]


# --- Whole runs; every algorithm with every sampler is run in tests/contracts ---------------------


RUN_KEYS = [
    "Iteration",
    "SamplerIteration",
    "CumTime (s)",
    "CumSteps",
    "CumUpdates",
    "ReplayRatio",
    "CumReplayRatio",
    "StepsPerSecond",
]


@pytest.mark.parametrize("kind", ["cpu", *["serial"] * FULL])
def test_updates_log_and_snapshot(kind, tmp_path):
    runner = make_runner(kind)
    rows = train(runner, tmp_path)
    assert values(rows, "CumSteps")[-1] == 320
    # 320 steps, of which the first 64 are not trained on, each 2 times.
    assert runner.algo.update_counter * runner.algo.batch_size == 512
    assert "Filling the replay buffer" in (tmp_path / "run_0" / "debug.log").read_text()
    state = torch.load(tmp_path / "run_0" / "params.pkl")
    assert (state["sampler_itr"], state["cum_steps"]) == (20, 320)
    assert state["cum_updates"] == runner.algo.update_counter
    first = ["CumCompletedTrajs", "NewCompletedTrajs", "StepsInTrajWindow", *RUN_KEYS]
    keys = [*first, "UpdatesPerSecond", "OptThrottle"]
    assert list(rows[0])[: len(keys)] == ["Diagnostics/" + key for key in keys]
    assert {"ReturnAverage", "lossAverage"} <= set(rows[0])
    n_done = int(runner.algo.replay_buffer.samples.done[:80].sum())
    assert values(rows, "CumCompletedTrajs")[-1] == n_done
    assert sum(values(rows, "NewCompletedTrajs")) == n_done


@pytest.mark.parametrize("kind", KINDS if FULL else ["served"])
def test_every_sampler_evaluates(kind, tmp_path):
    evaluation = {"eval_n_envs": 4, "eval_max_steps": 200, "eval_max_trajectories": 6}
    affinity = WORKERS if kind in ("serial", "cpu") else [WORKERS, WORKERS]
    runner = make_runner(
        kind, RunnerCls=AsyncRlEval, sampler_kwargs=evaluation, sampler_affinity=affinity
    )
    rows = train(runner, tmp_path)
    # One before the first batch, and one after each interval of 5 batches.
    assert values(rows, "SamplerIteration") == [0, 5, 10, 15, 20]
    assert values(rows, "CumSteps") == [0, 80, 160, 240, 320]
    assert min(values(rows, "TrajsInEval")) >= 6
    assert all(np.diff(values(rows, "CumEvalTime")) >= 0)
    assert math.isnan(values(rows, "StepsPerSecond")[0])
    first = ["StepsInEval", "TrajsInEval", "CumEvalTime", *RUN_KEYS]
    keys = [*first, "NonEvalSamplesPerSecond", "UpdatesPerSecond", "OptThrottle"]
    assert list(rows[0])[: len(keys)] == ["Diagnostics/" + key for key in keys]


@pytest.mark.parametrize(
    ("kind", "start_method"),
    [("served", "forkserver"), ("serial", "spawn")],
)
@pytest.mark.full
def test_other_start_methods(kind, start_method, tmp_path):
    # Everything used to be inherited by fork.
    one = {"workers_cpus": [None], "set_affinity": False}
    runner = make_runner(kind, sampler_kwargs={"start_method": start_method}, sampler_affinity=one)
    rows = train(runner, tmp_path)
    assert values(rows, "CumUpdates")[-1] == 32


def test_affinity_as_it_is_made(tmp_path):
    affinity = make_affinity(
        n_cpu_core=2, cpu_per_run=2, hyperthread_offset=0, async_sample=True, set_affinity=False
    )
    runner = make_runner("cpu")
    runner.affinity = affinity
    assert values(train(runner, tmp_path), "CumUpdates")[-1] == 32


# --- What is trained on ---------------------------------------------------------------------------


def keep_still():
    """An agent that acts by fixed parameters, and an algorithm that only stores."""
    set_seed(7)
    agent = MlpDqnAgent(eps_init=0, eps_final=0, **SMALL)
    return agent, DQN(batch_size=16, **{**SETTINGS, "min_steps_learn": 1e6})


@pytest.mark.parametrize(
    ("kind", "affinity"),
    [
        *itertools.product(KINDS if FULL else ["cpu"], [WORKERS]),
        ("served", [WORKERS, {"workers_cpus": 1}]),
        *[("no_overlap", [WORKERS, WORKERS])] * FULL,
    ],
)
def test_replay_holds_what_a_serial_sampler_collects_in_its_order(kind, affinity, tmp_path):
    # Two copiers raced, so that batches could change places.
    agent, algo = keep_still()
    sizes = {"batch_T": 3, "batch_B": 4, "max_decorrelation_steps": 5}
    weights = small_weights()
    agent.initial_model_state_dict = {"model": weights, "target": weights}
    runner = make_runner(
        kind,
        algo=algo,
        agent=agent,
        n_steps=240,
        throttle_sampler=False,
        sampler_affinity=affinity,
        sampler_kwargs=sizes,
    )
    train(runner, tmp_path)
    replay = runner.algo.replay_buffer.samples

    agent, _ = keep_still()
    agent.initial_model_state_dict = {"model": weights, "target": weights}
    sampler = SerialSampler(TMaze, {}, **sizes)
    sampler.initialize(agent, seed=derived_seed(runner.seed, Purpose.SAMPLER))
    for itr in range(20):
        samples, _ = sampler.obtain_samples(itr)
        rows = slice(3 * itr, 3 * itr + 3)
        np.testing.assert_array_equal(replay.observation[rows], samples.env.observation)
        np.testing.assert_array_equal(replay.action[rows], samples.agent.action)
        np.testing.assert_array_equal(replay.reward[rows], samples.env.reward)
        np.testing.assert_array_equal(replay.done[rows], samples.env.done)
    assert len(np.unique(replay.observation[:60], axis=0)) > 1


def small_weights():
    agent = MlpDqnAgent(**SMALL)
    env = TMaze()
    set_seed(11)
    agent.initialize(env.spaces)
    return agent.state_dict()["model"]


@pytest.mark.parametrize("kind", ["cpu", *["serial", "served"] * FULL])
def test_parameters_reach_the_sampler_on_the_cpu(kind, tmp_path):
    # On the CPU the sampler acted by the first parameters until the end.
    agent = MlpDqnAgent(eps_init=0, eps_final=0, **SMALL)
    runner = make_runner(kind, algo=BiasedDQN(batch_size=16, **SETTINGS), agent=agent)
    train(runner, tmp_path)
    actions = runner.algo.replay_buffer.samples.action[:80]
    assert (actions[60:] == 0).all()
    assert not (actions[:16] == 0).any()


def test_action_servers_explore_differently(tmp_path):
    # They used to inherit one random stream.
    agent = MlpDqnAgent(eps_init=1, eps_final=1, **SMALL)
    one = {"workers_cpus": 1}
    runner = make_runner("served", agent=agent, sampler_affinity=[one, one, one, one])
    train(runner, tmp_path)
    actions = runner.algo.replay_buffer.samples.action[:80]
    assert len(np.unique(actions, axis=1).T) == 4


# --- The throttle ---------------------------------------------------------------------------------


class SlowDQN(DQN):
    def _apply_optimization(self, samples, opt_info):
        time.sleep(0.05)
        super()._apply_optimization(samples, opt_info)


class Leads(AtIteration):
    """Notes how far the sampler is ahead of what the optimizer needs next, in batches."""

    def __init__(self):
        self.leads = []

    def on_itr(self, runner, itr, traj_infos, opt_info):
        assert len(opt_info.loss) <= 2  # The last call got an empty tuple.
        self.leads.append(runner.ctrl.sampler_itr.value + 1 - runner.rate_limiter.itr)


def test_sampler_waits_for_a_slow_optimizer(tmp_path):
    # The replay ratio used to be an upper limit: a slow optimizer trained less.
    leads = Leads()
    algo = SlowDQN(batch_size=16, **SETTINGS)
    rows = train(make_runner(algo=algo, callbacks=[leads]), tmp_path)
    assert values(rows, "CumUpdates")[-1] == 2 * (20 - 4)
    assert max(leads.leads) <= 3


def test_sampler_may_be_let_go_ahead(tmp_path):
    algo = SlowDQN(batch_size=16, **SETTINGS)
    rows = train(make_runner(algo=algo, throttle_sampler=False), tmp_path)
    assert 0 <= values(rows, "CumUpdates")[-1] < 2 * (20 - 4)
    assert values(rows, "CumSteps")[-1] == 320


@pytest.mark.parametrize(("ratio", "updates"), [(0.25, 4), *[(4, 64), (1, 16)] * FULL])
def test_optimizer_waits_for_a_slow_sampler(ratio, updates, tmp_path):
    algo = DQN(batch_size=16, **{**SETTINGS, "replay_ratio": ratio})
    rows = train(make_runner(algo=algo, sampler_kwargs={"EnvCls": SlowTMaze}), tmp_path)
    assert values(rows, "CumUpdates")[-1] == updates
    assert values(rows, "CumReplayRatio")[-1] == pytest.approx(ratio * 0.8)
    assert 0 < values(rows, "OptThrottle")[-1] < 1


# --- The end --------------------------------------------------------------------------------------


def test_callbacks_stop_the_run_and_save(tmp_path):
    runner = make_runner(callbacks=[AtIteration(5, AsyncRl.stop), SaveBest()])
    rows = train(runner, tmp_path)
    assert values(rows, "CumUpdates")[-1] == 6
    assert values(rows, "CumSteps")[-1] < 320
    assert torch.load(tmp_path / "run_0" / "best.pkl")["cum_steps"] > 0


# --- Several optimizers ---------------------------------------------------------------------------


@pytest.mark.slow
def test_optimizers_draw_differently_and_stay_equal(tmp_path):
    # All ranks but the first had the same seed, and the backend was NCCL.
    algo = RecordingDQN(batch_size=16, **SETTINGS)
    algo.directory = str(tmp_path)
    rows = train(make_runner(algo=algo, n_optimizers=3), tmp_path)
    # 256 steps trained on twice, 3 x 16 samples at a time.
    assert values(rows, "CumUpdates")[-1] == 11
    lines = [(tmp_path / f"rank_{rank}").read_text().splitlines() for rank in range(3)]
    assert list(map(len, lines)) == [11, 11, 11]
    for texts in zip(*lines, strict=True):
        totals, drawn = zip(*(text.split("|") for text in texts), strict=True)
        assert np.ptp(list(map(float, totals))) < 1e-6
        assert len(set(drawn)) == 3


# --- What is refused ------------------------------------------------------------------------------


def test_more_servers_than_environments_are_refused(tmp_path):
    runner = make_runner("alternating", sampler_affinity=[WORKERS] * 3)
    with pytest.raises(RuntimeError, match="does not give each of 3 action servers"):
        train(runner, tmp_path)
