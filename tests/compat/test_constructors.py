"""``inspect.signature`` of a class, which ``help`` and notebooks show, lists every argument."""

import importlib
import inspect
import pkgutil
import pydoc
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.core.records import SamplesToBuffer
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from tests.compat.signatures import listed_parameters, read_retired, read_signatures
from tests.samplers.parts import CountEnv

# Classes that take anything, or the arguments of a class or function that is not among their bases.
OPEN = {
    "AtariTrajInfo": "entries of a dictionary",
    "AtariVector": "arguments of ale-py's AtariVectorEnv",
    "AttrDict": "entries of a dictionary",
    "BraxSimulator": "arguments of the environment of Brax",
    "DoubleBufferCollectorMixin": "arguments of the collector that it is mixed into",
    "EncodedModel": "arguments of the model",
    "GymnaxSimulator": "arguments of gymnax.make",
    "ImageEncoder": "settings of the convolutions",
    "RandomNetworkDistillation": "arguments of the algorithm that it is mixed into",
    "ReseededPool": "arguments of EnvPool",
    "SlurmCluster": "parameters of submitit",
    "SuiteComparison": "settings of the comparison",
    "TrajInfo": "entries of a dictionary",
    "Trial": "arguments of the measurement",
    "WandbSink": "arguments of wandb.init",
}


def public_classes():
    for found in pkgutil.walk_packages(rlpyt.__path__, "rlpyt."):
        if "._" not in found.name and "__main__" not in found.name:
            try:
                module = importlib.import_module(found.name)
            except ImportError:  # An optional package is missing.
                continue
            for name, member in vars(module).items():
                init = getattr(member, "__init__", None)
                has_own = getattr(init, "__module__", "").startswith("rlpyt.")
                if inspect.isclass(member) and has_own and not name.startswith("_"):
                    yield member


CLASSES = list(dict.fromkeys(public_classes()))


def shown(cls):
    return list(inspect.signature(cls).parameters.values())


def is_open(parameters):
    return any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def own_constructor(cls):
    return list(inspect.signature(cls.__init__).parameters.values())


def test_only_these_classes_take_anything():
    assert {cls.__name__ for cls in CLASSES if is_open(shown(cls))} <= OPEN.keys()


def test_editors_see_arguments_of_every_constructor():
    """An editor runs no code: of a constructor that only passes arguments on, it shows nothing."""
    own = {cls.__name__: own_constructor(cls)[1:] for cls in CLASSES if "__init__" in vars(cls)}
    kinds = {name: {p.kind for p in parameters} for name, parameters in own.items()}
    passed_on = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    hiding = {name for name, found in kinds.items() if found and found <= passed_on}
    assert hiding - OPEN.keys() == {"AsyncReplayBufferMixin"}  # It locks what the others allocate.


def test_a_constructor_that_is_not_called_leaves_its_own_defaults():
    """A class attribute stands in for a setting that the constructor of a subclass lacks."""
    compared = 0
    for cls in CLASSES:
        if "__init__" not in vars(cls):
            continue
        defaults = {p.name: p.default for p in own_constructor(cls) if p.default is not p.empty}
        for name in defaults.keys() & vars(cls).keys() & inspect.get_annotations(cls).keys():
            assert vars(cls)[name] == defaults[name], f"{cls.__name__}.{name}"
            compared += 1
    assert compared > 40


def test_help_lists_all_arguments():
    text = pydoc.plain(pydoc.render_doc(CpuSampler))
    heading, _ = text.split("Method resolution order", maxsplit=1)
    assert "eval_max_steps" in heading


# --- What is shown is true ------------------------------------------------------------------------

EXAMPLE = namedarraytuple("Example", [*SamplesToBuffer._fields, "timeout", "prev_rnn_state"])(
    np.zeros((2, 4, 4), "uint8"), np.int64(0), np.float32(0), False, False, np.zeros((1, 2), "f")
)
GOALS = namedarraytuple("Goals", ["observation", "achieved_goal", "desired_goal"])(
    *np.zeros((3, 2))
)
GIVEN = {
    "EnvCls": CountEnv,
    "env_kwargs": {},
    "batch_T": 2,
    "batch_B": 4,
    "affinity": {"optimizer": [{}], "sampler": {}},
    "algo": SimpleNamespace(min_itr_learn=0, agent=None),
    "agent": None,
    "sampler": None,
    "n_steps": 100,
    "example": EXAMPLE,
    "size": 40,
    "B": 2,
    "rnn_state_interval": 1,
    "compute_reward": np.subtract,
    "V_min": -1.0,
    "V_max": 1.0,
    "dim": 3,
    "image_shape": (1, 84, 84),
    "output_size": 2,
}


def arguments(cls):
    """Every argument that is shown, the optional ones with their defaults."""
    values = {p.name: GIVEN[p.name] if p.default is p.empty else p.default for p in shown(cls)}
    if cls.__name__.startswith("SyncRl"):
        values["affinity"] = [{}]
    if "Hindsight" in cls.__name__:
        values["example"] = EXAMPLE._replace(observation=GOALS)
    if "Prioritized" in cls.__name__ and "batch_T" in values:
        values["batch_T"] = 2
    return values


def same(a, b):
    if isinstance(a, (np.ndarray, torch.Tensor)) or not isinstance(a, (int, float, str, type)):
        return type(a) is type(b)
    return bool(a == b)


def can_be_made(cls):
    role = cls.__module__.split(".")[1]
    is_part = re.search("Base|Mixin|Replay$|Collector", cls.__name__)
    return role != "envs" and not is_part and shown(cls) != own_constructor(cls)[1:]


MERGED = [cls for cls in CLASSES if is_open(own_constructor(cls)) and can_be_made(cls)]
MERGED = [cls for cls in MERGED if cls.__name__ not in OPEN]


@pytest.mark.parametrize("cls", MERGED, ids=lambda cls: cls.__name__)
def test_shown_arguments_are_taken_and_have_these_defaults(cls):
    values = arguments(cls)
    needed = {p.name for p in shown(cls) if p.default is p.empty} | {"affinity", "batch_T"}
    by_default = vars(cls(**{k: v for k, v in values.items() if k in needed}))
    by_name = vars(cls(**values))
    positions = [p.name for p in shown(cls) if p.kind is p.POSITIONAL_OR_KEYWORD]
    rest = {k: v for k, v in values.items() if k not in positions}
    by_position = vars(cls(*(values[name] for name in positions), **rest))
    for name in by_default.keys() & values.keys():
        assert same(by_default[name], by_name[name]), name
        assert same(by_default[name], by_position[name]), name


def test_own_subclass_lists_all_arguments():
    class Sampler(SerialSampler):
        def __init__(self, flag=True, *args, **kwargs):
            super().__init__(*args, **kwargs)

    first, *others = shown(Sampler)
    assert (first.name, first.default) == ("flag", True)
    assert {p.name for p in others} == {p.name for p in shown(SerialSampler)}


def test_signature_of_an_agent_is_that_of_its_call():
    agent = AtariDqnAgent()
    assert inspect.signature(agent) == inspect.signature(agent.__call__)


# --- Calls by position ----------------------------------------------------------------------------

RETIRED = set(read_retired())
LISTED = {}  # Class: constructor that it defines in rlpyt 0.1.2, or "".
for entry in read_signatures():
    name, _, member = entry.name.partition(".")
    is_kept = RETIRED.isdisjoint((entry.path, f"{entry.path}:{name}"))
    if is_kept and (entry.kind == "class" or member == "__init__"):
        cls = getattr(importlib.import_module(entry.module), name)
        LISTED[cls] = entry.text if member else LISTED.get(cls, "")


def old_positions(cls):
    """The arguments that rlpyt 0.1.2 took by position, where constructors pass ``*args`` on."""
    positions = []
    by_name = set()
    for text in filter(None, (LISTED.get(base) for base in cls.__mro__)):
        listed = listed_parameters(text)
        for i, name in enumerate(listed.positional):
            if name in by_name or name in positions[i + 1 :]:
                return positions
            if name not in positions:
                positions.append(name)
        if "*args" not in text:
            break
        by_name.update(listed.keyword_only)
    return positions


def test_old_calls_by_position_reach_the_same_arguments():
    for cls in LISTED:
        expected = old_positions(cls)
        if expected[:1] != ["alpha"]:  # See the next test.
            positions = [p.name for p in shown(cls) if p.kind is not p.KEYWORD_ONLY]
            assert positions[: len(expected)] == expected, cls
