"""Equal seeds give equal runs, and a run that was stopped continues as if it had not been."""

import pytest
import torch

from rlpyt.runners.callbacks import Callback, SaveState, load_run_state
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from tests.determinism import ddpg, dqn, pg, quantile, r2d1, sac


def run(make, RunnerCls, directory, seed=5, n_steps=400, resume_from=None, callbacks=()):
    runner = make(RunnerCls, seed=seed, n_steps=n_steps, log_interval_steps=80, callbacks=callbacks)
    if resume_from is not None:
        runner.load_state_dict(load_run_state(resume_from))
    with logger_context(directory, 0, "test", snapshot_mode="last", override_prefix=True):
        logger.set_log_tabular_only(False)
        runner.train()
    return torch.load(directory / "run_0" / "params.pkl")


def assert_equal_snapshots(first, second):
    assert first["itr"] == second["itr"]
    flat = [torch.utils._pytree.tree_leaves(snapshot) for snapshot in (first, second)]
    assert len(flat[0]) == len(flat[1]) > 10
    for a, b in zip(*flat):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


class StopAt(Callback):
    """Stop at a log row before the end of the schedule, that of the whole run."""

    def __init__(self, itr):
        self.itr = itr

    def on_log(self, runner, itr, traj_infos):
        if itr == self.itr:
            runner.stop()


CASES = {
    "dqn": (dqn.cartpole, MinibatchRl),
    "dqn eval": (dqn.cartpole, MinibatchRlEval),
    "c51": (dqn.catch, MinibatchRlEval),
    "rainbow": (quantile.rainbow, MinibatchRlEval),
    "qr_dqn": (quantile.qr_dqn, MinibatchRl),
    "iqn": (quantile.iqn, MinibatchRlEval),
    "r2d1": (r2d1.maze(CpuResetCollector), MinibatchRlEval),
    "r2d1 waiting": (r2d1.maze(CpuWaitResetCollector), MinibatchRlEval),
    "ddpg": (ddpg.pendulum("ddpg"), MinibatchRlEval),
    "td3": (ddpg.pendulum("td3"), MinibatchRlEval),
    "d4pg": (ddpg.pendulum("d4pg"), MinibatchRlEval),
    "sac": (sac.learned, MinibatchRl),
    "sac eval": (sac.learned, MinibatchRlEval),
    "sac fixed": (sac.fixed, MinibatchRlEval),
    "sac_v": (sac.sac_v, MinibatchRl),
    "a2c lstm": (pg.maze_a2c, MinibatchRlEval),
    "ppo lstm": (pg.maze_ppo, MinibatchRl),
    "ppo normalized": (pg.pendulum, MinibatchRlEval),
    "a2c": (pg.cartpole, MinibatchRl),
}
# The schedules of PPO are those of n_steps, so that its first part is stopped instead of shorter.
STOPPED = ("a2c lstm", "ppo lstm", "ppo normalized", "a2c")


@pytest.mark.parametrize("name", CASES)
def test_equal_and_resumed_runs(name, tmp_path):
    make, RunnerCls = CASES[name]
    whole = run(make, RunnerCls, tmp_path / "whole")
    assert_equal_snapshots(whole, run(make, RunnerCls, tmp_path / "again"))
    other = run(make, RunnerCls, tmp_path / "other", seed=6)
    with pytest.raises(AssertionError):
        assert_equal_snapshots(whole, other)
    first = {"callbacks": [SaveState()], "n_steps": 160}
    if name in STOPPED:
        first = {"callbacks": [SaveState(), StopAt(7)]}
    run(make, RunnerCls, tmp_path / "first", **first)
    state_file = tmp_path / "first" / "run_0" / "run_state.pkl"
    second = run(make, RunnerCls, tmp_path / "second", seed=77, resume_from=state_file)
    assert_equal_snapshots(whole, second)
