"""Short runs that show whether the library learns as it did: trained, and compared with a baseline.

``python -m tests.learning.gate RUNS`` trains them into the directory RUNS; its exit code is 1 if
they learn worse. With ``--keep`` they become the baseline instead, small csv files of two columns.
"""

import argparse
import shutil
import sys
from pathlib import Path

from rlpyt.experiments.gate import compare, table
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.results.runs import STEPS, read_curve, write_rows
from rlpyt.experiments.start import log_call
from rlpyt.experiments.train import configuration
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.log import Logger

BASELINE = Path(__file__).with_name("baseline")

# Steps and words of ``rlpyt train``; each run takes seconds on one core. On CartPole learning rates
# are so high that still higher ones do harm.
QUICK = ("learning_rate=5e-3", "hidden_sizes=[64,64]", "runner.log_traj_window=10", "threads=1")
TASKS = {
    "ppo_cartpole": (1e4, ("ppo", "CartPole-v1", *QUICK)),
    "dqn_cartpole": (8e3, ("dqn", "CartPole-v1", "batch_size=64", "eps_steps=2e3", *QUICK)),
    "sac_pendulum": (
        4e3,
        (
            "sac",
            "Pendulum-v1",
            "discount=0.9",
            "batch_size=64",
            "replay_ratio=32",
            "min_steps_learn=500",
            "target_update_tau=0.02",
            "q_model_kwargs={'hidden_sizes': [64, 64]}",
            "batch_T=2",
            "batch_B=2",
            *QUICK,
        ),
    ),
}


def train(directory, seeds, tasks, changes=None):
    """Train each task with each seed, one after the other, into ``<task>/run_<seed>``.

    Args:
        directory: directory of all runs.
        seeds: seeds.
        tasks: names in ``TASKS``.
        changes: changes of all configurations, by section.

    Raises:
        ValueError: if a run is there already.
    """
    runs = [(task, seed, Path(directory, task, f"run_{seed}")) for task in tasks for seed in seeds]
    for *_, run_dir in runs:
        if run_dir.exists():
            raise ValueError(f"{run_dir} has a run already: choose another directory")
    for task, seed, run_dir in runs:
        print(f"Training: {run_dir}", flush=True)
        steps, (name, *words) = TASKS[task]
        config = configuration(name, words, steps, changes)
        log = log_call(config, seed, str(run_dir.parent), seed)
        with logger.using(Logger(sinks=[])), log.make():
            runner_call(config, seed).make().train()


def keep(runs, baseline=BASELINE):
    """Write the curves of runs into a baseline, in place of what it has of these tasks."""
    for task_dir in sorted(Path(runs).iterdir()):
        shutil.rmtree(Path(baseline, task_dir.name), ignore_errors=True)
        for n, csv_file in enumerate(sorted(task_dir.glob("*/progress.csv"))):
            curve = read_curve(csv_file, "ReturnAverage")
            kept = Path(baseline, task_dir.name, f"run_{n}", "progress.csv")
            kept.parent.mkdir(parents=True)
            rows = ([int(x), f"{value:.4g}"] for x, value in curve.T)
            write_rows(kept, (STEPS, "ReturnAverage"), rows)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", help="directory of the runs")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each task")
    parser.add_argument("--seed", type=int, default=100, help="seed of the first")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--keep", action="store_true", help="make the runs the baseline")
    args = parser.parse_args(words)
    train(args.runs, range(args.seed, args.seed + args.seeds), args.tasks)
    if args.keep:
        keep(args.runs)
        return 0
    lines, notes = compare(args.runs, BASELINE)
    print("\n".join([table(lines), *notes]))
    return int(any(line.is_worse for line in lines))


if __name__ == "__main__":
    sys.exit(main())
