"""State of gym environments, which gym cannot save.

A layer is an environment or a wrapper. A layer with ``state_dict`` and ``load_state_dict`` saves
itself. The state of other layers consists of their attributes; simple objects, such as running
statistics or a game of MinAtar, are saved attribute by attribute.

Attributes may share memory, such as an array and a view of it, or one list under two names. So a
state is written into the existing arrays and containers.
"""

from __future__ import annotations

import contextlib
import copy
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MemberDescriptorType
from typing import Any

import numpy as np

from rlpyt.checkpoints.tree import decode, encode
from rlpyt.utils.seed import generator_state, set_generator_state

# Settings and caches, which are not part of an episode.
_NOT_STATE = {
    "info_example",
    "_metadata",
    "_saved_kwargs",
    "_ezpickle_args",
    "_ezpickle_kwargs",
    "_action_space",
    "_observation_space",
    "_autoreset_mode",
    "_cached_spec",
}
# Windows and objects that describe an environment. Other environments have values of these names.
_OBJECTS = {"spec", "metadata", "model", "screen", "surf", "clock", "font", "window"}
_OBJECTS |= {"window_surface", "viewer", "renderer"}
# Arrays of MuJoCo that every step recomputes, with a size that depends on the contacts.
_TEMPORARY = ("_", "efc_", "iefc_", "efm_", "island_", "map_")


def attributes(layer: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, including ``__slots__``."""
    slots = [
        name
        for cls in type(layer).__mro__
        if "__slots__" in vars(cls)
        for name, member in vars(cls).items()
        if isinstance(member, MemberDescriptorType)
    ]
    values = {name: getattr(layer, name) for name in slots if hasattr(layer, name)}
    return {**values, **getattr(layer, "__dict__", {})}


def layers_of(env: Any) -> Iterator[Any]:
    """Yield ``env`` and all environments inside it."""
    yield env
    layer = attributes(env).get("env")
    if _is_env(layer):
        yield from layers_of(layer)


def _is_env(value: Any) -> bool:
    """Return whether the attribute ``env`` is an environment, and not a simulator."""
    return hasattr(value, "reset") and hasattr(value, "step")


def known_states(layers: Iterable[Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Return the ``layers`` whose state can be saved, with their states."""
    known = []
    for layer in layers:
        with contextlib.suppress(NotImplementedError):
            known.append((layer, layer_state(layer)))
    return known


def layer_state(layer: Any) -> dict[str, Any]:
    """Return the state of ``layer``, without the layer inside it.

    Raises:
        NotImplementedError: if an attribute cannot be saved; the message names it.
    """
    if type(layer).__name__ == "PassiveEnvChecker":
        return {}  # It compares an episode's first steps, and keeps the last in a cache.
    if hasattr(type(layer), "state_dict"):
        return {"state_dict": layer.state_dict()}
    return {
        name: _part_state(layer, value, f"{type(layer).__name__}.{name}")
        for name, value in attributes(layer).items()
        if not (name in _NOT_STATE or _is_fixed(value) or _is_object(name, value))
        and not (name == "env" and _is_env(value))
    }


def set_layer_states(pairs: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
    """Restore every layer of ``pairs`` to its state, in its existing memory.

    Attributes whose memory was separate when the state was saved may share it now. The second pass
    gives new memory to attributes that the first pass overwrote.
    """
    pairs = list(pairs)
    for is_second_pass in (False, True):
        for layer, state in pairs:
            if not hasattr(type(layer), "state_dict"):
                _set_attributes(layer, state, is_second_pass)
            elif not is_second_pass:
                layer.load_state_dict(state["state_dict"])


def _part_state(owner: Any, value: Any, path: str) -> dict[str, Any]:
    """Return the state of one attribute."""
    if type(value).__name__ == "MjData":
        return {"mujoco": _mujoco_state(owner.model, value)}
    if _is_simple_object(value):
        parts = vars(value).items()
        states = {name: _part_state(value, part, f"{path}.{name}") for name, part in parts}
        return {"object": states}
    return _value_state(value, path)


def _value_state(value: Any, path: str) -> dict[str, Any]:
    try:
        tree, arrays = encode(value)
    except TypeError as error:
        raise NotImplementedError(
            f"{path}: {error}, or give this environment or wrapper the methods state_dict() and "
            "load_state_dict(state)"
        ) from error
    return {"tree": tree, "arrays": {key: copy.deepcopy(array) for key, array in arrays.items()}}


def _set_attributes(owner: Any, state: Mapping[str, Any], is_second_pass: bool) -> None:
    current = attributes(owner)  # Not getattr, which also finds attributes of the class.
    for name, part in state.items():
        value = current.get(name)
        if "mujoco" in part:
            if not is_second_pass:
                _set_mujoco_state(owner.model, value, part["mujoco"])
        elif "object" in part:
            _set_attributes(value, part["object"], is_second_pass)
        else:
            arrays = {key: copy.deepcopy(array) for key, array in part["arrays"].items()}
            new = decode(part["tree"], arrays.__getitem__)
            if not is_second_pass:
                setattr(owner, name, _written(value, new))
            elif not _is_equal(encode(value), (part["tree"], part["arrays"])):
                setattr(owner, name, new)


def _is_object(name: str, value: Any) -> bool:
    """Return whether ``value`` is a window or setting of this name, open or not, and no value."""
    if name not in _OBJECTS:
        return False
    try:
        encode(value)
    except TypeError:
        return True
    return value is None


def _is_fixed(value: Any) -> bool:
    """Return whether ``value`` is a function, a space or a window."""
    is_space = hasattr(value, "sample") and hasattr(value, "contains")
    is_function = callable(value) and not _is_simple_object(value)
    return is_function or is_space or "render" in type(value).__module__


def _is_simple_object(value: Any, n_levels: int = 2) -> bool:
    """Return whether ``value`` is a Python object of values, or of such objects, to a depth."""
    parts = getattr(value, "__dict__", {})
    objects = [part for part in parts.values() if hasattr(part, "__dict__")]
    if not parts or (objects and n_levels == 1):
        return False
    return all(_is_simple_object(part, n_levels - 1) for part in objects)


def _written(current: Any, value: Any) -> Any:
    """Return ``value``, in the memory of ``current`` if both are of the same kind."""
    if isinstance(current, Enum):
        return type(current)(value)
    if not isinstance(current, type(value)):
        return value
    if isinstance(value, (list, tuple)) and len(current) == len(value):
        value = type(value)(map(_written, current, value))
    elif isinstance(value, dict):
        value = {key: _written(current.get(key), part) for key, part in value.items()}
    if isinstance(value, (dict, set)):
        current.clear()
        current.update(value)
    elif isinstance(value, list) or (isinstance(value, deque) and current.maxlen == value.maxlen):
        current.clear()
        current.extend(value)
    elif isinstance(value, np.ndarray) and _is_alike(current, value) and current.flags.writeable:
        current[...] = value
    elif isinstance(value, np.random.Generator):
        set_generator_state(current, generator_state(value))
    elif isinstance(value, np.random.RandomState):
        current.set_state(value.get_state(legacy=False))
    else:
        return value
    return current


def _is_alike(a: Any, b: Any) -> bool:
    return (type(a), a.shape, a.dtype) == (type(b), b.shape, b.dtype)


def _is_equal(a: tuple[Any, dict[str, Any]], b: tuple[Any, dict[str, Any]]) -> bool:
    """Return whether two results of ``encode`` are equal; in arrays, NaN equals itself."""
    pairs = [(array, b[1].get(key)) for key, array in a[1].items()]
    return a[0] == b[0] and all(
        _is_alike(x, y) and bool(((x == y) | ((x != x) & (y != y))).all()) for x, y in pairs
    )


def _mujoco_state(model: Any, data: Any) -> dict[str, Any]:
    """Return the physics and the arrays derived from it, which lag by a substep."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, physics, spec)
    derived = {name: array.copy() for name, array in _mujoco_arrays(data).items()}
    return {"physics": physics, "derived": derived}


def _set_mujoco_state(model: Any, data: Any, state: dict[str, Any]) -> None:
    """Restore ``data`` to ``state``."""
    import mujoco

    mujoco.mj_setState(model, data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, array in _mujoco_arrays(data).items():
        saved = state["derived"].get(name)
        if saved is not None and saved.shape == array.shape:
            array[...] = saved


def _mujoco_arrays(data: Any) -> dict[str, Any]:
    names = [name for name in dir(data) if not name.startswith(_TEMPORARY)]
    arrays = {name: getattr(data, name) for name in names}
    return {
        name: array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype == np.float64 and array.size
    }
