"""Remake this page's tables and pictures from its csv files, after taking in finished runs.

    python docs/evidence/collect.py           # tables and pictures only
    python docs/evidence/collect.py RUNS      # take in the runs in RUNS first

``RUNS/<setting>/<environment>/seed<n>/run_0/progress.csv`` become
``data/<setting>/<environment>_seed<n>.csv``. Each setting gets a picture, ``curves.png``, and
``table.md`` with a row for each environment; ``data/runs.md`` has a row for each run. Published
figures come from ``published.csv``, which has those of the same metric only, and stand beside ours
where the number of steps is the same. ``data/comparison.png`` compares some of the settings.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.pictures import draw_curves, plot_learning_curves
from rlpyt.experiments.results.runs import STEPS, LoggedRun, read_columns
from rlpyt.experiments.results.statistics import estimate, interquartile_mean

HERE = Path(__file__).parent
DATA = HERE / "data"
COMPARED = {
    "PPO": "ppo_1M_normalized",
    "A2C": "a2c_1M_normalized",
    "A2C with RMSprop": "a2c_1M_rmsprop",
}
COLUMNS = (STEPS, "ReturnAverage", "Diagnostics/CumTime (s)")


def take_in(runs: Path) -> None:
    """Copy the csv files of every setting in ``runs``."""
    for setting in sorted(path for path in runs.iterdir() if path.is_dir()):
        for csv_file in sorted(setting.glob("*/seed*/run_0/progress.csv")):
            seed, env = csv_file.parents[1].name, csv_file.parents[2].name
            target = DATA / setting.name / f"{env}_{seed}.csv"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(csv_file, target)


def csv_files_by_env(setting: Path) -> dict[str, list[Path]]:
    """Return the csv files of each environment."""
    envs: dict[str, list[Path]] = {}
    for csv_file in sorted(setting.glob("*_seed*.csv")):
        envs.setdefault(csv_file.stem.rsplit("_", 1)[0], []).append(csv_file)
    return envs


def draw_and_tabulate(setting: Path) -> list[str]:
    """Write the picture and the table of a setting, and return the rows of its runs."""
    envs = csv_files_by_env(setting)
    plot_learning_curves(envs, setting / "curves.png", title=setting.name)
    of_runs, of_envs = [], []
    for env, csv_files in envs.items():
        last, ends = [], []
        for csv_file in csv_files:
            steps, returns, seconds = read_columns(csv_file, *COLUMNS)
            last.append(returns[-1])
            ends.append(steps[-1])
            seed = csv_file.stem.rsplit("seed", 1)[1]
            of_runs.append(
                f"| {setting.name} | {env} | {seed} | {steps[-1]:,.0f} | {returns[-1]:.0f} "
                f"| {np.nanmax(returns):.0f} | {seconds[-1] / 3600:.1f} |"
            )
        iqm, low, high = estimate(interquartile_mean, [np.array(last)])
        interval = "one seed" if np.isnan(low) else f"{low:.0f} to {high:.0f}"
        n_steps = f"{min(ends):,.0f}"
        if max(ends) > 1.01 * min(ends):
            n_steps += f" to {max(ends):,.0f}"
        of_envs.append(
            f"| {env} | {len(last)} | {n_steps} | {iqm:.0f} | {interval} "
            f"| {published(setting.name, env, min(ends)) or '-'} |"
        )
    names = ("environment", "seeds", "steps", "return, IQM", "95% interval", "published")
    write_table(setting / "table.md", names, of_envs)
    return of_runs


def write_table(file: Path, names: Sequence[str], rows: Sequence[str]) -> None:
    """Write a table with these names of columns."""
    head = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    file.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def published(setting: str, env: str, n_steps: float) -> str:
    """Return the published figures for a setting and environment after so many steps."""
    with open(HERE / "published.csv", newline="", encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if setting in row["settings"].split()
            and row["environment"] == env
            and abs(float(row["steps"]) / n_steps - 1) < 0.05
        ]
    return "; ".join(
        f"{row['return']} ± {row['deviation']} ({row['source']}, {row['version']}, "
        f"{row['seeds']} seeds)"
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
    write_table(DATA / "runs.md", names, [row for s in settings for row in draw_and_tabulate(s)])
    compare_settings()
