"""The asynchronous loop: one process samples and one or more train, over a shared replay buffer.

The sampler fills two batches in turn, which two copiers append to the replay buffer in this order.
The runner's own process trains, publishes parameters, and logs. Trained samples for every sampled
one are ``algo.replay_ratio``: the optimizer waits for the sampler, and the sampler for it.
"""

from __future__ import annotations

import math
import queue
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.runners._async_control import Throttle
from rlpyt.runners._async_crew import AsyncCrew
from rlpyt.runners._async_optimizer import AsyncOptWorker as AsyncOptWorker
from rlpyt.runners._async_processes import (
    memory_copier as memory_copier,
    placeholder as placeholder,
    run_async_sampler as run_async_sampler,
    run_async_sampler_eval as run_async_sampler_eval,
)
from rlpyt.runners._settings import (
    at_least_one,
    check_async_affinity,
    check_time_limit,
    checked_callbacks,
)
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args

THROTTLE_WAIT = 0.05  # Seconds between looks at whether the sampler has come to its end.


class AsyncRlBase(AsyncCrew):
    """The loop of the process which trains.

    An iteration (itr) is one call of ``algo.optimize_agent``; an iteration of the sampler is one of
    its batches. Steps are environment steps.

    Args:
        algo: with a replay buffer.
        agent: acts and is trained.
        sampler: an asynchronous one.
        n_steps: of the whole run, rounded up to whole log intervals.
        affinity: ``optimizer``, a list with ``cpus``, ``cuda_idx``, ``torch_threads`` and
            ``set_affinity`` of each process which trains, and ``sampler``, as the sampler takes it.
        seed: of everything random; drawn if None. The optimizer of rank r gets seed + 100 r.
        log_interval_steps: between log rows.
        callbacks: told what happens, see :class:`~rlpyt.runners.callbacks.Callback`.
        throttle_sampler: whether the sampler waits for the optimizer where that is too slow for
            ``algo.replay_ratio``. If not, the ratio is an upper limit.
        process_timeout_s: for how long a process may be busy with one batch or one update, other
            than in evaluation; None for no limit.

    Raises:
        ValueError: if ``affinity`` lacks something, or a number is too small.
    """

    def __init__(
        self,
        algo: Any,
        agent: Any,
        sampler: Any,
        n_steps: float,
        affinity: Mapping[str, Any],
        seed: int | None = None,
        log_interval_steps: float = 1e5,
        callbacks: Sequence[Callback] | None = None,
        throttle_sampler: bool = True,
        process_timeout_s: float | None = 1800.0,
    ) -> None:
        n_steps = at_least_one("n_steps", n_steps, "environment step")
        log_interval_steps = at_least_one(
            "log_interval_steps", log_interval_steps, "environment step"
        )
        check_async_affinity(affinity)
        save__init__args(locals())
        self.callbacks = checked_callbacks(callbacks)
        self.throttle_sampler = throttle_sampler
        self.process_timeout_s = check_time_limit("process_timeout_s", process_timeout_s)

    # --- The loop ----------------------------------------------------------------------------

    def train(self) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens."""
        self._stopping = False
        self._loop_throttles = True
        try:
            first, delta = self.startup()
            self.throttle = Throttle(self.ctrl, first, delta, self._counts_copies)
            self._measure_before_training()
            itr = 0
            while self._await_samples(itr):
                logger.set_iteration(itr)
                with logger.prefix(f"opt_itr #{itr} "):
                    self._iterate(itr)
                itr += 1
            self._finish(itr)
            logger.log("Training complete.")
        except BaseException as error:
            cause = None if self._crew is None else self._crew.explain(error)
            self._shutdown_after_failure()
            if cause is not None:
                raise cause from error
            raise
        self.shutdown()

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        super().stop()
        self.ctrl.stop.value = True
        if self.ctrl.may_sample is not None:
            self.ctrl.may_sample.release()

    def _await_samples(self, itr: int) -> bool:
        """Wait until the next iteration is due; False if the run is over."""
        throttle, start = self.throttle, time.time()
        while not throttle.is_due() and not self._is_over():
            self._pool.wait_for(self._count_batch)
            self._log_while_waiting(itr)
        while throttle.wait_for_batch(False, None):
            pass
        self._throttle_time += time.time() - start
        return throttle.is_due() and not self._is_over()

    def _count_batch(self, block: bool, timeout: float | None) -> bool:
        return self.throttle.wait_for_batch(block, THROTTLE_WAIT) or self._is_over()

    def _is_over(self) -> bool:
        """Whether no iteration shall follow, though one may be due."""
        if self._stopping:
            return True
        if not self.ctrl.quit.value:
            return False
        # What the sampler did not wait for is given up.
        has_all = self.throttle.n_copied > self.ctrl.sampler_itr.value
        return (has_all or not self._ends_with_copies) and not (
            self.throttle_sampler and self.throttle.is_due()
        )

    def _iterate(self, itr: int) -> None:
        self._pool.check()
        sampler_itr = self.throttle.n_copied - 1
        self.throttle.advance()
        if self.ctrl.opt_throttle is not None:
            self.ctrl.opt_itr.value = sampler_itr
            self.ctrl.opt_throttle.wait()
        self.agent.train_mode(itr)
        opt_info = self.algo.optimize_agent(itr, sampler_itr=sampler_itr)
        self.agent.send_shared_memory()
        self.store_diagnostics(itr, sampler_itr + 1, self._new_traj_infos(), opt_info)
        self._log_what_is_due(itr)

    def _received(self) -> list[Any]:
        """What the sampler has put by now: trajectory infos, and None after each evaluation."""
        items = []
        while True:
            try:
                items.append(self.traj_infos_queue.get(block=False))
            except queue.Empty:
                return items

    # --- Where performance is measured -------------------------------------------------------

    def _measure_before_training(self) -> None:
        """Log the untrained agent, where that can be done without training samples."""

    def _new_traj_infos(self) -> Sequence[Any]:
        """Trajectory infos of training since the last iteration, if they are sent."""
        return ()

    def _log_what_is_due(self, itr: int) -> None:
        raise NotImplementedError

    def _log_while_waiting(self, itr: int) -> None:
        """Log what does not need an iteration of the optimizer."""

    def _finish(self, n_itr: int) -> None:
        """Wait for the end of the sampler, and write the last rows."""
        self._pool.wait_for(self._sampler_has_ended)
        while self.throttle.wait_for_batch(False, None):
            pass

    def _sampler_has_ended(self, block: bool, timeout: float | None) -> bool:
        if not self.ctrl.quit.value:
            time.sleep(THROTTLE_WAIT)
        return bool(self.ctrl.quit.value)


class AsyncRl(AsyncRlBase):
    """Measures performance online, on the last trajectories which training completed.

    Args:
        *args: of :class:`AsyncRlBase`.
        log_traj_window: number of trajectories.
        **kwargs: of :class:`AsyncRlBase`.
    """

    def __init__(self, *args: Any, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log_traj_window = at_least_one("log_traj_window", log_traj_window, "trajectory")

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._traj_infos = deque(maxlen=self.log_traj_window)
        self._cum_completed_trajs = 0
        self._new_completed_trajs = 0
        super().initialize_logging()

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep what one iteration reports until the next log row."""
        self._cum_completed_trajs += len(traj_infos)
        self._new_completed_trajs += len(traj_infos)
        self._traj_infos.extend(traj_infos)
        super().store_diagnostics(itr, sampler_itr, traj_infos, opt_info)

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Write one row, its performance measured on the window of trajectories."""
        with logger.tabular_prefix(prefix):
            logger.record_tabular("CumCompletedTrajs", self._cum_completed_trajs)
            logger.record_tabular("NewCompletedTrajs", self._new_completed_trajs)
            steps = sum(info["Length"] for info in self._traj_infos)
            logger.record_tabular("StepsInTrajWindow", steps)
        self._new_completed_trajs = 0
        super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)

    def _new_traj_infos(self) -> Sequence[Any]:
        return self._received()

    def _log_what_is_due(self, itr: int) -> None:
        sampler_itr = self.throttle.n_copied
        n_due = sampler_itr // self.log_interval_itrs
        # The last row waits for the end, when everything is learned.
        if n_due > self._n_logs and sampler_itr < self.n_itr:
            self._n_logs = n_due
            self.log_diagnostics(itr, sampler_itr, self._throttle_time)

    def _finish(self, n_itr: int) -> None:
        super()._finish(n_itr)
        itr = max(0, n_itr - 1)
        self.store_diagnostics(itr, self.throttle.n_copied, self._received(), ())
        self.log_diagnostics(itr, self.throttle.n_copied, self._throttle_time)


class AsyncRlEval(AsyncRlBase):
    """Measures performance offline: the sampler evaluates at the start and every log interval."""

    _eval = True

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._pending: list[Any] = []
        self._last_logged_eval_time = 0.0
        super().initialize_logging()

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Write one row, its performance measured on the trajectories of an evaluation."""
        if not self._traj_infos:
            logger.log("WARNING: no complete trajectories in the evaluation: raise eval_max_steps.")
        with logger.tabular_prefix(prefix):
            steps = sum(info["Length"] for info in self._traj_infos)
            logger.record_tabular("StepsInEval", steps)
            logger.record_tabular("TrajsInEval", len(self._traj_infos))
            logger.record_tabular("CumEvalTime", self.ctrl.eval_time.value)
        super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)
        self._traj_infos = []

    def _measure_before_training(self) -> None:
        queue_ = self.traj_infos_queue
        while True:
            item = queue_.get()
            if item is None:
                break
            self._pending.append(item)
        self._pending.append(None)
        self._log_what_is_due(0)

    def _log_what_is_due(self, itr: int) -> None:
        # The last row waits for the end, when everything is learned.
        self._log_evaluations(itr, n_rows=self.n_itr // self.log_interval_itrs)

    def _log_evaluations(self, itr: int, n_rows: float = math.inf) -> None:
        """Write a row for every evaluation which is complete, until there are ``n_rows``."""
        self._pending += self._received()
        while None in self._pending and self._n_logs < n_rows:
            end = self._pending.index(None)
            self._traj_infos, self._pending = self._pending[:end], self._pending[end + 1 :]
            sampler_itr = min(self._n_logs * self.log_interval_itrs, self._n_sampled())
            self._n_logs += 1
            self._notify("on_eval", itr, self._traj_infos)
            self.log_diagnostics(itr, sampler_itr, self._throttle_time)

    def _log_while_waiting(self, itr: int) -> None:
        self._log_what_is_due(itr)

    def _n_sampled(self) -> int:
        return int(self.ctrl.sampler_itr.value) + 1

    def _finish(self, n_itr: int) -> None:
        super()._finish(n_itr)
        self._log_evaluations(max(0, n_itr - 1))
