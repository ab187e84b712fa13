"""The start and the end of an asynchronous run, and its log rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike, AsyncAlgoLike, AsyncSamplerLike
from rlpyt.processes.launch import find_port
from rlpyt.processes.primitives import CountedQueue
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners._async_processes import (
    AsyncOptWorker,
    make_control,
    memory_copier,
    prepare_optimizer,
    run_async_sampler,
    run_optimizer,
)
from rlpyt.runners._checks import (
    check_async_affinity,
    check_async_roles,
    check_compile,
    check_cpus_in,
    check_objects,
    check_time_limit,
    checked_callbacks,
)
from rlpyt.runners._process_group import leave_data_parallel
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.log import drop_rows_after
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args, whole_number
from rlpyt.utils.seed import Purpose, derived_seed
from rlpyt.utils.shared_array import shared_memory_for

# Columns of every log row, in order; columns with "Eval" only in runs with evaluation.
COLUMNS = (
    "Iteration",
    "SamplerIteration",
    "CumTime (s)",
    "CumSteps",
    "CumUpdates",
    "ReplayRatio",
    "CumReplayRatio",
    "StepsPerSecond",
    "NonEvalSamplesPerSecond",
    "UpdatesPerSecond",
    "OptThrottle",
)


class AsyncRun(BaseRunner):
    """An asynchronous run without its loop: settings, processes, counters and log rows.

    It starts a sampler, two copiers and the optimizers, of which this process is the first.

    Attributes:
        ctrl: semaphores and values that all processes share, see
            :func:`~rlpyt.runners._async_processes.make_control`.
        traj_infos_queue: queue of the trajectory infos that the sampler sends.
        sampler_batch_size: environment steps of a batch.
    """

    algo: AsyncAlgoLike
    sampler: AsyncSamplerLike
    throttle_sampler = True
    process_timeout_s: float | None = 1800.0
    ctrl: Any = None
    traj_infos_queue: CountedQueue
    sampler_batch_size: int

    _columns: tuple[str, ...] = ()
    _optimizer_affinities: list[Mapping[str, Any]]
    _port: int | None = None
    _has_group = False
    # True in the library's loop, which lets the sampler continue; other loops do not.
    _limits_sampler = False
    _throttle_time = 0.0
    _itr = -1  # The optimizer's last iteration.
    _n_sampled_before = 0  # Batches of the run before it was resumed.

    def __init__(
        self,
        algo: AsyncAlgoLike,
        agent: AgentLike,
        sampler: AsyncSamplerLike,
        n_steps: float,
        affinity: Mapping[str, Any],
        seed: int | None = None,
        log_interval_steps: float = 1e5,
        callbacks: Sequence[Callback] | None = None,
        throttle_sampler: bool = True,
        process_timeout_s: float | None = 1800.0,
        compile: Any = False,
    ) -> None:
        n_steps = whole_number("n_steps", n_steps)
        log_interval_steps = whole_number("log_interval_steps", log_interval_steps)
        check_async_affinity(affinity)
        check_objects(algo=algo, agent=agent, sampler=sampler)
        save__init__args(locals())
        if compile:
            algo.compile = check_compile(compile)
        self.callbacks = checked_callbacks(callbacks)
        self.throttle_sampler = throttle_sampler
        self.process_timeout_s = check_time_limit("process_timeout_s", process_timeout_s)

    @property
    def _supervisor(self) -> Supervisor:
        """The supervisor, between the start of the processes and their end."""
        assert self.supervisor is not None
        return self.supervisor

    # --- Start --------------------------------------------------------------------------------

    def startup(self) -> tuple[float, float]:
        """Make shared objects, start the other processes, and prepare this one.

        Returns:
            The number of sampler batches before training starts, and the number for each iteration
            after.

        Raises:
            ValueError: if the sampler or the algorithm needs another runner, or a CPU is not
                available.
        """
        self.ctrl = None
        self._itr, self._n_sampled_before = -1, 0
        check_async_roles(self)
        self._tell_of_second_use()
        check_cpus_in(self.affinity)
        optimizers = self.affinity["optimizer"]
        self._optimizer_affinities = (
            [optimizers] if isinstance(optimizers, Mapping) else list(optimizers)
        )
        self.world_size = len(self._optimizer_affinities)
        env_seed = self._prepare_seeds()
        self.supervisor = Supervisor(
            self.sampler.start_method, self.process_timeout_s, "process_timeout_s"
        )
        with shared_memory_for(self._supervisor.context.get_start_method()):
            double_buffer, examples = self.sampler.async_initialize(
                agent=self.agent,
                bootstrap_value=self.algo.bootstrap_value,
                traj_info_kwargs=self.get_traj_info_kwargs(),
                seed=env_seed,
            )
            shared_state = (self._resume_state or {}).get("sampler")
            if shared_state:
                self.sampler.load_shared_state_dict(shared_state)
            self.sampler_batch_size = self.itr_batch_size = self.sampler.batch_spec.size
            n_itr = self.get_n_itr()
            self._seed_training()
            replay_buffer = self.algo.async_initialize(
                agent=self.agent,
                sampler_n_itr=n_itr,
                batch_spec=self.sampler.batch_spec,
                mid_batch_reset=self.sampler.mid_batch_reset,
                examples={**examples, "batch": double_buffer[0]},
                world_size=self.world_size,
            )
            self.launch_workers(n_itr, double_buffer, replay_buffer)
        self.supervisor.watch(detect_stalls=True)
        throttle_itr, delta_throttle_itr = self.optim_startup()
        self.initialize_logging()
        if self._resume_state is not None:
            throttle_itr = self._resume_state["next_itr"]
        self._resume_if_asked()
        self._notify("on_start")
        self.ctrl.begin.release()
        return throttle_itr, delta_throttle_itr

    def optim_startup(self) -> tuple[float, float]:
        """Prepare this process, which trains.

        Returns:
            The numbers of batches that :meth:`startup` returns.
        """
        if self.ctrl.opt_throttle is not None:
            self.ctrl.opt_throttle.wait()
        prepare_optimizer(
            self.algo, self.agent, self._optimizer_affinities[0], 0, self.world_size, self._port
        )
        self._has_group = self.world_size > 1
        trained = self.algo.batch_size * self.world_size * self.algo.updates_per_optimize
        delta = trained / (self.sampler_batch_size * self.algo.replay_ratio)
        # One batch more than training needs to start; several iterations may share it.
        return self.algo.min_itr_learn + min(1.0, delta), delta

    def get_n_itr(self) -> int:
        """Return the sampler iterations: ``n_steps``, rounded up to whole log intervals."""
        batch_size = self.sampler.batch_spec.size
        self.log_interval_itrs = max(self.log_interval_steps // batch_size, 1)
        n_intervals = -(-self.n_steps // (self.log_interval_itrs * batch_size))
        self._set_n_itr(n_intervals, batch_size)
        logger.log(f"Running {self.n_itr} sampler iterations.")
        return self.n_itr

    def launch_workers(self, n_itr: int, double_buffer: Any, replay_buffer: Any) -> None:
        """Start all other processes."""
        self.traj_infos_queue = CountedQueue(self._supervisor)
        self.ctrl = self.build_ctrl(self.world_size)
        self.launch_sampler(n_itr)
        self.launch_memcpy(double_buffer, replay_buffer)
        self.launch_optimizer_workers(n_itr)

    def build_ctrl(self, world_size: int) -> Any:
        """Make the semaphores and values that all processes share."""
        return make_control(
            self._supervisor, world_size, self._limits_sampler, self.sampler.batch_spec.B
        )

    def launch_sampler(self, n_itr: int) -> None:
        """Start the process of the sampler."""
        state = self._resume_state or {}
        kwargs = dict(
            sampler=self.sampler,
            affinity=self.affinity["sampler"],
            ctrl=self.ctrl,
            traj_infos_queue=self.traj_infos_queue,
            n_itr=n_itr,
            eval_itrs=self.log_interval_itrs if self._eval else None,
            start_itr=state.get("n_sampled", 0),
            n_evals=state.get("n_evals", 0),
        )
        self._supervisor.start(run_async_sampler, kwargs, "sampler")

    def launch_memcpy(self, sample_buffers: Any, replay_buffer: Any) -> None:
        """Start a copier for each of the two batches."""
        for db_idx, sample_buffer in enumerate(sample_buffers):
            kwargs = dict(
                sample_buffer=sample_buffer,
                samples_to_buffer=self.algo.replay_entries,
                replay_buffer=replay_buffer,
                ctrl=self.ctrl,
                db_idx=db_idx,
                truncate=self.algo.truncate_trajectories,
            )
            self._supervisor.start(memory_copier, kwargs, f"memory copier {db_idx}")

    def launch_optimizer_workers(self, n_itr: int) -> None:
        """Start the optimizers of ranks 1 and above."""
        self._port = None
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
                seed=derived_seed(self.seed, Purpose.RANK, rank),
                ctrl=self.ctrl,
                port=self._port,
            )
            worker.resume_state = self._state_of_optimizers()
            self._supervisor.start(run_optimizer, dict(worker=worker), f"optimizer {rank}")

    # --- State -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "itr": self._itr,
            "sampler": self.sampler.shared_state_dict(),
            "n_logs": self._n_logs,
            "eval_time": self.ctrl.eval_time.value,
        }

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self.agent.send_shared_memory()
        self.algo.truncate_trajectories(range(self.sampler.batch_spec.B))
        self._itr, self._n_logs = state["itr"], state["n_logs"]
        self._last_sampler_itr = self.run_log.last_steps // self.sampler_batch_size
        self._n_sampled_before = state["n_sampled"]
        self.ctrl.sampler_itr.value = self._n_sampled_before - 1
        self.ctrl.eval_time.value = state["eval_time"]
        has_rows = self._n_logs + self.run_log.last_steps > 0
        drop_rows_after(self._itr, self.run_log.last_steps if has_rows else -1)
        logger.log(f"Resuming after {self._n_sampled_before} batches of the sampler.")

    def _state_of_optimizers(self) -> dict[str, Any] | None:
        """Return what all optimizers resume from; the replay buffer is in shared memory."""
        if self._resume_state is None:
            return None
        algo = {**self._resume_state["algo"]}
        algo.pop("replay_buffer", None)
        return {"agent": self._resume_state["agent"], "algo": algo}

    # --- End ---------------------------------------------------------------------------------

    def _end_processes(self) -> None:
        supervisor, self.supervisor = self.supervisor, None
        if supervisor is None:
            return
        try:
            supervisor.stop_watching()
            # The sampler has finished, and all processes wait for the signal to end.
            if self.ctrl is not None and self.ctrl.quit.value and not supervisor.is_over:
                if self.ctrl.opt_throttle is not None:
                    self.ctrl.quit_opt.value = True
                    self.ctrl.opt_throttle.open_for_all()
                self.traj_infos_queue.get_all()  # The sampler waits until all are sent.
                for _ in supervisor.children:
                    self.ctrl.end.release()
                supervisor.join()
        finally:
            supervisor.terminate()
            if self._has_group:
                self._has_group = False
                torch.distributed.destroy_process_group()
                leave_data_parallel(self.agent)

    # --- The log -----------------------------------------------------------------------------

    def initialize_logging(self) -> None:
        """Reset all counters and clocks."""
        super().initialize_logging()
        self._measure_health(True)
        self._throttle_time = 0.0
        self._n_logs = 0
        self._last_sampler_itr = 0  # At the last row.

    def store_diagnostics(
        self, itr: int, sampler_itr: int, traj_infos: Sequence[Any], opt_info: Any
    ) -> None:
        """Keep the opt info and trajectories of one iteration until the next log row."""
        self.run_log.add_opt_info(opt_info)
        if self.pbar is not None:
            self.pbar.update(sampler_itr % self.log_interval_itrs)

    def log_diagnostics(
        self, itr: int, sampler_itr: int, throttle_time: float, prefix: str = "Diagnostics/"
    ) -> None:
        """Save a snapshot, and write one row of all counters and statistics to the log.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: number of batches that the sampler has filled.
            throttle_time: time spent waiting for the sampler since the last row, in seconds.
            prefix: prefix of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        self.save_itr_snapshot(itr, sampler_itr)
        new_eval_time = self.ctrl.eval_time.value - self._cum_eval_time
        self._cum_eval_time = self.ctrl.eval_time.value
        values = self.run_log.measure(
            cum_steps=sampler_itr * self.sampler_batch_size,
            updates=self.algo.update_counter,
            batch_size=self.algo.batch_size * self.world_size,
            eval_time=new_eval_time,
            wait_time=throttle_time,
        )
        values["Iteration"], values["SamplerIteration"] = itr, sampler_itr
        of_training = COLUMNS if self._eval else [name for name in COLUMNS if "Eval" not in name]
        self._write_row(itr, (*self._columns, *of_training), values, prefix)
        self._last_sampler_itr = sampler_itr
        self._throttle_time = 0.0
        self._measure_health(True)  # The next row may come after any iteration.

    def get_itr_snapshot(self, itr: int, sampler_itr: int | None = None) -> dict[str, Any]:
        """Return the snapshot of a log row: tensors and numbers that make up the trained agent.

        Args:
            itr: iteration of the optimizer.
            sampler_itr: number of batches that the sampler has filled; None for the number at the
                last log row.
        """
        last_itr = self.run_log.last_steps // self.sampler_batch_size
        n_batches = last_itr if sampler_itr is None else sampler_itr
        return {
            "itr": itr,
            "sampler_itr": n_batches,
            "cum_steps": n_batches * self.sampler_batch_size,
            "cum_updates": self.algo.update_counter,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
            **self._env_statistics(),
        }

    def save_itr_snapshot(self, itr: int, sample_itr: int) -> None:
        """Save the snapshot, in the snapshot mode of the logger."""
        self._save_snapshot(itr, self.get_itr_snapshot(itr, sample_itr))
