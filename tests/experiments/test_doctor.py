"""The command ``rlpyt doctor``: advice, and what can go wrong while it measures."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from contextlib import ExitStack, closing

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces

from rlpyt.envs.gym import make
from rlpyt.experiments.doctor import diagnosis
from rlpyt.experiments.doctor.diagnosis import Diagnosis, given_settings
from rlpyt.experiments.doctor.search import Search
from rlpyt.experiments.doctor.trials import Candidate, RunTime, StepTime, Trial
from rlpyt.experiments.train import configuration
from rlpyt.processes.machine import look_at_machine
from rlpyt.processes.supervisor import WorkerError
from tests.experiments.parts import invoke, refused

QUICK = ["hidden_sizes=8", "threads=1"]


class Sleeping(gymnasium.Env):
    """Sleeps in every step, and fails after some, if asked."""

    def __init__(self, seconds=0.01, fails_after=None):
        self.seconds, self.fails_after, self.n_steps = seconds, fails_after, 0
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.n_steps += 1
        if self.n_steps == self.fails_after:
            raise RuntimeError("the robot fell over")
        time.sleep(self.seconds)
        return np.zeros(3, np.float32), 0.0, False, False, {}


gymnasium.register("Sleeping-v0", entry_point=Sleeping)


def robot(workers=1, threads=1):
    """Make an environment whose arguments have the names of settings."""
    return make("Sleeping-v0")


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = set(psutil.Process().children(recursive=True))
    yield
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, 40)
    assert not alive


# --- Advice ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sleeping_environment_gets_more_workers_than_cpus():
    own = "sampler.on_worker_failure=restart"  # Other samplers have no such setting.
    words = ["Sleeping-v0", "sampler=cpu", "batch_B=4", "batch_T=4", own, *QUICK]
    output = invoke("doctor", "a2c", *words, "--seconds", 1)
    command = output.splitlines()[-1]
    assert re.fullmatch(
        rf"rlpyt train a2c Sleeping-v0 {own} hidden_sizes=8 sampler=cpu sampler.batch_T=4 "
        r"sampler.batch_B=4 affinity.workers=\d+ affinity.threads=1",
        command,
    )
    workers = int(re.search(r"workers=(\d+)", command)[1])
    assert workers > len(look_at_machine().cpus)
    configuration("a2c", shlex.split(command)[3:])
    assert output.count("as given\n") == 1


def test_all_samplers_are_compared_and_impossible_ones_have_a_reason():
    words = ["ppo", "CartPole-v1", "batch_B=3", "batch_T=16", "epochs=1", "minibatches=1", *QUICK]
    output = invoke("doctor", *words, "--seconds", 1)
    assert output.splitlines()[-1].startswith("rlpyt train ppo CartPole-v1 ")
    measured = set(re.findall(r"^(\w+) .* \d+ *(?:as given)?$", output, re.MULTILINE))
    assert measured == {"serial", "vector", "cpu", "gpu"}
    assert re.search(r"choose\s+an\s+even\s+number", output)


def test_environments_of_envpool_are_measured_in_vectors():
    pytest.importorskip("envpool")
    words = ["envpool:CartPole-v1", "batch_B=2", "batch_T=8", "epochs=1", "minibatches=1", *QUICK]
    output = invoke("doctor", "ppo", *words, "--seconds", 1)
    assert output.splitlines()[-1].startswith("rlpyt train ppo envpool:CartPole-v1 ")


def test_the_gpus_of_the_user_stay_in_the_command():
    words = ["CartPole-v1", "runner=sync", "gpus=[0,1]", "threads=1"]
    found = search("ppo", *words)
    advice = found.as_given._replace(sampler="cpu", workers=2)
    assert advice.gpu == 0
    command = Diagnosis(found, advice, {}, False).command("ppo", words)
    assert shlex.split(command)[3:] == [
        *words[:3],
        *("sampler=cpu", "sampler.batch_T=128", "sampler.batch_B=8"),
        *("affinity.workers=2", "affinity.threads=1"),
    ]


@pytest.mark.parametrize("n_gpus", [0, 1])
def test_a_user_who_wants_no_gpu_gets_none(n_gpus, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: n_gpus)
    words = ["CartPole-v1", "gpus=none"]
    found = search("ppo", *words)
    assert {each.gpu for each in [found.as_given, *found.candidates()]} == {None}
    advice = found.as_given._replace(batch_B=16, batch_T=64)
    assert "gpus=none" in Diagnosis(found, advice, {}, False).command("ppo", words).split()


# --- The space that is searched -------------------------------------------------------------------


def search(what, *words):
    found = Search(configuration(what, words), given_settings(words), seconds=1)
    found.step = StepTime(1e-4, memory=0)
    return found


def test_the_size_of_the_batch_stays_as_the_algorithm_expects_it():
    found = {(each.batch_T, each.batch_B) for each in search("ppo", "CartPole-v1").candidates()}
    assert found == {(512, 2), (256, 4), (128, 8), (64, 16), (32, 32)}
    found = {(each.batch_T, each.batch_B) for each in search("dqn", "CartPole-v1").candidates()}
    assert found >= {(8, 4), (8, 8), (8, 16)}
    assert {T for T, _ in found} == {8}
    lstm = search("ppo", "CartPole-v1", "agent=generic_lstm").candidates()
    assert {(each.batch_T, each.batch_B) for each in lstm} == {(128, 8)}


@pytest.mark.parametrize(
    ("word", "field", "values"),
    [
        ("sampler=gpu", "sampler", {"gpu"}),
        ("batch_B=16", "batch_B", {16}),
        ("sampler.batch_T=64", "batch_T", {64}),
        ("workers=4", "workers", {0, 2, 4}),  # None of a serial sampler, two for two environments.
        ("threads=1", "threads", {1}),
    ],
)
def test_what_is_given_stays(word, field, values):
    found = search("ppo", "CartPole-v1", word).candidates()
    assert {getattr(each, field) for each in found} == values


def test_settings_of_the_same_name_are_left_alone():
    assert given_settings(["algo.batch_B=8", "sampler.batch_B=4"]) == {"sampler.batch_B"}
    found = search("r2d1", "CartPole-v1")
    assert found.configuration(found.as_given)["sampler"]["batch_B"] == 8
    found = search("ppo", f"{__name__}.robot", "env.workers=3")
    config = found.configuration(Candidate("cpu", 2, 128, 8))
    assert config["env"] == {"workers": 3}
    assert config["affinity"] == {"workers": 2, "threads": 1}


def test_asynchronous_runs_are_measured_in_one_process():
    words = ["runner=async", "sampler=serial", "sampler.start_method=spawn"]
    found = search("dqn", "CartPole-v1", *words)
    assert "start_method" not in found.configuration(found.as_given)["sampler"]
    found = search("dqn", "CartPole-v1", "runner=async")
    vector = next(each for each in found.candidates() if each.sampler == "vector")
    with pytest.raises(ValueError, match="sampler=vector"):
        found.configuration(vector)


def test_vectors_that_change_the_images_of_a_game_are_not_compared():
    pytest.importorskip("ale_py")
    found = search("a2c", "pong")
    with ExitStack() as stack:
        for candidate in found.candidates():
            if candidate.sampler == "vector":
                assert found.start(candidate, stack) is None
                assert "atari_vector:" in found.left_out[candidate]


def test_workers_that_do_not_fit_into_memory_are_left_out():
    found = search("ppo", "CartPole-v1")
    found.step = StepTime(1e-4, found.machine.memory // 4)
    found.configuration(Candidate("cpu", 2, 128, 8))
    with pytest.raises(ValueError, match="GiB of memory"):
        found.configuration(Candidate("cpu", 8, 128, 8))


# --- What is kept and advised ---------------------------------------------------------------------


def test_the_fastest_within_a_factor_are_kept_and_the_others_closed(monkeypatch):
    closed = []

    class Told:
        def __init__(self, seconds):
            self.seconds = seconds

        def measure(self, seconds, limit_s):
            return RunTime(self.seconds, 0.0)

        def close(self):
            closed.append(self.seconds)

    found = search("ppo", "CartPole-v1")
    times = {Candidate("serial", 0, 128, 9 - n): n for n in (6, 2, 5, 4, 3)}
    monkeypatch.setattr(found, "start", lambda candidate, stack: Told(times[candidate]))
    kept = {}
    found._narrow(kept, times, 2.0, 4, 1, None)
    assert [trial.seconds for trial in kept.values()] == [2, 3, 4]
    found._narrow(kept, (), 2.0, 2, 1, None)
    assert [trial.seconds for trial in kept.values()] == [2, 3]
    assert sorted(closed) == [4, 5, 6]


@pytest.mark.parametrize(("time_as_given", "is_kept"), [(1.03, True), (1.05, False)])
@pytest.mark.parametrize("trains", [True, False])
def test_settings_stay_as_given_unless_others_gain_four_percent(
    time_as_given, is_kept, trains, monkeypatch
):
    given, other, best = (Candidate(name, 0, 128, 8) for name in ("serial", "vector", "gpu"))
    times = {given: time_as_given, other: 1.02, best: 1.0}

    class Told:
        as_given, left_out, limit_s = given, {}, 1e9

        def __init__(self, *args):
            self.times, self.sampling_time = times, times.get

        def measure_environment(self):
            pass

        def search(self):
            return sorted(times, key=times.get)

        def variants(self, candidate):
            return [candidate]

        def train(self, tried):
            assert {*tried} == {*times}
            return {each: RunTime(0.0, times[each]) for each in tried if trains}

    monkeypatch.setattr(diagnosis, "Search", Told)
    assert diagnosis.examine({}).advice == (given if is_kept else best)


# --- What goes wrong ------------------------------------------------------------------------------


def test_wrong_input_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match="seconds=0: give more than 0"):
        Search(configuration("ppo", ["CartPole-v1"]), seconds=0)
    assert "algo=impala trains while another" in refused("doctor", "impala", "CartPole-v1")
    assert "did you mean 'CartPole" in refused("doctor", "ppo", "CartPole-v7")
    assert "did you mean" in refused("doctor", "ppo", "CartPole-v1", "sampler=seriel")


FAILING = ["Sleeping-v0", "env.fails_after=12", "env.seconds=0", "sampler=serial"]


def test_an_environment_that_fails_ends_with_its_error():
    with pytest.raises(RuntimeError, match="the robot fell over"):
        invoke("doctor", "a2c", *FAILING, *QUICK, "--seconds", 15)


def test_a_run_that_fails_while_it_is_measured_is_left_out():
    found = search("a2c", *FAILING, "batch_T=4", "batch_B=1", *QUICK)
    assert found.train([found.as_given]) == {}
    assert found.left_out == {found.as_given: "RuntimeError: the robot fell over"}
    found.left_out.clear()
    with pytest.raises(ValueError, match="the robot fell"):
        found.search()
    assert not found.times


def test_a_sampler_that_takes_too_long_to_start_is_ended_at_once():
    found, before = search("a2c", "Sleeping-v0"), psutil.Process().children()
    with ExitStack() as stack:
        assert found.start(found.as_given, stack, limit_s=0.01) is None
        assert psutil.Process().children() == before
    assert "took over 0 s: give a larger --seconds" in found.left_out[found.as_given]


def test_a_trial_that_is_killed_raises():
    before = set(psutil.Process().children())
    with closing(Trial(configuration("ppo", ["Sleeping-v0", *QUICK]), 4)) as measured:
        measured.measure(0, 20)
        (child,) = set(psutil.Process().children()) - before
        with pytest.raises(TimeoutError, match="took over 0 s"):
            measured.measure(30, 0.1)
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="SIGKILL"):
            measured.measure(0, 20)
