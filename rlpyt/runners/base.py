"""Base class of all runners, and the preparation of their processes."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike, AlgoLike
from rlpyt.processes.allocator import tune_allocator
from rlpyt.processes.launch import can_be_pinned, pin_process
from rlpyt.runners._checks import check_cpus_in
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.checkpointing import (
    AUTO,
    DEFAULT_INTERVAL_MINUTES,
    STOP_SIGNALS,
    RunCheckpoints,
    StopSignals,
    plan_checkpoints,
)
from rlpyt.runners.divergence import start_of
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import reproduced_bundle
from rlpyt.utils.prog_bar import ProgBarCounter
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

    Subclasses may replace ``__init__`` or ``initialize_logging``, so attributes that could be read
    before they are written have a default here.

    Attributes:
        log_interval_itrs: iterations from one log row to the next.
        n_itr: iterations of the whole run.
        checkpoints: checkpoints of this process during :meth:`train`, if it saves or resumes any.
    """

    _eval = False

    algo: AlgoLike
    agent: AgentLike
    sampler: Any
    n_steps: int
    seed: int | None
    log_interval_steps: int
    world_size = 1
    itr_batch_size: int
    callbacks: Sequence[Callback] = ()
    pbar: ProgBarCounter | None = None
    checkpoints: RunCheckpoints | None = None

    log_interval_itrs: int
    n_itr: int

    _traj_infos: Any = ()
    _opt_infos: dict[str, list[Any]]
    _start_time: float
    _last_time: float
    _last_update_counter: int
    _stopping = False
    _signals = StopSignals(())
    _resume_state: dict[str, Any] | None = None

    def train(
        self,
        *,
        checkpoint_interval_steps: float | None = None,
        checkpoint_interval_minutes: float | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens.

        With an interval, or ``resume="auto"``, checkpoints are saved in the directory
        ``checkpoints`` beside the snapshots: at the start, at every interval and at the end. Then
        Ctrl-C ends the run after the present iteration, with a checkpoint; a second one interrupts
        it at once. SIGTERM always ends it after the present iteration.

        Args:
            checkpoint_interval_steps: number of environment steps from one checkpoint to the next.
            checkpoint_interval_minutes: number of minutes from one checkpoint to the next; 10 if
                there is neither interval but ``resume="auto"``.
            resume: "auto" for the latest checkpoint of this log directory, or a new run if there
                is none; or the path of a checkpoint.

        Raises:
            CheckpointError: if the checkpoint to resume from is damaged, or of another
                configuration.
            SystemExit: with code 128 + signal, if a signal ended the run.
        """
        self._stopping = False
        self._open_checkpoints(checkpoint_interval_steps, checkpoint_interval_minutes, resume)
        try:
            with self._catch_signals() as self._signals:
                self._run()
        finally:
            if self.checkpoints is not None:
                self.checkpoints.wait()
            self.checkpoints = None
        if self._signal is not None:
            raise SystemExit(128 + self._signal)

    def _run(self) -> None:
        """Run from the start, or from the state that was loaded; shut down whatever happens."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """End everything that :meth:`train` has started."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        self._stopping = True

    @property
    def can_go_back(self) -> bool:
        """Whether :meth:`go_back` is possible, as in runs that one process trains synchronously."""
        return False

    def go_back(self, checkpoint: Path) -> None:
        """Continue from an earlier checkpoint of this run; for callbacks in ``on_error``."""
        raise NotImplementedError(f"{type(self).__name__} cannot go back to {checkpoint}")

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Return attributes for the trajectory info class."""
        return {"discount": self.algo.discount}

    def _set_n_itr(self, n_intervals: int, batch_size: int) -> None:
        """Fix the length of the run, where an iteration takes ``batch_size`` steps."""
        self.n_itr = n_intervals * self.log_interval_itrs
        interval_steps = self.log_interval_itrs * batch_size
        if interval_steps > self.n_steps:
            logger.log(
                f"WARNING: n_steps {self.n_steps} is less than one log interval, so that the run "
                f"takes {interval_steps} steps; log_interval_steps is {self.log_interval_steps}, "
                f"an iteration takes {batch_size}: make both smaller for a shorter run."
            )

    def _prepare_seeds(self) -> int:
        """Seed this process, and return the seed of the sampler."""
        state = self._resume_state
        if state is not None:
            self.seed = state["seed"]
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        # Environments without a state must not repeat the episodes that they began the run with.
        resumed = () if state is None else (state["itr"] + 1,)
        return derived_seed(self.seed, Purpose.SAMPLER, *resumed)

    def _seed_training(self) -> None:
        """Seed this process again, since it depends on the sampler what has been drawn so far."""
        assert self.seed is not None, "set by _prepare_seeds"
        seed_streams(derived_seed(self.seed, Purpose.TRAINING))

    # --- The log ---------------------------------------------------------------------------------

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._last_update_counter = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def _store_opt_info(self, opt_info: Any) -> None:
        """Keep the fields of ``opt_info``, lists or single values, until the next log row."""
        for name, values in self._opt_infos.items():
            new = getattr(opt_info, name, [])
            values.extend(new if isinstance(new, (list, tuple)) else [new])

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all opt infos since the last row."""
        infos = list(self._traj_infos if traj_infos is None else traj_infos)
        for name in infos[0] if infos else ():
            if not name.startswith("_"):
                logger.record_tabular_misc_stat(name, [info[name] for info in infos])
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}

    def _write_row(self, itr: int, traj_infos: Sequence[Any] | None = None) -> None:
        """Complete the log row, whose performance was measured on ``traj_infos``, and write it."""
        infos = list(self._traj_infos if traj_infos is None else traj_infos)
        self._log_infos(traj_infos)
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} sampler batches.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, infos)

    # --- Checkpoints and signals -----------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the present iteration, to resume from, with the replay buffer.

        Arrays in it are the live ones: save it before the next iteration.
        """
        now = time.time()
        return {
            "seed": self.seed,
            "rng": rng_state(),
            "agent": self.agent.state_dict(),
            "algo": self.algo.state_dict(),
            "cum_time": now - self._start_time,
            "time_since_log": now - self._last_time,
            "last_update_counter": self._last_update_counter,
            "opt_infos": self._opt_infos,
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let :meth:`train` resume from ``state`` rather than begin at the start.

        Call it before ``train``, on a runner made from the same settings; ``n_steps`` may be
        larger. A subclass with a ``train`` of its own begins its loop at ``self.start_itr``, which
        ``startup`` has set by then.
        """
        self._resume_state = state

    def _resume_if_asked(self) -> None:
        """Continue from the loaded state, at the end of the start."""
        state, self._resume_state = self._resume_state, None
        if state is not None:
            self._resume(state)
            # Last, since the start and loading have drawn from the streams.
            set_rng_state(state["rng"])

    def _resume(self, state: dict[str, Any]) -> None:
        """Give this runner, which has started, the state of an earlier run."""
        now = time.time()
        self.agent.load_state_dict(state["agent"])
        self.algo.load_state_dict(state["algo"])
        self._start_time = now - state["cum_time"]
        self._last_time = now - state["time_since_log"]
        self._last_update_counter = state["last_update_counter"]
        self._opt_infos = {name: list(values) for name, values in state["opt_infos"].items()}
        for callback, callback_state in zip(self.callbacks, state["callbacks"]):
            callback.load_state_dict(callback_state)

    def _continue_log_after(self, itr: int, cum_steps: int) -> None:
        """Drop from the log what was written after an iteration: it is repeated."""
        logger.drop_tabular_after("Diagnostics/CumSteps", cum_steps)
        logger.drop_values_after(itr)

    def _open_checkpoints(
        self,
        interval_steps: float | None,
        interval_minutes: float | None,
        resume: str | os.PathLike[str] | None,
    ) -> None:
        """Find the checkpoints of the run, and load the one to resume from."""
        bundle = reproduced_bundle()
        if bundle is not None:
            interval_steps = interval_minutes = None
            resume, self.seed = start_of(bundle)
        has_interval = interval_steps is not None or interval_minutes is not None
        saves = has_interval or resume == AUTO
        if not saves and resume is None:
            return
        if resume == AUTO and not has_interval:
            interval_minutes = DEFAULT_INTERVAL_MINUTES
        plan = plan_checkpoints(self, saves, resume, self._n_synchronous())
        self.checkpoints = RunCheckpoints(plan, 0, interval_steps, interval_minutes)
        self._resume_state = self.checkpoints.load() or self._resume_state
        if resume == AUTO and self._resume_state is None:
            logger.log("There is no checkpoint yet: starting a new run.")
            self._continue_log_after(-1, -1)

    def _n_synchronous(self) -> int:
        """Return the number of processes that each have checkpoints of their own."""
        return 1

    def _catch_signals(self) -> StopSignals:
        """Return the handler of signals; a run without checkpoints leaves Ctrl-C as it is."""
        saves = self.checkpoints is not None and self.checkpoints.plan.directory is not None
        return StopSignals(
            STOP_SIGNALS if saves else STOP_SIGNALS[:1], self._is_interrupted_by_failure
        )

    def _is_interrupted_by_failure(self) -> bool:
        """Return whether the failure of another process interrupts this one."""
        return False

    @property
    def _signal(self) -> int | None:
        """The signal that ends the run after the present iteration, if there was one."""
        return self._signals.received

    @property
    def _cum_steps(self) -> int:
        """Environment steps of the iterations that are over, by which checkpoints are named."""
        raise NotImplementedError

    def _begin_checkpoints(self) -> None:
        """Save the state at the start of a new run, and say what will not be resumed exactly."""
        if self.checkpoints is None:
            return
        if self._cum_steps:
            self.checkpoints.begin(self._cum_steps)
        warning = self._describe_inexact_resume()
        if warning:
            logger.log(f"WARNING: {warning}")
        self._save_checkpoint()

    def _describe_inexact_resume(self) -> str:
        """Return what of this run is not resumed exactly; empty if everything is."""
        raise NotImplementedError

    def _save_checkpoint(self) -> None:
        """Save a checkpoint, unless there is one of these steps."""
        if self.checkpoints is not None and self.checkpoints.is_missing(self._cum_steps):
            self._write_checkpoint(self.checkpoints)

    def _write_checkpoint(self, checkpoints: RunCheckpoints) -> None:
        checkpoints.save(self._own_state_dict(), self._cum_steps)

    def _own_state_dict(self) -> dict[str, Any]:
        """Return the state of this process alone."""
        return self.state_dict()

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def _shutdown_after_failure(self) -> None:
        """Shut down what was started; the error that is shown stays the first one."""
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")


def prepare_process(affinity: Mapping[str, Any]) -> None:
    """Set CPU affinity and torch threads as ``affinity`` says, and tune the memory allocator.

    Args:
        affinity: ``master_cpus`` (used unless ``set_affinity`` is False) and
            ``master_torch_threads``, each optional. Without the latter torch gets no more threads
            than there are ``master_cpus``.

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
    tune_allocator()
