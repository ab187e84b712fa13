"""The synchronous loop, which alternates between sampling a batch and training on it.

The two runners differ in where performance is measured: online, over a window of the trajectories
completed in training batches, or offline, in evaluation environments before each log row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpyt.core.protocols import AgentLike, AlgoLike, SamplerLike
from rlpyt.runners._checks import (
    check_compile,
    check_objects,
    check_one_affinity,
    check_sync_roles,
    checked_callbacks,
)
from rlpyt.runners.base import BaseRunner, prepare_process
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.log import drop_rows_after
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import check_names, save__init__args, whole_number
from rlpyt.utils.seed import evaluation_streams

# Columns of every log row, in order.
COLUMNS = (
    "Iteration",
    "CumTime (s)",
    "CumSteps",
    "CumCompletedTrajs",
    "CumUpdates",
    "StepsPerSecond",
    "UpdatesPerSecond",
    "ReplayRatio",
    "CumReplayRatio",
)
# The last iterations before a row, in which one update of each kind is measured.
HEALTH_ITRS = 10


class MinibatchRlBase(BaseRunner):
    """Base class of the synchronous runners: the loop, its start and end, and its log.

    An iteration (itr) is one sampler batch and one call of ``algo.optimize_agent``; steps are
    environment steps over all processes.

    Args:
        algo: algorithm that learns from batches.
        agent: agent that acts and is trained.
        sampler: source of batches and evaluations.
        n_steps: steps of the whole run, rounded up to iterations, and to whole log intervals.
        seed: seed from which all others are derived; drawn and logged if None.
        affinity: mapping with ``cuda_idx``, ``master_cpus``, ``master_torch_threads``,
            ``workers_cpus``, ...
        log_interval_steps: steps from one log row to the next.
        callbacks: hooks into the run, see :class:`~rlpyt.runners.callbacks.Callback`.
        compile: whether updates are compiled: False, True, or keywords of ``torch.compile``.

    Attributes:
        itr_batch_size: number of environment steps in an iteration, over all processes.
        min_itr_learn: first iteration with a snapshot.
        start_itr: first iteration; above 0 in a resumed run.
    """

    sampler: SamplerLike
    start_itr = 0

    _columns: tuple[str, ...] = ()
    _itr = -1  # The last stored iteration.
    _is_evaluating = False
    _is_row_due = False  # Whether a signal came before the row of the last iteration.
    _saves_now = False  # Whether the processes that train together have agreed to save.
    # Whether all processes run the loop below, and so exchange more than gradients.
    _is_in_step = False

    def __init__(
        self,
        algo: AlgoLike,
        agent: AgentLike,
        sampler: SamplerLike,
        n_steps: float,
        seed: int | None = None,
        affinity: Mapping[str, Any] | None = None,
        log_interval_steps: float = 1e5,
        callbacks: Sequence[Callback] | None = None,
        compile: Any = False,
    ) -> None:
        n_steps = whole_number("n_steps", n_steps)
        log_interval_steps = whole_number("log_interval_steps", log_interval_steps)
        affinity = {} if affinity is None else affinity
        check_objects(algo=algo, agent=agent, sampler=sampler)
        save__init__args(locals())
        # An algorithm that has an agent keeps the number of an earlier run.
        self.min_itr_learn = 0 if getattr(algo, "agent", None) else algo.min_itr_learn
        if compile:
            algo.compile = check_compile(compile)
        self.callbacks = checked_callbacks(callbacks)

    def train(
        self,
        *,
        checkpoint_interval_steps: float | None = None,
        checkpoint_interval_minutes: float | None = None,
        resume: str | os.PathLike[str] | None = None,
        keep_checkpoints: int | None = 2,
    ) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens.

        With an interval, or ``resume="auto"``, checkpoints are saved in the directory
        ``checkpoints`` beside the snapshots: at the start, at every interval and at the end. Then
        Ctrl-C ends the run after the current iteration, with a checkpoint; a second one interrupts
        it at once. SIGTERM always ends it after the current iteration, with a snapshot. An
        evaluation ends after its next step, and is repeated before a resumed run continues.

        Args:
            checkpoint_interval_steps: number of environment steps from one checkpoint to the next.
            checkpoint_interval_minutes: number of minutes from one checkpoint to the next; 10 by
                default if ``resume="auto"`` comes without intervals.
            resume: "auto" for the latest checkpoint in this log directory, or a new run if there is
                none; or the path of a checkpoint.
            keep_checkpoints: number of latest checkpoints to keep; None for all.

        Raises:
            CheckpointError: if the checkpoint to resume from is damaged, or has another
                configuration.
            SystemExit: with code 128 + signal, if a signal ended the run.
        """
        self._is_in_step = True
        intervals = checkpoint_interval_steps, checkpoint_interval_minutes
        with self._saving(*intervals, resume, keep_checkpoints):
            n_itr = self.startup()
            self._begin_checkpoints()
            self._evaluate_before_training()
            itr = self.start_itr
            while itr < n_itr and not self._stopping and self._signal is None:
                logger.set_iteration(itr)
                try:
                    with logger.prefix(f"itr #{itr} "):
                        self._iterate(itr)
                    itr += 1
                except Exception as error:
                    if not any(callback.on_error(self, itr, error) for callback in self.callbacks):
                        raise  # No callback has gone back to a checkpoint.
                    self._evaluate_before_training()
                    itr = self.start_itr
            if self._signal is not None and self.rank == 0 and self._itr >= self.min_itr_learn:
                self.save_itr_snapshot(self._itr)
            self._save_checkpoint()

    def _iterate(self, itr: int) -> None:
        """Sample a batch, learn from it, and log and save if due."""
        self.agent.sample_mode(itr)
        samples, traj_infos = self.sampler.obtain_samples(itr)
        if samples is not None:  # Offline samplers give none.
            self.run_log.count_ends(samples.env, self.sampler.mid_batch_reset)
        restarted: Any = getattr(self.sampler, "take_restarted", list)()
        if restarted:
            self.algo.truncate_trajectories(restarted)
        self.agent.train_mode(itr)
        self._measure_health(-(itr + 1) % self.log_interval_itrs < HEALTH_ITRS)
        opt_info = self.algo.optimize_agent(itr, samples)
        self.store_diagnostics(itr, self._end_iteration(itr, traj_infos), opt_info)
        if self._stopping or (itr + 1) % self.log_interval_itrs == 0:
            self._measure_and_log(itr)
        if self._is_checkpoint_due(itr) if self._group is None else self._saves_now:
            self._save_checkpoint()

    def _end_iteration(self, itr: int, traj_infos: Sequence[Any]) -> Sequence[Any]:
        """Exchange trajectories and requests with other processes; return those to store here."""
        return traj_infos

    @property
    def can_go_back(self) -> bool:
        return self.world_size == 1

    def go_back(self, checkpoint: Path) -> None:
        assert self.checkpoints is not None
        self.load_state_dict(self.checkpoints.load(checkpoint))
        self.initialize_logging()
        self._resume_if_asked()
        self.checkpoints.begin(self._cum_steps, self.algo.update_counter)

    # --- Start and end ---------------------------------------------------------------------------

    def startup(self) -> int:
        """Prepare the process, initialize sampler (and agent), algorithm and log.

        Returns:
            The number of iterations.

        Raises:
            ValueError: if the sampler or the affinity is for another runner.
        """
        check_sync_roles(self)
        check_one_affinity(self.affinity)
        prepare_process(self.affinity)
        self._tell_of_second_use()
        self.start_itr, self._is_row_due = 0, False
        env_seed = self._prepare_seeds()
        examples = self.sampler.initialize(
            agent=self.agent,
            affinity=self.affinity,
            seed=env_seed,
            bootstrap_value=self.algo.bootstrap_value,
            traj_info_kwargs=self.get_traj_info_kwargs(),
            rank=self.rank,
            world_size=self.world_size,
        )
        self.itr_batch_size = self.sampler.batch_spec.size * self.world_size
        n_itr = self.get_n_itr()
        self.agent.to_device(self.affinity.get("cuda_idx", None))
        if self.world_size > 1:
            self._make_data_parallel()
        self._seed_training()
        self.algo.initialize(
            agent=self.agent,
            n_itr=n_itr,
            batch_spec=self.sampler.batch_spec,
            mid_batch_reset=self.sampler.mid_batch_reset,
            examples=examples,
            world_size=self.world_size,
            rank=self.rank,
        )
        self.initialize_logging()
        self._resume_if_asked()
        self._notify("on_start")
        return n_itr

    def _make_data_parallel(self) -> None:
        """Connect the agent with the agents of other processes."""
        self.agent.data_parallel()

    def get_n_itr(self) -> int:
        """Return the iterations for ``n_steps``, rounded up to whole log intervals."""
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        n_intervals = -(-self.n_steps // (self.log_interval_itrs * self.itr_batch_size))
        self._set_n_itr(n_intervals, self.itr_batch_size)
        logger.log(f"Running {self.n_itr} iterations of minibatch RL.")
        return self.n_itr

    # --- The log ---------------------------------------------------------------------------------

    def _evaluate_before_training(self) -> None:
        """Log the untrained agent, if that needs no training samples."""

    def _measure_and_log(self, itr: int) -> None:
        raise NotImplementedError

    def initialize_logging(self) -> None:
        """Reset all counters and clocks."""
        super().initialize_logging()
        self._itr = -1

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep the opt info and trajectories of one iteration until the next log row."""
        self.run_log.add_trajectories(traj_infos)
        self.run_log.add_opt_info(opt_info)
        self._itr = itr
        if itr < self.algo.min_itr_learn:
            self._log_filling(itr + 1)
        if self.pbar is not None:
            self.pbar.update((itr + 1) % self.log_interval_itrs)
        self._notify("on_itr", itr, traj_infos, opt_info)

    def log_diagnostics(
        self,
        itr: int,
        traj_infos: Sequence[Any] | None = None,
        eval_time: float = 0,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Save a snapshot, and write one row of all counters and statistics to the log.

        Args:
            itr: current iteration.
            traj_infos: trajectories for the statistics; None for the window of recent ones.
            eval_time: time spent in evaluation since the last row, in seconds.
            prefix: prefix of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        if itr >= self.min_itr_learn - 1:
            self.save_itr_snapshot(itr)
        values = self.run_log.measure(
            cum_steps=self._n_itrs_done(itr) * self.itr_batch_size,
            updates=self.algo.update_counter,
            batch_size=self.algo.batch_size * self.world_size,
            traj_infos=traj_infos,
            eval_time=eval_time,
        )
        values["Iteration"] = itr
        of_training = ("CumTrainTime", *COLUMNS) if self._eval else COLUMNS
        self._write_row(itr, (*self._columns, *of_training), values, prefix, traj_infos)

    def _n_itrs_done(self, itr: int) -> int:
        """Number of iterations before the log row of ``itr``; 0 for the evaluation at the start."""
        return 0 if itr == 0 and self._itr < 0 else itr + 1

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """Return the snapshot for a log row, to use the agent later: tensors and numbers only."""
        return {
            "itr": itr,
            "cum_steps": self._n_itrs_done(itr) * self.itr_batch_size,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
            **self._env_statistics(),
        }

    def save_itr_snapshot(self, itr: int) -> None:
        """Save the snapshot, in the snapshot mode of the logger."""
        self._save_snapshot(itr, self.get_itr_snapshot(itr))

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "itr": self._itr,
            "sampler": self.sampler.state_dict(),
        }

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self.sampler.load_state_dict(state["sampler"])
        restarted = self.sampler.envs_without_state(state["sampler"])
        if restarted:
            self.algo.truncate_trajectories(list(restarted))
        self._itr = state["itr"]
        self.start_itr = state["itr"] + 1
        drop_rows_after(self._itr, self._cum_steps if self.start_itr else -1)
        logger.log(f"Resuming after iteration {self._itr}.")

    @property
    def _cum_steps(self) -> int:
        return (self._itr + 1) * self.itr_batch_size

    def _describe_inexact_resume(self) -> str:
        without_state = self.sampler.envs_without_state(self.sampler.state_dict())
        if not without_state:
            return ""
        column, reason = next(iter(without_state.items()))
        return (
            f"{len(without_state)} of {self.sampler.batch_spec.B} environments have no state, such "
            f"as environment {column}: {reason}. When this run resumes, they begin new "
            "episodes, and the last transitions before the interruption are not trained on."
        )

    def _is_checkpoint_due(self, itr: int) -> bool:
        """Return whether to save a checkpoint after iteration ``itr``."""
        cum_steps = (itr + 1) * self.itr_batch_size
        return self.checkpoints is not None and self.checkpoints.is_due(cum_steps)


class MinibatchRl(MinibatchRlBase):
    """Synchronous runner that measures performance online, on the last training trajectories.

    Args:
        log_traj_window: number of trajectories.
        **kwargs: arguments of :class:`MinibatchRlBase`.
    """

    _columns = ("NewCompletedTrajs", "StepsInTrajWindow")

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        check_names(type(self), kwargs)
        super().__init__(**kwargs)
        self.log_traj_window = whole_number("log_traj_window", log_traj_window)

    def initialize_logging(self) -> None:
        """Reset all counters and clocks, and empty the window of trajectories."""
        self.run_log.keep_window(self.log_traj_window)
        super().initialize_logging()

    def log_diagnostics(  # type: ignore[override]
        self, itr: int, prefix: str = "Diagnostics/"
    ) -> None:
        """Write one row with the performance in the window of trajectories."""
        super().log_diagnostics(itr, prefix=prefix)

    def _measure_and_log(self, itr: int) -> None:
        self.log_diagnostics(itr)


class MinibatchRlEval(MinibatchRlBase):
    """Synchronous runner with evaluations at the start and before each log row."""

    _columns = ("StepsInEval", "TrajsInEval", "CumEvalTime")
    _eval = True

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Run one evaluation.

        Returns:
            The completed trajectory infos, and the time it took in seconds.
        """
        if itr < self.min_itr_learn - 1 and itr != 0:
            return [], 0.0
        logger.log("Evaluating agent...")
        self.agent.eval_mode(itr)
        start = time.time()
        with evaluation_streams(itr):  # Evaluation must not change training.
            traj_infos = self.sampler.evaluate_agent(itr)
        eval_time = time.time() - start
        logger.log(f"Evaluation complete: {len(traj_infos)} trajectories in {eval_time:.1f} s.")
        if not self._is_signalled:
            self._notify("on_eval", itr, traj_infos)
        return traj_infos, eval_time

    def log_diagnostics(  # type: ignore[override]
        self,
        itr: int,
        eval_traj_infos: Sequence[Any],
        eval_time: float,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Write one row with the performance in an evaluation."""
        if not eval_traj_infos:
            logger.log("WARNING: no complete trajectories in the evaluation: raise eval_max_steps.")
        self._cum_eval_time += eval_time
        super().log_diagnostics(itr, eval_traj_infos, eval_time, prefix=prefix)

    def _evaluate_before_training(self) -> None:
        if self.start_itr == 0 or self._is_row_due:
            itr = max(0, self.start_itr - 1)
            logger.set_iteration(itr)  # The run may have gone back here from a later one.
            with logger.prefix(f"itr #{itr} "):
                self._measure_and_log(itr)

    def _measure_and_log(self, itr: int) -> None:
        self._is_evaluating = True
        evaluation = ([], 0.0) if self._is_signalled else self.evaluate_agent(itr)
        self._is_evaluating = False
        self._is_row_due = self._is_signalled
        if not self._is_row_due:
            self.log_diagnostics(itr, *evaluation)

    @property
    def _is_signalled(self) -> bool:
        """Whether a signal is to end the run, even if other processes do not know it yet."""
        return (self._signal or self._signals.received) is not None

    def _pass_on_request(self) -> str:
        if not self._is_evaluating:
            return super()._pass_on_request()
        self.sampler.stop_evaluation()
        return "Ending the run: the evaluation stops, and is repeated if the run is resumed."

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "is_row_due": self._is_row_due}

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self._is_row_due = state.get("is_row_due", False)
        if self._is_row_due:  # It may have been written before the run was interrupted again.
            drop_rows_after(self._itr - 1, self._cum_steps - 1)
