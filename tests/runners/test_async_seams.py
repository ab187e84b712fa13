"""Asynchronous runs with parts of research code: a loop of its own, another rate, snapshots."""

import time

import pytest
import torch

from rlpyt.core.records import TrajInfo
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.utils.logging import logger
from rlpyt.utils.synchronize import drain_queue
from tests.runners.async_parts import SlowTMaze, make_runner, values
from tests.runners.parts import train

pytestmark = pytest.mark.timeout(60)


class OwnLoop(AsyncRl):
    """Does not let the sampler continue."""

    def train(self):
        throttle_itr, delta = self.startup()
        itr = 0
        while not self.ctrl.quit.value:
            if self.ctrl.sampler_itr.value < throttle_itr:
                time.sleep(0.01)
                continue
            throttle_itr += delta
            with logger.prefix(f"itr #{itr} "):
                opt_info = self.algo.optimize_agent(itr, sampler_itr=self.ctrl.sampler_itr.value)
                self.agent.send_shared_memory()
                with self.ctrl.sampler_itr.get_lock():
                    infos = drain_queue(self.traj_infos_queue)
                self.store_diagnostics(itr, self.ctrl.sampler_itr.value, infos, opt_info)
            itr += 1
        self.log_diagnostics(itr, self.ctrl.sampler_itr.value, 0.0)
        self.shutdown()


def test_a_loop_of_ones_own_is_not_waited_for(tmp_path):
    # The sampler waited for what only the loop of the library does.
    n_steps = 80 * 16
    settings = {"n_steps": n_steps, "log_interval_steps": 40 * 16}
    runner = make_runner(RunnerCls=OwnLoop, sampler_kwargs={"EnvCls": SlowTMaze}, **settings)
    rows = train(runner, tmp_path)
    assert runner.algo.update_counter > 0
    assert values(rows, "CumUpdates")[-1] == runner.algo.update_counter
    assert n_steps - 2 * 16 <= values(rows, "CumSteps")[-1] <= n_steps


class FourTimesAsSlow(AsyncRl):
    def optim_startup(self):
        first, delta = super().optim_startup()
        return first, 4 * delta


class Later(AsyncRl):
    def startup(self):
        first, delta = super().startup()
        return first + 8, delta


@pytest.mark.parametrize(("RunnerCls", "n_batches"), [(FourTimesAsSlow, 16 / 4), (Later, 16 - 8)])
def test_a_rate_of_ones_own_is_used(RunnerCls, n_batches, tmp_path):
    # It was made before, of numbers that nobody had changed.
    runner = make_runner(RunnerCls=RunnerCls)
    train(runner, tmp_path)
    updates_per_batch = 16 * runner.algo.replay_ratio / runner.algo.batch_size
    assert runner.algo.update_counter == pytest.approx(n_batches * updates_per_batch, abs=3)


class Counting(AsyncRlEval):
    """Counts trajectories where they are stored, and saves the count."""

    n_trajs = 0

    def store_diagnostics(self, itr, sampler_itr, traj_infos, opt_info):
        self.n_trajs += len(traj_infos)
        super().store_diagnostics(itr, sampler_itr, traj_infos, opt_info)

    def get_itr_snapshot(self, itr, sampler_itr):
        return {**super().get_itr_snapshot(itr, sampler_itr), "n_trajs": self.n_trajs}


def test_trajectories_of_evaluations_are_stored_before_their_row(tmp_path):
    # They were only logged.
    runner = make_runner(
        RunnerCls=Counting, sampler_kwargs={"eval_n_envs": 2, "eval_max_steps": 60}
    )
    rows = train(runner, tmp_path)
    n_trajs = sum(values(rows, "TrajsInEval"))
    assert n_trajs > 0
    assert runner.n_trajs == n_trajs
    assert torch.load(tmp_path / "run_0" / "params.pkl")["n_trajs"] == n_trajs


class OwnLog(AsyncRl):
    """What the public subclass of AsyncRl overrides."""

    def get_traj_info_kwargs(self):
        return {**super().get_traj_info_kwargs(), "mine": 4}

    def initialize_logging(self):
        super().initialize_logging()
        self._n_rows = 0

    def log_diagnostics(self, itr, sampler_itr, throttle_time, prefix="Diagnostics/"):
        self._n_rows += 1
        with logger.tabular_prefix(prefix):
            logger.record_tabular("MyRows", self._n_rows)
            new_steps = (sampler_itr - self._last_sampler_itr) * self.sampler_batch_size
            logger.record_tabular("MySteps", new_steps)
        super().log_diagnostics(itr, sampler_itr, throttle_time, prefix)

    def get_itr_snapshot(self, itr, sampler_itr):
        return {**super().get_itr_snapshot(itr, sampler_itr), "mine": self._n_rows}


def test_overriding_diagnostics_as_research_code_does(tmp_path):
    rows = train(make_runner(RunnerCls=OwnLog), tmp_path)
    assert values(rows, "MyRows") == list(range(1, len(rows) + 1))
    assert sum(values(rows, "MySteps")) == values(rows, "CumSteps")[-1]
    assert torch.load(tmp_path / "run_0" / "params.pkl")["mine"] == len(rows)
    assert TrajInfo._mine == 4
    del TrajInfo._mine
