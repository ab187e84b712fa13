"""The state of a synchronous run, to resume it as if it had not been interrupted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rlpyt.utils.logging import logger
from rlpyt.utils.seed import rng_state, set_rng_state

if TYPE_CHECKING:
    from rlpyt.runners.minibatch_rl import MinibatchRlBase


def run_state(runner: MinibatchRlBase) -> dict[str, Any]:
    """Return the state after the present iteration; arrays in it are the live ones."""
    now = time.time()
    return {
        "itr": runner._itr,
        "seed": runner.seed,
        "rng": rng_state(),
        "agent": runner.agent.state_dict(),
        "algo": runner.algo.state_dict(),
        "sampler": runner.sampler.state_dict(),
        "cum_time": now - runner._start_time,
        "time_since_log": now - runner._last_time,
        "cum_eval_time": runner._cum_eval_time,
        "cum_completed_trajs": runner._cum_completed_trajs,
        "last_update_counter": runner._last_update_counter,
        "n_itrs_logged": runner._n_itrs_logged,
        "opt_infos": runner._opt_infos,
        "callbacks": [callback.state_dict() for callback in runner.callbacks],
    }


def resume_run(runner: MinibatchRlBase, state: dict[str, Any]) -> None:
    """Give an initialized runner, its roles and its callbacks the state of an earlier run."""
    now = time.time()
    runner.agent.load_state_dict(state["agent"])
    runner.algo.load_state_dict(state["algo"])
    runner.sampler.load_state_dict(state["sampler"])
    runner._itr = state["itr"]
    runner.start_itr = state["itr"] + 1
    runner._start_time = now - state["cum_time"]
    runner._last_time = now - state["time_since_log"]
    runner._cum_eval_time = state["cum_eval_time"]
    runner._cum_completed_trajs = state["cum_completed_trajs"]
    runner._last_update_counter = state["last_update_counter"]
    runner._n_itrs_logged = state["n_itrs_logged"]
    runner._opt_infos = {name: list(values) for name, values in state["opt_infos"].items()}
    for callback, callback_state in zip(runner.callbacks, state["callbacks"]):
        callback.load_state_dict(callback_state)
    # The log may be ahead of the state: those iterations are repeated.
    logger.drop_tabular_after("Diagnostics/CumSteps", runner.start_itr * runner.itr_batch_size)
    # Last, since the initialization above has drawn from the streams.
    set_rng_state(state["rng"])
    logger.log(f"Resuming after iteration {runner._itr}.")
