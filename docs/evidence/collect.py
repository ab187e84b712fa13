"""Take finished runs into this page's data: csv files, a picture and a table for each setting.

    python docs/evidence/collect.py RUNS

``RUNS/<setting>/<environment>/seed<n>/run_0/progress.csv`` become
``data/<setting>/<environment>_seed<n>.csv``, ``data/<setting>/curves.png`` and
``data/<setting>/table.md``, which the pages include. ``data/comparison.png`` compares some of the
settings.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.pictures import draw_curves, plot_learning_curves
from rlpyt.experiments.results.runs import STEPS, LoggedRun, read_columns

DATA = Path(__file__).parent / "data"
COMPARED = {
    "PPO": "ppo_1M_normalized",
    "A2C": "a2c_1M_normalized",
    "A2C with RMSprop": "a2c_1M_rmsprop",
}
COLUMNS = (STEPS, "ReturnAverage", "Diagnostics/CumTime (s)")


def collect(runs: Path) -> None:
    """Copy, draw and tabulate every setting in ``runs``."""
    for setting in sorted(path for path in runs.iterdir() if path.is_dir()):
        target = DATA / setting.name
        target.mkdir(parents=True, exist_ok=True)
        for csv_file in sorted(setting.glob("*/seed*/run_0/progress.csv")):
            seed, env = csv_file.parents[1].name, csv_file.parents[2].name
            shutil.copy(csv_file, target / f"{env}_{seed}.csv")
        draw_and_tabulate(target)
    runs_compared = [
        LoggedRun(csv_file, label, env)
        for label, setting_name in COMPARED.items()
        for env, csv_files in csv_files_by_env(DATA / setting_name).items()
        for csv_file in csv_files
    ]
    draw_curves(Comparison(runs_compared, smooth=3)).savefig(DATA / "comparison.png", dpi=110)


def csv_files_by_env(setting: Path) -> dict[str, list[Path]]:
    """Return the csv files of each environment."""
    envs: dict[str, list[Path]] = {}
    for csv_file in sorted(setting.glob("*.csv")):
        envs.setdefault(csv_file.stem.rsplit("_", 1)[0], []).append(csv_file)
    return envs


def draw_and_tabulate(setting: Path) -> None:
    """Write ``curves.png`` and ``table.md`` from the csv files beside them."""
    envs = csv_files_by_env(setting)
    plot_learning_curves(envs, setting / "curves.png", title=setting.name)
    rows = [
        "| environment | seed | steps | return, last row | best row | hours |",
        "|---" * 6 + "|",
    ]
    for env, csv_files in envs.items():
        for csv_file in csv_files:
            steps, returns, seconds = read_columns(csv_file, *COLUMNS)
            seed = csv_file.stem.rsplit("seed", 1)[1]
            rows.append(
                f"| {env} | {seed} | {steps[-1]:,.0f} | {returns[-1]:.0f} "
                f"| {np.nanmax(returns):.0f} | {seconds[-1] / 3600:.1f} |"
            )
    (setting / "table.md").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    collect(Path(sys.argv[1]))
