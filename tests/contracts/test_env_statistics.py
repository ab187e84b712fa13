"""Running statistics of environments travel with the policy, and are frozen where it is used."""

import os
import signal
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import NormalizeObservation

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.core.statistics import MOMENTS, merged
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.experiments.evaluation import evaluate, load_agent, load_snapshot, watch
from rlpyt.experiments.trained import load
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.logging.context import logger_context
from tests.experiments.parts import invoke
from tests.runners.async_parts import WORKERS, make_runner
from tests.runners.parts import train

T, SHOWN = 5, 130.0
NAME = "NormalizeObservation.obs_rms"
SMALL = {"hidden_sizes": [4]}
AFFINITY = {"workers_cpus": [None, None], "set_affinity": False}


class Thermometer(gymnasium.Env[Any, Any]):
    """Shows random temperatures around 100, or always the same."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, always=None, render_mode=None):
        self.always, self.render_mode = always, render_mode

    def _look(self):
        shown = self.np_random.normal(100, 10) if self.always is None else self.always
        return np.array([shown], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._look(), {}

    def step(self, action):
        self.t += 1
        return self._look(), 0.0, False, self.t == T, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


class OwnStatistics(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Normalizes like an old wrapper: it cannot stop counting."""

    def __init__(self, env):
        super().__init__(env)
        self.mean, self.var, self.count = np.zeros(1), np.ones(1), 1e-4

    def observation(self, observation):
        n = self.count + 1
        delta = observation - self.mean
        self.mean, self.var = self.mean + delta / n, (self.var + delta**2 / n) * self.count / n
        self.count = n
        return np.float32((observation - self.mean) / np.sqrt(self.var))


class Rewarding(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Rewards with the observation, so that returns show what the agent saw."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(observation[0]), *rest


def make_gym(Normalizer=NormalizeObservation, **kwargs):
    return Rewarding(Normalizer(Thermometer(**kwargs)))


def make(**kwargs):
    return GymEnvWrapper(make_gym(**kwargs))


def make_vector(num_envs, **kwargs):
    return VectorEnvWrapper(SyncVectorEnv([lambda: make_gym(**kwargs)] * num_envs))


def expected_return(statistics, name=NAME):
    mean, var, _ = (float(statistics[name][key]) for key in MOMENTS)
    return T * (SHOWN - mean) / var**0.5


SAMPLERS = [SerialSampler, VectorSampler, CpuSampler, GpuSampler, AlternatingSampler]


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_evaluation_has_the_statistics_of_all_training_environments(SamplerCls):
    # Those of evaluation began anew, so the agent saw other numbers than in training.
    sampler = SamplerCls(
        make_vector if SamplerCls is VectorSampler else make,
        {},
        batch_T=10,
        batch_B=4,
        eval_n_envs=2,
        eval_n_episodes=4,
        eval_env_kwargs={"always": SHOWN},
    )
    sampler.initialize(GenericFfAgent(model_kwargs=SMALL), affinity=AFFINITY, seed=0)
    try:
        for itr in range(3):
            sampler.obtain_samples(itr)
            statistics = sampler.env_statistics()
            returns = [info.Return for info in sampler.evaluate_agent(itr)]
            np.testing.assert_allclose(returns, expected_return(statistics), rtol=1e-4)
        # Observations of 4 environments: more than one of them has.
        assert statistics[NAME]["count"] >= 4 * 3 * 10
        assert float(statistics[NAME]["mean"]) == pytest.approx(100, abs=5)
    finally:
        sampler.shutdown()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    sampler = SerialSampler(make, {}, batch_T=10, batch_B=4)
    agent = GenericFfAgent(model_kwargs=SMALL)
    runner = MinibatchRl(
        algo=A2C(), agent=agent, sampler=sampler, n_steps=80, log_interval_steps=80, seed=0
    )
    train(runner, directory)
    (file,) = directory.rglob("params.pkl")
    return file


def test_loaded_agents_prepare_an_environment(snapshot):
    statistics = load_snapshot(snapshot)["env_statistics"]
    env = make_gym(always=SHOWN)
    trained = load(snapshot, agent=GenericFfAgent(model_kwargs=SMALL), env=env)
    both = trained.prepare(SyncVectorEnv([lambda: make_gym(always=SHOWN)] * 2))
    both.reset()
    rewards = sum(both.step(np.zeros(2, int))[1] for _ in range(T))
    np.testing.assert_allclose(rewards, expected_return(statistics), rtol=1e-4)
    for prepared in (
        env,
        trained.prepare(make_gym(always=SHOWN)),
        trained.prepare(make(always=SHOWN)),
    ):
        for _ in range(2):
            prepared.reset()
            rewards = [prepared.step(0)[1] for _ in range(T)]
            assert sum(rewards) == pytest.approx(expected_return(statistics), rel=1e-4)


def test_exported_graphs_normalize(tmp_path):
    file = tmp_path / "params.pkl"
    moments = {"mean": torch.ones(1) * 100, "var": torch.ones(1) * 25, "count": torch.ones(())}
    env = NormalizeObservation(Thermometer())
    agent = GenericFfAgent(model_kwargs=SMALL)
    agent.initialize(GymEnvWrapper(env).spaces)
    state = {"itr": 1, "agent_state_dict": agent.state_dict(), "env_statistics": {NAME: moments}}
    torch.save(state, file)
    trained = load(file, agent=GenericFfAgent(model_kwargs=SMALL), env=env)
    graph = trained.export(tmp_path / "policy.pt2")
    outputs = dict(zip(graph.outputs, graph.program.module()(torch.tensor([[90.0], [SHOWN]]))))
    inputs = torch.tensor([[-2.0], [6.0]]), torch.zeros(2), torch.zeros(2)
    torch.testing.assert_close(outputs["value"], agent.value(*inputs))
    (bare,) = [load(file, agent=GenericFfAgent(model_kwargs=SMALL), env=Rewarding(env))]
    assert bare.normalization is None  # Nobody knows what the last wrapper does.


def test_runs_of_the_command_are_evaluated_with_them(tmp_path):
    gymnasium.register("rlpyt/Thermometer-v0", entry_point=make_gym)
    words = ["hidden_sizes=4", "batch_T=16", "batch_B=4", "threads=1", "--steps", 64]
    invoke("train", "a2c", "rlpyt/Thermometer-v0", *words, "--seed", 0, "--log-dir", tmp_path)
    saved = load_agent(tmp_path / "run_0")
    saved.config["env"]["always"] = SHOWN
    returns = [info.Return for info in evaluate(saved, 2, seed=0)]
    expected = expected_return(saved.snapshot["env_statistics"])
    np.testing.assert_allclose(returns, expected, rtol=1e-4)
    (filmed,) = watch(saved, video=tmp_path / "video.gif", seed=0)
    assert filmed.Return == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("kind", "n_servers"), [("cpu", None), ("served", 2)])
def test_asynchronous_runs_save_statistics(kind, n_servers, tmp_path):
    # Servers wrote into the same rows.
    runner = make_runner(
        kind,
        agent=MlpDqnAgent(model_kwargs=SMALL),
        sampler_kwargs={"EnvCls": make},
        sampler_affinity=n_servers and [WORKERS] * n_servers,
    )
    train(runner, tmp_path)
    (file,) = tmp_path.rglob("params.pkl")
    moments = load_snapshot(file)["env_statistics"][NAME]
    assert moments["mean"].item() == pytest.approx(100, abs=5)
    assert moments["count"] >= 320  # Steps of all environments.


class Locked(Rewarding):
    """An environment that has no state."""

    def __init__(self, env):
        super().__init__(env)
        self.lock = threading.Lock()


def make_locked():
    return GymEnvWrapper(Locked(NormalizeObservation(Thermometer())))


def make_locked_vector(num_envs):
    parts = [lambda: Locked(NormalizeObservation(Thermometer()))] * num_envs
    return VectorEnvWrapper(SyncVectorEnv(parts))


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_environments_without_a_state_keep_their_statistics(SamplerCls):
    # They began anew in a resumed run, so the policy suddenly saw other numbers.
    EnvCls = make_locked_vector if SamplerCls is VectorSampler else make_locked

    def started():
        sampler = SamplerCls(EnvCls, {}, batch_T=20, batch_B=4, max_decorrelation_steps=0)
        sampler.initialize(GenericFfAgent(model_kwargs=SMALL), affinity=AFFINITY, seed=0)
        return sampler

    with closed(started(), started()) as (first, second):
        first.obtain_samples(0)
        second.load_state_dict(first.state_dict())
        before, after = first.env_statistics()[NAME], second.env_statistics()[NAME]
        for key in MOMENTS:
            np.testing.assert_allclose(after[key], before[key], rtol=1e-6)
        second.obtain_samples(1)
        assert second.env_statistics()[NAME]["count"] >= before["count"] + 80


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_no_example_step_counts(SamplerCls):
    # Batches of processes were normalized otherwise than those of one.
    EnvCls = make_locked_vector if SamplerCls is VectorSampler else make_locked
    sampler = SamplerCls(EnvCls, {}, batch_T=4, batch_B=4, max_decorrelation_steps=0)
    sampler.initialize(GenericFfAgent(model_kwargs=SMALL), affinity=AFFINITY, seed=0)
    with closed(sampler):
        sampler.obtain_samples(0)
        # The first observation, and those after the four steps.
        count = float(sampler.env_statistics()[NAME]["count"])
        assert count == pytest.approx(4 * (1 + 4), abs=0.01)


def test_restarted_workers_count_on():
    # Their environments began with mean 0 and variance 1.
    sampler = CpuSampler(make, {}, batch_T=20, batch_B=4, on_worker_failure="restart")
    sampler.initialize(GenericFfAgent(model_kwargs=SMALL), affinity=AFFINITY, seed=0)
    with closed(sampler):
        sampler.obtain_samples(0)
        before = sampler.env_statistics()[NAME]["count"]
        os.kill(sampler._workers.processes[1].pid, signal.SIGKILL)
        sampler.obtain_samples(1)
        assert sampler.take_restarted() == [2, 3]
        assert sampler.env_statistics()[NAME]["count"] >= before + 80


@contextmanager
def closed(*samplers):
    try:
        yield samplers
    finally:
        for sampler in samplers:
            sampler.shutdown()


@pytest.mark.parametrize("kind", ["serial", "cpu"])
def test_resumed_asynchronous_runs_keep_statistics(kind, tmp_path):
    counts = []
    for n_steps in (320, 640):
        agent = MlpDqnAgent(model_kwargs=SMALL)
        sampler = {"EnvCls": make}
        runner = make_runner(kind, agent=agent, sampler_kwargs=sampler, n_steps=n_steps)
        with logger_context(str(tmp_path), 0, "run", override_prefix=True, resume=True):
            runner.train(resume="auto")
        counts.append(runner.sampler.env_statistics()[NAME]["count"])
    assert counts[1] >= counts[0] + 320


def test_a_wrapper_that_cannot_stop_counting_is_frozen():
    env = make(Normalizer=OwnStatistics, always=SHOWN)
    own = {"OwnStatistics": {"mean": torch.tensor([100.0]), "var": torch.tensor([4.0]), "count": 9}}
    env.use_statistics(own)
    env.reset()
    for _ in range(3):
        env.step(0)
        assert env.statistics()["OwnStatistics"] == {"mean": [100], "var": [4], "count": 9}


def test_statistics_are_merged_by_count():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) * n for n in (2, 5, 30)]
    moments = [{"a": {"mean": x.mean(0), "var": x.var(0), "count": len(x)}} for x in parts]
    together = np.concatenate(parts)
    found = merged(moments)["a"]
    np.testing.assert_allclose(found["mean"], together.mean(0))
    np.testing.assert_allclose(found["var"], together.var(0))
    assert found["count"] == 37


def test_wrappers_whose_state_cannot_be_read_are_named(capsys):
    class Learned(gymnasium.Wrapper[Any, Any, Any, Any]):
        def __init__(self, env):
            super().__init__(env)
            inner = SimpleNamespace(inmost=SimpleNamespace(gain=1.0))
            self.filter = SimpleNamespace(inner=inner)

    for _ in range(2):
        GymEnvWrapper(Learned(Thermometer())).statistics()
    assert capsys.readouterr().out.count("Learned") == 1
