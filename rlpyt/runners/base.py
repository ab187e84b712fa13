"""Base class of all runners, and the set-up of their processes."""

from __future__ import annotations

import os
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike, AlgoLike
from rlpyt.core.statistics import Statistics
from rlpyt.processes.allocator import tune_allocator, would_spin_in_vain
from rlpyt.processes.launch import can_be_pinned, pin_process
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners._checks import check_cpus_in
from rlpyt.runners._process_group import ProcessGroup
from rlpyt.runners.callbacks import Callback, SaveState
from rlpyt.runners.checkpointing import (
    AUTO,
    STOP_SIGNALS,
    RunCheckpoints,
    StopSignals,
    open_checkpoints,
)
from rlpyt.runners.divergence import start_of
from rlpyt.runners.log import UNREAD, InLog, RunLog, drop_rows_after
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import reproduced_bundle
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.seed import (
    Purpose,
    derived_seed,
    make_seed,
    rng_state,
    seed_streams,
    set_rng_state,
    set_seed,
)


class BaseRunner:
    """Base class of all runners: one training run, with its callbacks and statistics.

    Subclasses may replace ``__init__`` or ``initialize_logging``, so attributes have class defaults
    where they may be read before they are set.

    Attributes:
        log_interval_itrs: iterations from one log row to the next.
        n_itr: iterations of the whole run.
        checkpoints: checkpoints of this process during :meth:`train`; None if it neither saves nor
            resumes.
        group: processes that train together, each with a runner; None in a run of one process.
        supervisor: supervisor of the other processes, between their start and their end.
    """

    __signature__ = ConstructorSignature()

    _eval = False

    algo: AlgoLike
    agent: AgentLike
    sampler: Any
    affinity: Any
    n_steps: int
    seed: int | None
    log_interval_steps: int
    world_size: int = 1
    rank: int = 0
    itr_batch_size: int
    callbacks: Sequence[Callback] = ()
    pbar: ProgBarCounter | None = None
    checkpoints: RunCheckpoints | None = None
    _group: ProcessGroup | None = None
    supervisor: Supervisor | None = None

    log_interval_itrs: int
    n_itr: int

    # Kept in the log; subclasses read and set them here.
    _traj_infos = InLog()
    _opt_infos = InLog()
    _start_time = InLog()
    _last_time = InLog()
    _last_update_counter = InLog()
    _cum_time = InLog()
    _cum_eval_time = InLog()
    _cum_completed_trajs = InLog()
    _new_completed_trajs = InLog()

    _filled_tenths = 0
    _stopping = False
    _stop_requested = False
    _failed = False
    _agreed_signal: int | None = None
    _signals = StopSignals(())
    _resume_state: dict[str, Any] | None = None

    def train(self) -> None:
        """Run from start to end."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Close the progress bar, and end everything that :meth:`train` has started."""
        if not self._failed and self._signal is None:
            logger.log("Training complete.")
        if self.pbar is not None:
            self.pbar.stop()
        runner: Any = self
        with ExitStack() as ends:  # All of them, even if one raises.
            ends.callback(self._end_processes)
            for callback in reversed(self._ordered_callbacks()):
                ends.callback(callback.on_end, runner)

    def _end_processes(self) -> None:
        self.sampler.shutdown()

    def stop(self) -> None:
        """End the run after the current iteration, with a last log row.

        A run of several training processes makes one more iteration, unless it is writing a log
        row.
        """
        self._stop_requested = True
        self._stopping = self._stopping or self._group is None

    @property
    def can_go_back(self) -> bool:
        """Whether :meth:`go_back` is possible: in synchronous runs of one process."""
        return False

    def go_back(self, checkpoint: Path) -> None:
        """Continue from an earlier checkpoint of this run; for callbacks in ``on_error``."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot go back to {checkpoint}: check can_go_back first"
        )

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Return attributes for the trajectory info class."""
        return {"discount": self.algo.discount}

    def _set_n_itr(self, n_intervals: int, batch_size: int) -> None:
        """Set the length of the run, for iterations of ``batch_size`` steps."""
        self.n_itr = n_intervals * self.log_interval_itrs
        interval_steps = self.log_interval_itrs * batch_size
        if interval_steps > self.n_steps:
            logger.log(
                f"WARNING: n_steps {self.n_steps} is less than one log interval, so the run "
                f"takes {interval_steps} steps; log_interval_steps is {self.log_interval_steps}, "
                f"an iteration takes {batch_size}: make both smaller for a shorter run."
            )
        elif abs(n_intervals * interval_steps - self.n_steps) > 0.01 * self.n_steps:
            logger.log(
                f"n_steps is {self.n_steps}, but the run takes {n_intervals * interval_steps}: a "
                f"whole number of iterations of {batch_size} steps, and of log intervals of "
                f"{interval_steps}."
            )

    def _tell_of_second_use(self) -> None:
        """Log that roles of an earlier run start anew, as all do in every run."""
        first = {"agent": "model", "algo": "agent", "sampler": "agent"}
        used = [
            name
            for name, attribute in first.items()
            if getattr(getattr(self, name), attribute, None) is not None
        ]
        if used and self._resume_state is None:
            logger.log(
                f"Used in an earlier run: {', '.join(used)}. Every run starts anew, with initial "
                "weights and an empty replay buffer. To go on from trained weights, make an agent "
                "with initial_model_state_dict=agent.state_dict() of the trained one."
            )

    def _prepare_seeds(self) -> int:
        """Seed this process, and return the seed of the sampler."""
        state = self._resume_state
        if state is not None:
            self.seed = state["seed"]
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        # Environments without a state must not repeat the first episodes of the run.
        resumed = () if state is None else (state["itr"] + 1,)
        return derived_seed(self.seed, Purpose.SAMPLER, *resumed)

    def _seed_training(self) -> None:
        """Seed this process again, since the numbers drawn so far depend on the sampler."""
        assert self.seed is not None, "set by _prepare_seeds"
        seed_streams(derived_seed(self.seed, Purpose.TRAINING))

    # --- The log ---------------------------------------------------------------------------------

    @cached_property
    def run_log(self) -> RunLog:
        """Counters, clocks, opt infos and trajectories, from which log rows are made."""
        return RunLog()

    def initialize_logging(self) -> None:
        """Reset all counters and clocks."""
        self.run_log.start(self.algo.opt_info_fields)
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def _log_filling(self, n_itrs: int) -> None:
        """Log each tenth of the iterations that fill the replay buffer, before training starts."""
        first = self.algo.min_itr_learn
        tenths = n_itrs * 10 // first if 0 < n_itrs <= first else 0
        if tenths > self._filled_tenths:
            self._filled_tenths = tenths
            logger.log(f"Filling the replay buffer: {tenths}0% of the steps before training.")

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all opt infos since the last row."""
        self.run_log.record_infos(list(self._traj_infos if traj_infos is None else traj_infos))

    def _measure_health(self, is_due: bool) -> None:
        """Have the algorithm measure its next update or not, if it is one of the library."""
        health = getattr(self.algo, "health", None)
        if health is not None:
            health.is_due = is_due

    def _health_columns(self) -> dict[str, float]:
        """Return the columns on the health of the run, which the console does not show."""
        health = getattr(self.algo, "health", None)
        measured = {} if health is None else health.row(self.algo, self.run_log.opt_infos)
        return {**measured, **self.run_log.training_columns()}

    def _write_row(
        self,
        itr: int,
        columns: Iterable[str],
        values: Mapping[str, Any],
        prefix: str,
        traj_infos: Sequence[Any] | None = None,
    ) -> None:
        """Write a row: ``columns`` of ``values``, and statistics of trajectories and opt infos."""
        infos = list(self._traj_infos if traj_infos is None else traj_infos)
        health = self._health_columns()
        with logger.tabular_prefix(prefix):
            for name in columns:
                logger.record_tabular(name, values[name])
        self._log_infos(traj_infos)
        for name, value in health.items():
            logger.record_tabular(name, value)
        unread = {*UNREAD, *(prefix + name for name in UNREAD), *health}
        logger.dump_tabular(with_prefix=False, unread=unread)
        logger.log(f"Optimizing over {self.log_interval_itrs} sampler batches.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, infos)

    # --- State -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from after this iteration, including the replay buffer.

        Its arrays are not copied: save it before the next iteration.
        """
        return {
            "seed": self.seed,
            "rng": rng_state(),
            "agent": self.agent.state_dict(),
            "algo": self.algo.state_dict(),
            "callbacks": [callback.state_dict() for callback in self.callbacks],
            "callback_classes": _class_names(self.callbacks),
            **self.run_log.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the ``state`` that :meth:`train` will resume from.

        Call it before ``train``, on a runner made from the same settings; ``n_steps`` may be
        larger. A subclass that replaces ``train`` must begin its loop at ``self.start_itr``, which
        ``startup`` sets.
        """
        self._resume_state = state

    def _resume_if_asked(self) -> None:
        """Continue from the loaded state, at the end of the start."""
        state, self._resume_state = self._resume_state, None
        if state is not None:
            self._resume(state)
            # Last, since start and loading draw random numbers.
            set_rng_state(state["rng"])

    def _resume(self, state: dict[str, Any]) -> None:
        """Load the state of an earlier run, after the start of this runner."""
        self.agent.load_state_dict(state["agent"])
        self.algo.load_state_dict(state["algo"])
        self.run_log.load_state_dict(state)
        # By class, since the resumed run may have further callbacks, or fewer.
        names = _class_names(self.callbacks)
        states = defaultdict(list)
        for name, saved in zip(state.get("callback_classes", names), state["callbacks"]):
            states[name].append(saved)
        for name, callback in zip(names, self.callbacks):
            if states[name]:
                callback.load_state_dict(states[name].pop(0))

    # --- Checkpoints and signals -----------------------------------------------------------------

    @contextmanager
    def _saving(
        self,
        interval_steps: float | None,
        interval_minutes: float | None,
        resume: str | os.PathLike[str] | None,
        keep: int | None,
    ) -> Iterator[None]:
        """Surround a run with checkpoints, signal handling and a shutdown in every case.

        The arguments are as for ``train``.
        """
        self._stopping = self._stop_requested = self._failed = False
        self._agreed_signal = None
        bundle = reproduced_bundle()
        if bundle is not None:
            interval_steps = interval_minutes = None
            resume, seed = start_of(bundle)
            # Other ranks have seeds that rank 0 derived from it.
            self.seed = seed if self.rank == 0 else self.seed
        opened = open_checkpoints(
            self.checkpoint_configuration(), interval_steps, interval_minutes, resume, keep
        )
        if opened is not None:  # Otherwise another process may have set the checkpoints.
            self.checkpoints = opened
            self._resume_state = opened.load() or self._resume_state
            if resume == AUTO and self._resume_state is None:
                logger.log("There is no checkpoint yet: starting a new run.")
                drop_rows_after(-1, -1)
        try:
            with self._catch_signals() as self._signals:
                try:
                    yield
                except BaseException as error:
                    self._failed = True
                    cause = self._explain(error)
                    self._shutdown_after_failure(error)
                    if cause is not error:
                        raise cause from error
                    raise
                self.shutdown()
        finally:
            if self.checkpoints is not None:
                self.checkpoints.wait()
            self.checkpoints = None
            ended_by, self._signals = self._signal, StopSignals(())
        if ended_by is not None:
            raise SystemExit(128 + ended_by)

    def checkpoint_configuration(self) -> dict[str, Any]:
        """Return the settings that this run must share with a state that it loads."""
        roles = {"runner": self, "algo": self.algo, "agent": self.agent, "sampler": self.sampler}
        batch_T, batch_B = self.sampler.batch_spec
        return {
            **{name: type(role).__qualname__ for name, role in roles.items()},
            "batch_T": int(batch_T),
            "batch_B": int(batch_B),
            "world_size": self._n_synchronous(),
        }

    def _n_synchronous(self) -> int:
        """Return the number of processes that each save checkpoints."""
        return 1

    def _catch_signals(self) -> StopSignals:
        """Return the signal handler, which leaves Ctrl-C unchanged in runs without checkpoints."""
        numbers = STOP_SIGNALS if self._saves_checkpoints else STOP_SIGNALS[:1]
        return StopSignals(numbers, self._is_interrupted_by_failure, self._pass_on_request)

    def _pass_on_request(self) -> str:
        """Return what happens before a signal ends the run; called by the signal handler."""
        checkpoint = ", with a checkpoint" if self._saves_checkpoints else ""
        return f"Ending the run after the current iteration{checkpoint}."

    @property
    def _saves_checkpoints(self) -> bool:
        """Whether the run saves checkpoints; it may also only load one."""
        return self.checkpoints is not None and self.checkpoints.plan.directory is not None

    def _is_interrupted_by_failure(self) -> bool:
        """Return whether the failure of another process interrupts this one."""
        return self.supervisor is not None and self.supervisor.has_interrupted

    @property
    def _signal(self) -> int | None:
        """The signal that ends the run after the current iteration; None if there was none."""
        return self._signals.received if self._group is None else self._agreed_signal

    @property
    def _cum_steps(self) -> int:
        """Environment steps of the finished iterations, the number in checkpoint names."""
        raise NotImplementedError

    def _begin_checkpoints(self) -> None:
        """Save the state at the start of a new run; warn about parts that cannot resume exactly."""
        if self.checkpoints is None:
            return
        if self._cum_steps and self.checkpoints.last() is not None:  # A branch has none yet.
            self.checkpoints.begin(self._cum_steps, self.algo.update_counter)
        warning = self._describe_inexact_resume()
        if warning:
            logger.log(f"WARNING: {warning}")
        self._save_checkpoint()

    def _describe_inexact_resume(self) -> str:
        """Return a description of the parts that cannot resume exactly; empty if all can."""
        raise NotImplementedError

    def _save_checkpoint(self) -> None:
        """Save a checkpoint, unless the last one has the same step and update counts."""
        if self.checkpoints is not None:
            counts = self._cum_steps, self.algo.update_counter
            self.checkpoints.save(self.state_dict, *counts, self._group)

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self._ordered_callbacks():
            getattr(callback, event)(self, *args)

    def _ordered_callbacks(self) -> list[Callback]:
        """Return the callbacks; ``SaveState`` is last, since it saves what the others do."""
        return sorted(self.callbacks, key=lambda callback: isinstance(callback, SaveState))

    def _env_statistics(self) -> dict[str, Any]:
        """Return the entry of a snapshot for running statistics of environments, if they have some.

        The policy needs them: it was trained on observations normalized by them.
        """
        statistics: Statistics = getattr(self.sampler, "env_statistics", dict)()
        return {"env_statistics": statistics} if statistics else {}

    def _save_snapshot(self, itr: int, snapshot: dict[str, Any]) -> None:
        """Save the snapshot of a log row; a full disk does not end the run."""
        logger.log("saving snapshot...")
        try:
            logger.save_itr_params(itr, snapshot)
        except (OSError, RuntimeError) as error:  # Torch raises the second.
            logger.log(f"WARNING: the snapshot could not be saved: {error!r}. The run continues.")
        else:
            logger.log("saved")

    # --- Failure ---------------------------------------------------------------------------------

    def _explain(self, error: BaseException) -> BaseException:
        """Return the failure of another process that has led to ``error``, or ``error`` itself."""
        cause = None if self.supervisor is None else self.supervisor.explain(error)
        return error if cause is None else cause

    def _shutdown_after_failure(self, error: BaseException) -> None:
        """Shut down everything that was started, without hiding the first error."""
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")


def _class_names(callbacks: Sequence[Callback]) -> list[str]:
    return [type(callback).__qualname__ for callback in callbacks]


def prepare_process(affinity: Mapping[str, Any]) -> None:
    """Set CPU affinity and torch threads from ``affinity``, and tune the memory allocator.

    Args:
        affinity: ``master_cpus`` (used unless ``set_affinity`` is False) and
            ``master_torch_threads``, each optional. Without ``master_torch_threads`` torch gets at
            most one thread per CPU in ``master_cpus``.

    Raises:
        ValueError: if a CPU does not exist or may not be used.
    """
    check_cpus_in(affinity)
    cpus = affinity.get("master_cpus")
    threads = affinity.get("master_torch_threads")
    if cpus and affinity.get("set_affinity", True):
        if can_be_pinned():
            pin_process(cpus)
            logger.log(f"Runner master CPU affinity: {sorted(cpus)}.")
        else:
            logger.log("Runner master CPU affinity: not available on this system.")
        threads = min(torch.get_num_threads(), len(set(cpus))) if threads is None else threads
    if threads is not None:
        torch.set_num_threads(int(threads))
    logger.log(f"Runner master Torch threads: {torch.get_num_threads()}.")
    if torch.get_num_threads() > 1 and would_spin_in_vain():
        logger.log(
            f"WARNING: {os.getloadavg()[0]:.0f} threads want to run on {os.cpu_count()} CPUs, "
            "where torch's spin while they wait for each other: start with GOMP_SPINCOUNT=1000 in "
            "the environment, as the command does, or set master_torch_threads=1 in the affinity, "
            "which may be many times as fast."
        )
    tune_allocator()
