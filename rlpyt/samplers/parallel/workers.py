"""The workers of a parallel sampler: started, given tasks, and restarted if they fail.

A restarted worker misses the rest of the current task. It does that task alone, after the others,
which wait for it before they continue.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

from rlpyt.core.protocols import AgentLike
from rlpyt.processes.child import Heartbeat
from rlpyt.processes.supervisor import Supervisor
from rlpyt.samplers.parallel._channels import (
    GIVE_STATE,
    NOTHING,
    TAKE_STATE,
    StateExchange,
    TrajInfoQueue,
)
from rlpyt.samplers.parallel.old_arguments import complete_worker
from rlpyt.utils.collections import AttrDict


class Workers:
    """Worker processes that a sampler, or one of its action servers, gives tasks to.

    Args:
        supervisor: supervisor that starts and watches them.
        ctrl: barriers and flags shared with them, see
            :func:`~rlpyt.samplers.parallel._channels.make_control`.
        n_workers: number of workers.

    Attributes:
        processes: processes of the workers.
        restarted: columns whose workers were restarted in the current task; all columns here
            count within these workers.
        agent: agent with which they start; None if they are served.
        acting_noise: state of their random numbers for acting, after the last batch.
    """

    agent: AgentLike | None
    _process: Callable[..., Any]
    _common_kwargs: dict[str, Any]
    _workers_kwargs: Sequence[dict[str, Any]]
    _heartbeats: Sequence[Heartbeat]

    def __init__(self, supervisor: Supervisor, ctrl: Any, n_workers: int) -> None:
        self.supervisor, self.ctrl = supervisor, ctrl
        self.processes: list[Any] = []
        supervisor.files.callback(self.processes.clear)
        self.restarted: set[int] = set()
        self.acting_noise = {"seed": 0, "step": 0}
        self._states = StateExchange(supervisor, n_workers)

    # --- Start ------------------------------------------------------------------------------------

    def start(
        self,
        process: Callable[..., Any],
        common_kwargs: dict[str, Any],
        workers_kwargs: Sequence[dict[str, Any]],
        heartbeats: Sequence[Heartbeat],
        max_restarts_per_hour: int | None = None,
    ) -> None:
        """Start all workers.

        Args:
            process: function of ``common_kwargs`` and ``worker_kwargs`` to run in a worker.
            common_kwargs: arguments that are the same for all workers.
            workers_kwargs: arguments of each worker.
            heartbeats: heartbeat of each worker.
            max_restarts_per_hour: number of restarts in an hour; None to raise the first failure.
        """
        workers_kwargs = [complete_worker(common_kwargs, own) for own in workers_kwargs]
        self._process, self._workers_kwargs = process, workers_kwargs
        # A copy, since the agent may later be moved to another device.
        self.agent = copy.copy(common_kwargs["agent"])
        self._common_kwargs = {**common_kwargs, "agent": self.agent}
        self._heartbeats = heartbeats
        self.acting_noise = {"seed": workers_kwargs[0]["envs_seed"], "step": 0}
        self._states.sizes = [(w["n_envs"], w["n_eval_envs"]) for w in workers_kwargs]
        if max_restarts_per_hour is not None:
            self.supervisor.allow_restarts(self._start_again, max_restarts_per_hour)
        self.processes[:] = [self._start(index) for index in range(len(workers_kwargs))]

    def _start(self, index: int, **changes: Any) -> Any:
        """Start worker ``index``, with ``changes`` of the common arguments."""
        common_kwargs = {**self._common_kwargs, **changes, "ctrl": AttrDict(self.ctrl)}
        for shared, names in (
            (common_kwargs["ctrl"], ("barrier_in", "barrier_out")),
            (common_kwargs, ("traj_infos_queue", "eval_traj_infos_queue")),
        ):
            shared.update({name: shared[name].at(index) for name in names if name in shared})
        state_pipe = self._states.worker_ends[index]
        worker_kwargs = {**self._workers_kwargs[index], "state_pipe": state_pipe}
        rank, ranks = worker_kwargs["rank"], worker_kwargs["env_ranks"]
        return self.supervisor.start(
            self._process,
            {"common_kwargs": common_kwargs, "worker_kwargs": worker_kwargs},
            label=f"worker {rank} (environments {ranks[0]} to {ranks[-1]})",
            heartbeat=self._heartbeats[index],
            index=index,
        )

    def _start_again(self, index: int) -> None:
        """Restart worker ``index`` after a failure."""
        self.processes[index] = self._start(
            index, max_decorrelation_steps=0, acting_noise=self.acting_noise
        )
        self.restarted.update(self._columns_of(index))
        if self.ctrl.do_eval.value:
            self.ctrl.eval_again.value = True

    def _columns_of(self, index: int) -> range:
        """Return the columns that worker ``index`` fills."""
        first = sum(worker_kwargs["n_envs"] for worker_kwargs in self._workers_kwargs[:index])
        return range(first, first + self._workers_kwargs[index]["n_envs"])

    def present_columns(self) -> list[int]:
        """Return the columns of the workers that are not absent."""
        present = set(range(len(self.processes))) - self.supervisor.absent
        return [column for index in sorted(present) for column in self._columns_of(index)]

    # --- Tasks ------------------------------------------------------------------------------------

    def do_task(self, work: Callable[[], Any], work_again: Callable[[], Any] | None = None) -> None:
        """Let the workers do the task that ``ctrl`` names.

        Args:
            work: part of the task in this process, while the workers do theirs.
            work_again: part of the task in this process, while workers that were restarted do
                theirs; None if they skip the task.
        """
        self.ctrl.barrier_in.wait()
        work()
        self.finish_task(work_again)

    def finish_task(self, work_again: Callable[[], Any] | None = None) -> None:
        """Wait for all workers, and let restarted ones catch up."""
        start, end, supervisor = self.ctrl.barrier_in, self.ctrl.barrier_out, self.supervisor
        end.collect()
        while supervisor.restarted:
            supervisor.admit_restarted()
            end.wait()  # They have started their environments.
            if work_again is not None:
                start.wait()
                work_again()
                end.collect()
        supervisor.absent = set()
        end.open()

    def end_batch(self, n_steps: int) -> set[int]:
        """Count the steps of a batch; return the columns whose workers were restarted in it."""
        self.acting_noise = {**self.acting_noise, "step": self.acting_noise["step"] + n_steps}
        restarted, self.restarted = self.restarted, set()
        return restarted

    def stop_at_limit(
        self,
        queue: TrajInfoQueue,
        limit: int,
        heartbeats: Sequence[Heartbeat],
        stop: Any,
        check_s: float,
    ) -> None:
        """Wait until evaluation has completed ``limit`` trajectories, or ends by itself.

        Workers are not in step with each other, but the trajectories that count must not depend on
        that: the evaluation ends only after all workers have passed the time step that reached the
        limit. An evaluation that will be repeated ends at once.

        Args:
            queue: queue of trajectory infos.
            limit: number of trajectories.
            heartbeats: heartbeats of the workers that evaluate.
            stop: shared flag, set to True at the limit.
            check_s: seconds between two checks.
        """

        def is_settled(block: bool = True, timeout: float | None = None) -> bool:
            # The steps first: trajectories completed in them are in the queue by then.
            n_steps = min(heartbeat.values[Heartbeat.STEPS] for heartbeat in heartbeats)
            queue.receive()
            last = queue.time_of(limit)
            if self.ctrl.barrier_out.is_complete():
                return True
            if self.ctrl.eval_again.value or (last is not None and n_steps > last):
                stop.value = True
                return True
            time.sleep(check_s)
            return False

        self.supervisor.wait_for(is_settled)

    # --- State ------------------------------------------------------------------------------------

    def get_states(self) -> list[Any]:
        """Fetch and return the state of every worker."""
        states: dict[int, Any] = {}
        self._exchange_states(GIVE_STATE, lambda: states.update(self._states.receive()))
        return [states[index] for index in range(len(states))]

    def set_states(self, states: Sequence[Any]) -> None:
        """Restore the state of every worker.

        Raises:
            ValueError: if there are other numbers of workers or environments.
        """
        self._states.check_sizes(states)
        self._exchange_states(TAKE_STATE, lambda: self._states.send(states))
        self.acting_noise = states[0]["collector"].get("acting_noise", self.acting_noise)

    def _exchange_states(self, task: int, exchange: Callable[[], None]) -> None:
        with self.supervisor.task():
            self.ctrl.state_task.value = task
            self.do_task(exchange, exchange)
            self.ctrl.state_task.value = NOTHING
