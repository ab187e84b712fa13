"""Workers that fail are restarted: the run goes on with whole batches, and nothing is left."""

import multiprocessing
import os
import signal
import time
from functools import cache
from pathlib import Path

import psutil
import pytest

from rlpyt.distributions.noise import integers_like
from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu import sampler as gpu_sampler
from rlpyt.samplers.parallel.gpu.action_server import serve_again
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import torchify_buffer
from tests.resources import named_shared_memory, own_children
from tests.samplers.parallel_parts import (
    PARALLEL,
    AlternatingRule,
    DiceEnv,
    FaultyEnv,
    RecurrentRule,
    RuleAgent,
    as_dict,
    assert_equal,
    start,
)
from tests.samplers.test_async_samplers import ONE, TWO, start_async
from tests.samplers.test_worker_faults import BigTrajInfo
from tests.selection import FULL, each_once
from tests.waiting import wait_until

HEALTHY, LOST = slice(0, 2), slice(2, 4)  # Columns of the first worker, and of the second.


class FailsOnce(FaultyEnv):
    """Fails as FaultyEnv, but not again once the file ``mark`` is there."""

    def __init__(self, mark=None, **kwargs):
        self.mark = mark
        super().__init__(**kwargs)

    def _maybe_fail(self, where):
        if where == self.where and self.how is not None and self.left <= 0 and self.mark:
            try:
                Path(self.mark).touch(exist_ok=False)
            except FileExistsError:
                self.how = None
        super()._maybe_fail(where)

    def state_dict(self):
        self._maybe_fail("state")
        return super().state_dict()

    def load_state_dict(self, state):
        self._maybe_fail("load")
        super().load_state_dict(state)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before, memory = own_children(), named_shared_memory()
    yield
    assert own_children() <= before
    assert named_shared_memory() <= memory


def kwargs_of(tmp_path, how, where="step", after=0, **kwargs):
    """The last of four environments, which is the second of the second worker, fails once."""
    fault = {"how": how, "where": where, "after": after, "mark": str(tmp_path / "mark")}
    limit = {"worker_timeout_s": 1.0} if how == "hang" else {}
    return {
        "EnvCls": FailsOnce,
        "env_kwargs": [{}, {}, {}, fault],
        "max_decorrelation_steps": 0,
        "on_worker_failure": "restart",
        **limit,
        **kwargs,
    }


def agent_for(SamplerCls):
    return AlternatingRule() if SamplerCls.alternating else RecurrentRule()


@cache
def undisturbed(AgentCls=RecurrentRule, collector="reset"):
    kwargs = {"max_decorrelation_steps": 0, "CollectorCls": collector}
    sampler, _ = start(SerialSampler, 0, AgentCls(), **kwargs)
    batches = [as_dict(sampler.obtain_samples(itr)[0]) for itr in range(5)]
    sampler.shutdown()
    return batches


def columns(fields, which):
    return {name: array[:, which] for name, array in fields.items()}


def assert_restarted_in(
    itr_lost, obtain, take_restarted, AgentCls=RecurrentRule, n_itrs=4, collector="reset"
):
    """Columns of the lost worker begin anew; the others are those of a run without faults."""
    expected = undisturbed(AgentCls, collector)
    for itr in range(n_itrs):
        samples, infos = obtain(itr)
        fields = as_dict(samples)
        assert_equal(columns(fields, HEALTHY), columns(expected[itr], HEALTHY))
        age = itr if itr < itr_lost else itr - itr_lost
        assert_equal(columns(fields, LOST), columns(expected[age], LOST))
        assert len(infos) == samples.env.env_info.traj_done.sum()
        assert take_restarted() == ([2, 3] if itr == itr_lost else [])
        assert take_restarted() == []


@pytest.mark.parametrize(("SamplerCls", "how"), each_once(PARALLEL, ("kill", "raise", "hang")))
def test_fault_in_a_batch(SamplerCls, how, tmp_path, capfd):
    kwargs = kwargs_of(tmp_path, how, after=10)  # The batches have 7 steps.
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    assert_restarted_in(1, sampler.obtain_samples, sampler.take_restarted)
    sampler.shutdown()
    log = capfd.readouterr().out
    message = {
        "kill": "was ended by SIGKILL",
        "raise": "KeyError: 'the error of the environment'",
        "hang": "in hang_here",
    }[how]
    assert message in log
    assert "busy with environment 3" in log
    assert "It is restarted (1 of at most 10 restarts in an hour)" in log


@pytest.mark.parametrize("SamplerCls", PARALLEL if FULL else [AlternatingSampler])
def test_fault_where_environments_wait(SamplerCls, tmp_path):
    kwargs = kwargs_of(tmp_path, "raise", after=3, CollectorCls="wait")
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    assert_restarted_in(0, sampler.obtain_samples, sampler.take_restarted, collector="wait")
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [AlternatingSampler, *[GpuSampler] * FULL])
def test_a_new_worker_that_begins_before_the_server(SamplerCls, tmp_path, monkeypatch):
    """It is ready while its former actions are still served, and steps before they are anew."""
    agent, is_late = agent_for(SamplerCls), False

    def step(*inputs):
        time.sleep(0.15 if (tmp_path / "mark").exists() and not is_late else 0)
        return type(agent).step(agent, *inputs)

    def serve_late(*args):
        nonlocal is_late
        is_late = True
        time.sleep(0.3)
        serve_again(*args)

    monkeypatch.setattr(agent, "step", step, raising=False)
    monkeypatch.setattr(gpu_sampler, "serve_again", serve_late)
    sampler, _ = start(SamplerCls, 2, agent, **kwargs_of(tmp_path, "raise", after=10))
    assert_restarted_in(1, sampler.obtain_samples, sampler.take_restarted)
    sampler.shutdown()


class ChanceAgent(RuleAgent):
    """Acts by chance, by the random numbers of each environment and step."""

    def step(self, observation, prev_action, prev_reward):
        step = super().step(observation, prev_action, prev_reward)
        return step._replace(action=1 + integers_like(step.action, 4))


@pytest.mark.parametrize("SamplerCls", PARALLEL if FULL else [AlternatingSampler])
def test_an_agent_that_acts_by_chance(SamplerCls, tmp_path):
    sampler, _ = start(SamplerCls, 2, ChanceAgent(), **kwargs_of(tmp_path, "kill", after=10))
    expected = undisturbed(ChanceAgent)
    for itr in range(3):
        fields = as_dict(sampler.obtain_samples(itr)[0])
        assert_equal(columns(fields, HEALTHY), columns(expected[itr], HEALTHY))
        actions = {".agent.action": fields[".agent.action"]}
        assert_equal(actions, {name: expected[itr][name] for name in actions})
    assert sampler.take_restarted() == []
    assert (tmp_path / "mark").exists()
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "affinity", "how"),
    [
        (AsyncCpuSampler, TWO, "kill"),
        (AsyncGpuSampler, [ONE, ONE], "raise"),
        *[(AsyncGpuSampler, [ONE, ONE], "hang"), (AsyncAlternatingSampler, TWO, "kill")] * FULL,
    ],
)
def test_fault_in_an_asynchronous_batch(SamplerCls, affinity, how, tmp_path):
    sampler = start_async(SamplerCls, affinity, **kwargs_of(tmp_path, how, after=10))
    batches = torchify_buffer(sampler.double_buffer)

    def obtain(itr):
        infos = sampler.obtain_samples(itr, itr % 2)
        return batches[itr % 2], infos

    assert_restarted_in(1, obtain, sampler.take_restarted, RuleAgent)
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "where"), each_once((CpuSampler, AlternatingSampler), ("init", "reset"))
)
def test_fault_at_the_start(SamplerCls, where, tmp_path):
    kwargs = kwargs_of(tmp_path, "kill", where)
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    assert_restarted_in(-1, sampler.obtain_samples, sampler.take_restarted, n_itrs=0)
    for itr, expected in enumerate(undisturbed()[:2]):
        assert_equal(as_dict(sampler.obtain_samples(itr)[0]), expected)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [GpuSampler, *[CpuSampler] * FULL])
def test_a_worker_killed_between_batches(SamplerCls, tmp_path):
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs_of(tmp_path, None))

    def obtain(itr):
        if itr == 2:
            os.kill(sampler.workers[1].pid, signal.SIGKILL)
        return sampler.obtain_samples(itr)

    assert_restarted_in(2, obtain, sampler.take_restarted)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [GpuSampler, *[CpuSampler] * FULL])
def test_both_workers_fail_at_once(SamplerCls, tmp_path):
    faults = [{"how": "kill", "after": 10, "mark": str(tmp_path / str(b))} for b in range(4)]
    kwargs = kwargs_of(tmp_path, None, env_kwargs=faults)
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    # Each of the four environments fails once: some of them in the batch that is taken again.
    n_restarted = 0
    for itr in range(8):
        samples, infos = sampler.obtain_samples(itr)
        n_restarted += len(sampler.take_restarted())
        assert len(infos) == samples.env.env_info.traj_done.sum()
    assert n_restarted >= 4
    assert len(list(tmp_path.iterdir())) == 4
    sampler.shutdown()


LIMITS = {
    "episodes": dict(eval_n_envs=4, eval_max_steps=None, eval_n_episodes=9),
    "trajectories": dict(eval_n_envs=4, eval_max_steps=400, eval_max_trajectories=9),
}


@pytest.mark.parametrize(("SamplerCls", "limit"), each_once(PARALLEL, LIMITS))
def test_fault_in_an_evaluation(SamplerCls, limit, tmp_path):
    kwargs = kwargs_of(tmp_path, "kill", after=3, **LIMITS[limit])
    kwargs["eval_env_kwargs"], kwargs["env_kwargs"] = kwargs["env_kwargs"], {}
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)

    def obtain(itr):
        if itr == 2:
            infos = sampler.evaluate_agent(itr)
            assert len(infos) == 9 or (limit == "trajectories" and len(infos) > 9)
        return sampler.obtain_samples(itr)

    assert_restarted_in(2, obtain, sampler.take_restarted)
    assert (tmp_path / "mark").exists()
    sampler.shutdown()


@pytest.mark.full
@pytest.mark.parametrize("SamplerCls", [AlternatingSampler, CpuSampler])
def test_a_worker_killed_before_an_evaluation(SamplerCls, tmp_path):
    kwargs = kwargs_of(tmp_path, None, **LIMITS["episodes"])
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    sampler.obtain_samples(0)
    os.kill(sampler.workers[1].pid, signal.SIGKILL)
    sampler.workers[1].join()
    assert len(sampler.evaluate_agent(0)) == 9
    sampler.shutdown()


def test_a_worker_of_a_server_killed_before_an_evaluation(tmp_path):
    sampler = start_async(AsyncGpuSampler, TWO, **kwargs_of(tmp_path, None, **LIMITS["episodes"]))
    sampler.obtain_samples(0, 0)
    server = psutil.Process(sampler.supervisor.children[0].process.pid)
    victim = server.children()[1]
    victim.kill()
    wait_until(lambda: victim not in server.children())  # Until the server has noticed.
    assert len(sampler.evaluate_agent(0)) == 9
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "affinity", "limit"),
    [
        (AsyncCpuSampler, TWO, "trajectories"),
        (AsyncGpuSampler, [ONE, ONE], "episodes"),
        *[
            (AsyncCpuSampler, TWO, "episodes"),
            (AsyncGpuSampler, TWO, "trajectories"),
            (AsyncAlternatingSampler, TWO, "trajectories"),
        ]
        * FULL,
    ],
)
def test_fault_in_an_asynchronous_evaluation(SamplerCls, affinity, limit, tmp_path):
    kwargs = kwargs_of(tmp_path, "kill", after=3, **LIMITS[limit])
    kwargs["eval_env_kwargs"], kwargs["env_kwargs"] = kwargs["env_kwargs"], {}
    sampler = start_async(SamplerCls, affinity, **kwargs)
    infos = sampler.evaluate_agent(0)
    assert (tmp_path / "mark").exists()
    assert len(infos) == 9 or (limit == "trajectories" and len(infos) > 9)
    for itr in range(2):
        sampler.obtain_samples(itr, itr)
        assert sampler.take_restarted() == ([2, 3] if itr == 0 else [])
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "where"), each_once((CpuSampler, GpuSampler), ("state", "load"))
)
def test_fault_while_states_are_exchanged(SamplerCls, where, tmp_path):
    kwargs = kwargs_of(tmp_path, "kill", where)
    sampler, _ = start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)
    sampler.obtain_samples(0)
    state = sampler.state_dict()
    sampler.load_state_dict(state)
    assert (tmp_path / "mark").exists()
    fields, expected = as_dict(sampler.obtain_samples(1)[0]), undisturbed()
    assert_equal(columns(fields, HEALTHY), columns(expected[1], HEALTHY))
    age = 0 if where == "state" else 1  # A new worker gave its state, or took that of the old one.
    assert_equal(columns(fields, LOST), columns(expected[age], LOST))
    assert sampler.take_restarted() == [2, 3]
    sampler.shutdown()


def test_states_are_exchanged_without_files(tmp_path, monkeypatch):
    """Tensors in pipes need a server in each process, whose socket a killed worker leaves."""
    config = multiprocessing.current_process()._config
    monkeypatch.setitem(config, "tempdir", str(tmp_path))
    sampler, _ = start(CpuSampler, 2, agent_for(CpuSampler), EnvCls=DiceEnv)
    sampler.obtain_samples(0)
    sampler.load_state_dict(sampler.state_dict())
    assert not list(tmp_path.iterdir())
    sampler.shutdown()


def test_a_state_has_the_columns_restarted_since_the_last_batch(tmp_path):
    """Otherwise a run that resumes elsewhere would train across the cut."""
    sampler, _ = start(CpuSampler, 2, agent_for(CpuSampler), **kwargs_of(tmp_path, "kill", "state"))
    sampler.obtain_samples(0)
    state = sampler.state_dict()
    sampler.shutdown()
    resumed, _ = start(CpuSampler, 2, agent_for(CpuSampler), **kwargs_of(tmp_path, None))
    resumed.load_state_dict(state)
    for restarted in ([2, 3], []):
        resumed.obtain_samples(1)
        assert resumed.take_restarted() == restarted
    resumed.shutdown()


def test_a_new_worker_leaves_sigterm_to_the_sampler_too(tmp_path):
    sampler, _ = start(CpuSampler, 2, agent_for(CpuSampler), **kwargs_of(tmp_path, "kill"))
    sampler.obtain_samples(0)
    assert sampler.take_restarted() == [2, 3]
    worker = sampler.workers[1]
    os.kill(worker.pid, signal.SIGTERM)
    worker.join(0.5)  # A worker that obeys ends within milliseconds.
    sampler.obtain_samples(1)
    assert worker.is_alive()
    assert sampler.take_restarted() == []
    sampler.shutdown()


def test_a_worker_killed_while_it_sends(tmp_path):
    kwargs = kwargs_of(tmp_path, "kill", "reset", after=1, batch_T=60, TrajInfoCls=BigTrajInfo)
    sampler, _ = start(CpuSampler, 2, CollectorCls="wait", **kwargs)
    for itr in range(3):
        samples, infos = sampler.obtain_samples(itr)
        # One by one at the batch's end; what a worker had not sent is lost with it.
        assert len(infos) <= samples.env.env_info.traj_done.sum()
    assert (tmp_path / "mark").exists()
    assert len(infos) > 0
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "where"), each_once((CpuSampler, AlternatingSampler), ("init", "step"))
)
def test_too_many_restarts_raise_the_error(SamplerCls, where, tmp_path, capfd):
    kwargs = kwargs_of(tmp_path, "raise", where, max_restarts_per_hour=2)
    del kwargs["env_kwargs"][3]["mark"]
    with pytest.raises(WorkerError, match="KeyError: 'the error of the environment'"):
        start(SamplerCls, 2, agent_for(SamplerCls), **kwargs)[0].obtain_samples(0)
    assert capfd.readouterr().out.count("It is restarted") == 2


def test_too_many_restarts_of_an_action_server(tmp_path):
    kwargs = kwargs_of(tmp_path, "raise", max_restarts_per_hour=1)
    del kwargs["env_kwargs"][3]["mark"]
    sampler = start_async(AsyncGpuSampler, TWO, **kwargs)
    with pytest.raises(WorkerError, match=r"action server 0 (.|\n)*the error of the environment"):
        sampler.obtain_samples(0, 0)
    sampler.shutdown()
