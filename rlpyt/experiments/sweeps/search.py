"""Searches for settings: Optuna chooses and prunes trials, which are runs of a sweep."""

from __future__ import annotations

import json
import math
import os
import os.path as osp
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments.results.runs import number, read_rows
from rlpyt.experiments.sweeps.pools import LocalSlots, Pool
from rlpyt.experiments.sweeps.run import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    NEW,
    PRUNED,
    RUNNING,
    Run,
    write_status,
)
from rlpyt.experiments.sweeps.spaces import Choice, Real, Space, variant_of
from rlpyt.experiments.sweeps.sweep import Sweep, SweepError
from rlpyt.experiments.sweeps.variant import VARIANT, update_config
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.names import did_you_mean, import_extra

# Optuna's own record of a study, in the directory of the search.
JOURNAL = "optuna.log"
DIRECTORY = "directory"  # Attribute of a trial: the number in the name of its directory.


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
    """Run trials with settings from Optuna, one in each slot of the code at a time.

    A trial's value is the last value in a column of progress.csv, averaged over its runs.
    Earlier values are reported as soon as all runs of the trial have them, and a trial that the
    pruner rejects ends early. A trial with a run that failed counts as failed.

    Launched again into its directory, the search continues the study in ``optuna.log``, and may add
    trials. An interrupted or retried trial goes on in its directory as a new trial of the study;
    there, the former one counts as failed.

    Args:
        script: path of a Python file, see :mod:`~rlpyt.experiments.sweeps.launch`.
        affinity_code: code from :func:`~rlpyt.experiments.sweeps.affinity.encode_affinity`.
        experiment_title: name of the sweep and its directory; an absolute path to launch a
            search again.
        space: distribution of each setting.
        n_trials: number of trials, including earlier launches.
        runs_per_setting: number of runs of each trial, with ``run_ID`` 0, 1, ...
        common_args: arguments of every run.
        base: settings that are the same in all trials.
        metric: name of the column in progress.csv, without prefix.
        direction: "maximize" or "minimize".
        sampler: Optuna sampler; None for its default.
        pruner: Optuna pruner; None for its default, ``optuna.pruners.NopPruner()`` for none.
        retry_failed: whether to restart runs that failed in an earlier launch.
        time_limit_s: seconds that each attempt of a run may take; None for no limit.
        config: configuration that the variants change, to check their keys before any run starts.
        pool: machine or cluster on which the runs are started; None for the slots of this machine.

    Returns:
        Optuna's study.

    Raises:
        ImportError: if Optuna is not installed.
        KeyError: if ``config`` lacks a setting of the space.
        ValueError: if the code does not fit the machine, the directory is of another sweep, or no
            trial has a value.
        SweepError: if every trial failed.
    """
    optuna = import_extra("optuna", "run_search", "optuna")
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
    with sweep.opened("search", identity):
        study = optuna.create_study(
            storage=_open_storage(optuna, exp_dir),
            study_name="search",
            direction=direction,
            sampler=sampler,
            pruner=pruner,
            load_if_exists=True,
        )
        search = _Search(optuna, study, exp_dir, space, runs_per_setting, base, metric)
        search.restore(retry_failed)
        failure = None
        try:
            sweep.work(search.runs(n_trials), search.pruned)
        except SweepError as error:
            failure = error
        search.report_ended()
    if not study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)):
        raise failure or ValueError(
            f"metric={metric!r}: no trial in {exp_dir} was finished with a number in this column"
        )
    return study


def _open_storage(optuna: Any, exp_dir: str) -> Any:
    """Return the storage of the study in a directory, with its earlier trials if there are any."""
    file = osp.join(exp_dir, JOURNAL)
    if not osp.exists(file) and any(Path(exp_dir).glob(f"*/{VARIANT}")):
        raise ValueError(
            f"{exp_dir!r} has trials but no {JOURNAL}: launch the search in another directory"
        )
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(file))


def _replace_states(runs: Iterable[Run], states: Sequence[str], state: str) -> None:
    """Write ``state`` for those runs whose state is one of ``states``."""
    for run in runs:
        if run.status.state in states:
            write_status(run.log_dir, run.run_ID, replace(run.status, state=state))


@dataclass
class _Search:
    """Running search, which starts the trials of a study and reports their values."""

    optuna: Any
    study: Any
    exp_dir: str
    space: Space
    runs_per_setting: int
    base: Mapping[str, Any] | None
    metric: str
    open: dict[int, Any] = field(default_factory=dict)  # Trials by the number of their directory.

    def restore(self, retry_failed: bool) -> None:
        """Begin those trials of earlier launches again that were interrupted, or are retried."""
        states = self.optuna.trial.TrialState
        for trial in self.study.get_trials(states=(states.RUNNING,)):
            self.study.tell(trial.number, state=states.FAIL)
        for n, trial in self._latest().items():
            runs = self._runs(n, trial.params)
            of_runs = {run.status.state for run in runs}
            if trial.state == states.PRUNED:
                _replace_states(runs, (INTERRUPTED, RUNNING), PRUNED)
            elif trial.state == states.FAIL and (
                retry_failed if FAILED in of_runs else of_runs != {FINISHED}
            ):
                self.study.enqueue_trial(trial.params)
                self.open[n] = self._ask(n)
                _replace_states(runs, (FAILED,), INTERRUPTED)

    def _latest(self) -> dict[int, Any]:
        """Return the latest trial of the study in each directory."""
        trials = self.study.get_trials(deepcopy=False)
        return {t.user_attrs[DIRECTORY]: t for t in trials if DIRECTORY in t.user_attrs}

    def _ask(self, n: int) -> Any:
        """Return a new trial, with queued settings or settings from Optuna."""
        trial = self.study.ask(self._distributions())
        trial.set_user_attr(DIRECTORY, n)
        return trial

    def runs(self, n_trials: int) -> Iterator[Run]:
        """Yield the runs of all trials; settings are chosen when the first run gets a slot."""
        earlier = self._latest()
        for n in range(n_trials):
            if n not in self.open and n in earlier:
                runs = self._runs(n, earlier[n].params)
                yield from (run for run in runs if run.status.state != NEW)
                continue
            if n not in self.open:
                self.report_ended()
                self.open[n] = self._ask(n)
            for run in self._runs(n, self.open[n].params):
                if n in self.open:  # Otherwise it was pruned meanwhile.
                    yield run

    def pruned(self, active: Sequence[Run]) -> Iterable[Run]:
        """Report new values to the study, and return the runs of rejected trials."""
        self.report_ended()
        rejected = []
        for n, trial in list(self.open.items()):
            self._report(n)
            of_trial = self._runs(n, trial.params)
            runs = [run for run in active if run in of_trial]
            if runs and trial.should_prune():
                self._close(n, self.optuna.trial.TrialState.PRUNED)
                rejected += runs
        return rejected

    def report_ended(self) -> None:
        """Report the trials whose runs are over to the study."""
        for n, trial in list(self.open.items()):
            state = self._state(self._runs(n, trial.params))
            if state is not None:
                self._close(n, state)

    def _report(self, n: int) -> list[tuple[int, float]]:
        """Report the values that Optuna does not have yet, and return all."""
        trial = self.open[n]
        reported = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        values = self._means(self._runs(n, trial.params))
        for row, value in values:
            if row not in reported:
                trial.report(value, row)
        return values

    def _close(self, n: int, state: Any) -> None:
        values = self._report(n)
        last = values[-1][1] if state.name == "COMPLETE" else None
        self.study.tell(self.open.pop(n), last, state=state)

    def _state(self, runs: Sequence[Run]) -> Any:
        """Return the state of a trial from its runs; None if it is not over."""
        states = {run.status.state for run in runs}
        if FAILED in states:
            return self.optuna.trial.TrialState.FAIL
        if states != {FINISHED}:
            return None
        for run in runs:
            columns = {name for row in self._rows(run) for name in row}
            # Without a finished episode a run logs no column of episodes.
            if "ReturnAverage" in columns and self.metric not in columns:
                raise ValueError(
                    f"metric={self.metric!r} is not a column of run {run.run_ID} in {run.log_dir}"
                    f"{did_you_mean(self.metric, columns)}: launch the search in another directory"
                )
        complete = bool(self._means(runs))
        return self.optuna.trial.TrialState["COMPLETE" if complete else "FAIL"]

    def _rows(self, run: Run) -> list[dict[str, str]]:
        return read_rows(osp.join(run.log_dir, f"run_{run.run_ID}", "progress.csv"))

    def _means(self, runs: Sequence[Run]) -> list[tuple[int, float]]:
        """Return rows and means over the runs, for the rows in which all runs have a value."""
        columns = [[number(row.get(self.metric)) for row in self._rows(run)] for run in runs]
        means = (float(np.mean(of_row)) for of_row in zip(*columns))
        return [(row, mean) for row, mean in enumerate(means) if math.isfinite(mean)]

    def _runs(self, n: int, params: Mapping[str, Any]) -> list[Run]:
        """Return the runs of the trial in directory ``n``."""
        values = {path: params[".".join(path)] for path in self.space}
        for path, distribution in self.space.items():
            if isinstance(distribution, Choice):
                values[path] = json.loads(values[path])
        variant, name = variant_of(values, self.base), f"trial_{n:04}"
        log_dir = osp.join(self.exp_dir, name)
        return [Run(name, log_dir, run_ID, variant) for run_ID in range(self.runs_per_setting)]

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
