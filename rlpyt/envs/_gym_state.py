"""State of gym environments, for which gym has no interface.

A layer is an environment or a wrapper. Its state consists of its attributes, as plain values and
arrays; anything but a number, text, None, list or dictionary is encoded as a pair of kind and
content. Simple objects, such as running statistics, are encoded attribute by attribute.

Attributes may share memory: an array and a view of it, or one list under two names. Therefore a
state is written into the existing arrays and containers.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MemberDescriptorType
from typing import Any

import numpy as np

from rlpyt.utils.seed import generator_state, set_generator_state
from rlpyt.utils.types import NDArray

# Settings, caches and windows, which are not part of an episode.
_SETTINGS: tuple[str, ...] = (
    "env",
    "spec",
    "metadata",
    "_metadata",
    "_saved_kwargs",
    "info_example",
    "model",
)
_SETTINGS += ("_ezpickle_args", "_ezpickle_kwargs", "_action_space", "_observation_space")
_CACHES = ("_cached_spec", "_previous_data")
_WINDOWS = ("screen", "surf", "clock", "font", "window", "window_surface", "viewer", "renderer")
_NOT_STATE = frozenset(_SETTINGS + _CACHES + _WINDOWS)
_SEQUENCES = (list, tuple, set, frozenset)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# Arrays of MuJoCo that every step recomputes, with a size that depends on the contacts.
_TEMPORARY = ("_", "efc_", "iefc_", "efm_", "island_", "map_")


def attributes(layer: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, including those in ``__slots__``."""
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
    layer: Any = env
    while layer is not None:
        yield layer
        layer = attributes(layer).get("env")


def known_states(layers: Iterable[Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Return those of ``layers`` whose state can be saved, with their states."""
    known = []
    for layer in layers:
        with contextlib.suppress(NotImplementedError):
            known.append((layer, layer_state(layer)))
    return known


def layer_state(layer: Any) -> dict[str, Any]:
    """Return the state of ``layer``, without that of the layer it wraps.

    Raises:
        NotImplementedError: if an attribute cannot be encoded; the message names it.
    """
    if hasattr(type(layer), "state_dict"):
        return {"state_dict": layer.state_dict()}
    state = {}
    for name, value in attributes(layer).items():
        if type(value).__name__ == "MjData":
            state[name] = ("mujoco", _mujoco_state(layer.model, value))
        elif name not in _NOT_STATE and not _is_fixed(value):
            path = f"{type(layer).__name__}.{name}"
            encode = _encode_object if _is_simple_object(value) else _encode
            state[name] = encode(value, path)
    return state


def set_layer_states(pairs: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
    """Restore every layer of ``pairs`` to its state, in its existing memory.

    Two attributes may share memory now although they differed when the state was saved; the second
    pass gives separate memory to those that the first pass overwrote.
    """
    pairs = list(pairs)
    for layer, state in pairs:
        if hasattr(type(layer), "state_dict"):
            layer.load_state_dict(state["state_dict"])
        else:
            _set_attributes(layer, state)
    for layer, state in pairs:
        if not hasattr(type(layer), "state_dict"):
            _separate_attributes(layer, state)


def _set_attributes(owner: Any, state: Mapping[str, Any]) -> None:
    # Not getattr, which also finds attributes of the class.
    current = attributes(owner)
    for name, part in state.items():
        kind = _kind(part)
        if kind == "mujoco":
            _set_mujoco_state(owner.model, current[name], part[1])
        elif kind == "object":
            _set_attributes(current[name], part[1])
        else:
            setattr(owner, name, _decode(part, current.get(name)))


def _separate_attributes(owner: Any, state: Mapping[str, Any]) -> None:
    current = attributes(owner)
    for name, part in state.items():
        kind = _kind(part)
        if kind == "object":
            _separate_attributes(current[name], part[1])
        elif kind != "mujoco" and not _is_equal(_encode(current[name], name), part):
            setattr(owner, name, _decode(part, None))


def _is_fixed(value: Any) -> bool:
    """Return whether ``value`` is a function, a space or a window."""
    is_space = hasattr(value, "sample") and hasattr(value, "contains")
    return callable(value) or is_space or "render" in type(value).__module__


def _encode(value: Any, path: str) -> Any:
    if isinstance(value, np.generic):  # Before _PLAIN, because a float64 is also a float.
        return ("scalar", np.asarray(value))
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    if isinstance(value, np.random.Generator):
        return ("generator", generator_state(value))
    if isinstance(value, np.random.RandomState):
        return ("random_state", value.get_state(legacy=False))
    if type(value) in _SEQUENCES:
        ordered = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        parts = [_encode(part, f"{path}[{i}]") for i, part in enumerate(ordered)]
        return parts if type(value) is list else (type(value).__name__, parts)
    if type(value) is deque:
        return ("deque", [value.maxlen, _encode(list(value), path)])
    if isinstance(value, dict) and all(isinstance(key, (*_PLAIN, tuple)) for key in value):
        return {key: _encode(part, f"{path}[{key!r}]") for key, part in value.items()}
    raise NotImplementedError(
        f"{path} is of type {type(value).__name__}, whose state is not known: give this "
        "environment or wrapper the methods state_dict() and load_state_dict(state)"
    )


def _is_simple_object(value: Any) -> bool:
    """Return whether ``value`` is a Python object that contains no other objects."""
    attributes = getattr(value, "__dict__", {})
    return bool(attributes) and not any(hasattr(part, "__dict__") for part in attributes.values())


def _encode_object(value: Any, path: str) -> tuple[str, dict[str, Any]]:
    parts = {name: _encode(part, f"{path}.{name}") for name, part in vars(value).items()}
    return ("object", parts)


def _kind(state: Any) -> Any:
    return state[0] if isinstance(state, tuple) else None


def _decode(state: Any, current: Any) -> Any:
    """Return the value of ``state``, in the memory of ``current`` if that is of the same kind."""
    if isinstance(state, list):
        return _refill(current, _decode_all(state, current))
    if isinstance(state, dict):
        old = current if isinstance(current, dict) else {}
        return _refill(current, {key: _decode(part, old.get(key)) for key, part in state.items()})
    if isinstance(state, np.ndarray):
        return _decode_array(state, current)
    if not isinstance(state, tuple):
        return state
    kind, content = state
    if kind == "scalar":
        return content[()]
    if kind == "generator":
        return _decode_generator(content, current)
    if kind == "random_state":
        current = current if isinstance(current, np.random.RandomState) else np.random.RandomState()
        current.set_state(content)
        return current
    if kind == "deque":
        return _refill(current, deque(_decode_all(content[1], None), content[0]))
    parts = _decode_all(content, current)
    return _refill(current, next(cls for cls in _SEQUENCES if cls.__name__ == kind)(parts))


def _decode_all(states: Sequence[Any], current: Any) -> list[Any]:
    is_alike = isinstance(current, (list, tuple)) and len(current) == len(states)
    old = current if is_alike else [None] * len(states)
    return [_decode(part, old_part) for part, old_part in zip(states, old)]


def _decode_array(state: NDArray, current: Any) -> NDArray:
    is_array = isinstance(current, np.ndarray) and current.flags.writeable
    if not is_array or (current.shape, current.dtype) != (state.shape, state.dtype):
        return state.copy()
    array: NDArray = current
    array[...] = state
    return array


def _refill(current: Any, value: Any) -> Any:
    """Return ``current`` with the content of ``value``, or ``value`` if the types differ."""
    if not isinstance(current, type(value)) or isinstance(value, (tuple, frozenset)):
        return value
    if isinstance(value, deque) and current.maxlen != value.maxlen:
        return value
    current.clear()
    if isinstance(value, (list, deque)):
        current.extend(value)
    else:
        current.update(value)
    return current


def _is_equal(a: Any, b: Any) -> bool:
    """Return whether two encoded states are equal."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same_type = (a.shape, a.dtype) == (b.shape, b.dtype)
        return same_type and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return bool(a == b or (a != a and b != b))  # NaN is not equal to itself.


def _decode_generator(state: dict[str, Any], current: Any) -> np.random.Generator:
    if not isinstance(current, np.random.Generator):
        current = np.random.Generator(getattr(np.random, state["bit_generator"])())
    generator: np.random.Generator = current
    set_generator_state(generator, state)
    return generator


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
