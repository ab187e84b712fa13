"""The smallest algorithm, a runner around it, and what a run logs."""

import csv
from collections import namedtuple
from pathlib import Path

from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context
from tests.samplers.parts import CountEnv, EchoAgent

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm"])


class CountingAlgo:
    """Updates twice per iteration, each from a batch of ten; its loss is the iteration."""

    opt_info_fields = OptInfo._fields
    bootstrap_value = False
    discount = 0.5
    batch_size = 10
    min_itr_learn = 0
    only_async = False
    agent = None

    def __init__(self, fail_at=None):
        self.update_counter = 0
        self.fail_at = fail_at
        self.seen = []

    def initialize(self, **kwargs):
        self.init_kwargs = kwargs

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if itr == self.fail_at:
            raise ZeroDivisionError("a bug of the user")
        self.update_counter += 2
        self.seen.append(int(samples.env.reward.sum()))
        return OptInfo(loss=[itr, itr], gradNorm=1.0)

    def optim_state_dict(self):
        return {"updates": self.update_counter}

    def state_dict(self):
        return {"updates": self.update_counter}

    def load_state_dict(self, state):
        self.update_counter = state["updates"]


class QuietAgent(EchoAgent):
    """Has the rest of what a runner needs from an agent."""

    def train_mode(self, itr):
        self.calls.append(f"train {itr}")

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


def make_runner(RunnerCls=MinibatchRl, algo=None, sampler_kwargs=None, **kwargs):
    """Batches of 5 x 4 = 20 steps; 100 steps, a log row every 40."""
    sampler = SerialSampler(
        CountEnv,
        {},
        batch_T=5,
        batch_B=4,
        max_decorrelation_steps=0,
        eval_n_envs=2,
        eval_max_steps=20,
        **(sampler_kwargs or {}),
    )
    kwargs = {"n_steps": 100, "log_interval_steps": 40, "seed": 0, **kwargs}
    return RunnerCls(algo=algo or CountingAlgo(), agent=QuietAgent(), sampler=sampler, **kwargs)


def train(runner, directory, snapshot_mode="last"):
    """Train, and return the rows of the log."""
    with logger_context(directory, 0, "test", snapshot_mode=snapshot_mode, override_prefix=True):
        runner.train()
    return read_rows(directory)


def read_rows(directory):
    with open(Path(directory) / "run_0" / "progress.csv", newline="") as file:
        return list(csv.DictReader(file))
