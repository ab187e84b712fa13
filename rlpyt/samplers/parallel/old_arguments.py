"""Arguments of workers that programs written for rlpyt 0.1.2 make, completed by later ones."""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.sharedctypes import RawValue
from typing import Any

from rlpyt.processes.child import Heartbeat
from rlpyt.samplers.parallel._channels import NOTHING, TrajInfoQueue
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.shared_array import get_context


def complete_worker(
    common_kwargs: Mapping[str, Any], worker_kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of one worker, with defaults of those that rlpyt 0.1.2 did not have."""
    n_eval_envs = common_kwargs.get("eval_n_envs", 0)
    return {
        "first_env": 0,
        "envs_seed": worker_kwargs["seed"],
        "statistics": None,
        "n_eval_envs": n_eval_envs,
        "first_eval_env": 0,
        "eval_env_ranks": range(n_eval_envs),
        "eval_quota": None,
        **worker_kwargs,
    }


def complete_in_worker(
    common_kwargs: Mapping[str, Any], worker_kwargs: Mapping[str, Any]
) -> tuple[AttrDict, AttrDict]:
    """Return both kinds of arguments, with what a worker needs to run without a supervisor."""
    c = AttrDict({"is_quiet": False, "traj_info_kwargs": {}, **common_kwargs})
    for name in {"traj_infos_queue", "eval_traj_infos_queue"} & c.keys():
        if not isinstance(c[name], TrajInfoQueue):
            c[name] = PlainQueue(c[name])
    c["ctrl"] = AttrDict({"state_task": RawValue("b", NOTHING), **c["ctrl"]})
    w = AttrDict(complete_worker(common_kwargs, worker_kwargs))
    w["sync"] = AttrDict({"heartbeat": Heartbeat(get_context()), **w["sync"]})
    return c, w


class PlainQueue:
    """Queue of multiprocessing, for trajectory infos without their places."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def put(self, item: Any, place: Any = None) -> None:
        self._queue.put(item)
