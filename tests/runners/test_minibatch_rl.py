"""The synchronous runners: iterations, log rows, snapshots, callbacks, failure, resume."""

import math
import os
import re
import signal
import time
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlpyt.core.records import TrajInfo
from rlpyt.runners.callbacks import Callback, SaveBest, SaveState, StopAtReturn, load_run_state
from rlpyt.runners.log import RunLog
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlBase, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import record_class
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.quick_args import save__init__args
from tests.contracts import matrix_parts
from tests.runners.parts import CountingAlgo, make_runner, read_rows, train
from tests.samplers.parts import CountEnv

RUN_KEYS = [
    "Iteration",
    "CumTime (s)",
    "CumSteps",
    "CumCompletedTrajs",
    "CumUpdates",
    "StepsPerSecond",
    "UpdatesPerSecond",
    "ReplayRatio",
    "CumReplayRatio",
]
STATISTICS = ["Average", "Std", "Median", "Min", "Max"]
INFO_KEYS = [
    name + statistic
    for name in ["Length", "Return", "NonzeroRewards", "DiscountedReturn", "loss", "gradNorm"]
    for statistic in STATISTICS
]


def values(rows, key):
    return [float(row[key]) for row in rows]


def test_iterations_and_log_rows(tmp_path):
    runner = make_runner()
    rows = train(runner, tmp_path)
    assert (runner.log_interval_itrs, runner.n_itr) == (2, 6)
    assert values(rows, "Diagnostics/Iteration") == [1, 3, 5]
    assert values(rows, "Diagnostics/CumSteps") == [40, 80, 120]
    assert values(rows, "Diagnostics/CumUpdates") == [4, 8, 12]
    # 4 updates of 10 over 40 steps.
    assert values(rows, "Diagnostics/ReplayRatio") == [1, 1, 1]
    assert values(rows, "Diagnostics/CumReplayRatio") == [1, 1, 1]
    assert values(rows, "lossAverage") == [0.5, 2.5, 4.5]
    assert values(rows, "gradNormStd") == [0, 0, 0]


@pytest.mark.parametrize(
    ("RunnerCls", "first"),
    [
        (MinibatchRl, ["NewCompletedTrajs", "StepsInTrajWindow"]),
        (MinibatchRlEval, ["StepsInEval", "TrajsInEval", "CumEvalTime", "CumTrainTime"]),
    ],
)
def test_columns_in_order(RunnerCls, first, tmp_path):
    rows = train(make_runner(RunnerCls), tmp_path)
    last = ["TrainingReturn"] if RunnerCls is MinibatchRlEval else []
    assert list(rows[0]) == ["Diagnostics/" + key for key in [*first, *RUN_KEYS]] + INFO_KEYS + last


def test_online_window_counts_every_trajectory_once(tmp_path):
    # 4 environments, episodes of 4 steps: after 40 steps 8 of them are complete, after 80 16 more.
    rows = train(make_runner(log_traj_window=5), tmp_path)
    assert values(rows, "Diagnostics/CumCompletedTrajs") == [8, 20, 28]
    assert values(rows, "Diagnostics/NewCompletedTrajs") == [8, 12, 8]
    assert values(rows, "Diagnostics/StepsInTrajWindow") == [20, 20, 20]
    assert values(rows, "ReturnAverage") == [10, 10, 10]


def test_first_evaluation_precedes_any_step(tmp_path):
    # The first row used to claim one batch of steps.
    rows = train(make_runner(MinibatchRlEval), tmp_path)
    assert values(rows, "Diagnostics/CumSteps") == [0, 40, 80, 120]
    assert values(rows, "Diagnostics/TrajsInEval") == [4, 4, 4, 4]
    assert math.isnan(values(rows, "Diagnostics/StepsPerSecond")[0])
    assert values(rows, "Diagnostics/StepsPerSecond")[1] > 0
    train_time = np.subtract(
        values(rows, "Diagnostics/CumTime (s)"), values(rows, "Diagnostics/CumEvalTime")
    )
    np.testing.assert_allclose(values(rows, "Diagnostics/CumTrainTime"), train_time)


@pytest.mark.parametrize(("min_itr_learn", "n_trajs"), [(2, [4, 4, 4, 4]), (3, [4, 0, 4, 4])])
def test_evaluations_go_on_with_the_last_iteration_before_training(
    min_itr_learn, n_trajs, tmp_path
):
    algo = CountingAlgo()
    algo.min_itr_learn = min_itr_learn
    rows = train(make_runner(MinibatchRlEval, algo), tmp_path)
    assert values(rows, "Diagnostics/Iteration") == [0, 1, 3, 5]
    assert values(rows, "Diagnostics/TrajsInEval") == n_trajs


def test_each_evaluation_draws_from_streams_of_its_own(tmp_path):
    # Here training draws nothing, which would change them.
    class Drawing(SerialSampler):
        drawn = ()

        def evaluate_agent(self, itr):
            self.drawn = (*self.drawn, (torch.rand(()).item(), np.random.rand()))
            return super().evaluate_agent(itr)

    runner = make_runner(MinibatchRlEval)
    runner.sampler.__class__ = Drawing
    rows = train(runner, tmp_path)
    assert len(set(runner.sampler.drawn)) == len(rows) > 2


def test_filling_of_the_replay_buffer_is_logged(tmp_path):
    runner = make_runner(MinibatchRlEval)
    runner.algo.min_itr_learn = 5
    train(runner, tmp_path)
    log = (tmp_path / "run_0" / "debug.log").read_text()
    assert re.findall(r"replay buffer: (\d+)%", log) == ["20", "40", "60", "80", "100"]
    assert len(re.findall("Evaluation complete: 4 trajectories", log)) == 4


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, MinibatchRlEval])
def test_fewer_steps_than_one_batch_still_run_once(RunnerCls, tmp_path):
    # A single iteration used to fail on a missing progress bar, after the work was done.
    rows = train(make_runner(RunnerCls, n_steps=1, log_interval_steps=1), tmp_path)
    assert values(rows, "Diagnostics/CumSteps")[-1] == 20


def test_roles_are_told_what_they_need(tmp_path):
    runner = make_runner(MinibatchRlEval)
    train(runner, tmp_path)
    told = runner.algo.init_kwargs
    assert told["batch_spec"] == (5, 4)
    assert told["n_itr"] == 6
    assert told["mid_batch_reset"] is True
    assert set(told["examples"]) >= {"observation", "action", "reward", "done", "agent_info"}
    assert TrajInfo._discount == 0.5
    # Runner and collector both set the mode, since the acting agent may be in another process.
    last = ["sample 5", "sample 5", "train 5", "eval 5", "eval 5", "reset"]
    assert runner.agent.calls[-6:] == last


@pytest.mark.parametrize(
    ("n_steps", "interval", "n_done"),
    [(100, 20, 100), (101, 20, 120), (99, 40, 120), (121, 40, 160), (1, 20, 20)],
)
def test_a_run_has_at_least_its_steps(n_steps, interval, n_done):
    runner = make_runner(n_steps=n_steps, log_interval_steps=interval)
    runner.train()
    assert runner.n_itr * runner.itr_batch_size == n_done


def test_the_console_shows_the_columns_to_read(tmp_path, capsys):
    (row, *_) = train(make_runner(n_steps=40), tmp_path)
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "  " in line]
    shown = [name for name in shown if name in row]
    assert {"Diagnostics/CumSteps", "ReturnAverage", "LengthAverage", "lossAverage"} <= {*shown}
    assert not {"ReturnMax", "lossStd", "Diagnostics/StepsInTrajWindow"} & {*shown}
    assert {"ReturnMax", "lossStd", "Diagnostics/StepsInTrajWindow"} <= row.keys()


class Diary(Callback):
    def __init__(self):
        self.events = []

    def on_start(self, runner):
        self.events.append("start")

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.events.append(("itr", itr, opt_info.gradNorm))

    def on_eval(self, runner, itr, traj_infos):
        self.events.append(("eval", itr, len(traj_infos)))

    def on_log(self, runner, itr, traj_infos):
        self.events.append(("log", itr, len(traj_infos)))

    def on_end(self, runner):
        self.events.append("end")


def test_callbacks_are_told_everything_in_order(tmp_path):
    diary = Diary()
    train(make_runner(MinibatchRlEval, n_steps=20, callbacks=[diary]), tmp_path)
    assert diary.events == [
        "start",
        ("eval", 0, 4),
        ("log", 0, 4),
        ("itr", 0, 1.0),
        ("itr", 1, 1.0),
        ("eval", 1, 4),
        ("log", 1, 4),
        "end",
    ]


def test_a_callback_that_fails_at_the_end_keeps_none_from_ending(tmp_path):
    class FailAtEnd(Callback):
        def on_end(self, runner):
            raise KeyError("of the callback")

    diary = Diary()
    runner = make_runner(callbacks=[FailAtEnd(), diary])
    with pytest.raises(KeyError, match="of the callback"):
        train(runner, tmp_path)
    assert diary.events[-1] == "end"
    assert all(env.closed for env in runner.sampler.collector.envs)


def test_a_callback_stops_the_run_that_logs_once_more(tmp_path):
    class StopAt2(Callback):
        def on_itr(self, runner, itr, traj_infos, opt_info):
            if itr == 2:
                runner.stop()

    runner = make_runner(callbacks=[StopAt2()])
    rows = train(runner, tmp_path)
    assert values(rows, "Diagnostics/CumSteps") == [40, 60]
    assert values(rows, "Diagnostics/ReplayRatio") == [1, 1]
    assert torch.load(tmp_path / "run_0" / "params.pkl")["itr"] == 2


def test_stop_at_return(tmp_path):
    rows = train(make_runner(callbacks=[StopAtReturn(10)]), tmp_path)
    assert len(rows) == 1
    rows = train(make_runner(callbacks=[StopAtReturn(11)]), tmp_path / "never")
    assert len(rows) == 3


def test_stop_at_return_needs_its_trajectories():
    stops = []
    runner = SimpleNamespace(stop=lambda: stops.append(len(stops)))
    callback = StopAtReturn(5, min_trajectories=2)
    for n in (1, 2):
        callback.on_log(runner, 0, [{"Return": 5}] * n)
    assert len(stops) == 1


def test_save_best_keeps_the_first_of_equal_snapshots(tmp_path):
    train(make_runner(callbacks=[SaveBest()]), tmp_path)
    assert torch.load(tmp_path / "run_0" / "best.pkl")["itr"] == 1


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, MinibatchRlEval])
def test_failure_leaves_log_and_snapshot_and_shuts_down(RunnerCls, tmp_path):
    # Workers used to be left running, and outputs of the logger open.
    diary = Diary()
    runner = make_runner(RunnerCls, algo=CountingAlgo(fail_at=3), callbacks=[diary])
    envs = []
    original = runner.sampler.shutdown
    runner.sampler.shutdown = lambda: (envs.extend(runner.sampler.collector.envs), original())
    with pytest.raises(ZeroDivisionError, match="a bug of the user"):
        train(runner, tmp_path)
    assert values(read_rows(tmp_path), "Diagnostics/CumSteps")[-1] == 40
    assert torch.load(tmp_path / "run_0" / "params.pkl")["itr"] == 1
    assert len(envs) == 4
    assert all(env.closed for env in envs)
    assert diary.events[-1] == "end"
    assert "a bug of the user" in (tmp_path / "run_0" / "debug.log").read_text()


def test_a_snapshot_that_cannot_be_saved_does_not_end_the_run(tmp_path):
    """As on a full disk. The run ended, and its last row was lost; now only its end says so."""
    (tmp_path / "run_0" / "params.pkl").mkdir(parents=True)
    with pytest.raises(OSError, match=r"run_0/params\.pkl could not be written: make space"):
        train(make_runner(), tmp_path)
    assert values(read_rows(tmp_path), "Diagnostics/CumSteps")[-1] == 120
    assert "WARNING: the snapshot could not" in (tmp_path / "run_0" / "debug.log").read_text()


@pytest.mark.parametrize("callback", [SaveState(), SaveBest()])
def test_a_callback_that_cannot_save_does_not_end_the_run(callback, tmp_path):
    """But saves later what it could not: the place is free again after the second row."""
    file = tmp_path / "run_0" / callback.file_name
    file.mkdir(parents=True)

    class Freeing(Callback):
        n_logs = 0

        def on_log(self, runner, itr, traj_infos):
            self.n_logs += 1
            if self.n_logs == 2:
                file.rmdir()

    rows = train(make_runner(callbacks=[callback, Freeing()]), tmp_path)
    assert values(rows, "Diagnostics/CumSteps")[-1] == 120
    assert f"WARNING: {file} could not" in (tmp_path / "run_0" / "debug.log").read_text()
    assert file.is_file()


def test_failure_in_startup_is_the_error_that_is_shown(tmp_path):
    runner = make_runner(sampler_kwargs={"TrajInfoCls": None})
    with pytest.raises((TypeError, AttributeError)) as error:
        train(runner, tmp_path)
    assert "pbar" not in str(error.value)


def test_overriding_diagnostics_as_research_code_does(tmp_path):
    class MyRunner(MinibatchRlEval):
        def get_traj_info_kwargs(self):
            return {**super().get_traj_info_kwargs(), "my_setting": 4}

        def initialize_logging(self):
            super().initialize_logging()
            self._my_rewards = []

        def store_diagnostics(self, itr, traj_infos, opt_info):
            super().store_diagnostics(itr, traj_infos, opt_info)
            self._my_rewards.append(self.algo.seen[-1])

        def log_diagnostics(self, itr, eval_traj_infos, eval_time, prefix="Diagnostics/"):
            logger.record_tabular("MyRewards", len(self._my_rewards))
            assert self._cum_time >= 0
            assert self._last_update_counter <= self.algo.update_counter
            super().log_diagnostics(itr, eval_traj_infos, eval_time, prefix)

        def get_itr_snapshot(self, itr):
            return {**super().get_itr_snapshot(itr), "mine": 1}

    rows = train(make_runner(MyRunner), tmp_path)
    assert values(rows, "MyRewards") == [0, 2, 4, 6]
    assert torch.load(tmp_path / "run_0" / "params.pkl")["mine"] == 1
    assert TrajInfo._my_setting == 4
    del TrajInfo._my_setting


def test_rows_logged_after_the_saved_state_are_not_there_twice(tmp_path):
    # States saved at every second row: the third row is logged once more by the resumed run.
    train(make_runner(callbacks=[SaveState(interval_logs=2)]), tmp_path)
    resumed = make_runner(n_steps=160)
    resumed.load_state_dict(load_run_state(tmp_path / "run_0" / "run_state.pkl"))
    with logger_context(tmp_path, 0, "test", override_prefix=True, resume=True):
        resumed.train()
    assert values(read_rows(tmp_path), "Diagnostics/CumSteps") == [40, 80, 120, 160]


def test_saved_states_are_no_larger_than_their_arrays(tmp_path):
    """The old protocol made 1.5 bytes of one, and could not save arrays above 4 GiB."""

    class Runner:
        def state_dict(self):
            return {"image": array}

        def load_state_dict(self, state):
            raise NotImplementedError

    array = np.random.default_rng(0).integers(256, size=1_000_000, dtype=np.uint8)
    with logger_context(str(tmp_path), 0, "x", snapshot_mode="last", override_prefix=True):
        SaveState().on_log(Runner(), 0, [])
    file = tmp_path / "run_0" / "run_state.pkl"
    assert file.stat().st_size < 1.01 * array.nbytes
    np.testing.assert_array_equal(load_run_state(file)["image"], array)


def test_run_state_of_a_gpu_is_loaded_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    torch.save({"x": torch.arange(3)}, tmp_path / "run_state.pkl")
    assert load_run_state(tmp_path / "run_state.pkl")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("order", [(SaveBest, SaveState), (SaveState, SaveBest)])
def test_best_snapshot_stays_the_best_after_resuming(order, tmp_path):
    # A fresh callback used to take the first snapshot after resuming for the best, and so did one
    # whose state was saved before it saw the row.
    train(make_runner(n_steps=40, callbacks=[Cls() for Cls in order]), tmp_path)
    resumed = make_runner(n_steps=80, callbacks=[Cls() for Cls in order])
    resumed.load_state_dict(load_run_state(tmp_path / "run_0" / "run_state.pkl"))
    train(resumed, tmp_path)
    assert torch.load(tmp_path / "run_0" / "best.pkl")["itr"] == 1


class OwnEvalLoop(MinibatchRlEval):
    """A loop as research code rewrites it."""

    def train(self):
        n_itr = self.startup()
        with logger.prefix("itr #0 "):
            eval_traj_infos, eval_time = self.evaluate_agent(0)
            self.log_diagnostics(0, eval_traj_infos, eval_time)
        for itr in range(n_itr):
            with logger.prefix(f"itr #{itr} "):
                self.agent.sample_mode(itr)
                samples, traj_infos = self.sampler.obtain_samples(itr)
                self.agent.train_mode(itr)
                opt_info = self.algo.optimize_agent(itr, samples)
                self.store_diagnostics(itr, traj_infos, opt_info)
                if (itr + 1) % self.log_interval_itrs == 0:
                    eval_traj_infos, eval_time = self.evaluate_agent(itr)
                    self.log_diagnostics(itr, eval_traj_infos, eval_time)
        self.shutdown()


def test_rewritten_loop_logs_and_calls_back_the_same(tmp_path):
    diary, own_diary = Diary(), Diary()
    rows = train(make_runner(MinibatchRlEval, callbacks=[diary]), tmp_path / "ours")
    own_rows = train(make_runner(OwnEvalLoop, callbacks=[own_diary]), tmp_path / "own")
    for key in ("CumSteps", "CumUpdates", "ReplayRatio", "Iteration"):
        np.testing.assert_array_equal(
            values(own_rows, "Diagnostics/" + key), values(rows, "Diagnostics/" + key)
        )
    assert math.isnan(values(own_rows, "Diagnostics/StepsPerSecond")[0])
    assert own_diary.events == diary.events


def test_arguments_saved_instead_of_calling_the_base_constructor(tmp_path):
    class Instead(MinibatchRl):
        def __init__(self, algo, agent, sampler, n_steps, seed, log_interval_steps):
            affinity, log_traj_window = {}, 10
            save__init__args(locals())
            self.affinity, self.log_traj_window = affinity, log_traj_window
            self.min_itr_learn = 0

    assert len(train(make_runner(Instead), tmp_path)) == 3


def test_logging_initialized_by_the_subclass_alone(tmp_path):
    class OwnLogging(MinibatchRlEval):
        def initialize_logging(self):
            self._opt_infos = {k: [] for k in self.algo.opt_info_fields}
            self._start_time = self._last_time = time.time()
            self._last_update_counter = 0
            self.pbar = None

    rows = train(make_runner(OwnLogging), tmp_path)
    assert values(rows, "Diagnostics/CumSteps") == [0, 40, 80, 120]


def test_a_runner_on_the_base_class_counts_new_trajectories_by_itself(tmp_path):
    # As the MinibatchRl of the original; they were counted twice.
    class Own(MinibatchRlBase):
        def train(self):
            for itr in range(self.startup()):
                self.agent.sample_mode(itr)
                samples, traj_infos = self.sampler.obtain_samples(itr)
                self.agent.train_mode(itr)
                self.store_diagnostics(itr, traj_infos, self.algo.optimize_agent(itr, samples))
                if (itr + 1) % self.log_interval_itrs == 0:
                    self.log_diagnostics(itr)
            self.shutdown()

        def initialize_logging(self):
            self._traj_infos, self._new_completed_trajs = deque(maxlen=100), 0
            super().initialize_logging()

        def store_diagnostics(self, itr, traj_infos, opt_info):
            self._new_completed_trajs += len(traj_infos)
            self._traj_infos.extend(traj_infos)
            super().store_diagnostics(itr, traj_infos, opt_info)

        def log_diagnostics(self, itr):
            logger.record_tabular("New", self._new_completed_trajs)
            super().log_diagnostics(itr)
            self._new_completed_trajs = 0

    rows = train(make_runner(Own), tmp_path)
    total = values(rows, "Diagnostics/CumCompletedTrajs")
    assert np.cumsum(values(rows, "New")).tolist() == total
    assert total[-1] > 0


def test_the_first_error_is_shown_if_shutdown_fails_too(tmp_path):
    class Broken(SerialSampler):
        def initialize(self, *args, **kwargs):
            raise KeyError("the real cause")

        def shutdown(self):
            self.ctrl.quit = True

    runner = make_runner()
    runner.sampler = Broken(CountEnv, {}, batch_T=1, batch_B=1)
    with pytest.raises(KeyError, match="the real cause"):
        train(runner, tmp_path)
    assert "no attribute 'ctrl'" in (tmp_path / "run_0" / "debug.log").read_text()


def test_stop_in_the_first_evaluation_prevents_any_training(tmp_path):
    class StopAtOnce(Callback):
        def on_eval(self, runner, itr, traj_infos):
            runner.stop()

    runner = make_runner(MinibatchRlEval, callbacks=[StopAtOnce()])
    assert values(train(runner, tmp_path), "Diagnostics/CumUpdates") == [0]


def test_an_evaluation_that_a_signal_ends_is_not_announced(tmp_path):
    # It was, and again when the run was resumed.
    class Ended(SerialSampler):
        def evaluate_agent(self, itr):
            os.kill(os.getpid(), signal.SIGTERM)
            return super().evaluate_agent(itr)

    class Announced(Callback):
        evaluations = ()

        def on_eval(self, runner, itr, traj_infos):
            self.evaluations = (*self.evaluations, itr)

    announced = Announced()
    runner = make_runner(MinibatchRlEval, callbacks=[announced])
    runner.sampler.__class__ = Ended
    with pytest.raises(SystemExit):
        train(runner, tmp_path)
    assert not announced.evaluations


@pytest.mark.parametrize(("mid_batch_reset", "n_ends", "n_limits"), [(True, 5, 3), (False, 2, 1)])
def test_share_of_time_limits(mid_batch_reset, n_ends, n_limits):
    # Blank rows counted as ends, and batches without a completed trajectory not at all.
    done = torch.tensor([[0, 0], [1, 0], [1, 1], [1, 1]]).bool()
    timeout = torch.tensor([[0, 0], [1, 0], [1, 0], [0, 1]]).bool()
    env = SimpleNamespace(done=done, env_info=record_class("EnvInfo", ("timeout",))(timeout))
    log = RunLog()
    log.count_ends(env, mid_batch_reset)
    assert (log.n_ends, log.n_time_limits) == (n_ends, n_limits)


def test_entries_of_some_trajectories_are_logged():
    # The first trajectory decided: without an entry, the column was lost, or it ended the run.
    infos = [TrajInfo() for _ in range(3)]
    for info, arrival in zip(infos[1:], (4, 8)):
        info.ArriveStep = arrival
    with logger.using(logger.Logger()):
        RunLog().record_infos(infos)
        row = dict(logger.current().rows)
    assert row["ArriveStepAverage"] == 6
    assert row["LengthAverage"] == 0


@pytest.mark.parametrize(("wait_time", "rates"), [(None, (10, 10, 5, 1)), (2, (4, 10, 2, 0.8))])
def test_rates_leave_out_evaluation_unless_it_goes_on_beside_training(
    wait_time, rates, monkeypatch
):
    log = RunLog()
    now = log.start_time + 10
    monkeypatch.setattr(time, "time", lambda: now)
    row = log.measure(40, 20, batch_size=10, eval_time=6, wait_time=wait_time)
    names = "StepsPerSecond", "NonEvalSamplesPerSecond", "UpdatesPerSecond", "OptThrottle"
    assert tuple(row[name] for name in names) == pytest.approx(rates)


def test_times_of_a_resumed_log_go_on():
    log = RunLog()
    log.load_state_dict({**log.state_dict(), "cum_time": 500.0, "time_since_log": 100.0})
    row = log.measure(cum_steps=1000, updates=0, batch_size=1)
    assert row["CumTime (s)"] == pytest.approx(500, rel=0.01)
    assert row["StepsPerSecond"] == pytest.approx(1000 / 100, rel=0.01)


# --- Second uses ----------------------------------------------------------------------------------


def numbers(rows):
    times = ("Time", "Second")
    return [{k: v for k, v in row.items() if not any(t in k for t in times)} for row in rows]


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC"])
def test_every_use_of_a_role_starts_anew_and_the_log_says_so(name, tmp_path):
    runner = matrix_parts.make_runner(MinibatchRlEval, SerialSampler, name)
    first = train(runner, tmp_path / "first")
    assert "Used in an earlier run" not in (tmp_path / "first/run_0/debug.log").read_text()
    assert numbers(train(runner, tmp_path / "again")) == numbers(first)
    assert "run: agent, algo, sampler." in (tmp_path / "again/run_0/debug.log").read_text()
    runner = matrix_parts.make_runner(MinibatchRlEval, SerialSampler, name, agent=runner.agent)
    assert numbers(train(runner, tmp_path / "agent")) == numbers(first)
    assert "run: agent." in (tmp_path / "agent/run_0/debug.log").read_text()


def test_a_runner_that_was_resumed_starts_at_the_first_iteration_again(tmp_path):
    train(make_runner(callbacks=[SaveState()], n_steps=40), tmp_path)
    runner = make_runner(n_steps=80)
    runner.load_state_dict(load_run_state(tmp_path / "run_0" / "run_state.pkl"))
    assert values(train(runner, tmp_path / "on"), "Diagnostics/CumSteps") == [80]
    assert values(train(runner, tmp_path / "new"), "Diagnostics/CumSteps") == [40, 80]
