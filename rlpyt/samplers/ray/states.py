"""States of actors, joined and divided again among another number of actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rlpyt.samplers.parallel._division import WorkerSpec
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.types import Nested


def divided(
    states: Sequence[dict[str, Any]],
    specs: Sequence[WorkerSpec],
    eval_specs: Sequence[WorkerSpec],
) -> list[dict[str, Any]]:
    """Return the states of serial samplers, divided among other numbers of environments.

    What belongs to an environment moves with it: its state, trajectory, inputs and recurrent state.
    The generators of a process do not belong to an environment; actors get those there are in turn.

    Args:
        states: state of each actor that was saved.
        specs: share of each actor now.
        eval_specs: its share of the evaluation environments.
    """
    first = states[0]
    envs, eval_envs, traj_infos = (
        [each for state in states for each in state[name]]
        for name in ("envs", "eval_envs", "traj_infos")
    )
    inputs = _joined([state["agent_inputs"] for state in states], _rows_joined)
    put_off = _joined([state["collector"].get("put_off", {}) for state in states], _rows_joined)
    agent = _joined([state["agent"] for state in states], _columns_joined)

    def share(spec: WorkerSpec, eval_spec: WorkerSpec) -> dict[str, Any]:
        columns = spec.columns
        put_off_here = _mapped(put_off, lambda x: x[columns])
        return {
            **states[spec.rank % len(states)],
            "envs": envs[columns],
            "eval_envs": eval_envs[eval_spec.columns],
            "traj_infos": traj_infos[columns],
            "agent_inputs": _mapped(inputs, lambda x: x[columns]),
            "collector": {**first["collector"], "put_off": put_off_here},
            "agent": _mapped(agent, lambda x: x[:, columns]),
        }

    return [share(*specs_here) for specs_here in zip(specs, eval_specs)]


def _joined(parts: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """Join equal trees of dictionaries and lists; plain values are those of the first."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: _joined([part[name] for part in parts], join) for name in first}
    if isinstance(first, list):
        return [_joined(each, join) for each in zip(*parts)]
    return join(parts) if hasattr(first, "__getitem__") and not isinstance(first, str) else first


def _mapped(tree: Any, take: Callable[[Any], Any]) -> Any:
    """Return the tree with a part of each of its arrays and records."""
    if isinstance(tree, dict):
        return {name: _mapped(part, take) for name, part in tree.items()}
    if isinstance(tree, list):
        return [_mapped(part, take) for part in tree]
    return take(tree) if hasattr(tree, "__getitem__") and not isinstance(tree, str) else tree


def _rows_joined(parts: Sequence[Nested]) -> Nested:
    """Join arrays or records [b,...]."""
    sizes = [len(part if not isinstance(part, tuple) else _first_leaf(part)) for part in parts]
    joined: Any = buffer_from_example(parts[0][0], sum(sizes))
    start = 0
    for part, size in zip(parts, sizes):
        joined[start : start + size] = part
        start += size
    return joined


def _first_leaf(record: Any) -> Any:
    while isinstance(record, tuple):
        record = next(part for part in record if part is not None)
    return record


def _columns_joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Join recurrent states [N,b,H]."""
    return torch.cat(list(parts), dim=1)
