"""The asynchronous loop: one process samples and one or more train, from shared memory.

The sampler fills two batches in turn, and two copiers append them to the replay buffer in order.
The runner's own process trains, publishes parameters, and logs. Optimizer and sampler wait for each
other, so that each sample is trained on ``algo.replay_ratio`` times on average.
"""

from __future__ import annotations

import math
import os
import queue
import time
from collections import namedtuple
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from rlpyt.runners._async_processes import (
    AsyncOptWorker as AsyncOptWorker,
    memory_copier as memory_copier,
    placeholder as placeholder,
    run_async_sampler as run_async_sampler,
    run_async_sampler_eval as run_async_sampler_eval,
)
from rlpyt.runners._async_run import AsyncRun
from rlpyt.runners.rate_limiter import RateLimiter as RateLimiter
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import check_names, whole_number

THROTTLE_WAIT = 0.05  # Seconds between checks whether the sampler has ended.


class AsyncRlBase(AsyncRun):
    """Base class of the asynchronous runners, with the training loop.

    An iteration (itr) is one call of ``algo.optimize_agent``; an iteration of the sampler is one of
    its batches. Steps are environment steps.

    Args:
        algo: algorithm that can train asynchronously, such as those with a replay buffer.
        agent: agent that acts and is trained.
        sampler: asynchronous sampler.
        n_steps: steps of the whole run, rounded up to whole log intervals.
        affinity: mapping with two entries. ``optimizer`` is a list of mappings with ``cpus``,
            ``cuda_idx``, ``torch_threads`` and ``set_affinity``, one for each training process;
            ``sampler`` has the form that the sampler takes.
        seed: seed for all random numbers; drawn if None.
        log_interval_steps: steps from one log row to the next.
        callbacks: hooks into the run, see :class:`~rlpyt.runners.callbacks.Callback`.
        throttle_sampler: whether the sampler waits for an optimizer that is too slow for
            ``algo.replay_ratio``. If False, the ratio is only an upper limit.
        process_timeout_s: longest time that a process may be busy with one batch or one update,
            other than in evaluation; None for no limit.
        compile: whether updates are compiled: False, True, or keywords of ``torch.compile``.

    Raises:
        ValueError: if ``affinity`` lacks a part, or a number is too small.

    Attributes:
        rate_limiter: limiter that keeps optimizer and sampler in step.
    """

    rate_limiter: RateLimiter

    def train(
        self,
        *,
        checkpoint_interval_steps: float | None = None,
        checkpoint_interval_minutes: float | None = None,
        resume: str | os.PathLike[str] | None = None,
        keep_checkpoints: int | None = 2,
    ) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens.

        Args:
            checkpoint_interval_steps: argument of
                :meth:`~rlpyt.runners.minibatch_rl.MinibatchRlBase.train`.
            checkpoint_interval_minutes: argument of the same method.
            resume: argument of the same method.
            keep_checkpoints: argument of the same method.
        """
        self._limits_sampler = self.throttle_sampler
        intervals = checkpoint_interval_steps, checkpoint_interval_minutes
        with self._saving(*intervals, resume, keep_checkpoints):
            first, delta = self.startup()
            self.rate_limiter = RateLimiter(self.ctrl, first, delta, self._n_sampled_before)
            self._begin_checkpoints()
            self._evaluate_before_training()
            itr = self._itr + 1
            while self._await_samples(itr):
                logger.set_iteration(itr)
                with logger.prefix(f"opt_itr #{itr} "):
                    self._iterate(itr)
                itr += 1
                if self.checkpoints is not None and self.checkpoints.is_due(self._cum_steps):
                    self._save_checkpoint()
            if self._signal is None:
                self._finish(itr)
            elif itr > 0:
                self.save_itr_snapshot(itr - 1, self.rate_limiter.n_copied)
            self._save_checkpoint()

    def _iterate(self, itr: int) -> None:
        self._supervisor.check()
        sampler_itr = self.rate_limiter.n_copied - 1
        self.rate_limiter.advance()
        if self.ctrl.opt_throttle is not None:
            self.ctrl.opt_itr.value = sampler_itr
            self.ctrl.opt_throttle.wait()
        self.agent.train_mode(itr)
        opt_info = self.algo.optimize_agent(itr, sampler_itr=sampler_itr)
        self.agent.send_shared_memory()
        self._itr = itr
        traj_infos = self._new_traj_infos()
        self.store_diagnostics(itr, sampler_itr + 1, traj_infos, opt_info)
        self._notify("on_itr", itr, traj_infos, opt_info)
        self._log_due_rows(itr)

    def stop(self) -> None:
        """End the run after the current iteration, with a last log row."""
        super().stop()
        self.ctrl.stop.value = True
        if self.ctrl.may_sample is not None:
            self.ctrl.may_sample.release()

    # --- Waiting for samples -----------------------------------------------------------------

    def _await_samples(self, itr: int) -> bool:
        """Wait until the next iteration is due; False if the run is over."""
        start = time.time()
        while not self.rate_limiter.is_due() and not self._is_over():
            self._supervisor.wait_for(self._count_batch)
            if itr == 0:
                self._log_filling(self.rate_limiter.n_copied)
            self._log_while_waiting(itr)
        self.rate_limiter.count_batches()
        self._throttle_time += time.time() - start
        return self.rate_limiter.is_due() and not self._is_over()

    def _count_batch(self, block: bool, timeout: float | None) -> bool:
        return self.rate_limiter.wait_for_batch(block, THROTTLE_WAIT) or self._is_over()

    def _is_over(self) -> bool:
        """Return whether the run is over, even if an iteration is due."""
        if self._stopping or self._signal is not None:
            return True
        if not self.ctrl.quit.value:
            return False
        # Without a limit for the sampler, updates that are due when it ends are dropped.
        has_all = self.rate_limiter.n_copied > self.ctrl.sampler_itr.value
        return has_all and not (self.throttle_sampler and self.rate_limiter.is_due())

    def _finish(self, n_itr: int) -> None:
        """Wait for the end of the sampler, and write the last rows."""
        self._supervisor.wait_for(self._sampler_has_ended)
        self.rate_limiter.count_batches()

    def _sampler_has_ended(self, block: bool, timeout: float | None) -> bool:
        if not self.ctrl.quit.value:
            time.sleep(THROTTLE_WAIT)
        return bool(self.ctrl.quit.value) or self._signal is not None

    # --- State -------------------------------------------------------------------------------

    @property
    def _cum_steps(self) -> int:
        return self.rate_limiter.n_copied * self.sampler_batch_size

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "n_sampled": self.rate_limiter.n_copied,
            "next_itr": self.rate_limiter.itr,
        }

    def _save_checkpoint(self) -> None:
        if self.checkpoints is None:
            return
        self.checkpoints.wait()  # Before the buffer is locked for the other processes.
        # Under the lock, which a user's buffer may lack, only the parts written need a copy.
        with getattr(self.algo.replay_buffer, "frozen", nullcontext)():
            super()._save_checkpoint()

    def _describe_inexact_resume(self) -> str:
        return (
            "an asynchronous run does not resume exactly: its environments begin new episodes, and "
            "their earlier trajectories are truncated; batches that have not reached the replay "
            "buffer are sampled again."
        )

    # --- Performance -------------------------------------------------------------------------

    def _received(self) -> list[Any]:
        """Items sent by the sampler so far: trajectory infos, and None after each evaluation."""
        items = []
        while True:
            try:
                items.append(self.traj_infos_queue.get(block=False))
            except queue.Empty:
                return items

    def _evaluate_before_training(self) -> None:
        """Log the untrained agent, if that needs no training samples."""

    def _new_traj_infos(self) -> Sequence[Any]:
        """Trajectory infos of training since the last iteration, if they are sent."""
        return ()

    def _log_due_rows(self, itr: int) -> None:
        raise NotImplementedError

    def _log_while_waiting(self, itr: int) -> None:
        """Log the rows that are complete before the optimizer's next iteration."""


class AsyncRl(AsyncRlBase):
    """Asynchronous runner that measures performance online, on the last training trajectories.

    Args:
        *args: arguments of :class:`AsyncRlBase`.
        log_traj_window: number of trajectories.
        **kwargs: further arguments of :class:`AsyncRlBase`.
    """

    _columns = ("CumCompletedTrajs", "NewCompletedTrajs", "StepsInTrajWindow")

    def __init__(self, *args: Any, log_traj_window: int = 100, **kwargs: Any) -> None:
        check_names(type(self), kwargs)
        super().__init__(*args, **kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window)

    def initialize_logging(self) -> None:
        """Reset all counters and clocks, and empty the window of trajectories."""
        self.run_log.keep_window(self.log_traj_window)
        super().initialize_logging()

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep the opt info and trajectories of one iteration until the next log row."""
        self.run_log.add_trajectories(traj_infos)
        super().store_diagnostics(itr, sampler_itr, traj_infos, opt_info)

    def _new_traj_infos(self) -> Sequence[Any]:
        return self._received()

    def _log_due_rows(self, itr: int) -> None:
        sampler_itr = self.rate_limiter.n_copied
        n_due = sampler_itr // self.log_interval_itrs
        # The last row is written at the end, after all updates.
        if n_due > self._n_logs and sampler_itr < self.n_itr:
            self._n_logs = n_due
            self.log_diagnostics(itr, sampler_itr, self._throttle_time)

    def _finish(self, n_itr: int) -> None:
        super()._finish(n_itr)
        itr = max(0, n_itr - 1)
        sampler_itr = self.rate_limiter.n_copied
        traj_infos = self._received()
        self.store_diagnostics(itr, sampler_itr, traj_infos, ())
        fields = self.algo.opt_info_fields
        no_update = namedtuple("OptInfo", fields)(*([] for _ in fields))
        self._notify("on_itr", itr, traj_infos, no_update)
        is_new = self._cum_steps > self.run_log.last_steps or not self._n_logs
        self._n_logs = max(self._n_logs, sampler_itr // self.log_interval_itrs)
        if is_new:
            self.log_diagnostics(itr, sampler_itr, self._throttle_time)


class AsyncRlEval(AsyncRlBase):
    """Asynchronous runner with evaluations at the start and after every log interval."""

    _columns = ("StepsInEval", "TrajsInEval", "CumEvalTime")
    _eval = True

    def initialize_logging(self) -> None:
        """Reset all counters and clocks."""
        self._pending: list[Any] = []
        super().initialize_logging()

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep an iteration's opt info, or an evaluation's trajectories, until the next log row."""
        self._traj_infos = [*self._traj_infos, *traj_infos]
        super().store_diagnostics(itr, sampler_itr, traj_infos, opt_info)

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Write one row with the performance in an evaluation."""
        if not self._traj_infos:
            logger.log("WARNING: no complete trajectories in the evaluation: raise eval_max_steps.")
        super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)
        self._traj_infos = []

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, with evaluations that are not logged yet."""
        self._pending += self._received()
        pending = [None if info is None else dict(info) for info in self._pending]
        n_evals = self._n_logs + pending.count(None)
        return {**super().state_dict(), "pending": pending, "n_evals": n_evals}

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        pending = state["pending"]
        # An interrupted evaluation is repeated, so its trajectories will come again.
        n_complete = len(pending) - pending[::-1].index(None) if None in pending else 0
        self._pending = [info and AttrDict(info) for info in pending[:n_complete]]

    def _evaluate_before_training(self) -> None:
        if self._n_logs == 0:
            self._supervisor.wait_for(self._has_evaluated)
        self._log_due_rows(0)

    def _has_evaluated(self, block: bool, timeout: float | None) -> bool:
        self._pending += self._received()
        if None in self._pending or self._signal is not None:
            return True
        time.sleep(THROTTLE_WAIT)
        return False

    def _log_due_rows(self, itr: int) -> None:
        # The last row is written at the end, after all updates.
        self._log_evaluations(itr, n_rows=self.n_itr // self.log_interval_itrs)

    def _log_while_waiting(self, itr: int) -> None:
        self._log_due_rows(itr)

    def _log_evaluations(self, itr: int, n_rows: float = math.inf) -> None:
        """Write a row for every evaluation that is complete, until there are ``n_rows``."""
        self._pending += self._received()
        while None in self._pending and self._n_logs < n_rows:
            end = self._pending.index(None)
            traj_infos, self._pending = self._pending[:end], self._pending[end + 1 :]
            n_sampled = int(self.ctrl.sampler_itr.value) + 1
            sampler_itr = min(self._n_logs * self.log_interval_itrs, n_sampled)
            self._n_logs += 1
            self.store_diagnostics(itr, sampler_itr, traj_infos, ())
            self._notify("on_eval", itr, self._traj_infos)
            self.log_diagnostics(itr, sampler_itr, self._throttle_time)

    def _finish(self, n_itr: int) -> None:
        super()._finish(n_itr)
        self._log_evaluations(max(0, n_itr - 1))
