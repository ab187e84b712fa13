"""The state of gym environments, which have no common way to hand it out.

A layer is an environment or a wrapper. Its state is its attributes, as plain values and arrays;
whatever is more than a number, text, None, list or dictionary becomes a pair of its kind and its
content. Simple objects, such as running statistics, are taken apart in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.utils.seed import generator_state, set_generator_state

# Attributes which are settings, caches or windows, and not part of an episode.
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
# Arrays of MuJoCo whose size changes with the contacts; every step computes them anew.
_MUJOCO_TEMPORARY = ("_", "efc_", "iefc_", "efm_", "island_", "map_")


def layer_state(layer: Any) -> dict[str, Any]:
    """Return the state of ``layer`` without that of what it wraps.

    Raises:
        NotImplementedError: naming an attribute whose state is not known.
    """
    if hasattr(type(layer), "state_dict"):
        return {"state_dict": layer.state_dict()}
    state = {}
    for name, value in vars(layer).items():
        if type(value).__name__ == "MjData":
            state[name] = ("mujoco", _mujoco_state(layer.model, value))
        elif name not in _NOT_STATE and not _is_fixed(value):
            path = f"{type(layer).__name__}.{name}"
            encode = _encode_object if _is_simple_object(value) else _encode
            state[name] = encode(value, path)
    return state


def set_layer_state(layer: Any, state: Mapping[str, Any]) -> None:
    """Let ``layer`` continue from ``state``."""
    if hasattr(type(layer), "state_dict"):
        layer.load_state_dict(state["state_dict"])
        return
    for name, part in state.items():
        current = getattr(layer, name, None)
        if type(current).__name__ == "MjData":
            _set_mujoco_state(layer.model, current, part[1])
        else:
            setattr(layer, name, _decode(part, current))


def _is_fixed(value: Any) -> bool:
    """Whether ``value`` is a function, a space or a window."""
    is_space = hasattr(value, "sample") and hasattr(value, "contains")
    return callable(value) or is_space or "render" in type(value).__module__


def _encode(value: Any, path: str) -> Any:
    if isinstance(value, np.generic):  # Also a float64, which is a float.
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
        parts = [_encode(part, f"{path}[{i}]") for i, part in enumerate(value)]
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
    """Whether ``value`` is an object of Python without further objects in it."""
    attributes = getattr(value, "__dict__", {})
    return bool(attributes) and not any(hasattr(part, "__dict__") for part in attributes.values())


def _encode_object(value: Any, path: str) -> tuple[str, dict[str, Any]]:
    parts = {name: _encode(part, f"{path}.{name}") for name, part in vars(value).items()}
    return ("object", parts)


def _decode(state: Any, current: Any) -> Any:
    """The value of ``state``; generators keep their identity, because wrappers may share them."""
    if isinstance(state, list):
        return [_decode(part, None) for part in state]
    if isinstance(state, dict):
        return {key: _decode(part, None) for key, part in state.items()}
    if isinstance(state, np.ndarray):
        return state.copy()
    if not isinstance(state, tuple):
        return state
    kind, content = state
    if kind == "scalar":
        return content[()]
    if kind == "generator":
        return _decode_generator(content, current)
    if kind == "random_state":
        current = current or np.random.RandomState()
        current.set_state(content)
        return current
    if kind == "object":
        for name, part in content.items():
            setattr(current, name, _decode(part, getattr(current, name, None)))
        return current
    parts = [_decode(part, None) for part in content]
    if kind == "deque":
        return deque(parts[1], parts[0])
    return next(cls for cls in _SEQUENCES if cls.__name__ == kind)(parts)


def _decode_generator(state: dict[str, Any], current: Any) -> np.random.Generator:
    if not isinstance(current, np.random.Generator):
        current = np.random.Generator(getattr(np.random, state["bit_generator"])())
    generator: np.random.Generator = current
    set_generator_state(generator, state)
    return generator


def _mujoco_state(model: Any, data: Any) -> dict[str, Any]:
    """The physics, and what the last step derived from it, which lags behind it by a substep."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, physics, spec)
    derived = {name: array.copy() for name, array in _mujoco_arrays(data).items()}
    return {"physics": physics, "derived": derived}


def _set_mujoco_state(model: Any, data: Any, state: dict[str, Any]) -> None:
    import mujoco

    mujoco.mj_setState(model, data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, array in _mujoco_arrays(data).items():
        saved = state["derived"].get(name)
        if saved is not None and saved.shape == array.shape:
            array[...] = saved


def _mujoco_arrays(data: Any) -> dict[str, Any]:
    names = [name for name in dir(data) if not name.startswith(_MUJOCO_TEMPORARY)]
    arrays = {name: getattr(data, name) for name in names}
    return {
        name: array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype == np.float64 and array.size
    }
