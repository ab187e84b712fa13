"""Mistakes of users: every runner names them, with the remedy, before anything is started."""

import os
import re
from functools import partial

import psutil
import pytest

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.toy import TMaze
from rlpyt.processes.supervisor import Supervisor, WorkerError
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.callbacks import Callback, ResetLayers, SaveBest
from rlpyt.runners.checkpointing import RunCheckpoints
from rlpyt.runners.divergence import DivergenceGuard
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.runners.video import RecordVideo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.refused import assert_refused
from tests.runners import async_parts
from tests.runners.async_parts import SAMPLERS, SETTINGS, SMALL, WORKERS
from tests.runners.parts import train

ABSENT = (os.cpu_count() or 1) + 99
PINNED = {"workers_cpus": [0, ABSENT]}
ONE, RANKS = {}, [{}, {}]
HALVES = {"optimizer": [{}], "sampler": WORKERS}
AFFINITIES = {
    MinibatchRl: ONE,
    MinibatchRlEval: ONE,
    SyncRl: RANKS,
    SyncRlEval: RANKS,
    AsyncRl: HALVES,
    AsyncRlEval: HALVES,
}
ASYNC = (AsyncRl, AsyncRlEval)


def make(RunnerCls, SamplerCls=None, algo=None, sampler_kwargs=None, **kwargs):
    if SamplerCls is None:
        SamplerCls = SAMPLERS["serial"] if RunnerCls in ASYNC else SerialSampler
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 20}
    sizes = {"batch_T": 4, "batch_B": 4, "max_decorrelation_steps": 0}
    sampler = SamplerCls(TMaze, {}, **sizes, **(evaluation if sampler_kwargs is None else {}))
    algo = DQN(batch_size=16, **SETTINGS) if algo is None else algo
    agent = GenericFfAgent() if isinstance(algo, A2C) else MlpDqnAgent(**SMALL)
    kwargs = {"n_steps": 160, "log_interval_steps": 80, "seed": 3, **kwargs}
    kwargs.setdefault("affinity", AFFINITIES[RunnerCls])
    return RunnerCls(algo=algo, agent=agent, sampler=sampler, **kwargs)


@pytest.fixture
def nothing_starts(monkeypatch):
    """Processes, environments and agents; the example step of samplers is one of these."""

    def refuse(*args, **kwargs):
        pytest.fail("something was started")

    monkeypatch.setattr(Supervisor, "start", refuse)
    for Cls in (SerialSampler, CpuSampler, *SAMPLERS.values()):
        for name in ("initialize", "async_initialize"):
            if hasattr(Cls, name):
                monkeypatch.setattr(Cls, name, refuse)


# --- CPUs -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("RunnerCls", "affinity", "place"),
    [
        (MinibatchRl, PINNED, "affinity['workers_cpus']"),
        (MinibatchRl, {"workers_cpus": [[0], [ABSENT, 0]]}, "affinity['workers_cpus']"),
        (MinibatchRlEval, {"master_cpus": [ABSENT]}, "affinity['master_cpus']"),
        (SyncRl, [{}, PINNED], "affinity[1]['workers_cpus']"),
        (SyncRlEval, [{}, {"master_cpus": [ABSENT]}], "affinity[1]['master_cpus']"),
        (AsyncRl, {**HALVES, "sampler": PINNED}, "affinity['sampler']['workers_cpus']"),
        (
            AsyncRl,
            {"optimizer": [{"set_affinity": False, "cpus": [ABSENT]}], "sampler": PINNED},
            "affinity['sampler']['workers_cpus']",
        ),
        (AsyncRl, {**HALVES, "sampler": [{}, PINNED]}, "affinity['sampler'][1]['workers_cpus']"),
        (
            AsyncRlEval,
            {**HALVES, "optimizer": [{}, {"cpus": [ABSENT]}]},
            "affinity['optimizer'][1]['cpus']",
        ),
    ],
)
def test_a_cpu_that_does_not_exist(RunnerCls, affinity, place, tmp_path):
    """A worker died of it without a word, and the runner waited for it."""
    before = psutil.Process().cpu_affinity()
    runner = make(RunnerCls, affinity=affinity)
    with pytest.raises(ValueError, match=re.escape(f"CPU {ABSENT} in {place}")) as error:
        train(runner, tmp_path)
    assert f"It may use {before}" in str(error.value)
    assert "set_affinity=False" in str(error.value)
    assert psutil.Process().cpu_affinity() == before


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("RunnerCls", AFFINITIES)
def test_a_cpu_that_is_not_allowed(RunnerCls, tmp_path, monkeypatch):
    """As on a cluster, where a job has some of the CPUs of the machine."""
    original, own = psutil.Process.cpu_affinity, psutil.Process().cpu_affinity()

    def restricted(self, cpus=None):
        if cpus is not None and not set(cpus) <= {own[0]}:
            raise OSError(22, "Invalid argument")
        return original(self, cpus) if cpus is not None else [own[0]]

    monkeypatch.setattr(psutil.Process, "cpu_affinity", restricted)
    pinned = {"workers_cpus": [own[0], own[0] + 1]}
    affinity = {MinibatchRl: pinned, MinibatchRlEval: pinned}.get(RunnerCls, [pinned, {}])
    affinity = {**HALVES, "sampler": pinned} if RunnerCls in ASYNC else affinity
    try:
        with pytest.raises(ValueError, match=rf"CPU {own[0] + 1} in .*It may use \[{own[0]}\]"):
            train(make(RunnerCls, affinity=affinity), tmp_path)
    finally:
        original(psutil.Process(), own)  # Since a check leaves what it takes for the present CPUs.


# --- Arguments of the constructor -----------------------------------------------------------------


class Half:
    def on_start(self, runner):
        pass


GPU = {"cuda_idx": 0}
NO_RANKS = [
    *[(affinity, "list") for affinity in (None, GPU, HALVES, 2)],
    ([], "empty"),
    *[([GPU, other], "GPU") for other in ({}, GPU)],
    (["0slt_1cpu_0gpu_1cpr"], r"affinity\[0\]"),
    ([{}, HALVES], r"affinity\[1\]"),
]
NO_HALVES = [
    *[(affinity, "'optimizer'") for affinity in (None, [{}], {"workers_cpus": [0]})],
    ({"optimizer": [{}]}, "'sampler'"),
    *[({"optimizer": value, "sampler": {}}, r"\['optimizer'\]") for value in ([], 2)],
    ({"optimizer": [{}], "sampler": None}, r"\['sampler'\]"),
    *[({"optimizer": [GPU, other], "sampler": {}}, "GPU") for other in ({}, GPU)],
]
EACH = (MinibatchRl, SyncRl, AsyncRl)


@pytest.mark.parametrize(
    ("RunnerCls", "name", "value", "named"),
    [
        *[(RunnerCls, "n_steps", 0, "n_steps") for RunnerCls in AFFINITIES],
        *[(RunnerCls, "log_interval_steps", 0, "log_interval") for RunnerCls in AFFINITIES],
        *[(RunnerCls, "log_traj_window", 0, "log_traj_window") for RunnerCls in EACH],
        (SyncRl, "rank_timeout_s", 0, "rank_timeout_s"),
        (AsyncRl, "process_timeout_s", 0, "process_timeout_s"),
        *[(SyncRl, "affinity", *case) for case in NO_RANKS],
        *[(AsyncRl, "affinity", *case) for case in NO_HALVES],
    ],
)
def test_values_that_cannot_work(RunnerCls, name, value, named):
    with pytest.raises(ValueError, match=named):
        make(RunnerCls, **{name: value})


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        *(
            (partial(RunCheckpoints, None, **{name: 0}), f"checkpoint_{name} is 0")
            for name in ("interval_steps", "interval_minutes")
        ),
        (lambda: make(MinibatchRl).train(resume="auto"), "logger_context"),
        (lambda: DivergenceGuard(learning_rate_factor=0), "learning_rate_factor is 0"),
        (lambda: DivergenceGuard(collapse=0), "collapse is 0"),
        (lambda: RecordVideo(TMaze, interval_logs=0), "interval_logs"),
        (lambda: RecordVideo(TMaze, extension="mp4"), "extension='mp4' .gif .mp4"),
    ],
)
def test_settings_of_checkpoints_and_callbacks(call, words):
    assert_refused(call, words)


@pytest.mark.parametrize(
    ("algo", "callback", "words", "error"),
    [
        (None, DivergenceGuard(goes_back=True), "checkpoints to go back to", ValueError),
        (A2C(), ResetLayers(), "ResetLayers needs one learner of Q-values", ValueError),
        (None, ResetLayers(1, layers=["tail"]), "layers tail DqnModel has head", ValueError),
    ],
)
def test_callbacks_that_do_not_fit_the_run(algo, callback, words, error):
    assert_refused(make(MinibatchRl, algo=algo, callbacks=[callback]).train, words, error)


@pytest.mark.parametrize("RunnerCls", EACH)
@pytest.mark.parametrize("callbacks", [SaveBest(), [print], [SaveBest], [Callback(), Half()]])
def test_callbacks_that_are_none(RunnerCls, callbacks):
    """The run ended at the first event, maybe the first log row."""
    with pytest.raises(TypeError, match="callbacks"):
        make(RunnerCls, callbacks=callbacks)


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, AsyncRl])
def test_a_run_shorter_than_a_log_interval_logs_its_length(RunnerCls, tmp_path):
    rows = train(make(RunnerCls, n_steps=40, log_interval_steps=160), tmp_path)
    assert float(rows[-1]["Diagnostics/CumSteps"]) == 160
    log = (tmp_path / "run_0" / "debug.log").read_text()
    assert "WARNING: n_steps 40 is less than one log interval" in log
    train(make(RunnerCls, n_steps=160, log_interval_steps=160), tmp_path / "as long")
    as_long = (tmp_path / "as long" / "run_0" / "debug.log").read_text()
    assert "WARNING" not in as_long
    assert "but the run takes" not in as_long


def test_a_rounded_run_logs_its_length(tmp_path):
    rows = train(make(MinibatchRl, n_steps=164, log_interval_steps=160), tmp_path)
    assert float(rows[-1]["Diagnostics/CumSteps"]) == 320
    log = (tmp_path / "run_0" / "debug.log").read_text()
    assert "n_steps is 164, but the run takes 320: a whole number of iterations" in log


# --- Parts that do not go together ----------------------------------------------------------------


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("RunnerCls", "settings", "named"),
    [
        *[  # The affinity of an asynchronous run was accepted, and its GPU left unused.
            (RunnerCls, {"affinity": affinity}, "affinity")
            for RunnerCls in (MinibatchRl, MinibatchRlEval)
            for affinity in ([{}, {}], HALVES, "0slt_1cpu_0gpu_1cpr")
        ],
        *[  # It was an unexpected keyword argument, in SyncRl after all processes were started.
            (RunnerCls, {"SamplerCls": SamplerCls}, SamplerCls.__name__)
            for RunnerCls in (MinibatchRl, SyncRl)
            for SamplerCls in SAMPLERS.values()
        ],
        *[
            (RunnerCls, {"SamplerCls": SamplerCls}, SamplerCls.__name__)
            for RunnerCls in ASYNC
            for SamplerCls in (SerialSampler, CpuSampler)
        ],
        *[(RunnerCls, {"algo": A2C()}, "A2C") for RunnerCls in ASYNC],
    ],
)
def test_parts_of_other_runners(RunnerCls, settings, named, tmp_path):
    with pytest.raises(ValueError, match=named):
        train(make(RunnerCls, **settings), tmp_path)


@pytest.mark.parametrize(
    ("RunnerCls", "SamplerCls", "affinity"),
    [
        (MinibatchRlEval, CpuSampler, WORKERS),
        (AsyncRlEval, SAMPLERS["served"], HALVES),
    ],
)
def test_samplers_without_evaluation_of_evaluating_runners(
    RunnerCls, SamplerCls, affinity, tmp_path
):
    """Said by the first evaluation, which precedes all training."""
    runner = make(RunnerCls, SamplerCls, sampler_kwargs={}, affinity=affinity)
    error = WorkerError if RunnerCls is AsyncRlEval else ValueError
    with pytest.raises(error, match="eval_n_envs"):
        train(runner, tmp_path)
    assert runner.algo.update_counter == 0


def test_the_parts_of_these_tests_make_runs(tmp_path):
    """Else everything above would be refused for some other reason."""
    for RunnerCls in (MinibatchRlEval, AsyncRlEval):
        rows = train(make(RunnerCls), tmp_path / RunnerCls.__name__)
        assert async_parts.values(rows, "CumSteps")[-1] == 160


def test_classes_and_places_are_no_roles():
    algo, agent = A2C(), GenericFfAgent()
    there = {"EnvCls": TMaze, "env_kwargs": {}, "batch_T": 1, "batch_B": 1}
    sampler = SerialSampler(**there)
    with pytest.raises(TypeError, match=r"algo is the class A2C: give an object, A2C\(...\)"):
        MinibatchRl(algo=A2C, agent=agent, sampler=sampler, n_steps=1)
    with pytest.raises(TypeError, match="sampler is the class"):
        AsyncRl(algo=algo, agent=agent, sampler=SerialSampler, n_steps=1, affinity=HALVES)
    with pytest.raises(TypeError, match="algo=..., agent=..., sampler=..., n_steps"):
        MinibatchRl(algo, agent, sampler)
    for RunnerCls in (MinibatchRl, MinibatchRlEval, AsyncRl):
        with pytest.raises(TypeError, match="'n_step'.*'n_steps'"):
            RunnerCls(algo=algo, agent=agent, sampler=sampler, n_step=1)
    for SamplerCls in (SerialSampler, CpuSampler):
        with pytest.raises(TypeError, match="'batch_t'.*'batch_T'"):
            SamplerCls(**there, batch_t=1)
