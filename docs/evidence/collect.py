"""Remake this page's tables and pictures from its csv files, after taking in finished runs.

    python docs/evidence/collect.py           # tables and pictures only
    python docs/evidence/collect.py RUNS      # take in the runs in RUNS first

``RUNS/<setting>/<environment>/seed<n>/run_0/progress.csv`` become
``data/<setting>/<environment>_seed<n>.csv``, and the episodes that ``rlpyt evaluate`` wrote beside
them ``data/<setting>/evaluation/<environment>_seed<n>.csv``. The settings in ``SHARED`` share a
table, such as ``data/cartpole.md``, with a row for each, and a picture, ``data/cartpole.png``. Each
other setting gets ``table.md``, with a row for each environment and metric, and ``curves.png``;
those in ``OF_SUITE`` only a table, with a row for each task beside the scores of the suite.
``data/runs.md`` has a row for each run, ``data/summary.md`` one for each task of the settings in
``SUMMARY``.
Published figures come from ``published.csv`` and stand beside ours where metric and number of steps
are the same. ``data/comparison.png`` compares some of the settings.

The metrics are:

* ``last 100 episodes`` or ``last evaluation``: last row of a run, without or with evaluation;
* ``T``: mean training return of the last 5e5 steps, in tables with such a published figure;
* ``G``: mean return of the final agent in the episodes of ``rlpyt evaluate``.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.pictures import (
    draw_aggregates,
    draw_curves,
    plot_learning_curves,
)
from rlpyt.experiments.results.runs import STEPS, LoggedRun, read_columns, read_rows
from rlpyt.experiments.results.statistics import estimate, interquartile_mean
from rlpyt.experiments.results.suites import SuiteComparison, load_suite
from rlpyt.utils.types import NDArray

HERE = Path(__file__).parent
DATA = HERE / "data"
COMPARED = {
    "PPO": "ppo_1M_normalized",
    "A2C": "a2c_1M_normalized",
    "A2C with RMSprop": "a2c_1M_rmsprop",
}
SUMMARY = {
    "CrossQ": ("crossq",),
    "SAC": ("sac_1M", "sac"),
    "SAC with LSTM": ("sac_lstm_pendulum",),
    "TD3": ("td3_1M",),
    "DDPG": ("ddpg",),
    "PPO": ("ppo_1M_normalized", "ppo_pong_orthogonal", "minatar_ppo", "ppo_classic"),
    "PPO with LSTM": ("ppo_lstm_novel", "ppo_lstm_pendulum"),
    "PQN": ("minatar_pqn",),
    "DQN": ("dqn_pong", "minatar_young_tian_dqn", "dqn_classic"),
    "Data-efficient Rainbow": ("atari_100k_der",),
    "C51": ("cartpole_cat_dqn",),
    "Rainbow": ("cartpole_rainbow",),
    "QR-DQN": ("cartpole_qr_dqn",),
    "IQN": ("cartpole_iqn",),
    "Munchausen DQN": ("cartpole_munchausen_dqn",),
    "Discrete SAC": ("cartpole_sac_discrete",),
    "R2D1": ("r2d1_novel_soft", "r2d1_tmaze"),
    "A2C": ("a2c_1M_rmsprop",),
}
BESIDE = {
    name: {"rlpyt": f"rlpyt_{name}", "Stable-Baselines3": f"sb3_{name}"}
    for name in ("dqn", "ppo", "sac")
}
# Settings that share a table, with a row for each, and a picture: task, and settings by label.
SHARED: dict[str, tuple[str, dict[str, str]]] = {
    "cartpole": (
        "CartPole-v1",
        {
            "DQN": "cartpole_dqn",
            "C51": "cartpole_cat_dqn",
            "Rainbow": "cartpole_rainbow",
            "QR-DQN": "cartpole_qr_dqn",
            "IQN": "cartpole_iqn",
            "Munchausen DQN": "cartpole_munchausen_dqn",
            "PQN": "cartpole_pqn",
            "Discrete SAC": "cartpole_sac_discrete",
        },
    ),
    "hindsight": (
        "Lock",
        {"DQN with hindsight": "hindsight_lock", "DQN": "hindsight_lock_without"},
    ),
    "masks": ("Taxi-v4", {"PPO with masks": "masks_taxi", "PPO": "masks_taxi_without"}),
    "rnd": ("Chain", {"PPO with the bonus": "rnd_chain", "PPO": "rnd_chain_without"}),
    "rnd_deep_sea": (
        "DeepSea",
        {"PPO with the bonus": "rnd_deep_sea", "PPO": "rnd_deep_sea_without"},
    ),
    "beside_cartpole": ("CartPole-v1", BESIDE["dqn"]),
    "beside_lunar_lander": ("LunarLander-v3", BESIDE["dqn"]),
    "beside_ppo": ("HalfCheetah-v5", BESIDE["ppo"]),
    "beside_sac": ("HalfCheetah-v5", BESIDE["sac"]),
}
OF_SUITE = {"atari_100k_der": "atari_100k"}
COLUMNS = (STEPS, "ReturnAverage", "Diagnostics/CumTime (s)")


def take_in(runs: Path) -> None:
    """Copy the csv files of every setting in ``runs``."""
    for setting in sorted(path for path in runs.iterdir() if path.is_dir()):
        for csv_file in sorted(setting.glob("*/seed*/run_0/progress.csv")):
            seed, env = csv_file.parents[1].name, csv_file.parents[2].name
            target = DATA / setting.name / f"{env}_{seed}.csv"
            episodes = csv_file.with_name("params_evaluation.csv")
            for source, copy in ((csv_file, target), (episodes, evaluation_of(target))):
                if source.exists():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, copy)


def evaluation_of(csv_file: Path) -> Path:
    """Return the file with the episodes of the final agent of a run."""
    return csv_file.parent / "evaluation" / csv_file.name


def csv_files_by_env(setting: Path) -> dict[str, list[Path]]:
    """Return the csv files of each environment."""
    envs: dict[str, list[Path]] = {}
    for csv_file in sorted(setting.glob("*_seed*.csv")):
        envs.setdefault(csv_file.stem.rsplit("_", 1)[0], []).append(csv_file)
    return envs


def scores(csv_file: Path, steps: NDArray, returns: NDArray) -> dict[str, float]:
    """Return the score of a run by each metric."""
    found = {"last evaluation": returns[-1]}
    if "CumEvalTime" not in read_rows(csv_file)[0]:
        found = {"last 100 episodes": returns[-1], "T": returns[steps > steps[-1] - 5e5].mean()}
    if evaluation_of(csv_file).exists():
        found["G"] = read_columns(evaluation_of(csv_file), "Return").mean()
    return found


class Row(NamedTuple):
    """What the runs of a setting on a task reached, by one metric."""

    env: str
    metric: str
    seeds: int
    steps: str
    reached: str
    interval: str
    published: str
    hours: float

    def cells(self) -> str:
        """Return the row of the table of the setting."""
        return f"| {' | '.join(map(str, self[:-2]))} | {self.published or '-'} |"


def draw_and_tabulate(setting: Path) -> tuple[list[Row], list[str]]:
    """Return the rows of a setting, and those of its runs; write its table and picture, if any."""
    envs = csv_files_by_env(setting)
    of_runs, of_envs = [], []
    total_hours = 0.0
    for env, csv_files in envs.items():
        by_metric: dict[str, list[float]] = {}
        ends = []
        hours = 0.0
        for csv_file in csv_files:
            steps, returns, seconds = read_columns(csv_file, *COLUMNS)
            for metric, score in scores(csv_file, steps, returns).items():
                by_metric.setdefault(metric, []).append(score)
            ends.append(steps[-1])
            hours += seconds[-1] / 3600
            seed = csv_file.stem.rsplit("seed", 1)[1]
            of_runs.append(
                f"| {setting.name} | {env} | {seed} | {steps[-1]:,.0f} | {number(returns[-1])} "
                f"| {number(np.nanmax(returns))} | {seconds[-1] / 3600:.1f} |"
            )
        total_hours += hours
        n_steps = f"{min(ends):,.0f}"
        if max(ends) > 1.01 * min(ends):
            n_steps += f" to {max(ends):,.0f}"
        for metric, found in by_metric.items():
            figures = published(setting.name, env, metric, min(ends))
            if metric != "T" or figures:
                iqm, low, high = estimate(interquartile_mean, [np.array(found)])
                interval = "one seed" if np.isnan(low) else f"{number(low)} to {number(high)}"
                of_envs.append(
                    Row(env, metric, len(found), n_steps, number(iqm), interval, figures, hours)
                )
    if setting.name in OF_SUITE:
        of_envs = [compare_with_suite(setting, envs, total_hours)]
    elif all(setting.name not in settings.values() for _, settings in SHARED.values()):
        plot_learning_curves(envs, setting / "curves.png", title=setting.name)
        names = ("environment", "metric", "seeds", "steps", "return, IQM", "95% interval")
        write_table(setting / "table.md", (*names, "published"), [row.cells() for row in of_envs])
    return of_envs, of_runs


def compare_with_suite(setting: Path, envs: Mapping[str, Sequence[Path]], hours: float) -> Row:
    """Return the row of a setting on all its tasks of a suite; write its table and picture."""
    name = OF_SUITE[setting.name]
    suite = load_suite(name)
    runs = [LoggedRun(csv_file, "rlpyt", env) for env, files in envs.items() for csv_file in files]
    comparison = SuiteComparison(runs, suite)
    draw_aggregates(comparison).savefig(setting / "aggregates.png", dpi=110)
    lines = []
    for env in envs:
        score = comparison.scores[env, "rlpyt"]
        known = *suite.ranges[env], *(scores[env] for scores in suite.published.values())
        cells = (env, str(len(score)), *map(number, (float(score.mean()), *known)))
        lines.append(f"| {' | '.join(cells)} |")
    names = ("task", "seeds", "score", "random", "human", *suite.published)
    write_table(setting / "table.md", names, lines)
    own = comparison.aggregates["IQM", "rlpyt"]
    interval = "one seed" if np.isnan(own.low) else f"{own.low:.3f} to {own.high:.3f}"
    others = "; ".join(
        f"{comparison.aggregates['IQM', label].value:.3f} "
        f"({label.partition('(')[2].rstrip(')')}, same games)"
        for label in suite.published
    )
    task = f"{name}, {len(envs)} of {len(suite.ranges)} games"
    seeds = min(map(len, envs.values()))
    iqm = f"{own.value:.3f}"
    return Row(task, "IQM", seeds, f"{suite.n_steps:,}", iqm, interval, others, hours)


def summarize(tables: Mapping[str, Sequence[Row]]) -> None:
    """Write one row for each algorithm and task: a metric with a published figure, or else G."""
    lines = []
    for algorithm, settings in SUMMARY.items():
        best: dict[str, Row] = {}
        for setting in settings:
            for row in tables[setting]:
                is_first = row.env not in best
                if is_first or row.published or row.metric == "G" and not best[row.env].published:
                    best[row.env] = row
        for row in best.values():
            first = row.published.partition(";")[0].partition(", ")[0]  # Source, without version.
            anchor = f"{first})" if first else "-"
            lines.append(
                f"| {algorithm} | {row.env} | {row.steps} | {row.seeds} | {row.hours:.1f} "
                f"| {row.metric} | {row.reached} ({row.interval}) | {anchor} |"
            )
    names = ("algorithm", "task", "steps", "seeds", "hours", "metric", "return", "published")
    write_table(DATA / "summary.md", names, lines)


def share(name: str, tables: Mapping[str, Sequence[Row]]) -> None:
    """Write a table with one row for each setting that shares it, and draw their curves."""
    env, settings = SHARED[name]
    lines = []
    files = {label: csv_files_by_env(DATA / x)[env] for label, x in settings.items()}
    for label, setting in settings.items():
        training, final = (row for row in tables[setting] if row.env == env)
        of_seeds = [read_columns(evaluation_of(x), "Return").mean() for x in files[label]]
        lines.append(
            f"| {label} | {final.steps} | {final.seeds} | {60 * final.hours / final.seeds:.1f} "
            f"| {training.reached} | {final.reached} ({final.interval}) | {number(min(of_seeds))} |"
        )
    names = ("", "steps", "seeds", "minutes each", "last 100 episodes", "G", "G, lowest seed")
    write_table(DATA / f"{name}.md", names, lines)
    plot_learning_curves(files, DATA / f"{name}.png", title=env)


def number(value: float) -> str:
    """Return a return with some three digits, more if it is large."""
    n_digits = int(abs(value) < 100) + int(0 < abs(value) < 2)
    text = f"{value:.{n_digits}f}"
    return text if float(text) else "0.0"


def write_table(file: Path, names: Sequence[str], rows: Sequence[str]) -> None:
    """Write a table with these names of columns."""
    head = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    file.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def published(setting: str, env: str, metric: str, n_steps: float) -> str:
    """Return the published figures of a setting, environment and metric after so many steps."""
    with open(HERE / "published.csv", newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if setting in row["settings"].split()
            and (row["environment"], row["metric"]) == (env, metric)
            and abs(float(row["steps"]) / n_steps - 1) < 0.05
        ]
    return "; ".join(
        f"{' ± '.join(filter(None, (row['return'], row['deviation'])))} ({row['source']}, "
        f"{row['version']}, {row['seeds']} seed{'s' * (row['seeds'] != '1')})"
        for row in rows
    )


def compare_settings() -> None:
    """Draw the picture that compares settings."""
    runs = [
        LoggedRun(csv_file, label, env)
        for label, setting_name in COMPARED.items()
        for env, csv_files in csv_files_by_env(DATA / setting_name).items()
        for csv_file in csv_files
    ]
    draw_curves(Comparison(runs, smooth=3)).savefig(DATA / "comparison.png", dpi=110)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        take_in(Path(sys.argv[1]))
    settings = sorted(path for path in DATA.iterdir() if csv_files_by_env(path))
    names = ("setting", "environment", "seed", "steps", "return", "best row", "hours")
    tables = {setting.name: draw_and_tabulate(setting) for setting in settings}
    write_table(DATA / "runs.md", names, [run for _, runs in tables.values() for run in runs])
    rows_of = {name: rows for name, (rows, _) in tables.items()}
    summarize(rows_of)
    for name in SHARED:
        share(name, rows_of)
    compare_settings()
