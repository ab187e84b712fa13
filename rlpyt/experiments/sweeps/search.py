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

    Arguments that :func:`~rlpyt.experiments.sweeps.launch.run_experiments` has too mean the same.

    Args:
        space: distribution of each setting.
        n_trials: number of trials, including earlier launches.
        runs_per_setting: number of runs of each trial, with ``run_ID`` 0, 1, ...
        base: settings that are the same in all trials.
        metric: name of the column in progress.csv, without prefix.
        direction: "maximize" or "minimize".
        sampler: Optuna sampler; None for its default.
        pruner: Optuna pruner; None for its default, ``optuna.pruners.NopPruner()`` for none.

    Returns:
        Optuna's study.

    Raises:
        ImportError: if Optuna is not installed.
        ValueError: if an argument is wrong, or no trial has a value.
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
    file = osp.join(exp_dir, JOURNAL)
    with sweep.opened("search", identity):
        if not osp.exists(file) and any(Path(exp_dir).glob(f"*/{VARIANT}")):
            raise ValueError(
                f"{exp_dir!r} has trials but no {JOURNAL}: launch the search in another directory"
            )
        journal = optuna.storages.journal.JournalFileBackend(file)
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(journal),
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
        search.tell_ended()
    if not study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)):
        raise failure or ValueError(
            f"metric={metric!r}: no trial in {exp_dir} was finished with a number in this column"
        )
    return study


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
    # Trials of this launch that are not over, by the number of their directory: what Optuna gives
    # to report to, and cannot give again.
    open: dict[int, Any] = field(default_factory=dict)

    def restore(self, retry_failed: bool) -> None:
        """Open those trials of earlier launches again that have not failed, or are retried."""
        states = self.optuna.trial.TrialState
        for trial in self.study.get_trials(states=(states.RUNNING,)):
            self.study.tell(trial.number, state=states.FAIL)
        for n, trial in self._latest().items():
            runs = self._runs(n, trial.params)
            of_runs = {run.status.state for run in runs}
            if trial.state == states.PRUNED:
                _replace_states(runs, (INTERRUPTED, RUNNING), PRUNED)
            elif trial.state == states.FAIL and (retry_failed or FAILED not in of_runs):
                self.study.enqueue_trial(trial.params)
                self._ask(n)
                _replace_states(runs, (FAILED,), INTERRUPTED)

    def _latest(self) -> dict[int, Any]:
        """Return the latest trial of the study in each directory."""
        trials = self.study.get_trials(deepcopy=False)
        return {t.user_attrs[DIRECTORY]: t for t in trials if DIRECTORY in t.user_attrs}

    def _ask(self, n: int) -> None:
        """Open a trial, with queued settings or settings from Optuna."""
        made = self.optuna.distributions
        distributions: dict[str, Any] = {}
        for path, one in self.space.items():
            if isinstance(one, Choice):
                found = made.CategoricalDistribution(one.labels())
            else:
                kind = "Float" if isinstance(one, Real) else "Int"
                found = getattr(made, f"{kind}Distribution")(one.low, one.high, log=one.log)
            distributions[".".join(path)] = found
        self.open[n] = self.study.ask(distributions)
        self.open[n].set_user_attr(DIRECTORY, n)

    def runs(self, n_trials: int) -> Iterator[Run]:
        """Yield the runs of all trials; settings are chosen when the first run gets a slot."""
        earlier = self._latest()
        for n in range(n_trials):
            if n not in self.open and n in earlier:
                runs = self._runs(n, earlier[n].params)
                yield from (run for run in runs if run.status.state in (FINISHED, FAILED, PRUNED))
                continue
            if n not in self.open:
                self.tell_ended()
                self._ask(n)
            for run in self._runs(n, self.open[n].params):
                if n in self.open:  # Otherwise it was pruned meanwhile.
                    yield run

    def pruned(self, active: Sequence[Run]) -> Iterable[Run]:
        """Report new values to the study, and return the runs of rejected trials."""
        self.tell_ended()
        rejected = []
        for n, trial in list(self.open.items()):
            of_trial = self._runs(n, trial.params)
            self._report(trial, of_trial)
            runs = [run for run in active if run in of_trial]
            if runs and trial.should_prune():
                self.study.tell(self.open.pop(n), state=self.optuna.trial.TrialState.PRUNED)
                rejected += runs
        return rejected

    def tell_ended(self) -> None:
        """Tell the study which trials are over, and their values."""
        states = self.optuna.trial.TrialState
        for n, trial in list(self.open.items()):
            runs = self._runs(n, trial.params)
            of_runs = {run.status.state for run in runs}
            if FAILED in of_runs or of_runs == {FINISHED}:
                value = self._report(trial, runs)
                if FAILED in of_runs or value is None:
                    self.study.tell(self.open.pop(n), state=states.FAIL)
                else:
                    self.study.tell(self.open.pop(n), value, state=states.COMPLETE)

    def _report(self, trial: Any, runs: Sequence[Run]) -> float | None:
        """Report the means over runs that Optuna does not have yet, and return the last one."""
        logs = [read_rows(osp.join(r.log_dir, f"run_{r.run_ID}", "progress.csv")) for r in runs]
        for run, rows in zip(runs, logs):
            columns = {name for row in rows for name in row}
            # Without a finished episode a run logs no column of episodes.
            is_misspelt = "ReturnAverage" in columns and self.metric not in columns
            if is_misspelt and run.status.state == FINISHED:
                raise ValueError(
                    f"metric={self.metric!r} is not a column of run {run.run_ID} in {run.log_dir}"
                    f"{did_you_mean(self.metric, columns)}: launch the search in another directory"
                )
        reported = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        last = None
        for row, of_runs in enumerate(zip(*logs)):
            mean = float(np.mean([number(each.get(self.metric)) for each in of_runs]))
            if math.isfinite(mean):
                last = mean
                if row not in reported:
                    trial.report(mean, row)
        return last

    def _runs(self, n: int, params: Mapping[str, Any]) -> list[Run]:
        """Return the runs of the trial in directory ``n``."""
        values = {path: params[".".join(path)] for path in self.space}
        for path, distribution in self.space.items():
            if isinstance(distribution, Choice):
                values[path] = json.loads(values[path])
        variant, name = variant_of(values, self.base), f"trial_{n:04}"
        log_dir = osp.join(self.exp_dir, name)
        return [Run(name, log_dir, run_ID, variant) for run_ID in range(self.runs_per_setting)]


def _replace_states(runs: Iterable[Run], states: Sequence[str], state: str) -> None:
    """Write ``state`` for those runs whose state is one of ``states``."""
    for run in runs:
        if run.status.state in states:
            write_status(run.log_dir, run.run_ID, replace(run.status, state=state))
