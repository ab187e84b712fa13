"""Samplers in Ray actors: batches of the serial sampler, faults, states, and nothing left behind.

Actors take seconds to start, so that by default only the first test starts some.
"""

import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.processes.supervisor import WorkerError
from rlpyt.samplers.ray.actor import packed, parameters_of
from rlpyt.samplers.ray.async_sampler import AsyncRaySampler
from rlpyt.samplers.ray.sampler import RaySampler
from rlpyt.samplers.vector.sampler import VectorSampler
from tests.contracts.test_samplers import assert_same_batch, expected_run, run
from tests.samplers.parallel_parts import (
    DiceEnv,
    FaultyEnv,
    RecurrentRule,
    RuleAgent,
    VectorOf,
    WalkEnv,
    as_dict,
    assert_equal,
    start,
)
from tests.samplers.test_async_samplers import SharedRule
from tests.samplers.test_worker_restarts import HEALTHY, LOST, columns, kwargs_of, undisturbed
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
]
full = pytest.mark.full


def actor_pids():
    """Processes of actors that work, on all nodes."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Or a zombie.
            if "SamplingActor" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


@pytest.fixture
def one_node(monkeypatch):
    """A cluster of one CPU, which this process has joined, and so samplers do."""
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Else actors wait for everything else here.
    ray = pytest.importorskip("ray", reason="needs pip install 'rlpyt[ray]'")
    store = {"object_store_memory": 80 * 2**20}
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, **store)
    yield
    ray.shutdown()
    wait_until(lambda: not actor_pids())


def test_batches_are_those_of_the_serial_sampler(one_node):
    """Agents that draw at random, an evaluation, waiting environments. More: tests/contracts."""
    actual = run(RaySampler, 2, "by chance", "wait")
    for a, b in zip(actual, expected_run("by chance", "wait"), strict=True):
        assert_same_batch(a, b)


# --- What crosses the network ---------------------------------------------------------------------


def dqn_agent(**kwargs):
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": [8]}, **kwargs)
    agent.initialize(WalkEnv().spaces, global_B=2, env_ranks=[0, 1])
    return agent


def test_agents_are_packed_with_what_they_share():
    pytest.importorskip("ray")
    agent = MlpDqnAgent(eps_init=0.5)
    agent.set_epsilon_itr_min_max(3, 7)
    copy = pickle.loads(packed(agent))
    assert list(copy._eps_itr_min_max) == [3, 7]
    copy.set_epsilon_itr_min_max(1, 2)
    assert list(agent._eps_itr_min_max) == [3, 7]
    with copy._rw_lock.write_lock:
        pass


def test_parameters_are_those_that_act():
    agent, other = dqn_agent(), dqn_agent()
    agent.set_epsilon_itr_min_max(3, 7)
    sent, own = pickle.loads(pickle.dumps(parameters_of(agent))), parameters_of(other)
    assert own.keys() == sent.keys()
    for name, array in own.items():
        array[...] = sent[name]
    for name, value in agent.model.state_dict().items():
        assert torch.equal(value, other.model.state_dict()[name])
    assert list(other._eps_itr_min_max) == [3, 7]
    size = sum(x.nbytes for x in agent.model.state_dict().values())
    assert sum(array.nbytes for array in sent.values()) < size + 100, "no target network"


# --- The synchronous sampler ----------------------------------------------------------------------


@full
def test_vectors_in_actors_keep_to_the_number_of_trajectories(one_node):
    # Each actor returned as many.
    evaluation = dict(eval_n_envs=4, eval_max_steps=400, eval_max_trajectories=4)
    of_vectors = dict(SamplerCls=VectorSampler, cpus_per_actor=0.5, **evaluation)
    sampler = RaySampler(VectorOf, {}, 7, 4, **of_vectors)
    sampler.initialize(RuleAgent(), affinity={"workers_cpus": 2}, seed=0)
    assert 4 <= len(sampler.evaluate_agent(0)) <= 5
    sampler.shutdown()


# --- Faults ---------------------------------------------------------------------------------------


@full
@pytest.mark.parametrize("how", ["kill", "raise", "hang"])
def test_a_failed_actor_is_restarted(ray_cluster, tmp_path, how):
    kwargs = {**kwargs_of(tmp_path, how, after=9), "worker_timeout_s": 10.0}
    sampler, _ = start(RaySampler, 2, RecurrentRule(), **kwargs)
    expected = undisturbed()
    for itr in range(3):
        fields = as_dict(sampler.obtain_samples(itr)[0])
        restarted = sampler.take_restarted()
        assert restarted == ([2, 3] if itr == 1 else []), itr
        assert_equal(columns(fields, HEALTHY), columns(expected[itr], HEALTHY))
        if itr > 0:
            name = ".env.observation.count"  # What else there is depends on earlier actions.
            begun = columns(expected[itr - 1], LOST)[name]
            np.testing.assert_array_equal(columns(fields, LOST)[name], begun)
    sampler.shutdown()


@full
@pytest.mark.parametrize("how", ["kill", "raise"])
def test_a_failed_actor_ends_the_run_with_one_error(ray_cluster, how):
    fault = [{}, {}, {}, {"how": how, "after": 9}]
    kwargs = dict(EnvCls=FaultyEnv, env_kwargs=fault, max_decorrelation_steps=0)
    sampler, _ = start(RaySampler, 2, **kwargs)
    sampler.obtain_samples(0)
    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"actor 1 \(environments 2 to 3\) failed in collect"):
        sampler.obtain_samples(1)
    assert time.monotonic() - begin < 10
    sampler.shutdown()
    wait_until(lambda: not actor_pids())


@full
def test_a_lost_node_is_replaced(ray_cluster):
    """Its actors move to the other node, and begin anew."""
    node = ray_cluster.add_node(num_cpus=2, object_store_memory=80 * 2**20)
    sampler, _ = start(RaySampler, 6, batch_B=6, cpus_per_actor=1, on_worker_failure="restart")
    sampler.obtain_samples(0)
    ray_cluster.remove_node(node, allow_graceful=False)
    ray_cluster.add_node(num_cpus=2, object_store_memory=80 * 2**20)
    restarted = []
    for itr in range(1, 4):
        samples, _ = sampler.obtain_samples(itr)
        restarted += sampler.take_restarted()
    assert len(restarted) == 2
    sampler.shutdown()


@full
def test_too_few_cpus(ray_cluster):
    with pytest.raises(ValueError, match="asks for 4 actors, each of cpus_per_actor 8, but the"):
        start(RaySampler, 4, cpus_per_actor=8)


@pytest.mark.parametrize("address", ["localhost:1", "nonsense"])
def test_a_wrong_address(address):
    pytest.importorskip("ray", reason="needs pip install 'rlpyt[ray]'")
    with pytest.raises(ValueError, match=f"address is '{address}', and no Ray cluster answers"):
        start(RaySampler, address=address)


LOSES_HEAD = """
import threading, time, warnings
warnings.simplefilter("ignore")
from ray.cluster_utils import Cluster
from rlpyt.samplers.ray.sampler import RaySampler
from tests.samplers.parallel_parts import start

node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
(head,) = cluster.head_node.all_processes["gcs_server"]
sampler, _ = start(RaySampler, 2, address=cluster.address)
sampler.obtain_samples(0)
threading.Timer(1, head.process.kill).start()
begin, itr = time.monotonic(), 1
try:
    while time.monotonic() < begin + 90:
        sampler.obtain_samples(itr)
        itr += 1
finally:
    print("after", time.monotonic() - begin, flush=True)
    sampler.shutdown()
"""


@full
def test_a_lost_head_ends_the_run_with_one_error():
    """Ray itself would end the program after 60 s, without an exception."""
    pytest.importorskip("ray", reason="needs pip install 'rlpyt[ray]'")
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), "RAY_worker_niceness": "0"}
    process = subprocess.run(
        [sys.executable, "-c", LOSES_HEAD],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "WorkerError: the head of the Ray cluster, " in process.stderr
    assert float(process.stdout.split("after ")[1].split()[0]) < 60
    wait_until(lambda: not actor_pids())


# --- The asynchronous sampler ---------------------------------------------------------------------


class SlowEnv(DiceEnv):
    """Numbers its observations, over all episodes, and says whose they are."""

    def __init__(self, delay_s=0.0, **kwargs):
        super().__init__(**kwargs)
        self.delay_s = delay_s
        self.n_steps = 0

    def _observe(self, action):
        self.n_steps += 1
        return (
            super()
            ._observe(action)
            ._replace(count=np.float32(self.n_steps), noise=np.full(2, self.offset, "float32"))
        )

    def step(self, action):
        time.sleep(self.delay_s)
        return super().step(action)


def start_async(delays_s, n_actors=2, **kwargs):
    env_kwargs = [{"offset": b, "delay_s": delay_s} for b, delay_s in enumerate(delays_s)]
    kwargs = {"EnvCls": SlowEnv, "env_kwargs": env_kwargs, "cpus_per_actor": 0.5, **kwargs}
    sampler = AsyncRaySampler(batch_T=7, batch_B=4, max_decorrelation_steps=0, **kwargs)
    sampler.async_initialize(SharedRule(), True, seed=3)
    sampler.initialize({"workers_cpus": n_actors})
    return sampler


def observations(sampler, itr):
    """Number of each observation, and its environment; each [T,B]."""
    sampler.obtain_samples(itr, itr % 2)
    observation = sampler.double_buffer[itr % 2].env.observation
    return observation.count.astype(int), observation.noise[..., 0].astype(int)


def assert_whole(numbers, envs, last, restarted):
    """All rows of a column are of one environment, and continue those before unless told."""
    for b in range(4):
        assert (envs[:, b] == envs[0, b]).all()
        assert (np.diff(numbers[:, b]) >= 1).all()
        if b in last and b not in restarted:
            assert envs[0, b] == last[b][1]
            assert 1 <= numbers[0, b] - last[b][0] <= 2  # Two, where an episode ended.
        last[b] = numbers[-1, b], envs[0, b]


@full
def test_no_actor_waits_for_a_slower_one_and_no_rows_are_torn(ray_cluster):
    sampler = start_async([0.002, 0.002, 0.02, 0.02])
    last, taken = {}, []
    for itr in range(60):
        numbers, envs = observations(sampler, itr)
        assert_whole(numbers, envs, last, sampler.take_restarted())
        taken += list(envs[0, [0, 2]])
    fast, slow = taken.count(0), taken.count(2)
    assert fast > 2 * slow > 0, (fast, slow)
    sampler.shutdown()


@full
def test_published_parameters_reach_the_actors(ray_cluster):
    """Actions become those of the parameters that were published, whose age is logged."""
    agent = MlpDqnAgent(eps_init=0, eps_final=0, model_kwargs={"hidden_sizes": [8]})
    sampler = AsyncRaySampler(WalkEnv, {}, 7, 4, cpus_per_actor=0.5)
    sampler.async_initialize(agent, seed=3)
    sampler.initialize({"workers_cpus": 2})
    ages = []
    for itr in range(8):
        for info in sampler.obtain_samples(itr, itr % 2):
            ages.append(info.Staleness)
        favourite = itr % 4
        for name, value in agent.shared_model.state_dict().items():
            value.zero_()
            if name.endswith("bias") and len(value) == 4:
                value[favourite] = 1
        agent._send_count.value += 1  # As in ``send_shared_memory`` of the learner's process.
        sampler.agent.sample_mode(itr)
    actions = sampler.double_buffer[1].agent.action
    assert all(len(set(actions[:, b])) == 1 for b in range(4))
    assert 0 < max(ages) <= 4
    sampler.shutdown()


@full
def test_a_killed_actor_of_an_asynchronous_sampler_is_restarted(ray_cluster):
    sampler = start_async([0.01] * 4, on_worker_failure="restart")
    observations(sampler, 0)
    os.kill(min(actor_pids()), signal.SIGKILL)
    last, n_lost = {}, 0
    deadline = time.monotonic() + 120
    for itr in range(1, 10**6):
        numbers, envs = observations(sampler, itr)
        restarted = sampler.take_restarted()
        assert_whole(numbers, envs, last, restarted)
        n_lost += bool(restarted)
        if n_lost and set(envs[0]) == {0, 1, 2, 3}:
            break
        assert time.monotonic() < deadline
    sampler.shutdown()


@full
def test_unequal_parts_are_refused(ray_cluster):
    with pytest.raises(ValueError, match="batch_B is 4 with 3 actors: make it a multiple"):
        start_async([0] * 4, n_actors=3)
    wait_until(lambda: not actor_pids())


def test_settings():
    with pytest.raises(ValueError, match="on_worker_failure is 'again'"):
        RaySampler(DiceEnv, {}, 5, 2, on_worker_failure="again")
    with pytest.raises(ValueError, match="cpus_per_actor is 0"):
        RaySampler(DiceEnv, {}, 5, 2, cpus_per_actor=0)
    sampler = RaySampler(DiceEnv, {}, 5, 2)
    with pytest.raises(ValueError, match="workers_cpus None"):
        sampler.initialize(RuleAgent(), None, None)
