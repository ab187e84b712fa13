"""What environments hand over: shapes, types and infos, in every sampler."""

from collections import namedtuple
from contextlib import contextmanager

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgent
from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.core.records import EnvSpaces, EnvStep
from rlpyt.core.rows import InfoRows, observation_rows
from rlpyt.envs import gym
from rlpyt.envs.check import check_env
from rlpyt.envs.vector import VectorEnvWrapper
from rlpyt.processes.supervisor import WorkerError
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims
from tests.envs.vector_parts import MODES
from tests.runners.parts import CountingAlgo, QuietAgent, train
from tests.samplers.parallel_parts import PARALLEL, VectorOf
from tests.samplers.parts import EchoAgent
from tests.samplers.test_async_samplers import SharedMixin
from tests.selection import each_once

Pair = namedtuple("Pair", ["near", "far"])
Info = namedtuple("Info", ["count"])


class GivenEnv:
    """An environment of the library's interface whose observations are given."""

    def __init__(
        self, late="as before", after=3, shape=(2,), as_pair=False, reward=1.0, at_end=False
    ):
        self.observation_space = FloatBox(-9, 9, shape)
        self.action_space = IntBox(0, 2)
        self.spaces = EnvSpaces(self.observation_space, self.action_space)
        self.late, self.after, self.as_pair, self.reward = late, after, as_pair, reward
        self.at_end, self.n_steps, self.count = at_end, 0, 0

    def _shown(self, observation):
        return Pair(np.zeros(1, np.float32), observation) if self.as_pair else observation

    def reset(self):
        self.count = 0
        return self._shown(np.zeros(self.observation_space.shape, np.float32))

    def step(self, action):
        self.n_steps += 1
        self.count += 1
        done = self.count == 4
        observation = np.full(self.observation_space.shape, self.n_steps, np.float32)
        if (
            not isinstance(self.late, str)
            and self.n_steps > self.after
            and (done or not self.at_end)
        ):
            observation = self.late
        return EnvStep(self._shown(observation), self.reward, done, Info(self.count))

    def close(self):
        pass


class FixedAgent(EchoAgent):
    """Acts alike whatever it sees."""

    def initialize(self, env_spaces, share_memory=False, global_B=1, env_ranks=None):
        super().initialize(env_spaces, share_memory, global_B, env_ranks)
        self.model = torch.nn.Linear(1, 1)

    def step(self, observation, prev_action, prev_reward):
        return (
            super()
            .step(prev_reward[..., None], prev_action, prev_reward)
            ._replace(action=torch.zeros(prev_reward.shape, dtype=torch.int64), agent_info=None)
        )

    def value(self, observation, prev_action, prev_reward):
        return prev_reward


class LoggedAgent(FixedAgent, QuietAgent):
    """For a runner."""


class SharedAgent(SharedMixin, FixedAgent):
    """For asynchronous samplers."""


@contextmanager
def sampling(SamplerCls=SerialSampler, EnvCls=GivenEnv, env_kwargs=None, batch_T=6, **kwargs):
    """Yield a function that returns a batch of two environments, and close everything."""
    kwargs = {"max_decorrelation_steps": 0, "batch_B": 2, **kwargs}
    sampler = SamplerCls(EnvCls, env_kwargs or {}, batch_T=batch_T, **kwargs)
    if SamplerCls is SerialSampler or SamplerCls is VectorSampler:
        sampler.initialize(FixedAgent(), seed=0)
    elif SamplerCls is AsyncSerialSampler:
        sampler.async_initialize(SharedAgent(), seed=0)
        sampler.initialize({})
    else:
        sampler.initialize(FixedAgent(), affinity={"workers_cpus": 2}, seed=0)

    def sample(itr=0):
        if SamplerCls is AsyncSerialSampler:
            sampler.obtain_samples(itr, 0)
            return sampler.double_buffer[0]
        return sampler.obtain_samples(itr)[0]

    try:
        yield sample
    finally:
        sampler.shutdown()


SAMPLERS = [SerialSampler, AsyncSerialSampler, *PARALLEL]
OTHER_SHAPES = {"()": 5.0, "(1,)": [5.0], "(3,)": np.ones(3), "(1, 1)": [[5.0]], "None": None}


# --- Shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("SamplerCls", "shape"), each_once(SAMPLERS, OTHER_SHAPES))
def test_an_observation_of_another_shape_is_refused(SamplerCls, shape):
    # Those of one number were broadcast, and None became nan.
    env_kwargs = [{}, {"late": OTHER_SHAPES[shape]}]
    message = r"(?s)environment 1 \(GivenEnv\) returned observation.*" + (
        r"None" if shape == "None" else rf"{shape}.*".replace("(", r"\(").replace(")", r"\)")
    )
    error = (ValueError, WorkerError)
    raises = pytest.raises(error, match=message + r".*\(2,\)")
    with sampling(SamplerCls, env_kwargs=env_kwargs) as sample, raises:
        sample()


class WholeEnv(GivenEnv):
    """A space of real numbers; whole ones come first."""

    def __init__(self, dtype):
        super().__init__(late=np.full(2, 1.5, dtype))
        self.observation_space = FloatBox(-9, 9, 2, dtype=dtype)
        self.spaces = EnvSpaces(self.observation_space, self.action_space)

    def _shown(self, observation):
        return observation if observation[0] == 1.5 else observation.astype(int)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_numbers_in_a_space_of_real_ones(dtype):
    with sampling(EnvCls=WholeEnv, env_kwargs={"dtype": dtype}) as sample:
        observation = np.asarray(sample().env.observation)
    assert observation.dtype == dtype
    assert (observation[-1] == 1.5).all()


@pytest.mark.parametrize("first", [np.uint8, np.bool_])
def test_a_number_too_large_for_the_first_type_is_named(first, capsys, monkeypatch):
    monkeypatch.setattr(logger._current, "logged_once", set())
    rows = observation_rows(np.zeros((3, 2), first), 1)
    rows[0] = np.array([1, 0])
    assert "loses" not in capsys.readouterr().out
    rows[1] = np.array([300, 0])
    assert f"observation of int64 loses its value as {first.__name__}" in capsys.readouterr().out


@pytest.mark.parametrize("late", [np.full((1, 2), 7.0), [[7], [7]], torch.full((2,), 7.0), (7, 7)])
def test_axes_of_length_one_are_added_and_removed(late):
    with sampling(env_kwargs={"late": late}) as sample:
        assert sample().env.observation[4:, :, :].flatten().tolist()[-4:] == [7] * 4
    with sampling(env_kwargs={"late": 7.0, "shape": (1,)}) as sample:
        assert sample().env.observation[-1].tolist() == [[7.0], [7.0]]


def test_shapes_within_a_record():
    env_kwargs = [{"as_pair": True}, {"as_pair": True, "late": np.ones(1)}]
    raises = pytest.raises(ValueError, match=r"environment 1 .*observation\.far.*\(1,\).*\(2,\)")
    with sampling(env_kwargs=env_kwargs) as sample, raises:
        sample()
    with sampling(env_kwargs={"as_pair": True, "late": np.ones((2, 1))}) as sample:
        assert sample().env.observation.far[-1].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("late", [np.ones(3), np.ones(1)])
def test_shapes_in_decorrelation_are_named(late):
    env_kwargs = [{}, {"late": late, "after": 0}]
    raises = pytest.raises(ValueError, match=r"environment 1 \(GivenEnv\).*observation.*\(2,\)")
    with raises, sampling(env_kwargs=env_kwargs, max_decorrelation_steps=9):
        pass


@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
def test_none_as_the_last_observation(CollectorCls):
    # Nobody reads it, unless it is recorded.
    kwargs = dict(env_kwargs={"late": None, "at_end": True, "after": 2}, CollectorCls=CollectorCls)
    with sampling(**kwargs) as sample:
        assert torch.isfinite(sample().env.observation).all()
    raises = pytest.raises(ValueError, match=r"environment 0 .*observation None")
    with sampling(**kwargs, record_next_observation=True) as sample, raises:
        sample()


@pytest.mark.parametrize("late", [np.ones((2, 1)), np.ones((3, 2)), np.ones((2, 3))])
def test_shapes_of_a_vector_environment(late):
    class Vector(VectorOf):
        def step(self, action):
            return super().step(action)._replace(next_inputs=late)

    raises = pytest.raises(ValueError, match=r"observation of shape .* \(2, 2\)")
    with sampling(VectorSampler, Vector, {"EnvCls": GivenEnv}) as sample, raises:
        sample()


@pytest.mark.parametrize("reward", [1.5, [1.5], [[1.5], [1.5]]])
def test_rewards_of_a_vector_environment(reward):
    # One number was taken for all.
    class Vector(VectorOf):
        def step(self, action):
            return super().step(action)._replace(reward=np.array(reward, np.float32))

    def sample_once():
        with sampling(VectorSampler, Vector, {"EnvCls": GivenEnv}) as sample:
            return sample().env.reward.tolist()

    if np.size(reward) == 2:
        assert sample_once() == [[1.5, 1.5]] * 6
    else:
        with pytest.raises(ValueError, match=r"reward of shape .* \(2,\)"):
            sample_once()


@pytest.mark.parametrize("max_decorrelation_steps", [0, 5])
@pytest.mark.parametrize("reward", [np.full(1, 1.5), torch.full((1, 1), 1.5), [1.5]])
def test_a_reward_is_one_number(reward, max_decorrelation_steps):
    with sampling(
        env_kwargs={"reward": reward}, max_decorrelation_steps=max_decorrelation_steps
    ) as sample:
        samples = sample()
    assert samples.env.reward.tolist() == [[1.5, 1.5]] * 6


# --- Values ---------------------------------------------------------------------------------------


class Box(gymnasium.Env):
    """A gymnasium environment whose results are given by functions of the step."""

    def __init__(self, space, observe, info=lambda t: {}, n_steps=5):
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.observe, self.info, self.n_steps = observe, info, n_steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(0), {}

    def step(self, action):
        self.t += 1
        return self.observe(self.t), 1.0, self.t == self.n_steps, False, self.info(self.t)


def trained(EnvCls, agent=None, algo=None, SamplerCls=SerialSampler, batch_B=4, **kwargs):
    """Return a batch after an update from it."""
    sampler = SamplerCls(EnvCls, {}, batch_T=8, batch_B=batch_B, max_decorrelation_steps=3)
    agent, algo = agent or GenericFfAgent(), algo or A2C(**kwargs)
    examples = sampler.initialize(agent, seed=0, bootstrap_value=True)
    algo.initialize(agent, 9, sampler.batch_spec, sampler.mid_batch_reset, examples)
    for itr in range(2):
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        losses = algo.optimize_agent(itr, samples)
        assert np.isfinite(losses.loss).all()
    sampler.shutdown()
    return samples


def half(t):
    return np.full(3, t / 8, np.float16)


def upside_down(t):
    return np.full((1, 40, 40), t, np.uint8)[:, ::-1]


IMAGE = spaces.Box(0, 255, (1, 40, 40), np.uint8)


def flat(shape=(3,), dtype=np.float32):
    return spaces.Box(-9, 9, shape, dtype)


@pytest.mark.parametrize(
    ("space", "observe"),
    [
        (flat(dtype=np.float16), half),
        (flat(), half),
        (flat(), lambda t: np.arange(3.0)[::-1]),
        (flat((1,)), float),
        (IMAGE, upside_down),
        (spaces.Dict({"a": flat((1,)), "b": flat()}), lambda t: {"a": t, "b": half(t)}),
    ],
)
@pytest.mark.parametrize("wrap", [gym.GymEnvWrapper, None])
def test_values_of_any_type_and_layout_train(space, observe, wrap):
    class Own:
        """The same environment behind the interface of the library alone."""

        def __init__(self):
            self.spaces = gym.GymEnvWrapper(Box(space, observe)).spaces
            self.observation_space, self.action_space = self.spaces

        def _observe(self):
            shown = observe(self.t)
            return namedtuple("obs", shown)(**shown) if isinstance(shown, dict) else shown

        def reset(self):
            self.t = 0
            return self._observe()

        def step(self, action):
            self.t += 1
            return EnvStep(self._observe(), 1.0, self.t == 5, None)

    trained(Own if wrap is None else lambda: wrap(Box(space, observe)))


@pytest.fixture
def _doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_doubles")
@pytest.mark.parametrize("AgentCls", [GenericFfAgent, GenericLstmAgent])
def test_default_type_of_torch(AgentCls):
    samples = trained(lambda: gym.GymEnvWrapper(Box(flat(), half)), AgentCls())
    assert samples.env.observation.dtype == torch.float64


def test_nan_is_named_where_the_agent_fails_at_it(capsys):
    # Only the network was blamed.
    def observe(t):
        return np.array([0, np.nan if t == 3 else 0], np.float32)

    def make():
        return gym.GymEnvWrapper(Box(spaces.Box(-1, 1, (2,)), observe))

    sampler = SerialSampler(make, {}, batch_T=8, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(GenericFfAgent(), seed=0)
    with pytest.raises(FloatingPointError):
        sampler.obtain_samples(0)
    assert "environment 0 returned nan in observation[1]" in capsys.readouterr().out


def test_nan_is_named_once(capsys):
    def observe(t):
        return {"a": np.zeros(2), "b": np.array([0, np.nan if t == 3 else 0])}

    def make():
        space = spaces.Dict({"a": flat((2,)), "b": flat((2,))})
        return gym.GymEnvWrapper(Box(space, observe))

    with sampling(EnvCls=make, env_kwargs={}) as sample:
        for itr in range(3):
            sample(itr)
    lines = [line for line in capsys.readouterr().out.splitlines() if "nan" in line]
    assert len(lines) == 1
    assert "environment 0" in lines[0]
    assert "observation.b" in lines[0]


@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.float32])
def test_images_that_are_not_scaled_are_named(dtype, capsys):
    space = spaces.Box(0, 255, (1, 40, 40), dtype)

    def make():
        return gym.GymEnvWrapper(Box(space, lambda t: np.full((1, 40, 40), t, dtype)))

    with sampling(EnvCls=make):
        assert np.dtype(dtype).name in capsys.readouterr().out
    with logger.using(logger.Logger()):
        check_env(make, n_steps=3)
    assert np.dtype(dtype).name in capsys.readouterr().out
    with sampling(EnvCls=lambda: gym.GymEnvWrapper(Box(IMAGE, upside_down))):
        assert "scale" not in capsys.readouterr().out


def test_each_run_of_a_process_is_warned(tmp_path):
    # Only the first one was.
    space, image = spaces.Box(0, 255, (1, 40, 40), np.int32), np.zeros((1, 40, 40), np.int32)
    for run_ID in range(2):
        with logger_context(tmp_path, run_ID, "run", override_prefix=True):
            for _ in range(2):
                with sampling(EnvCls=lambda: gym.GymEnvWrapper(Box(space, lambda t: image))):
                    pass
        assert (tmp_path / f"run_{run_ID}" / "debug.log").read_text().count("int32") == 1


# --- Infos ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_pair", [False, True])
def test_every_step_differs_from_the_reset(as_pair):
    # The network failed at the example, in torch's words.
    kwargs = {"late": np.zeros(1, np.float32), "after": 0, "as_pair": as_pair}
    with (
        pytest.raises(ValueError, match=r"returned observation.* of shape \(2,\) instead"),
        sampling(env_kwargs=kwargs) as sample,
    ):
        sample()


class CountedEnv(GivenEnv):
    """Its count is the whole number 1 at first, halves afterwards."""

    def __init__(self, rest):
        super().__init__()
        self.rest = rest

    def step(self, action):
        step = super().step(action)
        count = self.rest if step.env_info.count > 1 else np.ones_like(self.rest, dtype=int)
        return step._replace(env_info=Info(count))


def test_entries_of_an_info_are_written_by_name_over_old_ones():
    buffer = namedarraytuple("Info", ["count", "part"])(np.zeros(1), np.zeros(1))
    rows = InfoRows(buffer, 1)
    turned = namedarraytuple("Turned", ["part", "count"])
    for count in (1.0, 2.0):
        rows[0] = turned(0.5, count)
        assert (buffer.count.item(), buffer.part.item()) == (count, 0.5)
    rows[0] = Info(3.0)
    assert (buffer.count.item(), buffer.part.item()) == (3, 0)


@pytest.mark.parametrize("rest", [2.5, np.float32(2.5), np.array([2.5, 3.5]), np.array([2, 3]), 2])
def test_a_fraction_that_an_info_loses_is_named(rest, capsys, monkeypatch):
    monkeypatch.setattr(logger._current, "logged_once", set())
    with sampling(EnvCls=CountedEnv, env_kwargs={"rest": rest}) as sample:
        count = sample().env.env_info.count
    is_truncated = "env_info.count of" in capsys.readouterr().out
    assert is_truncated == (np.asarray(rest).dtype.kind == "f")
    np.testing.assert_array_equal(count[1, 0], np.asarray(rest).astype(int))


@pytest.mark.parametrize("late", [True, False])
def test_success_is_logged_as_a_rate(late, tmp_path):
    # An entry that first appears at the end was dropped.
    def info(t):
        success = np.array([t == 5])  # With one entry, as of a vector environment.
        return {"is_success": success} if t == 5 or not late else {}

    def make(n_steps):
        return gym.GymEnvWrapper(Box(flat(), half, info, n_steps))

    sampler = SerialSampler(
        make, [{"n_steps": 5}, {"n_steps": 5}], 10, 2, max_decorrelation_steps=0
    )
    kwargs = {"n_steps": 40, "log_interval_steps": 20, "seed": 0}
    runner = MinibatchRl(algo=CountingAlgo(), agent=LoggedAgent(), sampler=sampler, **kwargs)
    assert [float(row["SuccessRate"]) for row in train(runner, tmp_path)] == [1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_success_in_vector_environments(mode):
    def make(num_envs):
        def one(n_steps):
            info = lambda t: {"is_success": n_steps == 3} if t == n_steps else {}  # noqa: E731
            return lambda: Box(flat(), half, info, n_steps)

        envs = SyncVectorEnv([one(3), one(4)], autoreset_mode=AutoresetMode[mode.upper()])
        return VectorEnvWrapper(envs)

    sampler = VectorSampler(make, {}, 6, 2, max_decorrelation_steps=0)
    sampler.initialize(FixedAgent(), seed=0)
    _, completed = sampler.obtain_samples(0)
    assert [(info.Length, info["_is_success"]) for info in completed] == [(3, 1), (4, 0), (3, 1)]
    sampler.shutdown()


# --- Episodes and states of programs --------------------------------------------------------------


def test_episodes_begun_by_a_method_of_the_environment():
    # It was refused as a step before the reset.
    class Indexed(Box):
        def reset_with_index(self, index):
            self.t = index
            return self.observe(index)

    env = gym.GymEnvWrapper(Indexed(flat(), half))
    env.reset_with_index(3)
    assert env.step(0).observation.tolist() == [0.5] * 3


class TupleModel(torch.nn.Module):
    """A recurrent model that returns the state of its LSTM as it is, and passes it on as it is."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 8)
        self.pi, self.v = torch.nn.Linear(8, 2), torch.nn.Linear(8, 1)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        assert init_rnn_state is None or type(init_rnn_state) is tuple
        out, state = self.lstm(observation.reshape(T, B, -1), init_rnn_state)
        out = out.reshape(T * B, -1)
        pi, v = torch.softmax(self.pi(out), -1), self.v(out).squeeze(-1)
        return *restore_leading_dims((pi, v), lead_dim, T, B), state


@pytest.mark.parametrize("SamplerCls", [SerialSampler])
@pytest.mark.parametrize("Algo", [A2C, PPO])
def test_recurrent_states_in_plain_tuples(SamplerCls, Algo):
    agent = RecurrentCategoricalPgAgent(ModelCls=TupleModel)
    agent.make_env_to_model_kwargs = lambda spaces: dict(
        observation_space=spaces.observation, action_space=spaces.action
    )
    samples = trained(lambda: gym.GymEnvWrapper(Box(flat(), half)), agent, Algo())
    state = samples.agent.agent_info.prev_rnn_state
    assert [part.shape for part in state] == [(8, 4, 1, 8)] * 2
    agent.reset_one(0)
    saved = agent.sample_state_dict()
    agent.load_sample_state_dict(saved)


class Door(gymnasium.Env):
    """Ends with success by one of two actions, which the example step may draw."""

    observation_space = spaces.Box(-1, 9, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        info = {"n": 1.0, **({"is_success": True} if action == 1 else {})}
        return np.ones(2, np.float32), 1.0, action == 1, False, info


def test_an_example_step_that_succeeds_leaves_the_fields_of_the_info():
    # They became one array, without time limits.
    for seed in range(4):
        sampler = SerialSampler(lambda: gym.GymEnvWrapper(Door()), {}, 3, 1)
        examples = sampler.initialize(GenericFfAgent(), seed=seed)
        if examples["done"]:
            break
    assert examples["done"]
    assert sampler.obtain_samples(0)[0].env.env_info._fields == ("n", "timeout")
