"""How good the advice of ``rlpyt doctor`` is: against the best of all combinations, on three tasks.

A cheap environment, an Atari game and one that sleeps. For each task the doctor gives its advice;
then every combination of sampler, workers and ``batch_B`` that it chose from is measured, and at
last its advice and the best combinations in turn, since a machine changes its speed meanwhile:

    python tests/benchmarks/bench_doctor.py --csv doctor.csv

The ratio of the medians, advice to best, is given for sampling alone and for whole runs.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from contextlib import ExitStack
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from tabulate import tabulate

from rlpyt.experiments.doctor.diagnosis import Diagnosis, examine, given_settings
from rlpyt.experiments.doctor.search import Search
from rlpyt.experiments.doctor.trials import Candidate
from rlpyt.experiments.train import configuration


class Sleeping(gymnasium.Env):
    """Takes five milliseconds for a step, in which it computes nothing."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (8,), np.float32)
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(8, np.float32), {}

    def step(self, action: Any) -> Any:
        time.sleep(0.005)
        self.t += 1
        return np.zeros(8, np.float32), 0.0, self.t >= 200, False, {}


gymnasium.register("SleepingBench-v0", entry_point=Sleeping)

TASKS = {
    "cheap": ["ppo", "CartPole-v1"],
    "pong": ["a2c", "pong"],
    "sleeping": ["a2c", "SleepingBench-v0"],
}


def measure_all(
    name: str, diagnosis: Diagnosis, seconds: float, n_slices: int, table: Any
) -> Search:
    """Measure every combination that the doctor could have advised, and write it into a table."""
    task = TASKS[name]
    config = configuration(task[0], task[1:])
    grid = Search(config, given_settings(task[1:]), 150 * seconds)
    grid.step = diagnosis.search.step
    every: dict[Candidate, None] = {}
    for candidate in grid.candidates():
        threads = {1, torch.get_num_threads()}
        if candidate.sampler == "cpu":  # Each worker acts, with one thread.
            threads = {1}
        every.update((candidate._replace(threads=number), None) for number in sorted(threads))
    for candidate in every:
        with ExitStack() as stack:
            trial = grid.start(candidate, stack)
            if trial is not None:
                grid.compare({candidate: trial}, n_slices)
        speed = 1 / grid.sampling_time(candidate) if candidate in grid.times else ""
        row = (name, *candidate.row().values(), speed, grid.left_out.get(candidate, ""))
        csv.writer(table).writerow(row)
        table.flush()
    return grid


def in_turn(grid: Search, candidates: list[Candidate], n_slices: int) -> dict[Candidate, float]:
    """Return the median speeds of candidates that are measured in turn, in steps per second."""
    grid.times = {}
    with ExitStack() as stack:
        trials = {each: grid.start(each, stack) for each in candidates}
        grid.compare({each: trial for each, trial in trials.items() if trial}, n_slices)
    return {each: 1 / grid.sampling_time(each) for each in grid.times}


def evaluate(name: str, args: argparse.Namespace, table: Any) -> dict[str, Any]:
    task, begin = TASKS[name], time.monotonic()
    diagnosis = examine(configuration(task[0], task[1:]), task[1:], args.doctor_seconds)
    doctor_s = time.monotonic() - begin
    advice = diagnosis.advice
    print(f"\n# {name}: rlpyt doctor {' '.join(task)} ({doctor_s:.0f} s)\n\n{diagnosis.text()}")
    print(f"\n{diagnosis.command(task[0], task[1:])}", flush=True)
    grid = measure_all(name, diagnosis, args.slice_seconds, args.slices, table)
    ranked = sorted(grid.times, key=grid.sampling_time)
    rows = [
        {
            **each.row(),
            "steps/s": 1 / grid.sampling_time(each) if each in grid.times else None,
            "left_out": grid.left_out.get(each, ""),
        }
        for each in [*ranked, *grid.left_out]
    ]
    print(f"\nAll {len(rows)} combinations, each alone, the fastest first:\n")
    shown = [{**row, "threads": str(row["threads"])} for row in rows]
    print(tabulate(shown, headers="keys", floatfmt=".0f"), flush=True)
    finalists = list(dict.fromkeys([advice, *ranked[:3]]))
    speeds = in_turn(grid, finalists, args.final_slices)
    best = max(ranked[:3], key=speeds.__getitem__)
    print("\nIn turn:\n")
    print(tabulate([{**c.row(), "steps/s": f"{s:.0f}"} for c, s in speeds.items()], headers="keys"))
    runs = grid.train(list(dict.fromkeys([advice, best])), args.final_slices)
    run_speeds = {each: 1 / sum(run) for each, run in runs.items()}
    return {
        "task": name,
        "advice": advice.describe(),
        "best": best.describe(),
        "sampling: advice": speeds[advice],
        "best ": speeds[best],
        "ratio": speeds[advice] / speeds[best],
        "runs: advice": run_speeds[advice],
        " best": run_speeds[best],
        "ratio ": run_speeds[advice] / run_speeds[best],
        "doctor (s)": doctor_s,
        "all (s)": time.monotonic() - begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--doctor-seconds", type=float, default=40.0)
    parser.add_argument("--slice-seconds", type=float, default=0.25)
    parser.add_argument("--slices", type=int, default=3, help="of each combination")
    parser.add_argument("--final-slices", type=int, default=12, help="of advice and best, in turn")
    parser.add_argument("--csv", help="also write the table of all combinations to this file")
    args = parser.parse_args()
    with open(args.csv or os.devnull, "w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerow(("task", *Candidate._fields[:5], "steps_per_s", "left_out"))
        summaries = [evaluate(name, args, table) for name in args.tasks]
    print("\n# Advice against the best of all combinations, environment steps per second\n")
    facts = [[key, *(summary[key] for summary in summaries)] for key in summaries[0]]
    facts = [[f"{fact:.4g}" if isinstance(fact, float) else fact for fact in row] for row in facts]
    print(tabulate(facts[1:], headers=facts[0], disable_numparse=True))
    worst = min(min(each["ratio"], each["ratio "]) for each in summaries)
    print(f"\nThe advice reaches at least {worst:.0%} of the best.")


if __name__ == "__main__":
    main()
