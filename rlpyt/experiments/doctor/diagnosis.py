"""Advice: the results of an examination as text."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from rlpyt.experiments.doctor.search import Search
from rlpyt.experiments.doctor.trials import Candidate, RunTime
from rlpyt.experiments.sweeps.variant import Config

# Settings in the advice.
ADVISED = (
    "sampler",
    "sampler.batch_T",
    "sampler.batch_B",
    "affinity.workers",
    "affinity.threads",
    "affinity.gpus",
)
# Factor of speed that settings must gain to be advised instead of simpler ones.
_MARGIN = 1.04


@dataclass
class Diagnosis:
    """Result of an examination."""

    search: Search  # with all measurements
    advice: Candidate  # settings to use
    runs: dict[Candidate, RunTime]  # of whole runs, for the advice and the given settings
    was_trained: bool  # whether ``runs`` includes updates, which may take too long

    def speed(self, candidate: Candidate) -> float:
        """Return the environment steps per second of a whole run."""
        return 1 / sum(self.runs[candidate])

    def command(self, what: str, words: Sequence[str], options: Sequence[str] = ()) -> str:
        """Return the command that trains as advised, for the words that were given."""
        if self.advice == self.search.as_given:
            return shlex.join(["rlpyt", "train", what, *words, *options])
        advised = self.advice.words()
        if "affinity.gpus" in self.search.given:
            advised.pop("affinity.gpus", None)  # One was measured; the user may train on several.
        kept = [word for word in words if not given_settings([word]) & advised.keys()]
        return shlex.join(["rlpyt", "train", what, *kept, *advised.values(), *options])

    # --- Text ------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return machine, measurements and advice."""
        return "\n\n".join([self.search.machine.describe(), self._of_samplers(), self._advice()])

    def _of_samplers(self) -> str:
        search, rows = self.search, []
        fastest_first = sorted(search.times, key=search.sampling_time)
        for each in dict.fromkeys([*fastest_first, search.as_given, *search.left_out]):
            row = {name: str(x) if name == "threads" else x for name, x in each.row().items()}
            row["measured"] = 1 / search.sampling_time(each) if each in search.times else None
            why = "as given" if each == search.as_given else ""
            rows.append({**row, "reason": search.left_out.get(each, why)})
        table = tabulate(rows, headers="keys", floatfmt=".0f", maxcolwidths=[None] * 6 + [40])
        return f"Environment steps per second of samplers, without updates:\n\n{table}"

    def _advice(self) -> str:
        search, given = self.search, self.search.as_given
        names = {given: "as given", self.advice: "as advised"}
        rows = []
        for candidate, name in names.items():
            if candidate not in self.runs:
                continue  # Its measurement failed.
            run = self.runs[candidate]
            shares = {part: f"{time / sum(run):.0%}" for part, time in run._asdict().items()}
            rows.append({"": name, "steps/s": f"{self.speed(candidate):.0f}", **shares})
        lines = [str(tabulate(rows, headers="keys")), ""]
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
            lines.append(f"Advice: {self.advice.describe()}, for {speed}.")
        return "\n".join(lines)


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
    search.measure_environment()
    ranked = search.search()
    best, as_given = ranked[0], search.as_given
    tried = [*search.variants(best), *ranked[1:2]]
    if as_given in search.times:
        batch_s = search.sampling_time(as_given) * as_given.batch_T * as_given.batch_B
        tried += [as_given] * (batch_s < search.limit_s / 4)
    trained = search.train(list(dict.fromkeys(tried)))
    runs = trained or {best: RunTime(search.sampling_time(best), 0.0)}
    advice = min(runs, key=lambda candidate: sum(runs[candidate]))
    if as_given in search.times and as_given not in search.left_out:
        optimizing = runs[advice].optimizing
        runs.setdefault(as_given, RunTime(search.sampling_time(as_given), optimizing))
    if as_given in runs and sum(runs[as_given]) < _MARGIN * sum(runs[advice]):
        advice = as_given
    return Diagnosis(search, advice, runs, bool(trained))
