"""Searches for settings: trials that Optuna chooses and prunes, and that are runs of a sweep."""

from __future__ import annotations

import importlib
import json
import math
import os
import os.path as osp
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from rlpyt.experiments.results.runs import read_rows
from rlpyt.experiments.sweeps.pools import LocalSlots, Pool
from rlpyt.experiments.sweeps.run import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    NEW,
    PRUNED,
    Run,
    write_status,
)
from rlpyt.experiments.sweeps.spaces import Choice, Real, Space, variant_of
from rlpyt.experiments.sweeps.sweep import Sweep, SweepError
from rlpyt.experiments.sweeps.variant import VARIANT, Config, load_variant, update_config
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.names import did_you_mean


def run_search(
    script: str | os.PathLike[str],
    affinity_code: str,
    experiment_title: str,
    space: Space,
    n_trials: int,
    runs_per_setting: int = 1,
    common_args: Sequence[Any] | None = None,
    *,
    base: Mapping[str, Any] | None = None,
    metric: str = "ReturnAverage",
    direction: str = "maximize",
    sampler: Any = None,
    pruner: Any = None,
    retry_failed: bool = False,
    time_limit_s: float | None = None,
    config: Mapping[str, Any] | None = None,
    pool: Pool | None = None,
) -> Any:
    """Run trials whose settings Optuna chooses, as many at a time as the code has slots.

    The value of a trial is the mean over its runs of the last value of a column of progress.csv;
    the values before are reported as soon as all runs of the trial have them, and a trial that the
    pruner rejects ends early. Launched again into its directory, the search goes on: the study is
    made from the files of the runs, and further trials may be added. A trial with a run that failed
    counts as failed.

    Args:
        script: path of a Python file, called as :mod:`~rlpyt.experiments.sweeps.launch` says.
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`.
        experiment_title: name of the sweep and of its directory; an absolute path to launch a
            search again.
        space: distribution of each setting.
        n_trials: number of trials, those of earlier launches included.
        runs_per_setting: number of runs of each trial, with ``run_ID`` 0, 1, ...
        common_args: arguments of every run.
        base: settings that are the same in all trials.
        metric: name of the column of progress.csv, without prefix.
        direction: "maximize" or "minimize".
        sampler: sampler of Optuna; None for its default.
        pruner: pruner of Optuna; None for its default, ``optuna.pruners.NopPruner()`` for none.
        retry_failed: whether to start runs again that failed in an earlier launch.
        time_limit_s: seconds that each attempt of a run may take; None for no limit.
        config: configuration that the variants change, to check their keys before any run starts.
        pool: machine or cluster on which the runs are started; None for the slots of this machine.

    Returns:
        The study of Optuna.

    Raises:
        ImportError: if Optuna is not installed.
        KeyError: if ``config`` lacks a setting of the space.
        ValueError: if the code does not fit the machine, the directory is of another sweep, or no
            trial has a value.
        SweepError: if every trial failed.
    """
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError as error:
        raise ImportError("run_search needs Optuna: pip install 'rlpyt[optuna]'") from error
    for name, given in (("n_trials", n_trials), ("runs_per_setting", runs_per_setting)):
        if given < 1:
            raise ValueError(f"{name}={given} must be at least 1")
    if config is not None:
        rng = np.random.default_rng(0)
        update_config(
            config, variant_of({path: one.draw(rng) for path, one in space.items()}, base)
        )
    exp_dir = get_log_dir(experiment_title)
    sweep = Sweep(
        exp_dir,
        script,
        pool or LocalSlots(affinity_code),
        n_trials * runs_per_setting,
        common_args or (),
        retry_failed=retry_failed,
        time_limit_s=time_limit_s,
    )
    identity = {
        "space": {".".join(path): [type(d).__name__, asdict(d)] for path, d in space.items()},
        "base": base,
        "metric": metric,
        "direction": direction,
    }
    study = optuna.create_study(direction=direction, sampler=sampler, pruner=pruner)
    search = _Search(optuna, study, exp_dir, space, runs_per_setting, base, metric)
    with sweep.opened("search", identity):
        search.restore(n_trials, retry_failed)
        failure = None
        try:
            sweep.work(search.runs(n_trials), search.pruned)
        except SweepError as error:
            failure = error
        search.tell_ended()
    if not study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)):
        raise failure or ValueError(
            f"metric={metric!r}: no trial in {exp_dir} was finished with a number in this column"
        )
    return study


def _forgive(runs: Iterable[Run]) -> None:
    """Let runs that failed count as interrupted."""
    for run in runs:
        if run.status.state == FAILED:
            write_status(run.log_dir, run.run_ID, replace(run.status, state=INTERRUPTED))


@dataclass
class _Trial:
    """Trial at work: Optuna's trial, its runs, and the number of values that were reported."""

    optuna_trial: Any
    runs: list[Run]
    n_reported: int = 0


@dataclass
class _Search:
    """Search at work: it asks the study for settings and tells it what came of them."""

    optuna: Any
    study: Any
    exp_dir: str
    space: Space
    runs_per_setting: int
    base: Mapping[str, Any] | None
    metric: str
    open: dict[int, _Trial] = field(default_factory=dict)  # By the number in the directory's name.
    closed: set[int] = field(default_factory=set)

    def restore(self, n_trials: int, retry_failed: bool) -> None:
        """Tell the study of the trials of earlier launches, and take up those that are not over."""
        not_over = []
        for n in range(n_trials):
            if not osp.exists(osp.join(self._log_dir(n), VARIANT)):
                continue
            params = self._params(load_variant(self._log_dir(n)))
            runs = self._runs(n, load_variant(self._log_dir(n)))
            if retry_failed:
                _forgive(runs)
            state = self._state(runs)
            if state is None:
                not_over.append((n, params, runs))
                continue
            values = self._means(runs)
            self.study.add_trial(
                self.optuna.trial.create_trial(
                    state=state,
                    value=values[-1] if state.name == "COMPLETE" else None,
                    params=params,
                    distributions=self._distributions(),
                    intermediate_values=dict(enumerate(values)),
                )
            )
            self.closed.add(n)
        for n, params, runs in not_over:
            self.study.enqueue_trial(params)
            self.open[n] = _Trial(self.study.ask(self._distributions()), runs)

    def runs(self, n_trials: int) -> Iterator[Run]:
        """Yield the runs of all trials; settings are chosen when the first run has a slot."""
        for n in range(n_trials):
            if n in self.closed:
                runs = self._runs(n, load_variant(self._log_dir(n)))
                yield from (run for run in runs if run.status.state != NEW)
                continue
            if n not in self.open:
                self.tell_ended()
                trial = self.study.ask(self._distributions())
                self.open[n] = _Trial(trial, self._runs(n, self._variant(trial.params)))
            for run in self.open[n].runs:
                if n in self.open:  # Otherwise it was pruned meanwhile.
                    yield run

    def pruned(self, active: Sequence[Run]) -> Iterable[Run]:
        """Report new values to the study, and return the runs of trials that it rejects."""
        self.tell_ended()
        rejected = []
        for n, trial in list(self.open.items()):
            for value in self._means(trial.runs)[trial.n_reported :]:
                trial.optuna_trial.report(value, trial.n_reported)
                trial.n_reported += 1
            runs = [run for run in active if run in trial.runs]
            if runs and trial.optuna_trial.should_prune():
                self._close(n, self.optuna.trial.TrialState.PRUNED)
                rejected += runs
        return rejected

    def tell_ended(self) -> None:
        """Tell the study of trials whose runs are over."""
        for n, trial in list(self.open.items()):
            state = self._state(trial.runs)
            if state is not None:
                self._close(n, state)

    def _close(self, n: int, state: Any) -> None:
        trial = self.open.pop(n)
        self.closed.add(n)
        values = self._means(trial.runs)
        for value in values[trial.n_reported :]:
            trial.optuna_trial.report(value, trial.n_reported)
            trial.n_reported += 1
        last = values[-1] if state.name == "COMPLETE" else None
        self.study.tell(trial.optuna_trial, last, state=state)

    def _state(self, runs: Sequence[Run]) -> Any:
        """Return the state of a trial by its runs; None if it is not over."""
        states = {run.status.state for run in runs}
        if PRUNED in states:
            return self.optuna.trial.TrialState.PRUNED
        if FAILED in states:
            return self.optuna.trial.TrialState.FAIL
        if states != {FINISHED}:
            return None
        for run in runs:
            columns = {name for row in self._rows(run) for name in row}
            # Without a finished episode a run logs no return, nor what else is known of episodes.
            if "ReturnAverage" in columns and self.metric not in columns:
                raise ValueError(
                    f"metric={self.metric!r} is no column of run {run.run_ID} in {run.log_dir}"
                    f"{did_you_mean(self.metric, columns)}: launch the search in another directory"
                )
        complete = bool(self._means(runs))
        return self.optuna.trial.TrialState["COMPLETE" if complete else "FAIL"]

    def _rows(self, run: Run) -> list[dict[str, str]]:
        return read_rows(osp.join(run.log_dir, f"run_{run.run_ID}", "progress.csv"))

    def _means(self, runs: Sequence[Run]) -> list[float]:
        """Return the means over the runs of the values that all of them have."""
        values = []
        for run in runs:
            numbers = (float(row.get(self.metric) or "nan") for row in self._rows(run))
            values.append([number for number in numbers if math.isfinite(number)])
        return [float(np.mean(of_step)) for of_step in zip(*values)]

    def _log_dir(self, n: int) -> str:
        return osp.join(self.exp_dir, f"trial_{n:04}")

    def _runs(self, n: int, variant: Config) -> list[Run]:
        name, log_dir = f"trial_{n:04}", self._log_dir(n)
        return [Run(name, log_dir, run_ID, variant) for run_ID in range(self.runs_per_setting)]

    def _variant(self, params: Mapping[str, Any]) -> Config:
        values = {
            path: json.loads(params[".".join(path)])
            if isinstance(distribution, Choice)
            else params[".".join(path)]
            for path, distribution in self.space.items()
        }
        return variant_of(values, self.base)

    def _params(self, variant: Config) -> dict[str, Any]:
        params = {}
        for path, distribution in self.space.items():
            value: Any = variant
            for key in path:
                value = value[key]
            params[".".join(path)] = (
                json.dumps(value) if isinstance(distribution, Choice) else value
            )
        return params

    def _distributions(self) -> dict[str, Any]:
        made = self.optuna.distributions
        return {
            ".".join(path): made.CategoricalDistribution(one.labels())
            if isinstance(one, Choice)
            else made.FloatDistribution(one.low, one.high, log=one.log)
            if isinstance(one, Real)
            else made.IntDistribution(one.low, one.high, log=one.log)
            for path, one in self.space.items()
        }
