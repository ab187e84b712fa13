"""The state of a simulation of MuJoCo."""

from __future__ import annotations

from typing import Any

import numpy as np

# Arrays whose size changes with the contacts; every step computes them anew.
_TEMPORARY = ("_", "efc_", "iefc_", "efm_", "island_", "map_")


def mujoco_state(model: Any, data: Any) -> dict[str, Any]:
    """Return the physics, and what the last step derived from it, a substep behind."""
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(model, spec))
    mujoco.mj_getState(model, data, physics, spec)
    derived = {name: array.copy() for name, array in _arrays(data).items()}
    return {"physics": physics, "derived": derived}


def set_mujoco_state(model: Any, data: Any, state: dict[str, Any]) -> None:
    """Let ``data`` continue from ``state``."""
    import mujoco

    mujoco.mj_setState(model, data, state["physics"], mujoco.mjtState.mjSTATE_INTEGRATION)
    for name, array in _arrays(data).items():
        saved = state["derived"].get(name)
        if saved is not None and saved.shape == array.shape:
            array[...] = saved


def _arrays(data: Any) -> dict[str, Any]:
    names = [name for name in dir(data) if not name.startswith(_TEMPORARY)]
    arrays = {name: getattr(data, name) for name in names}
    return {
        name: array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype == np.float64 and array.size
    }
