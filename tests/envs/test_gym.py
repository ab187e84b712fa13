"""Environments of gymnasium and of old gym."""

import copy
import importlib.util
import pickle
import subprocess
import sys
from collections import deque
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlpyt.envs import _info, gym, gym_schema, vector
from rlpyt.envs.check import check_env
from rlpyt.utils.buffer import leaves
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger


class Scripted(gymnasium.Env):
    """Gives the results of a script; without one, zeros."""

    observation_space = spaces.Box(-1, 1, (2,), dtype=np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, infos=({},), ends=((False, False),), reward=0.0):
        self.infos, self.ends, self.reward, self.t = infos, ends, reward, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed_seen = seed
        self.t = 0
        return self.np_random.uniform(size=2), {"only at reset": 1}

    def step(self, action):
        info = dict(self.infos[min(self.t, len(self.infos) - 1)])
        end = self.ends[min(self.t, len(self.ends) - 1)]
        self.t += 1
        return np.zeros(2), self.reward, *end, info


class BareEnv:
    """The interface of gym before 0.26: seed is a method, step returns four values."""

    observation_space = spaces.Box(-9, 9, (1,), dtype=np.float64)
    action_space = spaces.Discrete(2)
    truncated = {}

    def seed(self, seed):
        self.rng = np.random.RandomState(seed)
        return [seed]

    def reset(self):
        self.t = 0
        return self.rng.normal(size=1)

    def step(self, action):
        self.t += 1
        info = self.truncated if self.t == 3 else {}
        return self.rng.normal(size=1), 1.0, self.t == 3, dict(info)


class OldEnv(BareEnv):
    """With what the class of gym adds."""

    @property
    def unwrapped(self):
        return self


def steps(env, n):
    env.reset()
    return [env.step(np.array(0)) for _ in range(n)]


# --- Steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "done", "timeout"),
    [
        ((False, False), False, False),
        ((True, False), True, False),
        ((False, True), True, True),
        ((True, True), True, False),  # It ended: nothing was cut.
    ],
)
def test_done_and_timeout(end, done, timeout):
    (step,) = steps(gym.GymEnvWrapper(Scripted(ends=(end,))), 1)
    assert (step.done, step.env_info.timeout) == (done, timeout)
    assert type(step.done) is bool


@pytest.mark.parametrize(
    ("end", "own", "timeout"),
    [
        ((True, False), True, True),  # It says so itself.
        ((False, True), False, True),  # The time limit around it says so.
        ((True, False), False, False),
        ((False, False), True, False),  # Nothing ended.
    ],
)
def test_timeout_of_the_environment_itself(end, own, timeout):
    # It was overwritten.
    (step,) = steps(gym.GymEnvWrapper(Scripted(infos=({"timeout": own},), ends=(end,))), 1)
    assert step.env_info == (timeout,)


@pytest.mark.parametrize("make", [gym.make, gym_schema.make])
def test_time_limit_deep_in_the_chain_is_found(make):
    # The schema variant used to look at the outermost wrapper only.
    env = make("CartPole-v1", max_episode_steps=3)
    last = steps(env, 3)[-1]
    assert (last.done, last.env_info.timeout, env.horizon) == (True, True, 3)


def test_horizon_without_a_time_limit():
    env = gym.GymEnvWrapper(Scripted())
    assert not hasattr(env, "horizon")
    with pytest.raises(AttributeError, match="no time limit"):
        _ = env.horizon
    env.unwrapped.horizon = 7
    assert env.horizon == 7


def test_an_error_inside_a_property_is_not_hidden():
    class Mine(gym.Wrapper):
        @property
        def ratio(self):
            return self.nothing_of_this_name

    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = Mine(Scripted()).ratio


def test_observation_is_float32_unless_asked():
    assert gym.GymEnvWrapper(Scripted()).reset().dtype == np.float32
    assert gym.GymEnvWrapper(Scripted(), force_float32=False).reset().dtype == np.float64


def test_dict_actions_in_records_reach_the_environment_as_dicts():
    # Actions from a buffer used to arrive as namedarraytuples.
    class DictAction(Scripted):
        action_space = spaces.Dict({"a": spaces.Discrete(3), "b c": spaces.Box(0, 1, (1,))})

        def step(self, action):
            self.seen = action
            return super().step(None)

    env = gym.GymEnvWrapper(DictAction())
    env.reset()
    env.step(namedarraytuple("act", ["a", "b_c"])(np.array(2), np.ones(1, np.float32)))
    assert env.unwrapped.seen == {"a": 2, "b c": np.ones(1)}


class Opaque(gym.Wrapper):
    """A wrapper without a state of its own."""

    def __init__(self, env):
        super().__init__(env)
        self.thing = object()


@pytest.mark.parametrize("around", [lambda env: env, Opaque])
def test_construction_leaves_no_trace(around):
    inner = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    gym.GymEnvWrapper(around(inner))
    assert inner.obs_rms.count == pytest.approx(1e-4)


def test_a_simulator_named_env_is_no_layer():
    # It was taken for the environment inside, without reset.
    class Simulated(BareEnv):
        def __init__(self):
            super().__init__()
            self.env = SimpleNamespace(position=0.0)

    env = gym.GymEnvWrapper(Simulated())
    state = env.state_dict()
    env.env.env.position = 3.0
    env.load_state_dict(state)
    assert env.env.env.position == 0


def test_attributes_of_the_environment_are_at_hand():
    env = gym.make("CartPole-v1")
    assert env.spec.id == "CartPole-v1"
    assert env.unwrapped.gravity == pytest.approx(9.8)
    assert "CartPole" in repr(env)
    with pytest.raises(AttributeError):
        _ = env.nothing_of_this_name
    env.close()


# --- Seeds ----------------------------------------------------------------------------------------


def test_seed_reaches_the_next_reset_once():
    env = gym.GymEnvWrapper(Scripted())
    env.seed(12)
    env.reset()
    assert env.unwrapped.seed_seen == 12
    env.reset()
    assert env.unwrapped.seed_seen is None


class Whimsical(Scripted):
    """Draws from its own action space, one of its class or of the instance."""

    action_space = spaces.Discrete(1000)

    def __init__(self, is_own):
        super().__init__()
        if is_own:
            self.action_space = spaces.Discrete(1000)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(self.action_space.sample()), *rest


def rewards(env, n=4):
    return [float(env.step(np.array(0)).reward) for _ in range(n)]


@pytest.mark.parametrize("is_own", [True, False])
def test_an_environment_may_draw_from_its_action_space(is_own):
    envs = [gym.GymEnvWrapper(gymnasium.wrappers.TimeLimit(Whimsical(is_own), 9)) for _ in "ab"]
    for env in envs:
        env.seed(5)
        env.reset()
    first, second = map(rewards, envs)
    assert first == second
    state = copy.deepcopy(envs[0].state_dict())
    drawn = rewards(envs[0])
    rewards(envs[1])
    envs[1].load_state_dict(state)
    assert drawn == rewards(envs[1]) != first


def test_the_first_episode_is_the_first_one_of_its_seed():
    env = gym.make("CartPole-v1")
    seed = env.state_dict()["seed"]
    first = env.reset()
    env.seed(seed)
    np.testing.assert_array_equal(env.reset(), first)


def test_actions_are_drawn_by_seed_and_state_in_each_of_a_class():
    one, other = (gym.GymEnvWrapper(Scripted()) for _ in range(2))

    def drawn(env):
        return [int(env.action_space.sample()) for _ in range(30)]

    one.seed(3)
    first = drawn(one)
    one.seed(3)
    other.seed(4)
    assert drawn(one) == first
    other.load_state_dict(one.state_dict())
    assert drawn(other) == drawn(one)
    other.reset()
    assert other.unwrapped.seed_seen == 3


# --- Old gym --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truncated", "timeout"),
    [
        ({}, False),
        ({"TimeLimit.truncated": True}, True),
        ({"TimeLimit.truncated": False}, False),
        ({"timeout": True}, True),
        ({"timeout": True, "TimeLimit.truncated": False}, False),
        ({"timeout": False, "TimeLimit.truncated": True}, True),
    ],
)
@pytest.mark.parametrize("EnvCls", [OldEnv, BareEnv])
def test_environment_of_old_gym(EnvCls, truncated, timeout):
    env = EnvCls()
    env.truncated = truncated
    env = gym.GymEnvWrapper(env)
    env.seed(5)
    first = env.reset()
    assert first == np.float32(np.random.RandomState(5).normal())
    done = [env.step(np.array(1)) for _ in range(3)]
    assert [step.done for step in done] == [False, False, True]
    assert [step.env_info.timeout for step in done] == [False, False, timeout]
    assert done[0].env_info._fields == ("timeout",)


def test_environment_of_old_gym_continues_from_its_state():
    env, other = gym.GymEnvWrapper(OldEnv()), gym.GymEnvWrapper(OldEnv())
    env.reset(), other.reset()
    other.load_state_dict(env.state_dict())
    assert env.step(np.array(0))[:3] == other.step(np.array(0))[:3]


def test_a_layer_whose_reset_takes_no_seed():
    class Plain(gymnasium.Wrapper):
        def reset(self):
            return self.env.reset()

    def start():
        env = gym.GymEnvWrapper(Plain(Scripted()))
        env.seed(3)
        return env.reset().tolist()

    first = start()
    assert first == start()
    assert first != gym.GymEnvWrapper(Plain(Scripted())).reset().tolist()


def test_tuple_observation_of_old_gym_is_no_info():
    class Pair(OldEnv):
        observation_space = spaces.Tuple(
            [spaces.Discrete(3), spaces.Dict({"x": spaces.Box(0, 1, (1,))})]
        )

        def reset(self):
            return 1, {"x": np.zeros(1, np.float32)}

        def step(self, action):
            return self.reset(), 0.0, False, {}

    observation = gym.GymEnvWrapper(Pair()).reset()
    assert observation._fields == ("item_0", "item_1")
    assert observation.item_1._fields == ("x",)


# --- Info -----------------------------------------------------------------------------------------


def infos(*script, **kwargs):
    env = Scripted(infos=script)
    if kwargs:
        env = gym.EnvInfoWrapper(env, **kwargs)
    return [step.env_info for step in steps(gym.GymEnvWrapper(env), len(script))]


def test_keys_with_dots_keep_their_values():
    # They were declared with "_" and looked up with ".": always 0.
    first, second = infos({"ale.lives": 3}, {"ale.lives": 2})
    assert (first.ale_lives, second.ale_lives) == (3, 2)


def test_missing_entries_are_zeros_of_their_structure(capsys):
    # A missing dictionary became one scalar 0.
    example = {"x": 2.5, "inner": {"y": np.ones(3), "deep": {"z": 1}}}
    _, second = infos(example, {})
    assert second.x == 0
    assert np.array_equal(second.inner.y, np.zeros(3))
    assert second.inner.deep.z == 0
    assert np.asarray(second.x).dtype == np.float64
    _, partial, nothing = infos(example, {"inner": {"y": np.full(3, 2.0)}}, {"inner": None})
    assert (partial.inner.y[0], partial.inner.deep.z) == (2, 0)
    assert nothing.inner.y[0] == 0
    assert capsys.readouterr().out.count("info['x'] is 0 where it is missing") == 1


def test_success_that_appears_later_is_an_attribute():
    # Buffers have no field for it; it was dropped.
    first, last = infos({"x": 1}, {"x": 2, "is_success": True})
    assert not hasattr(first, "is_success")
    assert (last._fields, last.is_success) == (("x", "timeout"), True)
    for copied in (pickle.loads(pickle.dumps(last)), copy.deepcopy(last)):
        assert (copied, copied.is_success) == (last, True)
    # As an example it made the buffer of the record one array.
    assert type(last._make(last)) is type(first)
    assert infos({"is_success": 0}, {"is_success": 1})[1]._fields == ("is_success", "timeout")


def test_entries_without_numbers_are_left_out_with_one_notice(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "log", lambda text, **kwargs: lines.append(text))
    entry = {"x": 1, "text": "a", "object": object(), "nothing": None, "ragged": [[1], [1, 2]]}
    for _ in range(2):
        assert infos(entry)[0]._fields == ("x", "timeout")
    assert len(lines) == 1
    assert all(name in lines[0] for name in ("text", "object", "nothing", "ragged"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.zeros(2), np.ones(3)),
        (0.5, np.ones(2)),
        (True, 2),
        (1.0, "text"),
        (1.0, [[1], [1, 2]]),
        ({"a": 1}, 3),
    ],
)
def test_an_entry_that_does_not_fit_is_left_out_with_one_notice(before, after, monkeypatch):
    # It ended the run.
    lines = []
    monkeypatch.setattr(logger, "log", lambda text, **kwargs: lines.append(text))
    _, *others = infos({"key": before}, {"key": after}, {"key": after})
    for info in others:
        assert not any(np.any(leaf) for leaf in leaves(info.key))
    assert len(lines) == 1
    assert "info['key']" in lines[0]
    assert "info_example" in lines[0]


def test_integers_are_stored_as_real_numbers():
    example = {"a": 0, "b": [1, 2], "mask": np.ones(3, np.int8), "inner": {"c": np.int64(3)}}
    _, second = infos(example, {"a": 0.5, "b": [0.5, 1], "inner": {"c": 0.25}})
    assert (second.a, second.b.tolist(), second.inner.c) == (0.5, [0.5, 1], 0.25)
    assert np.asarray(second.mask).dtype == np.int8
    assert type(infos({"a": 1}, info_example={"a": 0})[0].a) is int


def test_integers_that_a_smaller_type_wraps_are_told(capsys):
    _, second = infos({"v": np.array([1, 2], np.uint8)}, {"v": np.array([300, -1])})
    assert second.v.dtype == np.uint8
    assert "info['v'] of int64 loses its value as uint8" in capsys.readouterr().out


def test_info_example_declares_what_comes_later():
    example = {"episode": {"r": 0.0, "l": 0}, "x": 0.0}
    first, second = infos({"x": 1}, {"x": 0.5, "episode": {"r": 3.5}}, info_example=example)
    assert (first.episode.r, first.x) == (0, 1.0)  # x is real, as in the example.
    assert (second.episode.r, second.episode.l, second.x) == (3.5, 0, 0.5)
    assert example == {"episode": {"r": 0.0, "l": 0}, "x": 0.0}
    example = {"stats": {"a": 0.0}}
    env = Scripted(infos=({"stats": {"b": 5.0}}, {"stats": {}}))
    wrapped = gym.GymEnvWrapper(gym.EnvInfoWrapper(env, example))
    assert [step.env_info.stats.b for step in steps(wrapped, 2)] == [5, 0]
    assert example == {"stats": {"a": 0.0}}


def test_make_with_info_example():
    env = gym.make("CartPole-v1", info_example={"lives": 3})
    assert steps(env, 1)[0].env_info.lives == 3


def test_two_environments_with_other_infos_live_side_by_side():
    # The second one used to raise "Name clash".
    (one,), (two,) = infos({"a": 1}), infos({"b": 1})
    assert (one._fields, two._fields) == (("a", "timeout"), ("b", "timeout"))
    assert pickle.loads(pickle.dumps(one)) == one


def test_an_environment_pickles():
    env = gym.make("Blackjack-v1", info_example={"lives": {"left": 3}})
    env.seed(1)
    received = pickle.loads(pickle.dumps(env))
    assert received.reset() == env.reset()
    assert received.step(1) == env.step(1)


def test_the_dictionary_of_the_environment_is_left_alone():
    info = {"x": 1}
    env = Scripted()
    env.step = lambda action: (np.zeros(2), 0.0, False, False, info)
    steps(gym.GymEnvWrapper(env), 1)
    assert info == {"x": 1}


def test_infill_info_is_recursive_and_copies():
    example = {"a": {"b": np.zeros(1), "c": 1}, "d": np.zeros(1)}
    info = {"a": {"c": 5}}
    assert gym.infill_info(info, example) is info
    assert (info["a"]["c"], info["a"]["b"][0]) == (5, 0)
    info["d"][0] = 9
    assert example["d"][0] == 0


def test_declared_fields_hold_without_a_layout():
    # Wrappers written for the original declare once and then only give the dictionary.
    gym.build_info_tuples({"a": 1, "inner": {"b": 2.0}}, "mine")
    record = gym.info_to_nt({"a": 3, "c": 1}, "mine")
    assert (record._fields, record.a, record.inner.b) == (("a", "inner"), 3, 0)
    gym.build_info_tuples({"c": 1}, "mine")
    assert gym.info_to_nt({"a": 3, "c": 1}, "mine") == (1,)
    gym.GymEnvWrapper(Scripted(infos=({"x": 1},)))  # Declares "info".
    assert gym.info_to_nt({"y": 2, "timeout": True})._asdict() == {"x": 0, "timeout": True}


def test_module_functions(monkeypatch):
    monkeypatch.setattr(_info, "_declared", {})
    assert gym.info_to_nt({"z": 1}).z == 1
    layout = gym.build_info_tuples({"a.b": 1.0, "inner": {"c": 2}})
    record = gym.info_to_nt({"a.b": 2.0, "x": 1}, "info", layout)
    assert (record.a_b, record.inner.c) == (2.0, 0)
    assert gym.info_to_nt({"a.b": 2.0}).a_b == 2.0
    assert gym.info_to_nt(3) == 3
    env = gym_schema.GymEnvWrapper(Scripted())
    env._build_info_schemas({"y": 1}, "other")
    assert gym_schema.info_to_nt({"y": 4}, env._info_schemas, "other").y == 4


# --- State ----------------------------------------------------------------------------------------


class Part:
    """Not a plain value."""

    def __init__(self, other):
        self.other = other


class Plain:
    def __init__(self):
        self.count = 0


@pytest.mark.parametrize("value", [object(), [object()], {"a": object()}, Part(Part(Plain()))])
def test_unknown_state_is_named(value):
    env = gym.GymEnvWrapper(Scripted())
    env.reset()
    env.unwrapped.thing = value
    with pytest.raises(NotImplementedError, match=r"Scripted\.thing.*state_dict"):
        env.state_dict()


def test_an_environment_may_give_its_own_state():
    class Own(Scripted):
        def __init__(self):
            super().__init__()
            self.thing = Part(Part(Plain()))

        def state_dict(self):
            return {"t": self.t}

        def load_state_dict(self, state):
            self.t = state["t"]

    env = gym.GymEnvWrapper(Own())
    steps(env, 3)
    state = env.state_dict()
    env.reset()
    env.load_state_dict(state)
    assert env.unwrapped.t == 3


def test_all_kinds_of_attributes_come_back():
    env = gym.GymEnvWrapper(Scripted())
    env.reset()
    inner, rng = env.unwrapped, np.random.default_rng(3)
    values = {
        "number": np.float64(1.5),
        "queue": deque([np.zeros(2), 1], maxlen=4),
        "nested": {"a": (1, [2, {3}]), ("b", 1): None},
        "array": np.arange(3),
    }
    for name, value in values.items():
        setattr(inner, name, value)
    inner.rng, inner.statistics = rng, Plain()
    inner.statistics.count = 7
    state = pickle.loads(pickle.dumps(env.state_dict()))
    expected = rng.random(3)
    inner.array[0], inner.statistics.count = 9, 0
    inner.queue.clear()
    env.load_state_dict(state)
    assert inner.rng is rng  # Whoever shares the generator goes on with it.
    assert np.array_equal(rng.random(3), expected)
    assert inner.statistics.count == 7
    assert (type(inner.number), inner.number) == (np.float64, 1.5)
    assert (inner.queue.maxlen, len(inner.queue), inner.array[0]) == (4, 2, 0)
    assert inner.nested == values["nested"]


class Linked(Scripted):
    """Counts in attributes that share memory, and observes through the other ones."""

    def __init__(self):
        super().__init__()
        self.state = np.zeros(4)
        self.position = self.state[:2]
        self.events = self.log = []
        self.parts = [np.zeros(1)]
        self.part = self.parts[0]
        self.by_name = {"queue": deque(maxlen=9)}
        self.queue = self.by_name["queue"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state[:] = self.part[:] = 0
        self.events.clear()
        self.queue.clear()
        return self.position.copy(), {}

    def step(self, action):
        self.state += 1
        self.part += 1
        self.events.append(1)
        self.queue.append(1)
        info = {"seen": [self.position[0], len(self.log), self.parts[0][0]]}
        info["seen"].append(len(self.by_name["queue"]))
        return self.position.copy(), 0.0, False, False, info


class NamedLikeWindows(Scripted):
    """Has values under names that rendering environments have for windows and settings."""

    def __init__(self):
        super().__init__()
        self.clock, self.window, self.screen = 0, [1], np.zeros(2)
        self.model, self.viewer = {"friction": 0.5}, object()


def test_values_under_the_names_of_windows_come_back():
    # They used to be left out without a word.
    first, second = (gym.GymEnvWrapper(NamedLikeWindows()) for _ in range(2))
    layer = first.unwrapped
    layer.clock, layer.window, layer.screen, layer.model = 3, [1, 2], np.ones(2), {"friction": 2.0}
    second.load_state_dict(first.state_dict())
    loaded = second.unwrapped
    assert (loaded.clock, loaded.window, loaded.model) == (3, [1, 2], {"friction": 2.0})
    assert loaded.screen.tolist() == [1, 1]


@pytest.mark.parametrize("n_before", [0, 1])
def test_the_first_steps_continue_in_an_environment_that_has_taken_more(n_before):
    # The wrapper that compares the first steps used to lack the data of the step before.
    first, second = (gym.make(id="CartPole-v1") for _ in range(2))
    for env, n in ((first, n_before), (second, 3)):
        env.reset()
        for _ in range(n):
            env.step(env.action_space.sample())
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        action = first.action_space.sample()
        steps = [env.step(action).observation.tolist() for env in (first, second)]
        assert steps[0] == steps[1]


def test_attributes_that_share_memory_still_do():
    # Construction, and loading a state, separated a view from its array for ever.
    env, other = gym.GymEnvWrapper(Linked()), gym.GymEnvWrapper(Linked())
    assert np.array_equal(steps(env, 2)[-1].env_info.seen, np.full(4, 2))
    steps(other, 5)
    other.load_state_dict(pickle.loads(pickle.dumps(env.state_dict())))
    assert np.array_equal(other.step(0).env_info.seen, np.full(4, 3))
    assert np.array_equal(other.step(0).observation, np.full(2, 4))


def test_attributes_that_share_memory_only_now_get_their_own_values():
    env = gym.GymEnvWrapper(Scripted())
    env.reset()
    inner = env.unwrapped
    inner.now, inner.before = np.array([2.0, np.nan]), np.array([1.0, 1.0])
    inner.frames, inner.names = [np.zeros(1), np.ones(1)], ["a"]
    inner.statistics, inner.old_names = Plain(), ["b"]
    inner.statistics.mean = np.full(2, 3.0)
    state = env.state_dict()
    inner.before = inner.statistics.mean = inner.now
    inner.frames = [np.ones(1)] * 2
    inner.old_names = inner.names
    env.load_state_dict(state)
    assert np.array_equal(inner.now, [2.0, np.nan], equal_nan=True)
    assert (inner.before.tolist(), inner.statistics.mean.tolist()) == ([1, 1], [3, 3])
    assert np.array_equal(inner.frames, [[0], [1]])
    assert (inner.names, inner.old_names) == (["a"], ["b"])


class Noise:
    """A function with a state, such as the noise of Ornstein and Uhlenbeck."""

    level = 0.0

    def __init__(self):
        self.level = 0.0

    def __call__(self):
        self.level += 1
        return self.level


def test_an_object_that_is_called_keeps_its_state():
    # It was taken for a function.
    inner = Scripted()
    inner.noise = Noise()
    inner.noise()
    other = Scripted()
    other.noise = Noise()
    gym.GymEnvWrapper(other).load_state_dict(gym.GymEnvWrapper(inner).state_dict())
    assert other.noise() == 2


def test_loading_leaves_attributes_of_the_class_alone():
    class Shared(Scripted):
        start = np.zeros(2)

    env = gym.GymEnvWrapper(Shared())
    env.reset()
    env.unwrapped.start = np.ones(2)
    gym.GymEnvWrapper(Shared()).load_state_dict(env.state_dict())
    assert not Shared.start.any()


def test_an_object_in_an_object_which_share_a_generator_continues_exactly():
    """Others: tests/contracts."""
    pytest.importorskip("minatar")
    check_env(lambda: gym.make("MinAtar/Seaquest-v1"), n_steps=40)


@pytest.mark.parametrize(
    ("whole", "partial", "action", "shown", "horizon"),
    [
        ("CartPole-v1", "rlpyt/CartPoleNoVel-v1", 1, [0, 2], 500),
        ("Pendulum-v1", "rlpyt/PendulumNoVel-v1", [1.0], [0, 1], 200),
    ],
)
def test_tasks_without_velocities(whole, partial, action, shown, horizon):
    envs = [gym.make(whole), gym.make(partial)]
    for env in envs:
        env.seed(3)
    all_entries, some_entries = (env.reset() for env in envs)
    for _ in range(5):
        np.testing.assert_array_equal(all_entries[shown], some_entries)
        steps = [env.step(np.asarray(action)) for env in envs]
        assert steps[0].reward == steps[1].reward
        all_entries, some_entries = (step.observation for step in steps)
    assert envs[1].horizon == horizon
    assert gym.make(partial, max_episode_steps=7).horizon == 7


@pytest.mark.parametrize(
    ("method", "result"), [("reset", np.zeros(3)), ("step", (np.zeros(2), 0.0, False, {}))]
)
@pytest.mark.filterwarnings("ignore")  # Gymnasium's, about the same.
def test_results_of_the_old_interface_are_named(method, result, monkeypatch):
    monkeypatch.setattr(Scripted, method, lambda self, *args, **kwargs: result)
    words = r"reset\(\) .* \(observation, info\), and step\(\) \(observation, reward, terminated, t"
    with pytest.raises(ValueError, match=words):
        gym.make(f"{__name__}:Scripted")


def test_the_extra_of_an_id_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    monkeypatch.setitem(sys.modules, "minatar", None)
    for env_id in [key for key in gymnasium.registry if key.startswith("MinAtar/")]:
        monkeypatch.delitem(gymnasium.registry, env_id)
    with pytest.raises(
        ImportError, match=r"MinAtar/Breakout-v1' needs minatar: pip install 'rlpyt"
    ):
        gym.make("MinAtar/Breakout-v1")


@pytest.mark.parametrize(("module", "kwargs"), [(gym, {}), (vector, {"num_envs": 2})])
def test_classes_are_named_after_their_modules(module, kwargs):
    for reward in (1.0, 2.0):  # Arguments are given as with an id.
        env = module.make(id=f"{__name__}:Scripted", reward=reward, **kwargs)
        env.reset()
        action = np.zeros(2, int)[: kwargs.get("num_envs")] if kwargs else 0
        assert np.all(env.step(action).reward == reward)


def test_the_class_is_that_of_the_named_module():
    gymnasium.registry.pop("Scripted", None)
    gymnasium.register("Scripted", entry_point=BareEnv)  # Another module has this name too.
    env = gym.make(f"{__name__}:Scripted")
    assert isinstance(env.unwrapped, Scripted)


@pytest.mark.full
def test_ids_are_registered_in_the_process_that_makes_the_environment():
    # A worker that was spawned, or a program of ``rlpyt train --print``, did not know them.
    ids = {"minatar": "MinAtar/Breakout-v1", "ale_py": "ALE/Breakout-v5"}
    installed = [env_id for package, env_id in ids.items() if importlib.util.find_spec(package)]
    program = (
        "from rlpyt.envs import gym, vector\n"
        f"for i in {installed}: gym.make(id=i).close(); vector.make(id=i, num_envs=2).close()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


class Mission(gymnasium.Env):
    """Observations with a text, as in MiniGrid."""

    observation_space = spaces.Dict({"mission": spaces.Text(20), "place": spaces.Discrete(3)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"mission": "find", "place": 1}, {}

    def step(self, action):
        return {"mission": "find", "place": 2}, 0.0, False, False, {}


def test_entries_of_an_observation_are_left_out():
    gymnasium.register("rlpyt/Mission-v0", entry_point=Mission)
    env = gym.make(id="rlpyt/Mission-v0", leave_out=["mission"])
    assert env.reset()._fields == ("place",)
    assert env.step(0).observation.place == 2
    copy = gym.make(id="rlpyt/Mission-v0", leave_out=["mission"])
    copy.load_state_dict(env.state_dict())
    both = vector.make(id="rlpyt/Mission-v0", num_envs=2, leave_out=["mission"])
    assert both.reset().place.tolist() == [1, 1]
    for keys in (["aim"], ["mission", "place"], "mission"):
        with pytest.raises(ValueError, match="leave_out"):
            gym.make(id="rlpyt/Mission-v0", leave_out=keys)
    with pytest.raises(TypeError, match="leave_out"):
        gym.make(id="rlpyt/Mission-v0")
