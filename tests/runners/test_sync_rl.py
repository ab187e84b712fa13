"""Synchronous runs of several processes: what they compute, log, share and do when one fails."""

import json
import multiprocessing as mp
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs import gym
from rlpyt.envs.toy import TMaze
from rlpyt.processes.supervisor import WorkerError
from rlpyt.runners._process_group import ProcessGroup
from rlpyt.runners.callbacks import Callback, SaveState, load_run_state
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval, SyncWorkerMixin
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging.context import REPRODUCED_BUNDLE
from rlpyt.utils.seed import Purpose, derived_seed
from rlpyt.utils.synchronize import drain_queue, find_port
from tests.determinism import dqn, pg, sac
from tests.determinism.test_runs import assert_equal_snapshots, assert_equal_states, run, state_of
from tests.forked import fork
from tests.runners import sync_script
from tests.runners.async_parts import descendants, no_process_is_left, shared_memory_of
from tests.runners.parts import CountingAlgo, make_runner, train
from tests.runners.sync_parts import ColumnsSampler, FailingAlgo, ParallelQuietAgent, Telling
from tests.runners.test_minibatch_rl import OwnEvalLoop, values
from tests.samplers.parts import CountEnv
from tests.selection import FULL
from tests.waiting import wait_until

CARTPOLE = {"EnvCls": gym.make, "env_kwargs": {"id": "CartPole-v1"}}
STARTS_A_PROCESS_OFTEN = {"start_method": "fork", "rank_timeout_s": 60}


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    before = set(psutil.Process().children(recursive=True))  # Of other tests.
    yield
    assert not torch.distributed.is_initialized()
    left = [p for p in psutil.Process().children(recursive=True) if p not in before]
    left = [p for p in left if p.status() != "zombie" and not _is_server(p)]
    assert left == []


def _is_server(process):
    words = " ".join(process.cmdline())
    return "forkserver" in words or "resource_tracker" in words


def ranks(RunnerCls, n=2, **settings):
    """Makes a runner of ``n`` processes, of the same arguments as one of a single process."""
    settings = {**STARTS_A_PROCESS_OFTEN, **settings}
    return lambda **kwargs: RunnerCls(affinity=[{}] * n, **settings, **kwargs)


def told(directory, rank, itr):
    return torch.load(directory / f"rank_{rank}_itr_{itr}.pt", weights_only=False)


# --- Two processes compute what one does --------------------------------------------------------


class FixedDraws(DQN):
    """Draws the same transitions in all, whichever process holds them."""

    def sample_from_replay(self):
        generator = torch.Generator().manual_seed(self.update_counter)
        ages = torch.randint(1, 8, (8,), generator=generator)
        columns = torch.arange(8) % 4
        B = self.replay_buffer.B
        mine = (columns >= self.rank * B) & (columns < (self.rank + 1) * B)
        T_idxs = (self.replay_buffer.t - 1 - ages[mine]) % self.replay_buffer.T
        B_idxs = columns[mine] - self.rank * B
        return self.replay_buffer.extract_batch(T_idxs.numpy(), B_idxs.numpy())


def columns(algo, agent, **env):
    sizes = {"batch_T": 8, "batch_B": 4, "max_decorrelation_steps": 0}

    def make(RunnerCls, **kwargs):
        sampler = ColumnsSampler(**env, **sizes, eval_n_envs=1, eval_max_steps=10)
        return RunnerCls(algo=algo(), agent=agent(), sampler=sampler, **kwargs)

    return make


def small_lstm():
    return GenericLstmAgent(model_kwargs={"hidden_sizes": [8], "lstm_size": 8})


MAZE = {"EnvCls": TMaze, "env_kwargs": {}}
JOINED = {
    "A2C": columns(lambda: A2C(normalize_advantage=True), GenericFfAgent, **CARTPOLE),
    "A2C recurrent": columns(A2C, small_lstm, **MAZE),
    "PPO": columns(lambda: PPO(minibatches=1, epochs=2), GenericFfAgent, **CARTPOLE),
    "PPO recurrent": columns(lambda: PPO(minibatches=1, epochs=2), small_lstm, **MAZE),
}


def assert_close_snapshots(a, b):
    state_a, state_b = a["agent_state_dict"], b["agent_state_dict"]
    for name in state_a if "model" not in state_a else ("model", "target"):
        torch.testing.assert_close(state_a[name], state_b[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", JOINED if FULL else ["A2C recurrent"])
def test_two_ranks_equal_one_with_the_joined_batch(name, tmp_path):
    one = run(JOINED[name], MinibatchRl, tmp_path / "one", n_steps=128)
    two = run(JOINED[name], ranks(SyncRl), tmp_path / "two", n_steps=128)
    assert one["itr"] == two["itr"] == 3
    assert one["cum_steps"] == two["cum_steps"] == 128
    assert_close_snapshots(one, two)


def test_two_ranks_equal_one_with_the_joined_draws(tmp_path):
    settings = {"min_steps_learn": 64, "replay_size": 160, "target_update_interval": 3}
    settings["optim_kwargs"] = {"eps": 0.001}  # By default it depends on the batch size.

    def dqn(n_ranks):
        return columns(
            lambda: FixedDraws(batch_size=8 // n_ranks, replay_ratio=1, **settings),
            lambda: MlpDqnAgent(eps_init=0.0, eps_final=0.0),
            **CARTPOLE,
        )

    one = run(dqn(1), MinibatchRl, tmp_path / "one", n_steps=192)
    assert_close_snapshots(one, run(dqn(2), ranks(SyncRl), tmp_path / "two", n_steps=192))


# --- What each process is -----------------------------------------------------------------------


class TellingDqn(Telling, DQN):
    pass


def telling_dqn(directory, **settings):
    def make(RunnerCls, **kwargs):
        algo = TellingDqn(
            **{**dqn.SETTINGS, "min_steps_learn": 32, "target_update_interval": 1000},
            **settings,
        )
        algo.directory = directory
        agent = MlpDqnAgent(eps_final=0.1, eps_final_min=0.01)
        sampler = SerialSampler(**CARTPOLE, **dqn.BATCH, eval_n_envs=1, eval_max_steps=20)
        return RunnerCls(algo=algo, agent=agent, sampler=sampler, **kwargs)

    return make


def test_ranks_differ_in_seeds_and_environments_and_agree_in_parameters(tmp_path):
    run(telling_dqn(tmp_path), ranks(SyncRl, n=3), tmp_path / "log", n_steps=240)
    for itr in (0, 3, 9):
        of = [told(tmp_path, rank, itr) for rank in range(3)]
        assert [t["seed"] for t in of] == [5, *(derived_seed(5, Purpose.RANK, r) for r in (1, 2))]
        assert len({t["pid"] for t in of}) == 3
        for other in of[1:]:
            # The target copies too: those of rank 1 and up used to be their own random networks
            # until the first update.
            for network in ("model", "target"):
                mine, others = of[0]["agent"][network], other["agent"][network]
                assert all(torch.equal(mine[name], others[name]) for name in mine)
            assert not torch.equal(of[0]["observations"], other["observations"])
        ladder = torch.cat([torch.as_tensor(t["eps_final"]) for t in of])
        expected = torch.logspace(-2, -1, 12, dtype=ladder.dtype)
        torch.testing.assert_close(ladder, expected, rtol=1e-3, atol=1e-5)
        # Steps of all processes count: 24 of them in an iteration.
        assert [t["min_itr_learn"] for t in of] == [32 // 24] * 3
        assert [t["eps_itrs"] for t in of] == [[32 // 24, 100 // 24]] * 3
    start, end = told(tmp_path, 0, 0)["agent"]["model"], told(tmp_path, 0, 9)["agent"]["model"]
    assert any(not torch.equal(start[name], end[name]) for name in start)


def test_a_reproduced_run_has_the_seeds_of_its_ranks(tmp_path, monkeypatch):
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "bundle.json").write_text('{"seed": 6}')
    monkeypatch.setenv(REPRODUCED_BUNDLE, str(bundle))
    telling_dqn(tmp_path)(ranks(SyncRl), n_steps=16, log_interval_steps=16).train()
    seeds = [told(tmp_path, rank, 0)["seed"] for rank in range(2)]
    assert seeds == [6, derived_seed(6, Purpose.RANK, 1)]


def quiet(algo=None, RunnerCls=SyncRl, n=2, **kwargs):
    """Batches of 20 steps in each process, of environments that count."""
    runner = make_runner(ranks(RunnerCls, n), algo=algo, **kwargs)
    runner.agent = ParallelQuietAgent()
    return runner


class WithNetwork(CountingAlgo):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.curiosity = torch.nn.Linear(2, 1)


def test_networks_that_differ_from_rank_to_rank_are_told(tmp_path, capsys):
    train(quiet(WithNetwork(), n_steps=40), tmp_path)
    assert "['curiosity'] of WithNetwork differ from process to process" in capsys.readouterr().out


def test_rank_0_logs_for_all(tmp_path):
    one = train(make_runner(n_steps=120, log_interval_steps=40), tmp_path / "one")
    two = train(quiet(n_steps=240, log_interval_steps=80), tmp_path / "two")
    assert values(two, "Diagnostics/CumSteps") == [80, 160, 240]
    assert values(two, "Diagnostics/Iteration") == [1, 3, 5]
    for key in ("CumCompletedTrajs", "NewCompletedTrajs", "StepsInTrajWindow"):
        key = "Diagnostics/" + key
        assert values(two, key) == [2 * value for value in values(one, key)]
    assert values(two, "ReturnAverage") == values(one, "ReturnAverage")
    assert values(two, "Diagnostics/ReplayRatio") == values(one, "Diagnostics/ReplayRatio")


def test_rank_0_evaluates_and_the_others_wait(tmp_path):
    rows = train(quiet(RunnerCls=SyncRlEval, n_steps=160, log_interval_steps=80), tmp_path)
    assert values(rows, "Diagnostics/CumSteps") == [0, 80, 160]
    alone = train(make_runner(MinibatchRlEval, n_steps=80), tmp_path / "alone")
    assert values(rows, "Diagnostics/TrajsInEval") == values(alone, "Diagnostics/TrajsInEval")


class SlowEvaluation(Callback):
    def on_eval(self, runner, itr, traj_infos):
        time.sleep(3.5 if itr == 0 else 0)


@pytest.mark.full
def test_evaluation_may_take_longer_than_the_time_limit(tmp_path):
    runner = quiet(RunnerCls=SyncRlEval, n_steps=80, callbacks=[SlowEvaluation()])
    runner.rank_timeout_s = 2.5
    assert len(train(runner, tmp_path)) == 3


class StopAt(Callback):
    def __init__(self, event, itr):
        self.event, self.itr = event, itr

    def on_itr(self, runner, itr, traj_infos, opt_info):
        if self.event == "itr" and itr == self.itr:
            runner.stop()

    def on_log(self, runner, itr, traj_infos):
        if self.event == "log" and itr == self.itr:
            runner.stop()


@pytest.mark.parametrize(("event", "itr", "last"), [("log", 3, 3), *[("itr", 4, 5)] * FULL])
def test_stop_ends_all_processes(event, itr, last, tmp_path):
    runner = quiet(n_steps=800, log_interval_steps=160, callbacks=[StopAt(event, itr)])
    rows = train(runner, tmp_path)
    assert values(rows, "Diagnostics/Iteration")[-1] == last


# --- What the matrix in tests/contracts does not run: other families, start methods -------------

FAMILIES = {
    "ppo normalized": (pg.pendulum, SyncRlEval),
    "ppo kl": (pg.cartpole_kl, SyncRl),  # Which ends its epochs in all processes.
    "sac_v": (sac.sac_v, SyncRl),
}


@pytest.mark.parametrize("name", FAMILIES if FULL else ["ppo normalized", "ppo kl"])
def test_families_train(name, tmp_path):
    make, RunnerCls = FAMILIES[name]
    snapshot = run(make, ranks(RunnerCls), tmp_path, n_steps=120)
    assert snapshot["cum_steps"] >= 120


class OwnSharedObjects(SyncRl):
    def build_par_objs(self, world_size):
        return AttrDict(barrier=mp.get_context("fork").Barrier(world_size), own=mp.Value("d", 1))


class OwnLoop(SyncRlEval):
    """A loop as in rlpyt 0.1.2, which knows of no exchange but that of gradients."""

    train = OwnEvalLoop.train

    def store_diagnostics(self, itr, traj_infos, opt_info):
        if itr == 0:  # The other process is not waited for otherwise.
            wait_until(lambda: not self.par.traj_infos_queue.empty())
        super().store_diagnostics(itr, traj_infos, opt_info)


class OwnQueueWorker(SyncWorkerMixin, MinibatchRl):
    def store_diagnostics(self, itr, traj_infos, opt_info):
        for traj_info in traj_infos:
            self.par.traj_infos_queue.put(traj_info)


class OwnQueue(SyncRl):
    """Sends trajectories as rlpyt 0.1.2 did."""

    @property
    def WorkerCls(self):
        return OwnQueueWorker

    def store_diagnostics(self, itr, traj_infos, opt_info):
        traj_infos = [*traj_infos, *drain_queue(self.par.traj_infos_queue)]
        super().store_diagnostics(itr, traj_infos, opt_info)


@pytest.mark.parametrize(("RunnerCls", "OursCls"), [(OwnLoop, SyncRlEval), (OwnQueue, SyncRl)])
def test_loops_and_hooks_of_research_code(RunnerCls, OursCls, tmp_path):
    # The others waited without end for an exchange within the hook that was replaced.
    settings = {"n_steps": 240, "log_interval_steps": 80}
    rows = train(quiet(RunnerCls=RunnerCls, **settings), tmp_path / "own")
    ours = train(quiet(RunnerCls=OursCls, **settings), tmp_path / "ours")
    assert values(rows, "Diagnostics/CumSteps") == values(ours, "Diagnostics/CumSteps")
    found, expected = (values(r, "Diagnostics/CumCompletedTrajs") for r in (rows, ours))
    if RunnerCls is OwnQueue:
        assert found == expected
    else:  # Some may still be on their way, but not all those of the other process.
        assert expected[-1] / 2 < found[-1] <= expected[-1]


@pytest.mark.slow
def test_spawned_ranks_and_shared_objects_of_research_code(tmp_path):
    # The time limit was missing among the objects: the master waited for a worker that had died.
    forked = run(pg.cartpole, ranks(SyncRl), tmp_path / "fork", n_steps=80)
    makers = {"spawn": ranks(SyncRl, start_method="spawn"), "own": ranks(OwnSharedObjects)}
    for name, make in makers.items():
        assert_equal_snapshots(forked, run(pg.cartpole, make, tmp_path / name, n_steps=80))


def test_list_of_one_is_a_run_of_one_process(tmp_path):
    one = run(pg.cartpole, ranks(SyncRl, n=1), tmp_path / "one")
    assert_equal_snapshots(one, run(pg.cartpole, MinibatchRl, tmp_path / "plain"))


@pytest.mark.parametrize("make", [sac.learned, *[pg.maze_ppo] * FULL])
def test_resumed_runs_end_as_the_whole_one(make, tmp_path):
    """From a file of SaveState, and from the latest checkpoint that all ranks have."""
    two, every = ranks(SyncRl), {"checkpoint_interval_steps": 80}
    whole = run(make, two, tmp_path / "whole", callbacks=[SaveState(interval_logs=3)], **every)
    state = load_run_state(tmp_path / "whole" / "run_0" / "run_state.pkl")
    assert 0 < state["ranks"][1]["itr"] < whole["itr"]
    # With new checkpoints, the loaded state reached rank 0 alone.
    second = run(make, two, tmp_path / "second", seed=77, state=state, **every)
    assert_equal_snapshots(whole, second)

    directory = tmp_path / "whole" / "run_0" / "checkpoints"
    names = [sorted(os.listdir(directory / f"rank_{rank}")) for rank in (0, 1)]
    assert names[0] == names[1]
    middle, last = names[0]
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    half = tmp_path / "half" / "run_0" / "checkpoints"
    shutil.rmtree(half / "rank_1" / last)  # As if the run had been killed there.
    again = [SaveState(interval_logs=3)]
    resumed = run(make, two, tmp_path / "half", seed=77, callbacks=again, resume="auto", **every)
    assert_equal_snapshots(whole, resumed)
    for rank in (0, 1):
        assert sorted(os.listdir(half / f"rank_{rank}")) == [middle, last]
        paths = (root / f"rank_{rank}" / last for root in (directory, half))
        assert_equal_states(*map(state_of, paths))


def test_states_of_another_number_of_processes_are_refused():
    with pytest.raises(ValueError, match="run of 2 processes, and this one has 3"):
        pg.cartpole(ranks(SyncRl, n=3), n_steps=60).load_state_dict({"ranks": [{}, {}]})


# --- Failures -----------------------------------------------------------------------------------

LIMIT_S = 2.0
AT_ONCE_S = 40.0  # On a busy machine too; a run that does not notice goes on for hours.


class Witness(Callback):
    """Notes the processes of the run, and when the iteration before the failure was."""

    def __init__(self):
        self.before = descendants()  # Servers of other start methods, in a longer session.

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.pids = sorted(descendants() - self.before)
        self.time = time.monotonic()


def fails(how, rank, n, directory, error, match):
    witness = Witness()
    algo = FailingAlgo(how, rank, at=5)
    runner = quiet(algo, n=n, n_steps=4000, log_interval_steps=40 * n, callbacks=[witness])
    runner.rank_timeout_s = LIMIT_S
    with pytest.raises(error, match=match) as raised:
        train(runner, directory)
    assert time.monotonic() - witness.time < AT_ONCE_S
    assert len(witness.pids) >= n - 1
    assert no_process_is_left(witness.pids)
    assert not shared_memory_of([*witness.pids, os.getpid()])
    log = (directory / "run_0" / "debug.log").read_text()
    assert str(raised.value).splitlines()[-1].strip() in log
    assert (directory / "run_0" / "progress.csv").read_text().count("\n") == 3
    assert torch.load(directory / "run_0" / "params.pkl", weights_only=False)["itr"] == 3
    return str(raised.value)


@pytest.mark.parametrize(
    ("how", "rank", "n", "error", "match"),
    [
        # Of three, one is neither at fault nor the first.
        ("raise", 1, 3, WorkerError, "(?s)rank 1, process.*ZeroDivisionError: a bug of the user"),
        ("kill", 2, 3, WorkerError, "rank 2, process .* SIGKILL"),
        ("hang", 1, 3, WorkerError, "(?s)rank 1, process .* sent no heartbeat for 2 s.*in fail"),
        ("raise", 0, 2, ZeroDivisionError, "a bug of the user"),
        *[("hang", 0, 2, WorkerError, "rank 1, process .* ended with code 1")] * FULL,
    ],
)
def test_rank_that_fails(how, rank, n, error, match, tmp_path):
    text = fails(how, rank, n, tmp_path, error, match)
    assert len(set(re.findall(r"rank \d, process", text))) == (error is WorkerError)


class KillsAWorker(FailingAlgo):
    """Ends the worker of the sampler, in one rank."""

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if itr == self.at and self.init_kwargs["rank"] == self.bad_rank:
            psutil.Process(self.worker_pid).kill()
        return CountingAlgo.optimize_agent(self, itr, samples)


class KnownWorkers(CpuSampler):
    """Tells the algorithm which process is the last worker."""

    def obtain_samples(self, itr):
        self.algo.worker_pid = self.workers[-1].pid
        return super().obtain_samples(itr)


@pytest.mark.parametrize("rank", [1, *[0] * FULL])
def test_worker_that_is_killed(rank, tmp_path):
    algo, witness = KillsAWorker("", rank, at=5), Witness()
    runner = quiet(algo, n_steps=4000, log_interval_steps=80, callbacks=[witness])
    sizes = {"batch_T": 5, "batch_B": 4, "max_decorrelation_steps": 0}
    runner.sampler = KnownWorkers(CountEnv, {}, **sizes)
    runner.sampler.algo = algo
    runner.affinities = [{"workers_cpus": 2, "set_affinity": False}] * 2
    place = "" if rank == 0 else r"rank 1, process(.|\n)*"
    with pytest.raises(WorkerError, match=place + r"worker 1 \(environments .* SIGKILL"):
        train(runner, tmp_path)
    assert time.monotonic() - witness.time < AT_ONCE_S
    assert len(witness.pids) == 5  # Another rank, and two workers of each.
    assert no_process_is_left(witness.pids)


class NeverStarts(ColumnsSampler):
    """Rank 1 calls ``way_out``."""

    def initialize(self, agent, rank=0, **kwargs):
        if rank == 1:
            self.way_out()
        return super().initialize(agent, rank=rank, **kwargs)


def fail():
    raise ZeroDivisionError("a bug at the start")


@pytest.mark.parametrize(
    ("way_out", "settings", "message"),
    [
        (fail, {}, "(?s)rank 1.*a bug at the start"),
        # The time limit applied only once all had started.
        (
            partial(time.sleep, 100),
            {"rank_timeout_s": 1.0},
            "(?s)rank 1, .* for 1 s.*rank_timeout_s.*in initialize",
        ),
    ],
)
def test_rank_that_does_not_start(way_out, settings, message, tmp_path):
    def make(RunnerCls, **kwargs):
        sampler = NeverStarts(**CARTPOLE, batch_T=8, batch_B=4)
        sampler.way_out = way_out
        return RunnerCls(algo=A2C(), agent=GenericFfAgent(), sampler=sampler, **kwargs)

    with pytest.raises(WorkerError, match=message):
        run(make, ranks(SyncRl, **settings), tmp_path)


# --- Whole programs -----------------------------------------------------------------------------

SCRIPT = Path(sync_script.__file__)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.full
def test_a_run_under_torchrun_and_another_that_fails(tmp_path):
    launched = subprocess.run(
        [*TORCHRUN, str(SCRIPT), "train", tmp_path / "launched", tmp_path / "bad"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert launched.returncode != 0
    assert "ZeroDivisionError: a bug of the user" in launched.stdout + launched.stderr
    of = [told(tmp_path / "launched", rank, 7) for rank in range(2)]
    assert [t["seed"] for t in of] == [5, derived_seed(5, Purpose.RANK, 1)]
    run_dir = tmp_path / "launched" / "run_0"
    assert json.loads((run_dir / "params.json").read_text())["name"] == "test"
    assert (run_dir / "progress.csv").read_text().count("\n") == 3
    sync_script.main("train", str(tmp_path / "alone"))
    for rank in range(2):
        alone = told(tmp_path / "alone", rank, 7)["agent"]
        assert all(torch.equal(alone[name], of[rank]["agent"][name]) for name in alone)


def launched(rank, port, directories):
    """What one of two processes of a launcher does: it trains, and fails in the last directory."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if rank == 0:  # The next run of rank 1 used to meet the store of this one, and waited for ever.
        leave = ProcessGroup.leave
        ProcessGroup.leave = lambda group: (time.sleep(1), leave(group))
    for how, directory in zip(("train", "raise"), directories):
        sync_script.main(how, directory)


@pytest.mark.slow  # The first optimizer of each process imports what takes a second.
def test_a_run_in_processes_of_a_launcher_and_another_that_fails(tmp_path):
    directories = [str(tmp_path / name) for name in ("launched", "bad")]
    port = find_port(offset=0)
    processes = [
        fork(launched, rank, port, directories, output=tmp_path / f"output_{rank}")
        for rank in range(2)
    ]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [1, 1]
    assert "ZeroDivisionError: a bug of the user" in (tmp_path / "output_1").read_text()
    of = [told(tmp_path / "launched", rank, 7) for rank in range(2)]
    assert [t["seed"] for t in of] == [5, derived_seed(5, Purpose.RANK, 1)]
    assert all(torch.equal(x, of[1]["agent"][name]) for name, x in of[0]["agent"].items())


# How SIGINT ends several ranks is tested in test_resume.py.
def test_end_of_rank_0_is_the_end_of_all(tmp_path):
    output = tmp_path / "output"
    process = fork(sync_script.main, "long", str(tmp_path), output=output)

    def has_begun():
        assert process.is_alive(), output.read_text()
        return (tmp_path / "rank_1_itr_3.pt").exists()

    wait_until(has_begun)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 3  # Another rank, and a worker of each.
    process.kill()
    process.join()
    _, alive = psutil.wait_procs(children, timeout=AT_ONCE_S)
    assert alive == []
