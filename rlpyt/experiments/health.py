"""Diagnosis of a run by its log: a few rules, each for one way in which training fails.

A rule reads columns of ``progress.csv``, those of :mod:`rlpyt.algos.health` and older ones, and is
silent where they are missing. ``docs/guides/diagnosis.md`` has a section for each rule, with the
runs that taught it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments.results.runs import number, read_rows
from rlpyt.experiments.settings import read_params
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import logger
from rlpyt.utils.names import flat
from rlpyt.utils.types import BoolArray, NDArray

PAGE = "docs/guides/diagnosis.md"
MAX_FINDINGS = 4  # A report has ten lines then.
EARLY = 0.3  # Part of the steps of a run.
MEASURED = ("deadUnits", "updateRatio", "inputScale", "timeLimits")  # Parts of names of columns.
# Steps since when, and what the log shows.
Symptom = tuple[float, str] | None


class Log:
    """Columns of a log as arrays over its rows, [R] each.

    Args:
        rows: rows of ``progress.csv``, by column without prefix.
        settings: parameters of the run, by dotted name.

    Attributes:
        steps: environment steps of the rows.
    """

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

        Args:
            holds: [R] whether a row shows it.
            known: [R] values that it is read from; rows with NaN do not count.
            n_rows: smallest number of rows that must show it.
        """
        rows = np.flatnonzero(~np.isnan(known))
        breaks = np.flatnonzero(~holds[rows])
        last = rows[breaks[-1] + 1 :] if len(breaks) else rows
        return float(self.steps[last[0]]) if len(last) >= n_rows else None

    def outside(self, values: NDArray, least: float, most: float, text: str) -> Symptom:
        """Return the symptom that ``values`` [R] lie outside of what is sound, up to the last row.

        Args:
            values: values of the rows.
            least: smallest sound value.
            most: largest sound value.
            text: sentence about the last value, with ``{}`` for it.
        """
        since = self.since((values < least) | (values > most), values)
        if since is None:
            return None
        sound = f"at least {least:g}" if most == np.inf else f"at most {most:g}"
        sound = f"{least:g} to {most:g}" if least > 0 and most < np.inf else sound
        return since, text.format(f"{self.last(values):.2g}") + f" (sound: {sound})"

    def of_networks(self, part: str) -> NDArray:
        """Return the largest number of all networks in columns with ``part`` in their names."""
        names = self.named(part)  # The temperature of SAC is no network.
        return self.most(*(name for name in names if not name.startswith("alpha")))

    def last(self, values: NDArray) -> float:
        """Return the last number of ``values``; NaN if there is none."""
        known = values[np.isfinite(values)]
        return float(known[-1]) if len(known) else float("nan")

    def first(self, values: NDArray) -> float:
        """Return the first number of ``values``; NaN if there is none."""
        return self.last(values[::-1])

    @cached_property
    def has_learned(self) -> bool:
        """Whether the mean return rose above the first one, by half of the spread of returns."""
        returns = self["ReturnAverage"][np.isfinite(self["ReturnAverage"])]
        last = float(returns[-max(1, len(returns) // 3) :].mean()) if len(returns) else 0.0
        return bool(
            last - self.first(returns) > max(1e-9, 0.5 * float(np.nanmean(self["ReturnStd"])))
        )


# --- Rules ---------------------------------------------------------------------------------------


def rewards_of_the_wrong_scale(log: Log) -> Symptom:
    """Find rewards, or returns as they are learned, that are far from 1."""
    text = "{} have a root mean square of {{}}"
    learned = log.outside(log["returnScale"], 0.01, 500, text.format("returns to learn from"))
    replayed = log.outside(log["rewardScale"], 0.005, 100, text.format("rewards to learn from"))
    if learned or replayed or log.has_learned:
        return learned or replayed
    size = log.most("ReturnMax", "ReturnMin") / log["NonzeroRewardsAverage"]
    return log.outside(size, 0, 100, "rewards have a size of {}, and the return has not risen")


def normalization_missing(log: Log) -> Symptom:
    """Find inputs of networks that are far from 1."""
    return log.outside(log["inputScale"], 0.01, 30, "an input has a root mean square of {}")


def learning_rate_too_high(log: Log) -> Symptom:
    """Find updates that change networks, or the policy, by much of themselves."""
    rate, ratio = log.of_networks("relativeRate"), log.of_networks("updateRatio")
    kl = log["approxKLAverage"]
    for values, most, at_once, text in (
        (ratio, 0.03, 0.3, "an update changes weights by {:.2g} of them"),
        (kl, 0.15, 1, "an iteration moves the policy by a divergence of {:.2g}"),
        (rate, 0.05, 0.05, "the learning rate of Adam or RMSprop is {:.2g} of the size of weights"),
    ):
        rows = np.flatnonzero(values > most)
        # It may end soon, with a policy that has no choice, or weights too large to change.
        if len(rows) >= 2 or (values > at_once).any():
            found = text.format(np.nanmax(values))
            return float(log.steps[rows[0]]), f"{found} (sound: at most {most:g})"
    return None


def learning_rate_too_low(log: Log) -> Symptom:
    """Find updates that have hardly changed anything from the first on."""
    ratio, kl = log.of_networks("updateRatio"), log["approxKLAverage"]
    text = "an iteration moves the policy by a divergence of {}"
    values, found = kl, log.outside(kl, 1e-6, np.inf, text)
    if not np.isnan(ratio).all():
        text = "an update changes weights by {} of them"
        values, found = ratio, log.outside(ratio, 2e-5, np.inf, text)
    # Later it may be the end of a schedule.
    return found if found and found[0] == log.steps[~np.isnan(values)][0] else None


def values_diverge(log: Log) -> Symptom:
    """Find values far above all returns."""
    ends = [f"{kind}Return{end}" for kind in ("Discounted", "") for end in ("Min", "Max")]
    # Without a reward in most steps, the last ones count little where episodes begin.
    is_dense = np.nanmean(log["NonzeroRewardsAverage"] / log["LengthAverage"]) > 0.5
    bound = np.fmax.accumulate(log.most(*(ends[:2] if is_dense else ends)))
    bound = bound * float(log.settings.get("algo.reward_scale", 1))
    is_on_policy = np.isfinite(log["entropyAverage"]).any()  # Values have the unit of returns.
    for name in ("qMeanAverage", "q1Average", "valueScale"):
        limit = log["returnScale"] if name == "valueScale" and is_on_policy else bound
        value = np.abs(log[name])
        since = log.since(value > np.maximum(5 * limit, 1), value + limit)
        if since is not None:
            text = "values are {}, where returns are at most {}"
            return since, text.format(*(f"{log.last(x):.3g}" for x in (value, limit)))
    return None


def dead_network(log: Log) -> Symptom:
    """Find layers, or values, that are the same whatever the observation."""
    dead, explained = log.most(*log.named("deadUnits.")), log["explainedVarianceAverage"]
    if log.named("deadUnits."):
        text = "of the units of a layer, a share of {} has one output for a whole batch"
        return log.outside(dead, 0, 0.9, text)
    # A constant explains nothing; other bad values explain more or less than that.
    size = np.abs(explained)
    since = log.since((size < 0.05) & (log["ReturnStd"] > 0), explained)
    if since is None or (size[log.steps >= since] < 0.005).sum() < 2:
        return None
    least = np.nanmin(size[log.steps >= since])
    return since, f"values are constant: they explain {least:.2g} of the variance of returns"


def exploration_ended_too_early(log: Log) -> Symptom:
    """Find a policy of few random actions, early in a run that has not learned."""
    returns = log["ReturnAverage"]
    since = log.since((log["ReturnStd"] == 0) & (returns == log.last(returns)), returns, 5)
    if since is not None and since == log.steps[np.isfinite(returns)][0]:
        what = "no reward was ever found, or rewards never differ"
        return since, f"every episode returns {log.last(returns):g}: {what}"
    epsilon = log["epsilon"]
    text = "the probability of random actions is {}"
    never, little = (log.outside(epsilon, least, 1, text) for least in (0.005, 0.02))
    if never and never[0] == log.steps[~np.isnan(epsilon)][0]:
        return never
    if little and little[0] < EARLY * log.steps[-1] and not log.has_learned:
        return little
    share = log["entropyShare"]
    since = log.since(share <= 0.2, share)
    if since is None or since > EARLY * log.steps[-1]:
        return None
    then = np.flatnonzero(log.steps == since)[0]
    gain = (returns[then] - log.first(returns)) / (np.nanmax(returns) - np.nanmin(returns))
    text = f"entropy fell to {share[then]:.2g} of its maximum at {gain:.0%} of the gain in return"
    return None if gain > 1 / 3 else (since, text)


def policy_collapsed(log: Log) -> Symptom:
    """Find a policy without random actions that has not learned, or has unlearned."""
    text = "entropy is {} of its maximum, and the return has not risen"
    symptom = log.outside(log["entropyShare"], 0.05, 1, text)
    if symptom and not log.has_learned:
        return symptom
    returns = log["ReturnAverage"]
    first, best = log.first(returns), np.fmax.accumulate(returns)
    has_fallen = best - returns > 0.9 * (best - first)
    has_risen = best - first > 2 * np.nanmean(log["ReturnStd"])
    since = log.since(has_fallen & has_risen, returns, max(2, len(returns) // 10))
    text = "the mean return is {:.4g}, after {:.4g} at best and {:.4g} at first"
    return None if since is None else (since, text.format(log.last(returns), best[-1], first))


def evaluation_unlike_training(log: Log) -> Symptom:
    """Find evaluations far below the training returns of the same time."""
    training, evaluated = log["TrainingReturn"], log["ReturnAverage"]
    spread = np.nanmax([training, evaluated]) - np.nanmin([training, evaluated])
    margin = np.maximum(0.5 * spread, 2 * log["ReturnStd"])
    since = log.since(training - evaluated > margin, training + evaluated)
    text = "evaluations return {:.4g}, training {:.4g}"
    return None if since is None else (since, text.format(log.last(evaluated), log.last(training)))


def time_limit_taken_for_an_end(log: Log) -> Symptom:
    """Find episodes of one round length, whose ends count as ends of the task."""
    known = log.last(log["bootstrapsTimeLimits"]), log.last(log["timeLimitShare"])
    longest = log["LengthMax"]
    at_limit = (log["LengthMedian"] == longest) & (longest == log.last(longest))
    # A task that is solved may have episodes of one length too, and a game of a few steps.
    if 0 not in known or log.last(longest) % 50 or at_limit.sum() < np.isfinite(longest).sum() / 2:
        return None
    since = log.since(at_limit, longest)
    text = f"episodes end after {log.last(longest):.0f} steps each, as if the task ended there"
    return None if since is None else (since, text)


# In the order of a report: what causes other symptoms comes first.
RULES: dict[Callable[[Log], Symptom], str] = {
    rewards_of_the_wrong_scale: "rewards near 1 by a wrapper; normalize_return=True (A2C, PPO)",
    normalization_missing: "normalize_observation=True (A2C, PPO), or a wrapper that normalizes",
    learning_rate_too_high: "a tenth of the learning rate; target_kl=0.02 (PPO)",
    learning_rate_too_low: "ten times the learning rate",
    dead_network: "another seed; a lower learning rate; orthogonal_init=True; eps of Adam 1e-5",
    values_diverge: "a lower learning rate; slower targets; double_dqn=True; smaller rewards",
    exploration_ended_too_early: "more eps_steps; a larger entropy_loss_coeff; ppo_rnd",
    policy_collapsed: "a lower learning rate, decaying; a larger entropy_loss_coeff; target_kl",
    evaluation_unlike_training: "compare both environments and greedy_eval, eps_eval",
    time_limit_taken_for_an_end: "bootstrap_timelimit=True record_next_observation=True",
}


class Finding(NamedTuple):
    """Something wrong with a run.

    Attributes:
        name: name of the rule, and of its section on the page.
        since: environment steps of the first row that shows it.
        evidence: what the log shows.
        remedy: what to try.
    """

    name: str
    since: float
    evidence: str
    remedy: str

    def text(self) -> str:
        """Return two lines."""
        page = f"{PAGE}#{self.name.replace(' ', '-')}"
        what = f"{self.name.upper()} since {self.since:,.0f} steps: {self.evidence}"
        return f"{what}\n    try: {self.remedy}; see {page}"


def findings(log: Log) -> list[Finding]:
    """Return what is wrong with a run, the likely causes first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Of rows without a number.
        symptoms = {rule: rule(log) for rule in RULES if len(log.steps)}
    return [
        Finding(rule.__name__.replace("_", " "), *symptom, RULES[rule])
        for rule, symptom in symptoms.items()
        if symptom is not None
    ]


def read_log(run_dir: str | Path) -> Log:
    """Return the log of a run, from its directory or a csv file."""
    path = Path(run_dir)
    file = path / "progress.csv" if path.is_dir() else path
    record = file.with_name("params.json")
    log = Log(read_rows(file), dict(flat(read_params(record))) if record.exists() else {})
    if not len(log.steps):
        raise ValueError(f"{file} has no rows: give the directory of a run with a log")
    return log


def report(run_dir: str | Path) -> str:
    """Return at most ten lines about what is wrong with a run, since when, and what to try.

    Raises:
        ValueError: if the run has no log yet.
    """
    log = read_log(run_dir)
    found = findings(log)
    head = f"{len(log.steps)} rows, {log.steps[-1]:,.0f} steps: {len(found)} findings"
    lacks = ", ".join(part for part in MEASURED if not log.named(part))
    texts = [finding.text() for finding in found[:MAX_FINDINGS]]
    return "\n".join([head, *texts, *[f"not in this log: {lacks}"] * bool(lacks)])


class Watch(Callback):
    """Callback that warns of findings in the log as soon as they appear, each once."""

    def __init__(self) -> None:
        self._warned_of: set[str] = set()

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Read the log of this run again."""
        file = Path(logger.get_snapshot_dir() or "", "progress.csv")
        for finding in findings(Log(read_rows(file))):
            if finding.name not in self._warned_of:
                self._warned_of.add(finding.name)
                logger.log(f"WARNING: {finding.text()}")
