"""A sweep: every setting runs in a separate process, in one of the run slots.

    python examples/launch_sweep.py

Two environments, two learning rates and two seeds are eight tiny runs of PPO. Each setting has a
directory with its ``variant_config.json``, and in it each seed a log. At the end their returns are
printed.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from rlpyt.experiments import launched
from rlpyt.experiments.sweeps.affinity import encode_affinity
from rlpyt.experiments.sweeps.launch import run_experiments
from rlpyt.experiments.sweeps.variant import VariantLevel, make_variants
from rlpyt.utils.logging.context import get_log_dir


def launch(
    n_parallel: int = 1,
    n_steps: float = 4096,
    n_seeds: int = 2,
    ids: Sequence[str] = ("Pendulum-v1", "MountainCarContinuous-v0"),
    learning_rates: Sequence[float] = (1e-3, 3e-4),
    log_dir: str = "launch_sweep",
) -> Path:
    """Run all settings, and return the directory of the sweep."""
    affinity_code = encode_affinity(
        n_cpu_core=n_parallel,  # So many cores in total,
        cpu_per_run=1,  # one for each run: as many runs at a time.
    )
    steps = {"n_steps": n_steps, "log_interval_steps": n_steps / 2}
    variants, log_dirs = make_variants(
        VariantLevel(
            keys=[("env", "id")], values=[(env_id,) for env_id in ids], dir_names=list(ids)
        ),
        VariantLevel(
            keys=[
                ("algo", "learning_rate"),
                ("runner", "n_steps"),
                ("runner", "log_interval_steps"),
            ],
            values=[(rate, *steps.values()) for rate in learning_rates],
            dir_names=[f"lr_{rate:g}" for rate in learning_rates],
        ),
    )
    exp_dir = Path(get_log_dir(log_dir)).resolve()
    run_experiments(
        script=launched.__file__,
        affinity_code=affinity_code,
        experiment_title=str(exp_dir),
        runs_per_setting=n_seeds,
        variants=variants,
        log_dirs=log_dirs,
        common_args=("mujoco_ppo", "ppo_1M_serial"),
    )
    return exp_dir


def print_returns(exp_dir: Path) -> None:
    """Print the last mean return of every run below ``exp_dir``."""
    for path in sorted(exp_dir.rglob("progress.csv")):
        with path.open(newline="") as file:
            *_, last = csv.DictReader(file)
        print(f"{float(last['ReturnAverage']):10.1f}  {path.parent.relative_to(exp_dir)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n_parallel", help="runs at a time", type=int, default=1)
    parser.add_argument("--n_steps", help="environment steps of a run", type=float, default=4096)
    parser.add_argument("--n_seeds", help="runs of each setting", type=int, default=2)
    given = parser.parse_args()
    print_returns(launch(given.n_parallel, given.n_steps, given.n_seeds))
