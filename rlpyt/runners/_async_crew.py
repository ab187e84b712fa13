"""Start and end of an asynchronous run: what is shared, this process, and all others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.runners._async_control import make_control
from rlpyt.runners._async_log import AsyncLog
from rlpyt.runners._async_optimizer import AsyncOptWorker, prepare_optimizer, run_optimizer
from rlpyt.runners._async_processes import (
    memory_copier,
    run_async_sampler,
    run_async_sampler_eval,
)
from rlpyt.runners._crew import Crew
from rlpyt.runners._process import check_affinity
from rlpyt.runners._roles import check_for_async
from rlpyt.runners._settings import as_list
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.launch import shared_memory_for
from rlpyt.utils.processes.primitives import CountedQueue
from rlpyt.utils.processes.supervisor import Supervisor
from rlpyt.utils.seed import make_seed, set_seed
from rlpyt.utils.synchronize import find_port


class AsyncCrew(AsyncLog):
    """Starts a sampler, two copiers and the optimizers, of which this process is the first.

    Attributes:
        affinity: with the entries ``optimizer`` and ``sampler``.
        traj_infos_queue: what the sampler sends of trajectories.
    """

    affinity: Any
    throttle_sampler = True
    process_timeout_s: float | None = 1800.0
    traj_infos_queue: CountedQueue

    _crew: Crew | None = None
    _optimizer_affinities: Sequence[Any]
    _port: int | None = None
    _has_group = False
    # Users' loops do not let the sampler go on, users' copiers do not count, and users' samplers
    # do not wait for them in the end.
    _loop_throttles = False
    _counts_copies = False
    _ends_with_copies = False

    @property
    def pool(self) -> Supervisor | None:
        """The processes; None before they are started and after their end."""
        return None if self._crew is None else self._crew.pool

    @property
    def _pool(self) -> Supervisor:
        return self._started.pool

    @property
    def _started(self) -> Crew:
        assert self._crew is not None
        return self._crew

    # --- Start --------------------------------------------------------------------------------

    def startup(self) -> tuple[float, float]:
        """Make what is shared, start the other processes, and prepare this one.

        Returns:
            The number of sampler batches before training starts, and for each iteration after.

        Raises:
            ValueError: if sampler or algorithm is for another runner, or a CPU may not be used.
        """
        check_for_async(self)
        check_affinity(self.affinity)
        self._optimizer_affinities = as_list(self.affinity["optimizer"])
        self.world_size = len(self._optimizer_affinities)
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        start_method = getattr(self.sampler, "start_method", None)
        self._crew = Crew(start_method, self.process_timeout_s, "process_timeout_s", is_timed=True)
        with shared_memory_for(self._pool.context.get_start_method()):
            double_buffer, examples = self.sampler.async_initialize(
                agent=self.agent,
                bootstrap_value=getattr(self.algo, "bootstrap_value", False),
                traj_info_kwargs=self.get_traj_info_kwargs(),
                seed=self.seed + 1,
            )
            self.sampler_batch_size = self.sampler.batch_spec.size
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
        self._crew.watch()
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
        return self.algo.min_itr_learn + min(1.0, delta), delta

    def get_n_itr(self) -> int:
        """Number of sampler iterations: ``n_steps``, rounded up to whole log intervals."""
        batch_size = int(self.sampler.batch_spec.size)
        self.log_interval_itrs = max(self.log_interval_steps // batch_size, 1)
        n_intervals = -(-self.n_steps // (self.log_interval_itrs * batch_size))
        self._set_n_itr(n_intervals, batch_size)
        logger.log(f"Running {self.n_itr} sampler iterations.")
        return self.n_itr

    def launch_workers(self, n_itr: int, double_buffer: Any, replay_buffer: Any) -> None:
        """Start all other processes."""
        self.traj_infos_queue = CountedQueue(self._pool)
        self.ctrl = self.build_ctrl(self.world_size)
        if overrides(self, "build_ctrl"):
            for name, value in AsyncCrew.build_ctrl(self, self.world_size).items():
                self.ctrl.setdefault(name, value)
        self.launch_sampler(n_itr)
        self.launch_memcpy(double_buffer, replay_buffer)
        self.launch_optimizer_workers(n_itr)

    def build_ctrl(self, world_size: int) -> Any:
        """Make what all processes share, see :func:`make_control`."""
        return make_control(self._pool, world_size, self._loop_throttles and self.throttle_sampler)

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
            self._started.start(run_optimizer, dict(worker=worker), f"optimizer {rank}")

    def launch_memcpy(self, sample_buffers: Any, replay_buffer: Any) -> None:
        """Start a copier for each of the two batches."""
        self._counts_copies = True
        for db_idx, sample_buffer in enumerate(sample_buffers):
            kwargs = dict(
                sample_buffer=sample_buffer,
                samples_to_buffer=self.algo.samples_to_buffer,
                replay_buffer=replay_buffer,
                ctrl=self.ctrl,
                db_idx=db_idx,
            )
            self._started.start(memory_copier, kwargs, f"memory copier {db_idx}")

    def launch_sampler(self, n_itr: int) -> None:
        """Start the process of the sampler."""
        self._ends_with_copies = True
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
        self._started.start(target, kwargs, "sampler")

    # --- End ---------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End all other processes, and close the progress bar."""
        if self.pbar is not None:
            self.pbar.stop()
        try:
            self._notify("on_end")
        finally:
            self._end_processes()

    def _end_processes(self) -> None:
        crew, self._crew = self._crew, None
        if crew is None:
            return
        try:
            crew.stop_watching()
            if not crew.pool.is_over and self._is_finished():
                if self.ctrl.opt_throttle is not None:
                    self.ctrl.quit_opt.value = True
                    self.ctrl.opt_throttle.arrive()
                self._read_the_rest()
                for _ in crew.pool.children:
                    self.ctrl.end.release()
                crew.join()
        finally:
            crew.pool.terminate()
            if self._has_group:
                self._has_group = False
                torch.distributed.destroy_process_group()
            if "traj_infos_queue" in self.__dict__:
                self.traj_infos_queue.close()

    def _read_the_rest(self) -> None:
        """A process does not end before what it sent is read, which users' loops may forget."""
        queue = self.__dict__.get("traj_infos_queue")
        if isinstance(queue, CountedQueue):
            queue.get_all()

    def _is_finished(self) -> bool:
        """Whether the sampler came to its end, and the other processes wait for theirs."""
        return "ctrl" in self.__dict__ and bool(self.ctrl.quit.value)
