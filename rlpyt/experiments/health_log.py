"""The log of a run as rules of :mod:`rlpyt.experiments.health` read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments.catalog import located
from rlpyt.experiments.results.runs import number, read_params, read_rows
from rlpyt.utils.names import flat
from rlpyt.utils.types import BoolArray, NDArray

# Steps since when, and what the log shows.
Symptom = tuple[float, str] | None


class Log:
    """Columns of a log as arrays over its rows, [R] each; settings have dotted names."""

    def __init__(
        self, rows: Sequence[Mapping[str, str]], settings: Mapping[str, Any] | None = None
    ) -> None:
        self._rows, self.settings = rows, settings or {}
        self.names = {name for row in rows for name in row}
        self.steps = self["CumSteps"]

    def __getitem__(self, name: str) -> NDArray:
        """Return a column, NaN where there is no number."""
        return np.array([number(row.get(name)) for row in self._rows])

    def most(self, *names: str) -> NDArray:
        """Return the largest size of the numbers of columns, NaN where all have none."""
        columns = [np.abs(self[name]) for name in names] or [self["none"]]
        return np.asarray(np.fmax.reduce(columns))

    def named(self, part: str) -> list[str]:
        """Return the names of columns with ``part`` in them, in any case."""
        return sorted(name for name in self.names if part.lower() in name.lower())

    def since(self, holds: BoolArray, known: NDArray, n_rows: int = 2) -> float | None:
        """Return the steps since which a symptom holds without a break, up to the last row.

        Rows whose ``known`` value is NaN do not count; at least ``n_rows`` must show it.
        """
        rows = np.flatnonzero(~np.isnan(known))
        breaks = np.flatnonzero(~holds[rows])
        last = rows[breaks[-1] + 1 :] if len(breaks) else rows
        return float(self.steps[last[0]]) if len(last) >= n_rows else None

    def outside(self, values: NDArray, least: float, most: float, text: str) -> Symptom:
        """Return the symptom that ``values`` [R] lie outside of what is sound, up to the last row.

        The text has ``{}`` for the last value.
        """
        since = self.since((values < least) | (values > most), values)
        if since is None:
            return None
        sound = f"at least {least:g}" if most == np.inf else f"at most {most:g}"
        sound = f"{least:g} to {most:g}" if least > 0 and most < np.inf else sound
        return since, text.format(f"{self.last(values):.2g}") + f" (sound: {sound})"

    def failing(self, name: str, least: float, most: float, text: str) -> Symptom:
        """Return the symptom of a column, in a run that is over and has not learned."""
        return self.outside(self[name], least, most, text) if self.has_failed else None

    def of_networks(self, name: str, pick: Any = np.fmax) -> NDArray:
        """Return the largest, or smallest, number of all networks in columns like ``piName``."""
        names = [each for each in self.named(name) if each.lower().endswith(name.lower())]
        # The temperature of SAC is no network.
        columns = [self[each] for each in names if not each.startswith("alpha")]
        return np.asarray(pick.reduce(columns or [self["none"]]))

    def last(self, values: NDArray) -> float:
        """Return the last number of ``values``; NaN if there is none."""
        known = values[~np.isnan(values)]
        return float(known[-1]) if len(known) else float("nan")

    def first(self, values: NDArray) -> float:
        """Return the first number of ``values``; NaN if there is none."""
        return self.last(values[::-1])

    @cached_property
    def is_over(self) -> bool:
        """Whether the log has all steps of the run; true if their number is not known."""
        return bool(self.steps[-1] >= 0.95 * float(self.settings.get("runner.n_steps", 0)))

    @property
    def has_failed(self) -> bool:
        """Whether the run is over, and has not learned."""
        return self.is_over and not self.has_learned

    @cached_property
    def has_learned(self) -> bool:
        """Whether the mean return rose clearly above the first one.

        By half of the first standard deviation of returns, and of the mean one.
        """
        returns = self["ReturnAverage"][np.isfinite(self["ReturnAverage"])]
        last = float(returns[-max(1, len(returns) // 3) :].mean()) if len(returns) else 0.0
        spread = self["ReturnStd"][np.isfinite(self["ReturnStd"])]
        least = 0.5 * max(spread[0], spread.mean()) if len(spread) else 0.0
        return bool(last - self.first(returns) > max(1e-9, least))


def read_log(run_dir: str | Path) -> Log:
    """Return the log of a run, from its directory, a csv file or ``zoo:NAME``."""
    path = located(run_dir)
    file = path / "progress.csv" if path.is_dir() else path
    record = file.with_name("params.json")
    log = Log(read_rows(file), dict(flat(read_params(record))) if record.exists() else {})
    if not len(log.steps):
        below = sorted(path.rglob("progress.csv")) if not file.exists() else []
        hint = f", such as {below[0].parent}" if below else " with a log"
        lack = "has no rows" if file.exists() else "does not exist"
        raise ValueError(f"{file} {lack}: give the directory of a run{hint}")
    return log
