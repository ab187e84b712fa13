"""CPU time of the log's columns on health, as a part of a whole run.

    python tests/benchmarks/bench_health.py

Rows are written far more often than in the entries, so that a run of a minute has some.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from typing import Any

import torch

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.health import Health
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.start import log_call
from rlpyt.experiments.train import configuration
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.log import RunLog

EVALUATION = ["sampler.eval_n_envs=1", "sampler.eval_max_steps=30"]
RUNS = {
    "mujoco_ppo/ppo_1M_normalized HalfCheetah-v5": (40960, 20480, []),
    "atari_dqn/double pong": (
        *(6000, 2000),
        ["min_steps_learn=1000", "replay_size=6000", "sampler=serial", *EVALUATION],
    ),
    "mujoco_sac/sac_serial_bstl HalfCheetah-v5": (
        *(1500, 500),
        ["min_steps_learn=500", "replay_size=5000", *EVALUATION],
    ),
}
PARTS = ((Health, "of_update"), (BaseRunner, "_health_columns"), (RunLog, "count_ends"))


class Clock:
    """CPU seconds in some methods, without those in updates that they run."""

    def __init__(self) -> None:
        self.seconds, self.is_within = 0.0, False

    def count(self, cls: Any, name: str, sign: int = 1) -> None:
        """Count, or with ``sign=-1`` leave out, the calls of a method."""
        method = getattr(cls, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            counts = self.is_within if sign < 0 else True
            before, self.is_within = self.is_within, sign > 0
            start = time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += sign * counts * (time.process_time() - start)
                self.is_within = before

        setattr(cls, name, timed)


def main() -> None:
    torch.set_num_threads(1)
    clock = Clock()
    for cls, name in PARTS:
        clock.count(cls, name)
    clock.count(RlAlgorithm, "run_update", sign=-1)
    for name, (n_steps, interval, words) in RUNS.items():
        what, *environment = name.split()
        config = configuration(what, [*environment, *words])
        config["runner"].update(n_steps=n_steps, log_interval_steps=interval)
        runner, clock.seconds = runner_call(config, 0).make(), 0.0
        with (
            tempfile.TemporaryDirectory() as directory,
            contextlib.redirect_stdout(io.StringIO()),
            log_call(config, 0, directory).make(),
        ):
            start = time.process_time()
            runner.train()
            total = time.process_time() - start
        print(f"{name}: {clock.seconds / total:.3%} of {total:.1f} s, a row each {interval} steps")


if __name__ == "__main__":
    main()
