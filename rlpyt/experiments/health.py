"""Diagnosis of a run by its log: a few rules, each for one way in which training fails.

A rule reads columns of ``progress.csv``, those of :mod:`rlpyt.algos.health` and older ones, and is
silent where they are missing. ``docs/guides/diagnosis.md`` has a section for each rule, with the
runs that taught it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlpyt.core.protocols import RunnerLike
from rlpyt.experiments.health_log import Log, Symptom, read_log
from rlpyt.experiments.results.runs import read_rows
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import logger

PAGE = "docs/guides/diagnosis.md"
NOTHING = f"""\
NOTHING LEARNED: the mean return was {{:.4g}} at first, and is {{:.4g}}; none of {{}} rules says why
    try: what a log does not show, as in {PAGE}#nothing-learned"""
MAX_FINDINGS = 4  # A report has ten lines then.
INF = float("inf")
EARLY = 0.3  # Part of the steps of a run.
MEASURED = ("deadUnits", "updateRatio", "inputScale", "timeLimits")  # Parts of names of columns.


# --- Rules ---------------------------------------------------------------------------------------


def too_few_updates(log: Log) -> Symptom:
    """Find runs that have trained nothing, or hardly anything."""
    return log.failing("CumUpdates", 300, INF, "{} updates were made") or log.failing(
        "ReplayRatio", 0.5, INF, "{} samples are trained on for each step of the environment"
    )


def episodes_of_the_wrong_length(log: Log) -> Symptom:
    """Find episodes that never end, or that end after a few steps whatever happens."""
    longest = log["LengthMax"]
    is_cut = (log["LengthMedian"] == longest) & (longest == log.last(longest))
    if log.is_over and np.isnan(log["ReturnAverage"]).all():
        return float(log.steps[0]), "no episode has ended"
    if np.mean(is_cut) < 0.8:
        return None
    return log.failing("LengthMax", 51, INF, "episodes end after {} steps each")


def rewards_never_differ(log: Log) -> Symptom:
    """Find runs in which every episode has had the same return."""
    returns = log["ReturnAverage"]
    since = log.since((log["ReturnStd"] == 0) & (returns == log.last(returns)), returns, 5)
    if since is None or since != log.steps[np.isfinite(returns)][0]:
        return None
    what = "no reward was ever found, or rewards are constant"
    return since, f"every episode returns {log.last(returns):g}: {what}"


def observations_never_differ(log: Log) -> Symptom:
    """Find inputs of networks that are the same at all times."""
    return log.outside(log["inputSpread"], 1e-5, INF, "no input varies by more than {} in a batch")


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
    """Find updates that have hardly changed a network, or the policy, from the first on."""
    ratio, kl = log.of_networks("updateRatio", np.fmin), log["approxKLAverage"]
    clipped = " and clips every gradient" if log.last(log["clippedGradients"]) == 1 else ""
    for values, least, text in (
        (
            ratio,
            1e-4 if log.has_failed else 2e-5,
            "an update changes the weights of a network by {} of them" + clipped,
        ),
        (kl, 1e-6, "an iteration moves the policy by a divergence of {}"),
    ):
        found = log.outside(values, least, INF, text)
        # Later it may be the end of a schedule.
        if found and found[0] == log.steps[~np.isnan(values)][0]:
            return found
    return None


def frozen_layers(log: Log) -> Symptom:
    """Find layers that updates leave as they are, beside others that they change."""
    text = "updates change nothing in a share of {} of the layers of a network"
    return log.outside(log.of_networks("frozenLayers"), 0, 0.2, text)


def target_network_lags(log: Log) -> Symptom:
    """Find target networks that hardly move, or that are always equal to the others."""
    lag, n_updates = log["targetLag"], log["CumUpdates"]
    most = 0.5 if log.has_learned else 0.2
    if log.is_over and log.last(lag) > most * log.last(n_updates):
        text = f"it lags by {log.last(lag):,.0f} updates, of {log.last(n_updates):,.0f} in all"
        return log.first(log.steps[lag > 0]), text
    return log.failing("targetLag", 5, INF, "it is a copy from {} updates ago")


def discount_of_the_wrong_size(log: Log) -> Symptom:
    """Find discounts that hide later rewards, or none."""
    return log.failing("discount", 0.9, 0.9999, "the discount is {}")


def too_little_data(log: Log) -> Symptom:
    """Find updates from a few samples, or from the latest ones alone."""
    return log.failing("batchSize", 8, INF, "an update has {} samples") or log.failing(
        "replayAge", 250, INF, "replayed data are {} steps old on average"
    )


def entropy_outweighs_rewards(log: Log) -> Symptom:
    """Find a coefficient of entropy that drowns rewards."""
    text = "entropy weighs {} times as much as the reward, or advantage, of a step"
    return log.failing("entropyWeight", -INF, 0.5, text)


def weights_of_the_wrong_scale(log: Log) -> Symptom:
    """Find layers whose outputs are huge, or vanish."""
    text = "a layer inside a network has inputs with a root mean square of {}"
    return log.outside(log["activationScale"], 1e-3, 1000, text)


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
    without_noise = log.failing("actionNoise", 0.005, INF, "the noise on actions is {}")
    if without_noise is not None:
        return without_noise
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


def return_falls(log: Log) -> Symptom:
    """Find a policy that training made worse than it was at first."""
    returns, spread = log["ReturnAverage"], log["ReturnStd"]
    # The first row may have two episodes, whose deviation says little.
    margin = max(1e-9, log.first(spread) / 2, float(np.nanmean(spread)) / 2)
    bound = log.first(returns) - margin
    since = log.since(returns < bound, returns, max(2, len(returns) // 2))
    text = f"the mean return is {log.last(returns):.4g}, and was {log.first(returns):.4g} at first"
    return (since, text) if log.is_over and since is not None else None


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


def values_explain_nothing(log: Log) -> Symptom:
    """Find values that do not tell returns apart."""
    text = "values explain {} of the variance of returns"
    return log.failing("explainedVarianceAverage", 0.1, INF, text)


def exploration_never_ends(log: Log) -> Symptom:
    """Find a policy that is as random at the end as at first."""
    return (
        log.failing("epsilon", 0, 0.5, "the probability of random actions is {}")
        or log.failing("actionNoise", 0, 1, "the noise on actions is {} of half their range")
        or log.failing("entropyShare", 0, 0.95, "entropy is {} of its maximum")
    )


# In the order of a report: what causes other symptoms comes first.
RULES: dict[Callable[[Log], Symptom], str] = {
    too_few_updates: "more epochs (PPO); a larger replay_ratio, an early min_steps_learn (replay)",
    episodes_of_the_wrong_length: "look at terminated, truncated and time limits of environments",
    rewards_never_differ: "look at the rewards of the environment, and at wrappers; ppo_rnd",
    observations_never_differ: "look at the observations of the environment, and at wrappers",
    rewards_of_the_wrong_scale: "rewards near 1 by a wrapper; normalize_return=True (A2C, PPO)",
    normalization_missing: "normalize_observation=True (A2C, PPO), or a wrapper that normalizes",
    learning_rate_too_high: "a tenth of the learning rate; target_kl=0.02 (PPO)",
    learning_rate_too_low: "ten times the learning rate; a larger clip_grad_norm, ratio_clip (PPO)",
    frozen_layers: "look for requires_grad=False, and for losses with a coefficient of 0",
    target_network_lags: "100 to 10,000 updates for target_update_interval / target_update_tau",
    discount_of_the_wrong_size: "discount=0.99",
    too_little_data: "a larger batch_size, or batch_T and batch_B; a larger replay_size",
    entropy_outweighs_rewards: "entropy_loss_coeff=0.01 (A2C, PPO); fixed_alpha=None (SAC)",
    dead_network: "another seed; a lower learning rate; orthogonal_init=True; eps of Adam 1e-5",
    weights_of_the_wrong_scale: "look at initial weights and weight_decay; layer normalization",
    values_diverge: "a lower learning rate; slower targets; double_dqn=True; smaller rewards",
    exploration_ended_too_early: "more eps_steps, or action_std; entropy_loss_coeff; ppo_rnd",
    evaluation_unlike_training: "compare both environments and greedy_eval, eps_eval",
    time_limit_taken_for_an_end: "bootstrap_timelimit=True record_next_observation=True",
    return_falls: "look for a wrong sign, of rewards or in a loss; a lower learning rate",
    policy_collapsed: "a lower learning rate, decaying; a larger entropy_loss_coeff; target_kl",
    values_explain_nothing: "look whether observations show what rewards depend on",
    exploration_never_ends: "look whether actions have effects; fewer eps_steps (DQN); less noise",
}


class Finding(NamedTuple):
    """Something wrong with a run."""

    name: str  # of the rule, and of its section on the page
    since: float  # environment steps of the first row that shows it
    evidence: str  # what the log shows
    remedy: str  # what to try

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


def report(run_dir: str | Path) -> str:
    """Return at most ten lines about what is wrong with a run, since when, and what to try.

    Raises:
        ValueError: if the run has no log yet.
    """
    log = read_log(run_dir)
    found = findings(log)
    head = f"{len(log.steps)} rows, {log.steps[-1]:,.0f} steps: {len(found)} finding"
    head += "s" * (len(found) != 1)
    lacks = ", ".join(part for part in MEASURED if not log.named(part))
    texts = [finding.text() for finding in found[:MAX_FINDINGS]]
    if log.has_failed and not found:
        first, last = (f(log["ReturnAverage"]) for f in (log.first, log.last))
        texts = [NOTHING.format(first, last, len(RULES))]
    return "\n".join([head, *texts, *[f"not in this log: {lacks}"] * bool(lacks)])


class Watch(Callback):
    """Callback that warns of findings in the log as soon as they appear, each once."""

    def __init__(self) -> None:
        self._warned_of: set[str] = set()

    def on_log(self, runner: RunnerLike, itr: int, traj_infos: Sequence[Any]) -> None:
        """Read the log of this run again."""
        file = Path(logger.get_snapshot_dir() or "", "progress.csv")
        settings = {"runner.n_steps": getattr(runner, "n_steps", INF)}
        for finding in findings(Log(read_rows(file), settings)):
            if finding.name not in self._warned_of:
                self._warned_of.add(finding.name)
                logger.log(f"WARNING: {finding.text()}")
