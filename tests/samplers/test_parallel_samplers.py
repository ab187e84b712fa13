"""Samplers with workers: settings, hooks, and parts as research code writes them."""

import multiprocessing as mp
import os
import time
from collections import namedtuple

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.core.records import BatchSpec, EnvStep, NotFiniteError, TrajInfo
from rlpyt.envs.toy import Catch
from rlpyt.processes.launch import use_batch_scheduling
from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.collectors import BaseEvalCollector, DecorrelatingStartCollector
from rlpyt.samplers.parallel.base import ParallelSamplerBase
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuResetCollector, CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler, GpuSamplerBase, StepBuffer
from rlpyt.samplers.parallel.worker import initialize_worker, sampling_process
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.buffer import numpify_buffer, torchify_buffer
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_envs_seeds
from rlpyt.utils.synchronize import drain_queue
from tests.samplers.parallel_parts import (
    PARALLEL,
    CoinAgent,
    DiceEnv,
    RuleAgent,
    as_dict,
    assert_equal,
    start,
)
from tests.samplers.parts import CountEnv, EchoAgent
from tests.selection import FULL

CPUS = sorted(os.sched_getaffinity(0))
Place = namedtuple("Place", ["pid", "cpus", "threads", "policy", "name"])


class TellingEnv(CountEnv):
    """Its info says where it runs, and with which arguments it was made."""

    def __init__(self, name=0, path=None):
        super().__init__()
        self.name, self.path = name, path

    def step(self, action):
        step = super().step(action)
        cpus = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        policy = os.sched_getscheduler(0)
        info = Place(os.getpid(), cpus, torch.get_num_threads(), policy, self.name)
        if step.done:
            self.reset()
        return EnvStep(step.observation, step.reward, False, info)

    def reset(self):
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()} ")
        return super().reset()

    def close(self):
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write("closed ")


def told(SamplerCls=CpuSampler, affinity=None, rank=0, world_size=1, **kwargs):
    """What the environments say in a batch, and the sampler, which is shut down."""
    kwargs = {"env_kwargs": {}, "batch_T": 2, "batch_B": 4, **kwargs}
    sampler = SamplerCls(EnvCls=TellingEnv, max_decorrelation_steps=0, **kwargs)
    affinity = {"workers_cpus": 2} if affinity is None else affinity
    agent = EchoAgent()
    sampler.initialize(agent, affinity=affinity, seed=1, rank=rank, world_size=world_size)
    sampler.agent = agent
    samples, _ = sampler.obtain_samples(0)
    info = samples.env.env_info[0]
    told = Place(*(part.numpy().copy() for part in info))
    sampler.shutdown()
    return told


SOME = PARALLEL if FULL else [CpuSampler, AlternatingSampler]


# --- Processes and CPUs ---------------------------------------------------------------------------


EVERY = sum(1 << cpu for cpu in CPUS)


@pytest.mark.parametrize(
    ("affinity", "cpus", "threads"),
    [
        ({"workers_cpus": [CPUS[0], CPUS[-1]]}, [1 << CPUS[0], 1 << CPUS[-1]], 1),
        ({"workers_cpus": [CPUS, [CPUS[0]]], "worker_torch_threads": 2}, [EVERY, 1 << CPUS[0]], 2),
        ({"workers_cpus": [CPUS[0]] * 2, "set_affinity": False}, [EVERY, EVERY], 1),
        ({"workers_cpus": 2}, [EVERY, EVERY], 1),
    ],
)
def test_cpus_and_threads_of_workers(affinity, cpus, threads):
    info = told(affinity=affinity)
    assert info.cpus.tolist() == [cpus[0]] * 2 + [cpus[1]] * 2
    assert (info.threads == threads).all()
    assert len(set(info.pid)) == 2


@pytest.mark.parametrize("SamplerCls", SOME)
def test_environments_are_in_workers_that_leave_their_waker_the_cpu(SamplerCls):
    info = told(SamplerCls)
    assert info.pid[0] == info.pid[1] != info.pid[2] == info.pid[3]
    assert os.getpid() not in info.pid
    # The first worker that a sampler released took its CPU before it had released the second one.
    assert (info.policy == os.SCHED_BATCH).all()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_no_more_workers_than_environments():
    assert len(set(told(affinity={"workers_cpus": 7}, batch_B=3).pid)) == 3


@pytest.mark.parametrize("in_subprocess", [True, False])
def test_buffers_are_built_where_it_was_asked(tmp_path, in_subprocess):
    path = tmp_path / "pids"
    told(env_kwargs={"path": path}, example_subprocess=in_subprocess)
    words = path.read_text().split()
    assert (words[0] == str(os.getpid())) != in_subprocess
    assert words.count("closed") == 1 + 4, "the example, and all environments at the shutdown"


def test_shutdown_is_repeatable_and_the_sampler_too():
    sampler, agent = start(CpuSampler)
    sampler.obtain_samples(0)
    sampler.shutdown()
    sampler.shutdown()
    with pytest.raises(ValueError, match="has been shut down: initialize it"):
        sampler.obtain_samples(0)
    sampler.initialize(agent, affinity={"workers_cpus": 2}, seed=3)
    sampler.obtain_samples(0)
    sampler.shutdown()
    SerialSampler(CountEnv, {}, 1, 1).shutdown()
    CpuSampler(CountEnv, {}, 1, 1).shutdown()


# --- Arguments of each environment ----------------------------------------------------------------


@pytest.mark.parametrize("SamplerCls", [SerialSampler, GpuSampler])
def test_environments_are_told_their_number_among_those_of_all_ranks(SamplerCls):
    info = told(SamplerCls, env_kwargs=lambda i: {"name": 10 * i}, rank=1, world_size=2)
    assert info.name.tolist() == [40, 50, 60, 70]


# --- What the agent is told afterwards ------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_parameters_and_epsilon_reach_the_workers(method):
    agent = MlpDqnAgent(eps_init=1.0, eps_final=0.0)
    sampler = CpuSampler(Catch, {}, 20, 4, max_decorrelation_steps=0, start_method=method)
    sampler.initialize(agent, affinity={"workers_cpus": 2}, seed=0)
    agent.set_epsilon_itr_min_max(0, 1)
    greedy = []
    for itr in range(3):
        samples, _ = sampler.obtain_samples(itr)
        q = samples.agent.agent_info.q
        greedy.append((samples.agent.action == q.argmax(-1)).float().mean().item())
        expected = agent.model(samples.env.observation, None, None)
        torch.testing.assert_close(q, expected.detach(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            for parameter in agent.parameters():
                parameter.add_(0.01)
    sampler.shutdown()
    assert greedy[0] < 0.6
    assert greedy[1:] == [1.0, 1.0]


# --- Collectors with a loop of their own ----------------------------------------------------------


class OwnCpuCollector(DecorrelatingStartCollector):
    """The loop of the original, for agents that act in the worker."""

    mid_batch_reset = True

    def collect_batch(self, agent_inputs, traj_infos, itr):
        agent_buf, env_buf = self.samples_np.agent, self.samples_np.env
        completed = []
        observation, action, reward = agent_inputs
        inputs = torchify_buffer(agent_inputs)
        agent_buf.prev_action[0], env_buf.prev_reward[0] = action, reward
        self.agent.sample_mode(itr)
        for t in range(self.batch_T):
            env_buf.observation[t] = observation
            act_pyt, agent_info = self.agent.step(*inputs)
            agent_buf.agent_info[t] = agent_info
            agent_buf.action[t] = action[:] = numpify_buffer(act_pyt)
            for b, env in enumerate(self.envs):
                o, r, d, env_info = env.step(action[b])
                traj_infos[b].step(observation[b], action[b], r, d, agent_info[b], env_info)
                if env_info.traj_done:
                    completed.append(traj_infos[b].terminate(o))
                    traj_infos[b] = self.TrajInfoCls()
                    o = env.reset()
                observation[b], reward[b], env_buf.done[t, b] = o, r, d
                env_buf.env_info[t, b] = env_info
            env_buf.reward[t] = reward
            for b in np.flatnonzero(env_buf.done[t]):
                action[b], reward[b] = 1, 0
                self.agent.reset_one(b)
        if "bootstrap_value" in agent_buf:
            agent_buf.bootstrap_value[:] = self.agent.value(*inputs)
        return AgentInputs(observation, action, reward), traj_infos, completed


class OwnGpuCollector(DecorrelatingStartCollector):
    """The loop of the original, for actions that are served."""

    mid_batch_reset = True

    def collect_batch(self, agent_inputs, traj_infos, itr):
        act_ready, obs_ready = self.sync.act_ready, self.sync.obs_ready
        step, agent_buf, env_buf = self.step_buffer_np, self.samples_np.agent, self.samples_np.env
        completed = []
        agent_buf.prev_action[0], env_buf.prev_reward[0] = step.action, step.reward
        obs_ready.release()
        for t in range(self.batch_T):
            env_buf.observation[t] = step.observation
            act_ready.acquire()
            for b, env in enumerate(self.envs):
                o, r, d, env_info = env.step(step.action[b].copy())
                traj_infos[b].step(step.observation[b], step.action[b], r, d, None, env_info)
                if env_info.traj_done:
                    completed.append(traj_infos[b].terminate(o))
                    traj_infos[b] = self.TrajInfoCls()
                    o = env.reset()
                step.observation[b], step.reward[b], step.done[b] = o, r, d
                env_buf.env_info[t, b] = env_info
            agent_buf.action[t], agent_buf.agent_info[t] = step.action, step.agent_info
            env_buf.reward[t], env_buf.done[t] = step.reward, step.done
            obs_ready.release()
        return None, traj_infos, completed


class OwnActionServer:
    """The server of the original."""

    def serve_actions(self, itr):
        obs_ready, act_ready = self.sync.obs_ready, self.sync.act_ready
        step_np, agent_inputs = self.step_buffer_np, self.agent_inputs
        for _ in range(self.batch_spec.T):
            for semaphore in obs_ready:
                semaphore.acquire()
            if self.mid_batch_reset and np.any(step_np.done):
                self._reset_done(step_np)
            action, agent_info = self.agent.step(*agent_inputs)
            agent_info = numpify_buffer(agent_info)
            step_np.agent_info[:] = agent_info
            step_np.action[:] = numpify_buffer(action)
            for semaphore in act_ready:
                semaphore.release()
        for semaphore in obs_ready:
            semaphore.acquire()
            assert not semaphore.acquire(block=False)
        self._reset_done(step_np)
        if "bootstrap_value" in self.samples_np.agent:
            self.samples_np.agent.bootstrap_value[:] = self.agent.value(*agent_inputs)

    def _reset_done(self, step_np):
        for b in np.where(step_np.done)[0]:
            step_np.action[b], step_np.reward[b] = 1, 0
            self.agent.reset_one(idx=b)


class OwnSampler(OwnActionServer, GpuSamplerBase):
    """Meets the workers by itself, as subclasses do."""

    def obtain_samples(self, itr):
        self.agent.sample_mode(itr)
        self.ctrl.itr.value = itr
        self.ctrl.barrier_in.wait()
        self.serve_actions(itr)
        self.ctrl.barrier_out.wait()
        return self.samples_pyt, drain_queue(self.traj_infos_queue)


@pytest.mark.parametrize(
    ("SamplerCls", "CollectorCls"),
    [
        (SerialSampler, OwnCpuCollector),
        (CpuSampler, OwnCpuCollector),
        (GpuSampler, OwnGpuCollector),
        (OwnSampler, GpuResetCollector),
        (AlternatingSampler, OwnGpuCollector),
    ],
)
def test_loops_of_research_code(SamplerCls, CollectorCls):
    ours, _ = start(SerialSampler, 0, RuleAgent())
    sampler, _ = start(SamplerCls, 2, RuleAgent(), CollectorCls=CollectorCls)
    for itr in range(3):
        samples, infos = sampler.obtain_samples(itr)
        expected, expected_infos = ours.obtain_samples(itr)
        assert_equal(as_dict(samples), as_dict(expected))
        assert sorted(i.Return for i in infos) == sorted(i.Return for i in expected_infos)
    sampler.shutdown()


class OneMore(CpuResetCollector):
    """Returns one trajectory more than there were."""

    def collect_batch(self, *args):
        agent_inputs, traj_infos, completed = super().collect_batch(*args)
        extra = self.TrajInfoCls()
        extra.Return = -99
        return agent_inputs, traj_infos, [*completed, extra]


@pytest.mark.parametrize(("SamplerCls", "n_collectors"), [(SerialSampler, 1), (CpuSampler, 2)])
def test_trajectories_that_a_collector_adds_arrive(SamplerCls, n_collectors):
    # Those beyond the ones of the loop were dropped on the way from a worker.
    ours, _ = start(SerialSampler, 0, RuleAgent())
    sampler, _ = start(SamplerCls, 2, RuleAgent(), CollectorCls=OneMore)
    for itr in range(4):
        returns = [info.Return for info in sampler.obtain_samples(itr)[1]]
        assert returns.count(-99) == n_collectors
        expected = [info.Return for info in ours.obtain_samples(itr)[1]]
        assert [r for r in returns if r != -99] == expected
    sampler.shutdown()


class OutOfStep(GpuResetCollector):
    def collect_batch(self, *args):
        result = super().collect_batch(*args)
        self.sync.obs_ready.release()
        return result


def test_who_is_out_of_step_is_told():
    sampler, _ = start(AlternatingSampler, CollectorCls=OutOfStep)
    with pytest.raises(RuntimeError, match="worker and the action server have lost step"):
        sampler.obtain_samples(0)
    sampler.shutdown()


class OwnEvaluation(BaseEvalCollector):
    """The evaluation of the original, in the worker."""

    def collect_evaluation(self, itr):
        for info in self.evaluate(itr):
            self.traj_infos_queue.put(info)
        self.traj_infos_queue.put(None)

    def evaluate(self, itr):
        traj_infos = [self.TrajInfoCls() for _ in range(len(self.envs))]
        observations = [env.reset() for env in self.envs]
        self.agent.reset()
        self.agent.eval_mode(itr)
        for _ in range(self.max_T):
            for b, env in enumerate(self.envs):
                o, r, d, env_info = env.step(np.array(2))
                traj_infos[b].step(observations[b], 2, r, d, None, env_info)
                if env_info.traj_done:
                    yield traj_infos[b].terminate(o)
                    traj_infos[b] = self.TrajInfoCls()
                    env.reset()
            if self.sync is not None and self.sync.stop_eval.value:
                break


@pytest.mark.parametrize("limit", [None, 3])
def test_evaluation_of_research_code(limit):
    evaluation = dict(eval_n_envs=2, eval_max_steps=40, eval_max_trajectories=limit)
    sampler, _ = start(CpuSampler, EnvCls=CountEnv, eval_CollectorCls=OwnEvaluation, **evaluation)
    for itr in range(3):
        infos = sampler.evaluate_agent(itr)
        assert {info.Return for info in infos} == {10}
        assert len(infos) == 10 if limit is None else 3 <= len(infos) <= 10
        sampler.obtain_samples(itr)
    sampler.shutdown()


class SlowCountEnv(CountEnv):
    def __init__(self, seconds=0.0):
        super().__init__()
        self.seconds = seconds

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


@pytest.mark.parametrize("SamplerCls", SOME)
def test_evaluation_may_reach_both_limits_at_once(SamplerCls):
    # The first half had taken its last step, and waited for nobody, when the second was told of it.
    sampler, _ = start(
        SamplerCls,
        EnvCls=SlowCountEnv,
        eval_env_kwargs=[{}, {"seconds": 0.02}],
        eval_n_envs=2,
        eval_max_steps=8,
        eval_max_trajectories=1,
    )
    for itr in range(3):
        assert [info.Return for info in sampler.evaluate_agent(itr)] == [10, 10]
        sampler.obtain_samples(itr)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", SOME)
def test_training_does_not_depend_on_how_far_an_evaluation_went(SamplerCls):
    def actions_after_an_evaluation(seconds):
        sampler, _ = start(
            SamplerCls,
            agent=CoinAgent(),
            EnvCls=SlowCountEnv,
            eval_env_kwargs=[{}, {"seconds": seconds}],
            eval_n_envs=2,
            eval_max_steps=4000,
            eval_max_trajectories=1,
        )
        torch.manual_seed(5)
        sampler.obtain_samples(0)
        sampler.evaluate_agent(0)
        actions = sampler.obtain_samples(1)[0].agent.action.clone()
        sampler.shutdown()
        return actions

    torch.testing.assert_close(actions_after_an_evaluation(0), actions_after_an_evaluation(0.01))


class OwnInitialize(ParallelSamplerBase):
    """Calls the hooks in the order of the original, and starts the processes by itself.

    It gives one of the hooks a further positional argument.
    """

    n_shutdowns = 0

    def initialize(self, agent, affinity, seed, bootstrap_value=False, traj_info_kwargs=None):
        n_envs_list = self._get_n_envs_list(affinity=affinity)
        self.n_worker = len(n_envs_list)
        self.rank, self.world_size = 0, 1
        env = self.EnvCls(**self.env_kwargs)
        self._agent_init(agent, env, global_B=self.batch_spec.B)
        examples = self._build_buffers(env, bootstrap_value, True)
        self._build_parallel_ctrl(self.n_worker)
        common_kwargs = self._assemble_common_kwargs(affinity, self.batch_spec.B)
        workers_kwargs = self._assemble_workers_kwargs(affinity, seed, n_envs_list)
        self.workers = [
            mp.get_context("fork").Process(target=sampling_process, args=(common_kwargs, w))
            for w in workers_kwargs
        ]
        for worker in self.workers:
            worker.start()
        self.ctrl.barrier_out.wait()
        return examples

    def _build_buffers(self, env, bootstrap_value, next_observation):
        self.record_next_observation = next_observation
        return super()._build_buffers(env, bootstrap_value)

    def shutdown(self):
        self.n_shutdowns += 1
        self.ctrl.quit.value = True
        self.ctrl.barrier_in.wait()
        for worker in self.workers:
            worker.join()


class OwnCpuSampler(CpuSampler, OwnInitialize): ...


class OwnGpuSampler(GpuSampler, OwnInitialize): ...


@pytest.mark.parametrize(
    ("SamplerCls", "OwnCls"), [(CpuSampler, OwnCpuSampler), (GpuSampler, OwnGpuSampler)]
)
def test_a_sampler_with_its_own_initialize(SamplerCls, OwnCls):
    # There was no supervisor; shutdown was called before there was anything to end; and
    # GpuSamplerBase did not hand further arguments to the next base class.
    evaluation = dict(eval_n_envs=4, eval_max_steps=80, max_decorrelation_steps=0)
    ours, _ = start(SamplerCls, record_next_observation=True, **evaluation)
    theirs, _ = start(OwnCls, **evaluation)
    assert theirs.eval_n_envs_per == 2
    for itr in range(2):
        expected = [info.Return for info in ours.evaluate_agent(itr)]
        assert [info.Return for info in theirs.evaluate_agent(itr)] == expected
        batch, _ = theirs.obtain_samples(itr)
        assert_equal(as_dict(batch.env), as_dict(ours.obtain_samples(itr)[0].env))
    theirs.shutdown()
    assert theirs.n_shutdowns == 1
    assert [worker.exitcode for worker in theirs.workers] == [0, 0]
    ours.shutdown()


# --- Worker processes and hooks -------------------------------------------------------------------


def own_process(common_kwargs, worker_kwargs):
    """The worker of the original."""
    c, w = AttrDict(**common_kwargs), AttrDict(**worker_kwargs)
    initialize_worker(w.rank, w.seed, w.cpus, c.torch_threads)
    envs = [c.EnvCls(**c.env_kwargs) for _ in range(w.n_envs)]
    set_envs_seeds(envs, w.seed)
    collector = c.CollectorCls(
        rank=w.rank,
        envs=envs,
        samples_np=w.samples_np,
        batch_T=c.batch_T,
        TrajInfoCls=c.TrajInfoCls,
        agent=c.get("agent", None),
        sync=w.get("sync", None),
        step_buffer_np=w.get("step_buffer_np", None),
        global_B=c.get("global_B", 1),
        env_ranks=w.get("env_ranks", None),
    )
    agent_inputs, traj_infos = collector.start_envs(c.max_decorrelation_steps)
    collector.start_agent()
    ctrl = c.ctrl
    ctrl.barrier_out.wait()
    while True:
        collector.reset_if_needed(agent_inputs)
        ctrl.barrier_in.wait()
        if ctrl.quit.value:
            break
        agent_inputs, traj_infos, completed_infos = collector.collect_batch(
            agent_inputs, traj_infos, ctrl.itr.value
        )
        for info in completed_infos:
            c.traj_infos_queue.put(info)
        ctrl.barrier_out.wait()
    for env in envs:
        env.close()


@pytest.mark.parametrize("SamplerCls", SOME)
def test_worker_process_of_research_code(SamplerCls):
    sampler = SamplerCls(CountEnv, {}, 6, 4, max_decorrelation_steps=0)
    affinity = {"workers_cpus": 2}
    sampler.initialize(EchoAgent(), affinity=affinity, seed=1, worker_process=own_process)
    for itr in range(3):
        samples, infos = sampler.obtain_samples(itr)
        assert samples.env.env_info.count[:, 3].tolist() == [
            (6 * itr + t) % 4 + 1 for t in range(6)
        ]
        assert len(infos) == int(samples.env.env_info.traj_done.sum())
    sampler.shutdown()


def test_own_worker_process_counts_on_equal_shares():
    sampler = CpuSampler(CountEnv, {}, 6, 4, eval_n_envs=5, eval_max_steps=40)
    affinity = {"workers_cpus": 2}
    sampler.initialize(EchoAgent(), affinity=affinity, seed=1, worker_process=own_process)
    assert sampler.eval_n_envs == 4
    sampler.shutdown()


class GlobalDiceEnv(CountEnv):
    """Episodes whose length is drawn from a global generator."""

    def reset(self):
        self.episode_steps = int(np.random.randint(1, 1000))
        return super().reset()


def test_evaluations_of_environments_with_a_global_generator_differ():
    # Each began where training was, which draws nothing there.
    evaluation = dict(eval_n_envs=2, eval_n_episodes=2)
    sampler, _ = start(CpuSampler, EnvCls=GlobalDiceEnv, **evaluation)
    lengths = [[info.Length for info in sampler.evaluate_agent(itr)] for itr in range(3)]
    assert len(set(map(tuple, lengths))) == 3
    assert lengths[1] == [info.Length for info in sampler.evaluate_agent(1)]
    sampler.shutdown()


class HookedSampler(GpuSampler):
    """Overrides every hook, as subclasses do: with its arguments handed on, or by keyword."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.called = []

    def _get_n_envs_list(self, affinity=None, n_worker=None, B=None):
        self.called.append("n_envs_list")
        return [1, 3]

    def _agent_init(self, agent, env, global_B=1, env_ranks=None):
        self.called.append("agent")
        super()._agent_init(agent, env, global_B=global_B, env_ranks=env_ranks)

    def _build_buffers(self, *args, **kwargs):
        self.called.append("buffers")
        return super()._build_buffers(*args, **kwargs)

    def _build_parallel_ctrl(self, n_worker):
        self.called.append("ctrl")
        super()._build_parallel_ctrl(n_worker)
        self.sync.own = self.ctrl.barrier_in

    def _assemble_common_kwargs(self, *args, **kwargs):
        self.called.append("common")
        return {**super()._assemble_common_kwargs(*args, **kwargs), "own": 7}

    def _assemble_workers_kwargs(self, affinity, seed, n_envs_list):
        self.called.append("workers")
        return super()._assemble_workers_kwargs(affinity, seed, n_envs_list)


def test_every_hook_is_used_in_order():
    sampler, _ = start(HookedSampler)
    assert sampler.called == ["n_envs_list", "agent", "buffers", "ctrl", "common", "workers"]
    # Names that programs use.
    assert sampler.n_worker == len(sampler.workers) == 2
    assert sampler.step_buffer_np._fields == StepBuffer._fields
    assert sampler.ctrl.barrier_in.parties == 3
    assert not sampler.ctrl.quit.value
    assert not sampler.ctrl.do_eval.value
    assert sampler.gpu
    assert not sampler.alternating
    assert sampling_process.__module__ == "rlpyt.samplers.parallel.worker"
    expected, _ = start(SerialSampler, 0)
    for itr in range(2):
        samples, _ = sampler.obtain_samples(itr)
        other, _ = expected.obtain_samples(itr)
        assert torch.equal(samples.env.reward, other.env.reward)
    sampler.shutdown()


def test_a_quiet_log_is_quiet_in_the_workers(capfd):
    logger.disable()
    start(CpuSampler)[0].shutdown()
    logger.enable()
    assert "Sampler worker" not in capfd.readouterr().out


class NoTrajInfo(TrajInfo):
    def terminate(self, observation):
        return None


class Poor(DiceEnv):
    def _reward(self, action, draw):
        return float("nan") if self.offset else 0.0


def test_workers_started_with_the_arguments_of_the_original():
    """As in a copy of the whole sampler, with queues and barriers of multiprocessing."""
    agent, env = MlpDqnAgent(), Catch()
    agent.initialize(env.spaces, share_memory=True)
    spec = BatchSpec(12, 2)
    samples, samples_np, _ = build_samples_buffer(
        agent, env, spec, env_shared=True, agent_shared=True
    )
    infos, eval_infos = mp.Queue(), mp.Queue()
    ctrl = AttrDict(
        quit=mp.RawValue("b", False),
        barrier_in=mp.Barrier(2),
        barrier_out=mp.Barrier(2),
        do_eval=mp.RawValue("b", False),
        itr=mp.RawValue("l", 0),
    )
    common = {
        "EnvCls": Catch,
        "env_kwargs": {},
        "agent": agent,
        "batch_T": spec.T,
        "CollectorCls": CpuResetCollector,
        "TrajInfoCls": TrajInfo,
        "traj_infos_queue": infos,
        "ctrl": ctrl,
        "max_decorrelation_steps": 0,
        "torch_threads": 1,
        "global_B": 2,
        "eval_n_envs": 1,
        "eval_CollectorCls": CpuEvalCollector,
        "eval_env_kwargs": {},
        "eval_max_T": 30,
        "eval_traj_infos_queue": eval_infos,
    }
    own = {
        "rank": 0,
        "env_ranks": [0, 1],
        "seed": 1,
        "cpus": None,
        "n_envs": 2,
        "samples_np": samples_np,
        "sync": AttrDict(stop_eval=mp.RawValue("b", False)),
    }
    worker = mp.Process(target=sampling_process, args=(common, own))
    worker.start()
    ctrl.barrier_out.wait(30)
    for ctrl.do_eval.value in (False, True):
        ctrl.barrier_in.wait(30)
        ctrl.barrier_out.wait(30)
    assert isinstance(infos.get(timeout=30), TrajInfo)
    assert isinstance(eval_infos.get(timeout=30), TrajInfo)
    assert samples.env.done.any()
    ctrl.quit.value = True
    ctrl.barrier_in.wait(30)
    worker.join(30)
    assert worker.exitcode == 0


class CountingSampler(CpuSampler):
    """Waits until every worker said that it is done."""

    def evaluate_agent(self, itr):
        self.ctrl.itr.value = itr
        self.ctrl.do_eval.value, self.sync.stop_eval.value = True, False
        self.ctrl.barrier_in.wait()
        self.ctrl.barrier_out.wait()
        traj_infos = drain_queue(self.eval_traj_infos_queue, n_sentinel=self.n_worker)
        self.ctrl.do_eval.value = False
        return traj_infos


def test_workers_without_evaluation_report_that_they_are_done():
    # They said nothing, and who counted them waited for ever.
    evaluation = dict(eval_n_envs=1, eval_max_steps=20)
    sampler, _ = start(CountingSampler, 2, EnvCls=CountEnv, **evaluation)
    for itr in range(2):
        assert [info.Return for info in sampler.evaluate_agent(itr)] == [10] * 5
        sampler.obtain_samples(itr)
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, VectorSampler, *PARALLEL])
def test_trajectories_without_infos_do_not_count(SamplerCls):
    """Served evaluations went on for ever, with blank steps."""
    limits = {"eval_n_envs": 4, "eval_env_kwargs": {}, "eval_n_episodes": 6}
    sampler, _ = start(SamplerCls, TrajInfoCls=NoTrajInfo, **limits)
    assert sampler.obtain_samples(0)[1] == sampler.evaluate_agent(0) == []
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "error"), [(SerialSampler, NotFiniteError), (CpuSampler, WorkerError)]
)
def test_errors_name_the_environment_among_all(SamplerCls, error):
    each = [{}, {}, {}, {"offset": 1}]
    sampler, _ = start(SamplerCls, EnvCls=Poor, env_kwargs=each, max_decorrelation_steps=0)
    with pytest.raises(error, match=r"environment 3 \(Poor\) returned reward nan"):
        sampler.obtain_samples(0)
    sampler.shutdown()


def test_workers_start_again_with_their_agent_after_ours_has_moved():
    sampler, agent = start(CpuSampler)
    state, on_the_cpu = sampler.state_dict(), dict(vars(agent))
    agent.to_device("meta")  # As a runner does with a GPU.
    sampler._supervisor.terminate()
    sampler.load_state_dict(state)
    vars(agent).update(on_the_cpu)
    sampler.obtain_samples(0)
    sampler.shutdown()


def test_a_policy_that_somebody_chose_is_kept(monkeypatch):
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", None)
    use_batch_scheduling()
