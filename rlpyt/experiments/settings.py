"""Typed settings of a run: overrides as ``section.name=value``, checked against the constructors.

A configuration has the sections ``algo, agent, model, optim, env, eval_env, sampler, runner`` and
``affinity``, each with keyword arguments of the class that the section ``roles`` names.
"""

from __future__ import annotations

import ast
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from rlpyt.algos.replay_buffers import replay_buffer_named
from rlpyt.experiments.catalog import find_environment, load, targets, unknown, vector_sampler
from rlpyt.experiments.sweeps.variant import Config, changed, merged
from rlpyt.utils.names import first_duplicate

ROLES = ("algo", "agent", "sampler", "runner", "env")
SECTIONS = ("algo", "agent", "model", "optim", "env", "eval_env", "sampler", "runner", "affinity")
# Arguments of `rlpyt.train`, which are options of the command.
OPTIONS = ("steps", "seed", "log_dir", "resume", "init", "callbacks")
# Arguments that follow from the roles and from other sections.
_RESERVED = {
    "sampler": {"EnvCls", "env_kwargs", "eval_env_kwargs"},
    "runner": {"algo", "agent", "sampler", "affinity", "seed", "callbacks"},
    "affinity": {"runner", "sampler", "batch_B"},
    "model": {"self", "ModelCls"},
    "optim": {"params", "lr"},  # The algorithm passes them, the rate from learning_rate.
}
# Sections of arguments of a class that another section names.
_CLASSES = {"model": ("agent", "ModelCls"), "optim": ("algo", "OptimCls")}
# Arguments without a default that are no settings.
_FILLED_IN = {"sampler": {"CollectorCls"}, "env": {"num_envs", "args", "env"}}


class Name(str):
    """Full name of a class or function that is passed as an argument."""


class Setting(NamedTuple):
    """Parameter of a constructor."""

    hint: Any  # annotation; Any without one
    default: Any  # inspect.Parameter.empty without one


# --- Signatures ----------------------------------------------------------------------------------


def parameters(name: str) -> tuple[dict[str, Setting], bool]:
    """Return the parameters of a class with its bases, or a function, and if it takes more."""
    return _parameters(load(name))  # A notebook may define the class again.


@cache
def _parameters(target: Any) -> tuple[dict[str, Setting], bool]:
    functions = [target]
    if isinstance(target, type):
        functions = [vars(cls)["__init__"] for cls in target.__mro__ if "__init__" in vars(cls)]
    found: dict[str, Setting] = {}
    for function in functions:
        try:
            hints = typing.get_type_hints(function)
        except (NameError, TypeError):
            hints = {}
        is_open = False
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                is_open = True
            elif parameter.kind is not parameter.VAR_POSITIONAL and parameter.name != "self":
                hint = hints.get(parameter.name, Any)
                found.setdefault(parameter.name, Setting(hint, parameter.default))
        if not is_open:
            return found, False
    return found, True


def section_parameters(config: Config, section: str) -> tuple[dict[str, Setting], bool]:
    """Return the settings of a section that users may give, and whether it takes others too."""
    named, name = targets(config), "env" if section == "eval_env" else section
    target, reserved = named.get(name), _RESERVED.get(section, set())
    if section in _CLASSES:
        part, argument = _CLASSES[section]
        default = parameters(named[part])[0].get(argument, Setting(Any, None)).default
        cls = config.get(part, {}).get(argument, default)
        target = None if cls is None or cls is inspect.Parameter.empty else str(as_name(cls))
    found, is_open = ({}, True) if target is None else parameters(target)
    if section == "model" and "observation_shape" in found:
        # Observations that are not vectors are encoded first.
        found = {**parameters("rlpyt.models.encoders.EncodedModel")[0], **found}
        reserved = reserved | {"observation_space", "observation_shape"}
        reserved |= {"output_size", "action_size"}
    return {name: each for name, each in found.items() if name not in reserved}, is_open


# --- Types ---------------------------------------------------------------------------------------

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_value(text: str) -> Any:
    """Return the value of a text: a literal of Python or JSON, or else the text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for parse in (
        (ast.literal_eval, json.loads) if text.startswith(("[", "{")) else (ast.literal_eval,)
    ):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def fit(value: Any, hint: Any) -> Any:
    """Convert ``value`` to the type of an annotation."""
    if hint in (Any, inspect.Parameter.empty):
        return value
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in args:
            try:
                return fit(value, option)
            except TypeError:
                continue
        raise TypeError(hint)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int and is_number and float(value).is_integer():
        return int(value)
    if hint in (bool, int, float, str, types.NoneType):
        if (hint is float and is_number) or (hint is not int and isinstance(value, hint)):
            return value
        raise TypeError(hint)
    if origin in (list, tuple, Sequence, Iterable) or hint in (list, tuple):
        if not isinstance(value, (list, tuple)):
            raise TypeError(hint)
        element = args[0] if args else Any
        return [fit(each, element) for each in value]
    if origin in (dict, Mapping) or hint is dict:
        if not isinstance(value, Mapping):
            raise TypeError(hint)
        return dict(value)
    if _is_callable(hint):
        if not isinstance(value, str) and not callable(value):
            raise TypeError(hint)
        return as_name(value)
    return value


def _is_callable(hint: Any) -> bool:
    return hint is type or typing.get_origin(hint) in (type, Callable)


def as_name(value: Any) -> Any:
    """Return the full name of a class; a class given by name must exist.

    Of replay buffers of this library the short name is enough.
    """
    if value is None:
        return None
    if isinstance(value, str):
        replay_buffer = replay_buffer_named(value)
        if replay_buffer is None:
            load(value)
            return Name(value)
        value = replay_buffer
    if not hasattr(value, "__qualname__"):  # Such as a partial.
        raise TypeError(f"{value!r}: give the full name of a class")
    return Name(f"{value.__module__}.{value.__qualname__}")


def expected(hint: Any) -> str:
    """Describe an annotation in words."""
    words = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        types.NoneType: "none",
    }
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(expected(option) for option in typing.get_args(hint))
    if hint in words:
        return words[hint]
    if origin in (list, tuple, Sequence, Iterable):
        return "a list such as [64,64]"
    if origin in (dict, Mapping) or hint is dict:
        return "a dictionary such as {'eps':1e-5}"
    return "the full name of a class" if _is_callable(hint) else "a value"


# --- Configurations ------------------------------------------------------------------------------


def checked(config: Config) -> Config:
    """Return the configuration with every value in the type of its parameter, classes as names."""
    for section in config.keys() - {"roles", *SECTIONS}:
        raise unknown("section", section, ("roles", *SECTIONS))
    for role in config["roles"].keys() - set(ROLES):
        raise unknown("role", role, ROLES)
    result: Config = {"roles": dict(config["roles"])}
    named = targets(config)
    for section in SECTIONS:
        found, is_open = section_parameters(config, section)
        owner = named.get("env" if section == "eval_env" else section, section).rpartition(".")[2]
        result[section] = {}
        for name, value in config.get(section, {}).items():
            full = f"{section}.{name}"
            if name in found:
                hint = type if name.endswith("Cls") else found[name].hint
                try:
                    value = as_name(value) if hint is type else fit(value, hint)
                except TypeError:
                    raise ValueError(f"{full}={value!r}: give {expected(hint)}") from None
                except ValueError as error:
                    raise ValueError(f"{full}: {error}") from None
            elif not is_open:
                known = (f"{section}.{name}" for name in found)
                raise unknown(f"setting of {owner}:", full, known)
            result[section][name] = value
        if section in ("algo", "env", "sampler", "runner"):
            needed = {n for n, x in found.items() if x.default is inspect.Parameter.empty}
            needed -= {*result[section], *_FILLED_IN.get(section, ())}
            missing = [f"{section}.{name}" for name in found if name in needed]
            if missing:
                raise ValueError(f"{owner} needs {' and '.join(missing)}: add {missing[0]}=VALUE")
    has_ratio = hasattr(load(named["algo"]), "replay_ratio")
    has_ratio = has_ratio or "replay_ratio" in parameters(named["algo"])[0]
    if config["roles"].get("runner") == "async" and not has_ratio:
        raise ValueError(
            f"algo={config['roles']['algo']} has no replay buffer, as runner=async needs: "
            "use runner=minibatch or runner=sync"
        )
    return result


def with_environment(config: Config, name: str) -> Config:
    """Return the configuration with another environment, without settings that do not fit it.

    Raises:
        ValueError: if there is no such environment.
    """
    role, arguments = find_environment(name)
    before = config["roles"].get("env", "gym")
    if role != before:
        sampler = vector_sampler(role)
        config = changed(config, roles={"env": role, **({"sampler": sampler} if sampler else {})})
        if {role, before} != {"atari", "atari_vector"}:  # These two take the same arguments.
            config = {**config, "env": {}, "eval_env": {}}
    return changed(config, env=arguments)


def with_roles(config: Config, **roles: str) -> Config:
    """Return the configuration with another sampler or runner, without settings of the former."""
    config = changed(config, roles=roles)
    for section in roles:
        known, is_open = section_parameters(config, section)
        values = config[section].items()
        config[section] = {name: value for name, value in values if is_open or name in known}
    return config


def overridden(config: Config, overrides: Iterable[str]) -> Config:
    """Return the configuration with overrides ``name=value``, see :func:`with_settings`."""
    pairs = []
    for text in overrides:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise ValueError(f"{text!r} is not of the form name=value, such as algo.discount=0.9")
        if name in OPTIONS:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{text!r}: {name} is an option, so write {option}")
        pairs.append((name, value if name in ROLES else parse_value(value)))
    return with_settings(config, pairs)


def with_settings(config: Config, pairs: Iterable[tuple[str, Any]]) -> Config:
    """Return the configuration with other values of the settings in ``pairs``.

    A name is a role (``sampler``), a section and a setting (``algo.discount``), or a setting alone
    if only one section has it (``discount``). A dictionary changes the entries that it names.
    """
    given: list[str] = []
    # Roles and classes come first, since the available settings depend on them.
    for name, value in sorted(pairs, key=lambda x: (x[0] not in ROLES, not x[0].endswith("Cls"))):
        if name == "env":
            config = with_environment(config, value)
        elif name in ROLES:
            config = changed(config, roles={name: value})
        else:
            section, setting = path_of(config, name)
            config, name = merged(config, {section: {setting: value}}), f"{section}.{setting}"
        given.append(name)
    twice = first_duplicate(given)
    if twice is not None:
        raise ValueError(f"{twice} is given twice: give it once")
    return config


def path_of(config: Config, name: str) -> tuple[str, str]:
    """Return section and name of a setting; ``name`` may lack the section."""
    section, dot, setting = name.partition(".")
    if dot:
        if section not in SECTIONS:
            raise unknown("section", section, SECTIONS)
        return section, setting
    sections = [section for section in SECTIONS if section != "eval_env"]
    having = [section for section in sections if name in section_parameters(config, section)[0]]
    if len(having) == 1:
        return having[0], name
    if having:
        choices = " or ".join(f"{section}.{name}" for section in having)
        raise ValueError(f"{name!r} is ambiguous: write {choices}")
    known = [setting for part in sections for setting in section_parameters(config, part)[0]]
    raise unknown("setting", name, [*known, *ROLES, *OPTIONS])


def describe(config: Config) -> list[tuple[str, str, Any]]:
    """Return name, type and value (given or default) of every setting of a run."""
    rows = []
    for section in [name for name in SECTIONS if name != "eval_env"]:
        for name, setting in section_parameters(config, section)[0].items():
            value = config.get(section, {}).get(name, setting.default)
            value = "required" if value is inspect.Parameter.empty else value
            rows.append((f"{section}.{name}", expected(setting.hint), value))
    return rows
