"""The asynchronous loop: one process samples and one or more train, over a shared replay buffer.

The sampler fills two batches in turn, which two copiers append to the replay buffer in this order.
The runner's own process trains, publishes parameters, and logs. Trained samples for every sampled
one are ``algo.replay_ratio``: the optimizer waits for the sampler, and the sampler for it.
"""

from __future__ import annotations

import os
import queue
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlpyt.runners._async_control import Throttle, make_control
from rlpyt.runners._async_processes import AsyncOptWorker as AsyncOptWorker
from rlpyt.runners._async_processes import memory_copier as memory_copier
from rlpyt.runners._async_processes import placeholder as placeholder
from rlpyt.runners._async_processes import prepare_optimizer, run_optimizer
from rlpyt.runners._async_processes import run_async_sampler as run_async_sampler
from rlpyt.runners._async_processes import run_async_sampler_eval as run_async_sampler_eval
from rlpyt.runners._diagnostics import logged_fields, opt_values
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.callbacks import Callback
from rlpyt.utils._pool import ProcessPool, WorkerError
from rlpyt.utils._processes import check_cpus, sharing_with
from rlpyt.utils._rendezvous import CountedQueue
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import make_seed, set_seed
from rlpyt.utils.synchronize import find_port

THROTTLE_WAIT = 0.05  # Seconds between looks at whether the sampler has come to its end.
NAN = float("nan")


class AsyncRlBase(BaseRunner):
    """The loop of the process which trains, its start and end, its log and snapshots.

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

    Attributes:
        ctrl: what all processes share.
        pool: starts, watches and ends them.
    """

    _eval = False

    algo: Any
    agent: Any
    sampler: Any
    n_steps: int
    affinity: Any
    seed: int | None
    log_interval_steps: int
    callbacks: Sequence[Callback] = ()
    throttle_sampler = True

    pool: ProcessPool | None = None
    pbar: ProgBarCounter | None = None
    ctrl: Any
    world_size = 1
    _traj_infos: Any = ()
    _stopping = False
    _has_group = False

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
    ) -> None:
        n_steps = int(n_steps)
        log_interval_steps = int(log_interval_steps)
        save__init__args(locals())
        for name, steps in (("n_steps", n_steps), ("log_interval_steps", log_interval_steps)):
            if steps < 1:
                raise ValueError(f"{name} is {steps}: give at least 1 environment step")
        for name in ("optimizer", "sampler"):
            if name not in affinity:
                raise ValueError(
                    f"the affinity {dict(affinity)} has no {name!r}: pass one as of "
                    "make_affinity(async_sample=True), or dict(optimizer=[{}], "
                    "sampler=dict(workers_cpus=[0, 1]))"
                )
        self.callbacks = tuple(callbacks or ())
        self.throttle_sampler = throttle_sampler

    # --- The loop ----------------------------------------------------------------------------

    def train(self) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens."""
        self._stopping = False
        try:
            self.startup()
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
            cause = self._failed_process(error)
            self._shutdown_after_failure()
            if cause is not None:
                raise cause from error
            raise
        self.shutdown()

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        self._stopping = True
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
        return has_all and not (self.throttle_sampler and self.throttle.is_due())

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

    # --- Start and end -----------------------------------------------------------------------

    def startup(self) -> tuple[float, float]:
        """Make what is shared, start the other processes, and prepare this one.

        Returns:
            The number of sampler batches before training starts, and for each iteration after.
        """
        self._optimizer_affinities = _as_list(self.affinity["optimizer"])
        self.world_size = len(self._optimizer_affinities)
        self._check_affinity()
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        self.pool = ProcessPool(getattr(self.sampler, "start_method", None))
        with sharing_with(self.pool.context.get_start_method()):
            double_buffer, examples = self.sampler.async_initialize(
                agent=self.agent,
                bootstrap_value=getattr(self.algo, "bootstrap_value", False),
                traj_info_kwargs=self.get_traj_info_kwargs(),
                seed=self.seed + 1,
            )
            self.sampler_batch_size: int = self.sampler.batch_spec.size
            n_itr = self.get_n_itr()
            replay_buffer = self.algo.async_initialize(
                agent=self.agent,
                sampler_n_itr=n_itr,
                batch_spec=self.sampler.batch_spec,
                mid_batch_reset=self.sampler.mid_batch_reset,
                examples=examples,
                world_size=self.world_size,
            )
            self.launch_workers(n_itr, double_buffer, replay_buffer)
        throttle_itr, delta_throttle_itr = self.optim_startup()
        self.initialize_logging()
        self._notify("on_start")
        return throttle_itr, delta_throttle_itr

    def optim_startup(self) -> tuple[float, float]:
        """Prepare this process, which trains.

        Returns:
            As of :meth:`startup`.
        """
        if self.ctrl.opt_throttle is not None:
            self.ctrl.opt_throttle.wait()
        prepare_optimizer(
            self.algo, self.agent, self._optimizer_affinities[0], 0, self.world_size, self._port
        )
        self._has_group = self.world_size > 1
        trained = self.algo.batch_size * self.world_size * self.algo.updates_per_optimize
        delta = trained / (self.sampler_batch_size * self.algo.replay_ratio)
        # One batch more than are needed before training; several iterations may share that one.
        first = self.algo.min_itr_learn + min(1.0, delta)
        self.throttle = Throttle(self.ctrl, first, delta)
        return first, delta

    def _check_affinity(self) -> None:
        for affinity in (*self._optimizer_affinities, *_as_list(self.affinity["sampler"])):
            if affinity.get("set_affinity", True):
                check_cpus(_named_cpus(affinity))

    def launch_workers(self, n_itr: int, double_buffer: Any, replay_buffer: Any) -> None:
        """Start all other processes."""
        self.traj_infos_queue = CountedQueue(self._pool)
        self.ctrl = self.build_ctrl(self.world_size)
        self.launch_sampler(n_itr)
        self.launch_memcpy(double_buffer, replay_buffer)
        self.launch_optimizer_workers(n_itr)

    def get_n_itr(self) -> int:
        """Number of sampler iterations: ``n_steps``, rounded up to whole log intervals."""
        batch_size = int(self.sampler.batch_spec.size)
        self.log_interval_itrs = max(self.log_interval_steps // batch_size, 1)
        n_intervals = -(-self.n_steps // (self.log_interval_itrs * batch_size))
        self.n_itr: int = n_intervals * self.log_interval_itrs
        logger.log(f"Running {self.n_itr} sampler iterations.")
        return self.n_itr

    def build_ctrl(self, world_size: int) -> Any:
        """Make what all processes share, see :func:`make_control`."""
        return make_control(self._pool, world_size, self.throttle_sampler)

    def launch_optimizer_workers(self, n_itr: int) -> None:
        """Start the optimizers of ranks 1 and above."""
        self._port: int | None = None
        if self.world_size == 1:
            return
        assert self.seed is not None
        cpus = self._optimizer_affinities[0].get("cpus")
        self._port = find_port(offset=cpus[0] if cpus else os.getpid())
        for rank in range(1, self.world_size):
            worker = AsyncOptWorker(
                rank=rank,
                world_size=self.world_size,
                algo=self.algo,
                agent=self.agent,
                n_itr=n_itr,
                affinity=self._optimizer_affinities[rank],
                seed=self.seed + 100 * rank,
                ctrl=self.ctrl,
                port=self._port,
            )
            self._pool.start(run_optimizer, dict(worker=worker), f"optimizer {rank}")

    def launch_memcpy(self, sample_buffers: Any, replay_buffer: Any) -> None:
        """Start a copier for each of the two batches."""
        for db_idx, sample_buffer in enumerate(sample_buffers):
            kwargs = dict(
                sample_buffer=sample_buffer,
                samples_to_buffer=self.algo.samples_to_buffer,
                replay_buffer=replay_buffer,
                ctrl=self.ctrl,
                db_idx=db_idx,
            )
            self._pool.start(memory_copier, kwargs, f"memory copier {db_idx}")

    def launch_sampler(self, n_itr: int) -> None:
        """Start the process of the sampler."""
        kwargs = dict(
            sampler=self.sampler,
            affinity=self.affinity["sampler"],
            ctrl=self.ctrl,
            traj_infos_queue=self.traj_infos_queue,
            n_itr=n_itr,
        )
        if self._eval:
            kwargs["eval_itrs"] = self.log_interval_itrs
        target = run_async_sampler_eval if self._eval else run_async_sampler
        self._pool.start(target, kwargs, "sampler")

    def shutdown(self) -> None:
        """End all other processes, and close the progress bar."""
        if self.pbar is not None:
            self.pbar.stop()
        try:
            self._notify("on_end")
        finally:
            self._end_processes()

    def _end_processes(self) -> None:
        pool, self.pool = self.pool, None
        if pool is None:
            return
        try:
            if not pool.is_over and self._is_finished():
                if self.ctrl.opt_throttle is not None:
                    self.ctrl.quit_opt.value = True
                    self.ctrl.opt_throttle.leave()
                for _ in pool.members:
                    self.ctrl.end.release()
                pool.join()
        finally:
            pool.terminate()
            if self._has_group:
                self._has_group = False
                torch.distributed.destroy_process_group()
            self.traj_infos_queue.close()

    def _is_finished(self) -> bool:
        """Whether the sampler came to its end, and the other processes wait for theirs."""
        return "ctrl" in self.__dict__ and bool(self.ctrl.quit.value)

    def _shutdown_after_failure(self) -> None:
        """Shut down what was started; the error which is shown stays the one that came first."""
        if self.pool is not None:
            self.pool.terminate()
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")

    def _failed_process(self, error: BaseException) -> WorkerError | None:
        """The failure of another process which led to ``error`` in this one, if there was any."""
        if self.pool is None or self.pool.is_over or not isinstance(error, RuntimeError):
            return None
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            try:
                self.pool.check()
            except WorkerError as cause:
                return cause
            time.sleep(THROTTLE_WAIT)
        return None

    @property
    def _pool(self) -> ProcessPool:
        assert self.pool is not None
        return self.pool

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Attributes for the trajectory info class."""
        return {"discount": getattr(self.algo, "discount", 1)}

    # --- Diagnostics -------------------------------------------------------------------------

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos: dict[str, list[Any]] = {k: [] for k in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._throttle_time = 0.0
        self._last_sampler_itr = 0
        self._last_update_counter = 0
        self._last_eval_time = 0.0
        self._n_logs = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def get_itr_snapshot(self, itr: int, sampler_itr: int | None = None) -> dict[str, Any]:
        """What is saved at each log row, to use the trained agent: tensors and numbers only.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: batches which are in the replay buffer; None for those of now.
        """
        n_batches = self.throttle.n_copied if sampler_itr is None else sampler_itr
        return {
            "itr": itr,
            "sampler_itr": n_batches,
            "cum_steps": n_batches * self.sampler_batch_size,
            "cum_updates": self.algo.update_counter,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
        }

    def save_itr_snapshot(self, itr: int, sample_itr: int) -> None:
        """Save the snapshot as the logger's snapshot mode says."""
        logger.log("saving snapshot...")
        logger.save_itr_params(itr, self.get_itr_snapshot(itr, sample_itr))
        logger.log("saved")

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep what one iteration reports until the next log row."""
        for name, values in self._opt_infos.items():
            values.extend(opt_values(getattr(opt_info, name, [])))
        if self.pbar is not None:
            self.pbar.update(sampler_itr % self.log_interval_itrs)
        self._notify("on_itr", itr, traj_infos, opt_info)

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Save a snapshot, and write one row of all that is known to the log.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: batches which the sampler has filled.
            throttle_time: s, spent waiting for the sampler since the last row.
            prefix: of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        self.save_itr_snapshot(itr, sampler_itr)
        with logger.tabular_prefix(prefix):
            self._log_progress(itr, sampler_itr, throttle_time)
        infos = list(self._traj_infos)
        self._log_infos()
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} sampler iterations.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, infos)

    def _log_progress(self, itr: int, sampler_itr: int, throttle_time: float) -> None:
        """Counters, and what became of them since the last row."""
        now, updates = time.time(), self.algo.update_counter
        elapsed = max(now - self._last_time, 1e-9)
        eval_time = self.ctrl.eval_time.value
        cum_steps = sampler_itr * self.sampler_batch_size
        new_steps = (sampler_itr - self._last_sampler_itr) * self.sampler_batch_size
        new_updates = updates - self._last_update_counter
        trained = self.algo.batch_size * self.world_size
        sampling_time = elapsed - (eval_time - self._last_eval_time)
        logger.record_tabular("Iteration", itr)
        logger.record_tabular("SamplerIteration", sampler_itr)
        logger.record_tabular("CumTime (s)", now - self._start_time)
        logger.record_tabular("CumSteps", cum_steps)
        logger.record_tabular("CumUpdates", updates)
        logger.record_tabular("ReplayRatio", new_updates * trained / max(1, new_steps))
        logger.record_tabular("CumReplayRatio", updates * trained / max(1, cum_steps))
        logger.record_tabular("StepsPerSecond", new_steps / elapsed if new_steps else NAN)
        if self._eval:
            rate = new_steps / sampling_time if new_steps and sampling_time > 0 else NAN
            logger.record_tabular("NonEvalSamplesPerSecond", rate)
        logger.record_tabular("UpdatesPerSecond", new_updates / elapsed if new_steps else NAN)
        logger.record_tabular("OptThrottle", max(0.0, elapsed - throttle_time) / elapsed)
        self._last_time, self._last_eval_time = now, eval_time
        self._last_sampler_itr, self._last_update_counter = sampler_itr, updates
        self._throttle_time = 0.0

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all since the last row that was learned."""
        infos = self._traj_infos if traj_infos is None else traj_infos
        for name, values in logged_fields(list(infos)).items():
            logger.record_tabular_misc_stat(name, values)
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}

    def _received(self) -> list[Any]:
        """What the sampler has put by now: trajectory infos, and None after each evaluation."""
        items = []
        while True:
            try:
                items.append(self.traj_infos_queue.get(block=False))
            except queue.Empty:
                return items

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

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
        self.log_traj_window = int(log_traj_window)

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
        """Write a row for every evaluation which is complete."""
        self._pending += self._received()
        while None in self._pending:
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
        self._log_what_is_due(max(0, n_itr - 1))


def _as_list(affinity: Any) -> list[Any]:
    """Affinities of one process or of several, as a list."""
    return [affinity] if isinstance(affinity, Mapping) else list(affinity)


def _named_cpus(affinity: Mapping[str, Any]) -> list[int]:
    """All CPUs in the affinity of one process and its workers."""
    named = set(affinity.get("cpus") or affinity.get("master_cpus") or ())
    workers_cpus = affinity.get("workers_cpus")
    for cpus in () if workers_cpus is None or isinstance(workers_cpus, int) else workers_cpus:
        named.update([cpus] if isinstance(cpus, int) else cpus or ())
    return sorted(named)
