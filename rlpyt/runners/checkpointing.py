"""Saving of checkpoints during a run, and the signals that end it early.

A run of one process has its checkpoints in the directory ``checkpoints`` beside its snapshots. A
run of several processes has a subdirectory for each process, and resumes from the latest checkpoint
that all processes have.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rlpyt.checkpoints.store import Checkpoints, step_of
from rlpyt.processes.child import not_in_forks
from rlpyt.runners._process_group import ProcessGroup
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import whole_number

AUTO = "auto"
DEFAULT_INTERVAL_MINUTES = 10.0
# Signals that end a run after the current iteration.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class CheckpointPlan(NamedTuple):
    """Plan of a run's checkpoints, shared by all its processes.

    Args:
        directory: directory of the checkpoints; None to save none.
        resume_from: path of rank 0's checkpoint to resume from; None for a new run.
        configuration: settings that must equal the settings in the checkpoint.
        world_size: number of processes that train together.
        keep: number of checkpoints to keep, of each process.
    """

    directory: Path | None
    resume_from: Path | None
    configuration: dict[str, Any]
    world_size: int
    keep: int = 2


def open_checkpoints(
    configuration: dict[str, Any],
    interval_steps: float | None,
    interval_minutes: float | None,
    resume: str | os.PathLike[str] | None,
    keep: int | None = 2,
) -> RunCheckpoints | None:
    """Return the checkpoints of a run, or None if it neither saves nor resumes.

    Args:
        configuration: settings of the run, see :class:`CheckpointPlan`; with ``world_size``.
        interval_steps: number of environment steps from one checkpoint to the next, or None.
        interval_minutes: number of minutes from one checkpoint to the next, or None.
        resume: "auto", or the path of a checkpoint; None for a new run.
        keep: number of checkpoints to keep; None for all.

    Raises:
        ValueError: if the logger has no directory for checkpoints.
    """
    if resume == AUTO and interval_steps is None and interval_minutes is None:
        interval_minutes = DEFAULT_INTERVAL_MINUTES
    saves = interval_steps is not None or interval_minutes is not None
    if not saves and resume is None:
        return None
    directory, resume_from = None, None
    world_size = configuration["world_size"]
    if saves:
        log_dir = logger.get_snapshot_dir()
        if log_dir is None:
            raise ValueError(
                "checkpoints are saved beside the snapshots of the log, which has no directory: "
                "train inside a logger_context, or call logger.set_snapshot_dir first"
            )
        directory = Path(log_dir).absolute() / "checkpoints"
    if resume == AUTO:
        assert directory is not None
        resume_from = _latest_of_all(directory, world_size)
        if resume_from is None:
            _remove_incomplete(directory, configuration)
    elif resume is not None:
        resume_from = Path(resume).absolute()
    keep = sys.maxsize if keep is None else keep
    plan = CheckpointPlan(directory, resume_from, configuration, world_size, keep)
    return RunCheckpoints(plan, 0, interval_steps, interval_minutes)


def _rank_directory(directory: Path, rank: int, world_size: int) -> Path:
    return directory if world_size == 1 else directory / f"rank_{rank}"


def _latest_of_all(directory: Path, world_size: int) -> Path | None:
    """Return rank 0's path of the latest checkpoint that every process has."""
    complete = [
        Checkpoints(_rank_directory(directory, rank, world_size)).complete()
        for rank in range(world_size)
    ]
    names = set.intersection(*({path.name for path in paths} for paths in complete))
    return next((path for path in reversed(complete[0]) if path.name in names), None)


def _remove_incomplete(directory: Path, configuration: dict[str, Any]) -> None:
    """Remove the checkpoints that only some processes have, of a run that was killed at its start.

    Otherwise those of the new run, which have the same names, could be mixed with them.

    Raises:
        CheckpointError: if they are from a run with another number of processes.
    """
    for place in (directory, *directory.glob("rank_*")):
        store = Checkpoints(place, configuration=configuration)
        for path in store.complete():
            store.load(path)  # Refuses another configuration.
            store.remove(path)


class RunCheckpoints:
    """Checkpoints of one process of a run, saved at intervals of steps, of minutes, or both.

    Args:
        plan: plan of all processes.
        rank: rank of this process.
        interval_steps: number of environment steps from one checkpoint to the next, or None.
        interval_minutes: number of minutes from one checkpoint to the next, or None.

    Raises:
        ValueError: if an interval is not positive.
    """

    def __init__(
        self,
        plan: CheckpointPlan,
        rank: int = 0,
        interval_steps: float | None = None,
        interval_minutes: float | None = None,
    ) -> None:
        if interval_steps is not None:
            interval_steps = whole_number("checkpoint_interval_steps", interval_steps)
        if interval_minutes is not None and not interval_minutes > 0:
            raise ValueError(
                f"checkpoint_interval_minutes is {interval_minutes}: give more than 0, or None"
            )
        self.plan, self.rank = plan, rank
        self.interval_steps, self.interval_minutes = interval_steps, interval_minutes
        self._store: Checkpoints | None = None
        if plan.directory is not None:
            directory = _rank_directory(plan.directory, rank, plan.world_size)
            self._store = Checkpoints(directory, plan.keep, plan.configuration)
        self._last_steps = self._last_updates = -1
        self._last_time = time.monotonic()

    def load(self, path: Path | None = None) -> Any:
        """Return the state to resume from; None for a new run.

        Later checkpoints of this run are removed, since their iterations are repeated.

        Args:
            path: path of the checkpoint; by default from the plan.

        Raises:
            CheckpointError: if the checkpoint cannot be loaded, or has another configuration.
        """
        if path is None and (path := self.plan.resume_from) is None:
            return None
        if self.rank > 0:
            path = path.parent.parent / f"rank_{self.rank}" / path.name
        state = Checkpoints(path.parent, configuration=self.plan.configuration).load(path)
        if self._store is not None and path in (paths := self._store.complete()):
            for later in paths[paths.index(path) + 1 :]:
                self._store.remove(later)
        return state

    def last(self, max_steps: int | None = None) -> Path | None:
        """Return the path of the last checkpoint that was saved, or None.

        Args:
            max_steps: largest step count of the checkpoint; without such a checkpoint, the first
                one is returned. None for no limit.
        """
        if self._store is None:
            return None
        self._store.wait()
        paths = self._store.complete()
        early = [path for path in paths if max_steps is None or step_of(path) <= max_steps]
        return next(iter([*reversed(early), *paths]), None)

    def begin(self, cum_steps: int, n_updates: int) -> None:
        """Count the intervals from ``cum_steps`` and ``n_updates``, where a state was loaded."""
        self._last_steps, self._last_updates = cum_steps, n_updates
        self._last_time = time.monotonic()

    def is_due(self, cum_steps: int) -> bool:
        """Return whether a checkpoint is due after ``cum_steps`` steps."""
        if self._store is None:
            return False
        every, last = self.interval_steps, max(0, self._last_steps)
        if every is not None and cum_steps // every > last // every:
            return True
        if self.interval_minutes is None:
            return False
        return time.monotonic() - self._last_time >= 60 * self.interval_minutes

    def save(
        self,
        collect_state: Callable[[], Any],
        cum_steps: int,
        n_updates: int,
        group: ProcessGroup | None = None,
    ) -> None:
        """Save a checkpoint in the background, unless the last one has the same counts.

        Args:
            collect_state: function that returns the state to save.
            cum_steps: number of environment steps so far.
            n_updates: number of updates so far, which may still grow after the last step.
            group: processes that save checkpoints at the same time.
        """
        is_saved = (cum_steps, n_updates) == (self._last_steps, self._last_updates)
        if self._store is None or is_saved:
            return
        is_written = self.wait()
        if group is not None:
            _, (is_lacking,) = group.end_iteration([], [not is_written])
            latest = self._store.latest()
            if is_lacking and is_written and latest is not None:
                self._store.remove(latest)  # Another process failed to write its checkpoint.
        self._store.save(collect_state(), cum_steps)
        self.begin(cum_steps, n_updates)

    def wait(self) -> bool:
        """Wait until the last checkpoint is written; return whether it is on disk."""
        return self._store is None or self._store.wait()


class StopSignals:
    """Signal handler that turns the first SIGTERM or Ctrl-C into a request to end the run.

    The run ends after its current iteration, or after the next step of an evaluation. The first
    signal restores the earlier handlers, so a second Ctrl-C interrupts at once. Only the main
    thread receives signals; in other threads nothing changes.

    Args:
        numbers: signals to receive; signals that this process ignores stay ignored.
        is_failure: function that returns whether a signal reports the failure of another process;
            such a signal interrupts the run.
        on_request: function that passes the request on, and returns a message about what follows.

    Attributes:
        received: number of the signal that was received, or None.
    """

    def __init__(
        self,
        numbers: tuple[int, ...],
        is_failure: Callable[[], bool] = lambda: False,
        on_request: Callable[[], str] = str,
    ) -> None:
        self.received: int | None = None
        self._numbers, self._is_failure, self._on_request = numbers, is_failure, on_request
        self._before: dict[int, Any] = {}
        self._pid = os.getpid()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: Any) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    @not_in_forks
    def _receive(self, number: int, frame: Any) -> None:
        if os.getpid() != self._pid:
            return  # A fork: a Ctrl-C in the terminal is for the parent.
        if self._is_failure():
            raise KeyboardInterrupt
        self.received = number
        self.__exit__()
        # Without the logger, since the signal may have interrupted it.
        os.write(2, f"{self._on_request()}\n".encode())
