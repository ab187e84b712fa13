"""Limits and advice: the results of an examination as text."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from rlpyt.experiments.doctor.candidates import Candidate, StepCost
from rlpyt.experiments.doctor.search import Search
from rlpyt.experiments.doctor.trials import RunTime
from rlpyt.experiments.results.runs import write_rows
from rlpyt.experiments.sweeps.variant import Config

# Settings in the advice.
ADVISED = (
    "sampler",
    "sampler.batch_T",
    "sampler.batch_B",
    "affinity.workers",
    "affinity.threads",
    "affinity.gpus",
    "affinity.cpus",
)
# Factor of speed that settings must gain to be advised instead of simpler ones.
_MARGIN = 1.04


@dataclass
class Diagnosis:
    """Result of an examination.

    Attributes:
        search: search with all measurements.
        advice: settings to use.
        runs: time of an environment step in whole runs, for the advice and for the given settings.
        was_trained: whether ``runs`` includes updates; False if they take too long to measure.
    """

    search: Search
    advice: Candidate
    runs: dict[Candidate, RunTime]
    was_trained: bool

    def speed(self, candidate: Candidate) -> float:
        """Return the environment steps per second of a whole run."""
        return 1 / sum(self.runs[candidate])

    def cost(self, candidate: Candidate) -> StepCost:
        """Return the time of an environment step in a whole run, divided into its parts.

        Time beyond the work of environment and agent is waiting for other processes; in a sampler
        without workers it is transfer, the copying into the batch.
        """
        run, work = self.runs[candidate], self.search.parts.work(candidate)
        rest = run.sampling - sum(work)
        if rest < 0:
            work = StepCost(*(part * run.sampling / sum(work) for part in work))
        elif candidate.workers:
            work = work._replace(waiting=work.waiting + rest)
        else:
            work = work._replace(transfer=work.transfer + rest)
        return work._replace(optimization=run.optimizing)

    def limit(self, candidate: Candidate) -> str:
        """Return the name of the part that takes most of the time."""
        cost = self.cost(candidate)._asdict()
        return max(cost, key=cost.__getitem__)

    def command(self, what: str, words: Sequence[str], options: Sequence[str] = ()) -> str:
        """Return the command that trains as advised.

        Args:
            what: algorithm or entry.
            words: environment and settings that were given.
            options: further options.
        """
        if self.advice == self.search.as_given:
            return shlex.join(["rlpyt", "train", what, *words, *options])
        advised = self.advice.words()
        if "affinity.gpus" in self.search.given:
            advised.pop("affinity.gpus", None)  # One was measured; the user may train on several.
        kept = [word for word in words if not given_settings([word]) & advised.keys()]
        return shlex.join(["rlpyt", "train", what, *kept, *advised.values(), *options])

    # --- Text ------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return machine, measurements, limits and advice."""
        return "\n\n".join(
            [self.search.machine.describe(), self._of_parts(), self._of_samplers(), self._advice()]
        )

    def _of_parts(self) -> str:
        parts = self.search.parts
        running, sleeping, _ = parts.step
        rows = [
            ["environment, a step", 1e3 * (running + sleeping)],
            ["  in which it computes", 1e3 * running],
            [
                f"  with {parts.n_cpus} at the same time",
                1e3 * (running * parts.slowdown + sleeping),
            ],
        ]
        for (device, size), time in parts.act.items():
            where = "GPU" if device == "gpu" else f"{device} thread{'s' if device != 1 else ''}"
            rows.append([f"agent, a step for {size} on {where}", 1e3 * time.total])
        run = self.runs[self.advice]
        if self.was_trained:
            rows.append(["updates, for an environment step", 1e3 * run.optimizing])
        return str(tabulate(rows, headers=("alone", "ms"), floatfmt=".3f"))

    def _of_samplers(self) -> str:
        every = self.rows()
        rows = [row for row in every if row["measured"] or row["reason"]]
        n_others = len(every) - len(rows)
        for row in rows:
            row["threads"] = str(row["threads"])
        table = tabulate(rows, headers="keys", floatfmt=".0f", maxcolwidths=[None] * 6 + [40])
        return (
            f"Environment steps per second of samplers, without updates:\n\n{table}\n\n"
            f"{n_others} more combinations were not measured."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every combination: its measured speed, or the reason for its absence."""
        search = self.search
        reasons = search.left_out
        every = list(dict.fromkeys([search.as_given, *search.candidates(), *search.times]))
        rows = []
        for each in every:
            is_measured = each in search.times
            rows.append(
                {
                    **each.row(),
                    "measured": 1 / search.sampling_time(each) if is_measured else None,
                    "reason": reasons.get(each, "as given" if each == search.as_given else ""),
                }
            )
        return sorted(rows, key=lambda row: -(row["measured"] or 0))

    def _advice(self) -> str:
        search, given = self.search, self.search.as_given
        names = {given: "as given", self.advice: "as advised"}
        rows = []
        for candidate, name in names.items():
            if candidate not in self.runs:
                continue  # Its measurement failed.
            cost = self.cost(candidate)
            shares = {part: f"{time / sum(cost):.0%}" for part, time in cost._asdict().items()}
            rows.append({"": name, "steps/s": f"{self.speed(candidate):.0f}", **shares})
        lines = [str(tabulate(rows, headers="keys")), ""]
        if given in self.runs:
            lines.append(f"As given, {self.limit(given)} limits the run.")
        if not self.was_trained:
            lines.append("Updates take too long to be measured here; the speeds exclude them.")
        fixed = "batch_T, and by the replay ratio the updates for each environment step"
        if not search.has_replay:
            fixed = f"batch_T * batch_B = {given.batch_T * given.batch_B}"
        lines.append(f"Held fixed: {fixed}.")
        if self.advice == given:
            lines.append("Advice: keep these settings.")
        else:
            speed = f"{self.speed(self.advice):.0f} environment steps per second"
            if given in self.runs:
                speed += f", {self.speed(self.advice) / self.speed(given):.1f} times as many"
            lines.append(
                f"Advice: {self.advice.describe()}, for {speed}. Then {self.limit(self.advice)} "
                "limits the run."
            )
        return "\n".join(lines)

    def write(self, file: str | os.PathLike[str]) -> None:
        """Write the table of all combinations, in csv format."""
        rows = self.rows()
        write_rows(file, rows[0], (row.values() for row in rows))


def given_settings(words: Sequence[str]) -> set[str]:
    """Return the settings of the advice that the words ``name=value`` already give."""
    names = {word.partition("=")[0] for word in words if "=" in word}
    return {name for name in ADVISED if names & {name, name.rpartition(".")[2]}}


def examine(
    config: Config,
    given: Sequence[str] = (),
    seconds: float = 60.0,
    report: Callable[[str], None] = lambda text: None,
) -> Diagnosis:
    """Measure a task on this machine, and find the settings with which its run is fastest.

    Arguments as for :class:`~rlpyt.experiments.doctor.search.Search`; ``given`` has the user's
    words ``name=value``, whose settings are kept.
    """
    search = Search(config, given_settings(given), seconds, report)
    try:
        search.measure_parts()
    except TimeoutError as error:
        longer = 4 * search.limit_s
        raise ValueError(f"{error}: give a larger --seconds, such as {longer:.0f}") from error
    ranked = search.search()
    best, as_given = ranked[0], search.as_given
    tried = [*search.variants(best), *ranked[1:2]]
    if as_given in search.times and search.batch_time(as_given) < search.limit_s / 4:
        tried.append(as_given)
    trained = search.train(list(dict.fromkeys(tried)))
    runs = trained or {best: RunTime(search.sampling_time(best), 0.0)}

    def time(candidate: Candidate) -> float:
        return sum(runs[candidate]) * (_MARGIN if candidate.cpus != best.cpus else 1)

    advice = min(runs, key=time)
    if as_given not in runs and as_given in search.times and as_given not in search.left_out:
        optimizing = runs[advice].optimizing
        runs[as_given] = RunTime(search.sampling_time(as_given), optimizing)
    if as_given in runs and sum(runs[as_given]) < _MARGIN * sum(runs[advice]):
        advice = as_given
    return Diagnosis(search, advice, runs, bool(trained))
