"""Progress of a sweep: a live table in a terminal, and lines of text for every event."""

from __future__ import annotations

import math
import os.path as osp
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rlpyt.experiments.results.runs import number, read_params, read_rows
from rlpyt.experiments.sweeps.run import Run, RunStatus


class Progress(NamedTuple):
    """Progress of a run, from its log; None where it is not known."""

    steps: float = 0.0
    n_steps: float | None = None
    steps_per_s: float | None = None
    seconds_left: float | None = None


def read_progress(log_dir: str, run_ID: int, now: float) -> Progress:
    """Return the progress of a run, which may have no files yet."""
    run_dir, params = Path(log_dir, f"run_{run_ID}"), {}
    with suppress(OSError, ValueError):
        params = read_params(run_dir / "params.json")
    runner = params.get("runner")
    n_steps = (runner if isinstance(runner, dict) else params).get("n_steps")
    rows = read_rows(run_dir / "progress.csv")
    if not rows:
        return Progress(n_steps=n_steps)
    last = {name: number(rows[-1].get(name)) for name in ("CumSteps", "StepsPerSecond")}
    steps, speed = (None if math.isnan(x) else x for x in last.values())
    left = None
    if n_steps is not None and speed:
        written = (run_dir / "progress.csv").stat().st_mtime
        left = max(0.0, n_steps - (steps or 0)) / speed - (now - written)
    return Progress(steps or 0.0, n_steps, speed, None if left is None else max(0.0, left))


class Display:
    """Live table of the slots, below lines of events; without a terminal, only the lines."""

    def __init__(self, title: str, total: int, console: Console | None = None) -> None:
        self._title, self._total = title, total
        self._n_ended = 0
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Display:
        self._print(f"Sweep of {self._total} runs in {self._title}")
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def started(self, run: Run, slot: int) -> None:
        """Print that a run has started."""
        again = ", again" if run.status.attempt else ""
        self._print(f"started   {run.name} run {run.run_ID} in slot {slot}{again}")

    def skipped(self, run: Run, reason: str) -> None:
        """Print that a run is skipped, with the reason."""
        self._n_ended += 1
        self._print(f"skipped   {run.name} run {run.run_ID}: {reason}")

    def ended(self, run: Run, status: RunStatus) -> None:
        """Print that a run has ended."""
        self._n_ended += 1
        took = ""
        if status.started is not None and status.ended is not None:
            took = f" after {_duration(status.ended - status.started)}"
        self._print(
            f"{status.state:9} {run.name} run {run.run_ID}{took} [{self._n_ended}/{self._total}]"
        )

    def failure(self, run: Run, status: RunStatus, output: str) -> None:
        """Report a run that failed, with the end of its output."""
        reason = f", {status.reason}" if status.reason else ""
        path = osp.join(run.log_dir, f"launch_{run.run_ID}.log")
        self._print(
            f"FAILED with exit code {status.exit_code}{reason}: {run.name} run {run.run_ID}; the "
            f"end of {path} is:\n{output}"
        )

    def show(self, active: Mapping[int, Run]) -> None:
        """Draw the table of the active runs by their slots."""
        if not self._console.is_terminal:
            return
        table = Table(title=f"{self._title}: {self._n_ended} of {self._total} runs ended")
        table.add_column("slot", justify="right")
        table.add_column("variant")
        for column in ("run", "steps", "of", "steps/s", "time left"):
            table.add_column(column, justify="right")
        now = time.time()
        for slot, run in sorted(active.items()):
            *cells, left = read_progress(run.log_dir, run.run_ID, now)
            texts = ["" if cell is None else f"{cell:,.0f}" for cell in cells]
            time_left = "" if left is None else _duration(left)
            table.add_row(str(slot), run.name, str(run.run_ID), *texts, time_left)
        self._live.update(table, refresh=True)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
