"""Every public name of rlpyt 0.1.2 is where it was and takes the same arguments in the same order.

Only the names in ``retired.txt`` are gone.

Ours may be more: further parameters after the old ones (with defaults) or by keyword only, the
named parameters of a parent where the old method took ``*args, **kwargs``, properties in place of
methods without arguments. An abstract method may name what all its overrides were called with.
"""

import ast
import importlib
import inspect
import re
from functools import cache
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.compat.signatures import (
    Entry,
    actual_parameters,
    base_names,
    listed_parameters,
    read_retired,
    read_signatures,
)

# One module was a copy of another project's table printer. Its functions are kept; its private
# parts are not, nor are functions whose name begins with "_" and private names of the logger that
# no program using rlpyt reads.
VENDORED = "rlpyt/utils/logging/tabulate.py"
LOGGER = "rlpyt/utils/logging/logger.py"
LOGGER_STATE = ("_iteration", "_prefixes", "_tabular_prefix_str", "_tf_summary_writer")
# The package tabulate has further parameters among the old ones.
GROWN = ("rlpyt/utils/logging/tabulate.py:tabulate",)
RETIRED = set(read_retired())


def is_inside(entry):
    """Whether the name is exempt, see above."""
    if entry.path == LOGGER and entry.kind == "value":
        return entry.name.startswith("_") and entry.name not in LOGGER_STATE
    is_private = entry.name.startswith("_")
    return entry.key in GROWN or (
        is_private and (entry.path == VENDORED or entry.kind == "function")
    )


# Their parent's parameters are named, or inherited, where the old ones took ``**kwargs``.
SPELLED_OUT = (
    "rlpyt/agents/base.py:RecurrentAgentMixin.__init__",
    "rlpyt/agents/base.py:AlternatingRecurrentAgentMixin.__init__",
    "rlpyt/agents/pg/mujoco.py:MujocoMixin.data_parallel",
    "rlpyt/algos/dqn/cat_dqn.py:CategoricalDQN.initialize",
    "rlpyt/algos/pg/a2c.py:A2C.initialize",
    "rlpyt/algos/dqn/cat_dqn.py:CategoricalDQN.async_initialize",
    "rlpyt/algos/qpg/td3.py:TD3.initialize",
    "rlpyt/algos/qpg/td3.py:TD3.async_initialize",
    "rlpyt/distributions/epsilon_greedy.py:EpsilonGreedy.__init__",
    "rlpyt/replays/frame.py:FrameBufferMixin.__init__",
    "rlpyt/replays/non_sequence/time_limit.py:NStepTimeLimitBuffer.__init__",
    "rlpyt/replays/sequence/n_step.py:SequenceNStepReturnBuffer.__init__",
    "rlpyt/replays/sum_tree.py:AsyncSumTree.__init__",
    "rlpyt/replays/sum_tree.py:AsyncSumTree.advance",
    "rlpyt/runners/sync_rl.py:SyncRlEval.log_diagnostics",
    "rlpyt/runners/sync_rl.py:SyncWorkerEval.evaluate_agent",
    "rlpyt/runners/sync_rl.py:SyncWorkerEval.store_diagnostics",
    "rlpyt/samplers/async_/alternating_sampler.py:AsyncAlternatingSamplerBase.async_initialize",
    "rlpyt/samplers/async_/base.py:AsyncParallelSamplerMixin._agent_init",
    "rlpyt/samplers/async_/base.py:AsyncParallelSamplerMixin._build_buffers",
    "rlpyt/samplers/async_/base.py:AsyncParallelSamplerMixin._build_parallel_ctrl",
    "rlpyt/samplers/parallel/cpu/collectors.py:CpuWaitResetCollector.__init__",
    "rlpyt/samplers/parallel/gpu/collectors.py:GpuWaitResetCollector.__init__",
    "rlpyt/utils/collections.py:NamedArrayTupleSchema.__init__",
)
ENTRIES = [entry for entry in read_signatures() if not is_inside(entry)]
KEYS = {entry.key for entry in ENTRIES}


def is_retired(entry):
    """Whether the entry, its class or its module is listed as removed."""
    owner = f"{entry.path}:{entry.name.split('.')[0]}"
    return not RETIRED.isdisjoint((entry.path, owner, entry.key))


def find(entry):
    """The object itself, without binding it: a plain function, property, class or value."""
    found = importlib.import_module(entry.module)
    name, _, member = entry.name.partition(".")
    found = getattr(found, name) if name else found
    found = inspect.getattr_static(found, member) if member else found
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found


def namespace(module):
    """What the source text of defaults and values may mention."""
    return {"torch": torch, "np": np, **vars(importlib.import_module(module))}


@cache
def listed_classes():
    """Every class of the list with its name there; one class may have several names."""
    kept = [entry for entry in ENTRIES if entry.kind == "class" and not is_retired(entry)]
    return [(find(entry), entry.name) for entry in kept]


def names_of(cls):
    """The names of a class."""
    return {cls.__name__, *(name for listed, name in listed_classes() if listed is cls)}


def test_names_are_as_listed():
    wrong = {}
    for entry in ENTRIES:
        if not is_retired(entry):
            try:
                assert_as_listed(entry, find(entry))
            except (AssertionError, AttributeError, ImportError) as error:
                wrong[entry.key] = error
    assert not wrong


def assert_as_listed(entry, found):
    if entry.kind == "class":
        assert inspect.isclass(found)
        ancestors = {name for ancestor in found.__mro__ for name in names_of(ancestor)}
        assert not set(base_names(entry.text)) - ancestors
    elif entry.kind == "function" and not isinstance(found, property):
        assert_same_parameters(entry.text, found, namespace(entry.module))
        assert_takes_keywords(entry, found)
    elif entry.kind == "value":
        assert_same_value(entry, found)
    else:
        assert isinstance(found, (ModuleType, property))


def parameters_of_overrides(method):
    """The parameters that any class gives to a method of this name."""
    overrides = (e for e in ENTRIES if e.kind == "function" and e.name.endswith(f".{method}"))
    return {name for entry in overrides for name in listed_parameters(entry.text).positional}


def assert_same_parameters(text, function, names):
    listed, actual = listed_parameters(text), actual_parameters(function)
    assert actual.positional[: len(listed.positional)] == listed.positional
    added = set(actual.positional[len(listed.positional) :]) - actual.defaults.keys()
    if added and not listed.is_open:
        added -= parameters_of_overrides(function.__name__)
        assert not added, f"added without a default: {sorted(added)}"
    assert not set(listed.keyword_only) - {*actual.positional, *actual.keyword_only}
    assert listed.defaults.keys() <= actual.defaults.keys()
    for parameter, source in listed.defaults.items():
        assert same_default(actual.defaults[parameter], source, names), (
            f"{parameter} = {actual.defaults[parameter]!r}, listed as {source}"
        )


def assert_takes_keywords(entry, function):
    """Whatever keywords are passed on, if the old function took them."""
    if listed_parameters(entry.text).has_kwargs:
        assert actual_parameters(function).has_kwargs != (entry.key in SPELLED_OUT)


def same_default(actual, source, names):
    """Equal in value and in kind (1 is not True), or the class that the source names."""
    if inspect.isclass(actual):
        return bool(actual.__name__ == source.split(".")[-1])
    expected = eval(source, names)
    if expected == []:  # A default that every call shares is better an empty tuple.
        return list(actual) == []
    return bool(actual == expected) and isinstance(actual, bool) == isinstance(expected, bool)


def assert_same_value(entry, value):
    """Compare records by their fields and constants by value; of state, only that it is there."""
    if re.match(r"named(array)?tuple\(", entry.text):
        # Of a text that was cut, the fields that are whole are the first ones.
        fields = record_fields(entry)
        assert value._fields[: len(fields)] == fields
        assert value.__name__ == entry.name
    elif not entry.name.startswith("_") and entry.text != "None" and is_literal(entry.text):
        assert value == ast.literal_eval(entry.text)


def record_fields(entry):
    inherited = ()
    if "._fields" in entry.text:
        (parent,) = re.findall(r"(\w+)\._fields", entry.text)
        inherited = namespace(entry.module)[parent]._fields
    quoted = re.findall(r"'([\w ]+)'", entry.text)[1:]
    return inherited + tuple(name for names in quoted for name in names.split())


def is_literal(text):
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return text != "..."


def test_retired_names_are_gone():
    assert RETIRED <= KEYS, "retired.txt has names that rlpyt 0.1.2 has not"
    for entry in ENTRIES:
        if entry.key in RETIRED:
            with pytest.raises((ImportError, AttributeError)):
                find(entry)


def old(observation, lr=0.5, OptimCls=torch.optim.Adam, *, flag=True):
    """What the examples below are compared with."""


@pytest.mark.parametrize(
    "text",
    [
        "def old(observation, lr=0.5, OptimCls=torch.optim.Adam, *, flag=True)",
        "def old(observation, lr=0.5, *args, **kwargs)",
        "def old(observation)",
        "def old(observation, *args, OptimCls=torch.optim.Adam, **kwargs)",
    ],
)
def test_accepts_the_same_parameters_and_more(text):
    assert_same_parameters(text, old, {"torch": torch})


@pytest.mark.parametrize(
    "text",
    [
        "def old(obs, lr=0.5)",
        "def old(lr, observation)",
        "def old(observation, lr=0.6)",
        "def old(observation, lr=True)",
        "def old(observation, lr=0.5, OptimCls=torch.optim.SGD)",
        "def old(observation, lr=0.5, OptimCls=torch.optim.Adam, flag=1)",
        "def old(observation, *, missing=1)",
    ],
)
def test_finds_different_parameters(text):
    with pytest.raises(AssertionError):
        assert_same_parameters(text, old, {"torch": torch})


def test_finds_missing_keywords():
    # BaseAgent.initialize refused the keywords of agents that programs had made of it.
    entry = Entry("rlpyt/agents/base.py", "old", "function", "def old(observation, **kwargs)")
    with pytest.raises(AssertionError):
        assert_takes_keywords(entry, old)
