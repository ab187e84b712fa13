"""Runs whose workers are killed go on, and their replay buffers know where an episode was cut."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.toy import Counter
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from tests.runners.async_parts import MlpDqnAgent, make_runner, values
from tests.runners.parts import train
from tests.selection import FULL

pytestmark = pytest.mark.timeout(60)


class Endless(Counter):
    """Counts for ever, in a process that is killed in the 10th step if ``mark`` is not there."""

    def __init__(self, mark=None):
        super().__init__(length=10_000)
        self.mark = mark

    def step(self, action):
        if self.mark is not None and self._n_steps == 9 and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


def sampler_kwargs(tmp_path):
    kwargs = [{}, {}, {}, {"mark": str(tmp_path / "mark")}]
    return {"EnvCls": Endless, "env_kwargs": kwargs, "on_worker_failure": "restart"}


def assert_cut_before_row_8(replay_buffer):
    """The third batch of 4 rows was begun anew in the columns of the second worker."""
    samples = replay_buffer.samples
    cuts = np.argwhere(samples.done[:80]).tolist()
    assert cuts == [[7, 2], [7, 3]]
    counts = samples.observation[6:10, :, 0].tolist()
    assert counts == [[6, 6, 6, 6], [7, 7, 7, 7], [8, 8, 0, 0], [9, 9, 1, 1]]
    assert replay_buffer.truncated.marks[7].tolist() == [False, False, True, True]


@pytest.mark.parametrize("kind", ["cpu", *["served"] * FULL, "alternating"])
def test_asynchronous_runs(kind, tmp_path):
    runner = make_runner(kind, sampler_kwargs=sampler_kwargs(tmp_path))
    rows = train(runner, tmp_path)
    assert (tmp_path / "mark").exists()
    assert values(rows, "CumSteps")[-1] == 320
    assert_cut_before_row_8(runner.algo.replay_buffer)


def test_synchronous_runs(tmp_path):
    runner = MinibatchRl(
        algo=DQN(batch_size=16, min_steps_learn=64, replay_size=1000),
        agent=MlpDqnAgent(model_kwargs={"hidden_sizes": [8]}),
        sampler=CpuSampler(
            batch_T=4, batch_B=4, max_decorrelation_steps=0, **sampler_kwargs(tmp_path)
        ),
        n_steps=320,
        log_interval_steps=80,
        affinity={"workers_cpus": 2},
        seed=3,
    )
    rows = train(runner, tmp_path)
    assert values(rows, "CumSteps")[-1] == 320
    assert_cut_before_row_8(runner.algo.replay_buffer)
