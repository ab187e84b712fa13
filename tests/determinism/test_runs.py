"""Equal seeds give equal runs from every sampler, and a resumed run ends as the whole one.

By default every algorithm with a state of its own is in a cell, and every sampler meets agents with
and without memory; with ``RLPYT_FULL=1`` all of algorithm, sampler and evaluation meet.
"""

import csv
import itertools
from functools import cache

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import (
    AlternatingMlpPqnLstmAgent,
    MlpPqnLstmAgent,
    MlpR2d1Agent,
    MlpR2d1AlternatingAgent,
)
from rlpyt.agents.pg.generic import AlternatingGenericLstmAgent, GenericLstmAgent
from rlpyt.agents.qpg.sac_lstm_agent import AlternatingSacLstmAgent, SacLstmAgent
from rlpyt.checkpoints.store import Checkpoints
from rlpyt.envs import gym, vector
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import logger_context
from tests.determinism import ddpg, dqn, pg, quantile, r2d1, sac
from tests.samplers.parallel_parts import VectorOf
from tests.selection import FULL, selected


def run(
    make,
    RunnerCls,
    directory,
    seed=5,
    n_steps=160,
    sampler=None,
    callbacks=(),
    state=None,
    **kwargs,
):
    runner = make(RunnerCls, seed=seed, n_steps=n_steps, log_interval_steps=40, callbacks=callbacks)
    if state is not None:
        runner.load_state_dict(state)
    if sampler is not None:
        use_sampler(runner, *sampler)
    with logger_context(directory, 0, "test", snapshot_mode="last", override_prefix=True):
        logger.set_log_tabular_only(False)
        runner.train(**kwargs)
    return torch.load(directory / "run_0" / "params.pkl")


def assert_equal_snapshots(first, second):
    assert first["itr"] == second["itr"]
    flat = [torch.utils._pytree.tree_leaves(snapshot) for snapshot in (first, second)]
    assert len(flat[0]) == len(flat[1]) > 10
    for a, b in zip(*flat):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


# --- Samplers -------------------------------------------------------------------------------------

CPU, ALTERNATING = (CpuSampler, 2), (AlternatingSampler, 2)  # With the number of workers.
SAMPLERS = [(CpuSampler, 1), CPU, (GpuSampler, 2), ALTERNATING, (VectorSampler, 0)]
SERVED = {CpuResetCollector: GpuResetCollector, CpuWaitResetCollector: GpuWaitResetCollector}
AGENT_IN_HALVES = {
    MlpR2d1Agent: MlpR2d1AlternatingAgent,
    MlpPqnLstmAgent: AlternatingMlpPqnLstmAgent,
    GenericLstmAgent: AlternatingGenericLstmAgent,
    SacLstmAgent: AlternatingSacLstmAgent,
}


def as_alternating(agent):
    """A recurrent agent with one state for each half of the environments."""
    names = ("model_kwargs", "q_model_kwargs", "eps_final")
    settings = {name: getattr(agent, name) for name in names if hasattr(agent, name)}
    return AGENT_IN_HALVES[type(agent)](**settings)


def use_sampler(runner, SamplerCls, n_workers):
    """Put another sampler of the same environments in the place of a serial one."""
    serial = runner.sampler
    kwargs = {
        "EnvCls": serial.EnvCls,
        "env_kwargs": serial.env_kwargs,
        "batch_T": serial.batch_spec.T,
        "batch_B": serial.batch_spec.B,
        "max_decorrelation_steps": serial.max_decorrelation_steps,
        "eval_n_envs": serial.eval_n_envs,
        "eval_max_steps": serial.eval_max_steps,
        "record_next_observation": serial.record_next_observation,
    }
    if SamplerCls is VectorSampler and serial.EnvCls is gym.make:
        kwargs["EnvCls"] = vector.make
    elif SamplerCls is VectorSampler:
        kwargs["EnvCls"] = VectorOf
        kwargs["env_kwargs"] = {"EnvCls": serial.EnvCls, **serial.env_kwargs}
    else:
        runner.affinity = {"workers_cpus": n_workers}
        is_served = SamplerCls is not CpuSampler
        kwargs["CollectorCls"] = SERVED[serial.CollectorCls] if is_served else serial.CollectorCls
    runner.sampler = SamplerCls(**kwargs)
    runner.sampler.example_subprocess = False
    if SamplerCls is AlternatingSampler and runner.agent.recurrent:
        runner.agent = as_alternating(runner.agent)


# --- The table ------------------------------------------------------------------------------------

CASES = {
    "dqn": dqn.cartpole,
    "munchausen": dqn.cartpole_munchausen,
    "hindsight": dqn.lock,
    "c51": dqn.catch,
    "rainbow": quantile.rainbow,
    "qr_dqn": quantile.qr_dqn,
    "iqn": quantile.iqn,
    "r2d1": r2d1.maze(CpuResetCollector),
    "r2d1 waiting": r2d1.maze(CpuWaitResetCollector),
    "pqn": dqn.cartpole_pqn,
    "pqn lstm": dqn.cartpole_pqn_lstm,
    "ddpg": ddpg.pendulum("ddpg"),
    "td3": ddpg.pendulum("td3"),
    "d4pg": ddpg.pendulum("d4pg"),
    "sac": sac.learned,
    "sac fixed": sac.fixed,
    "redq": sac.redq,
    "droq": sac.droq,
    "tqc": sac.tqc,
    "crossq": sac.crossq,
    "sac_v": sac.sac_v,
    "sac_discrete": sac.discrete,
    "sac_lstm": sac.recurrent,
    "a2c lstm": pg.maze_a2c,
    "ppo lstm": pg.maze_ppo,
    "ppo normalized": pg.pendulum,
    "a2c": pg.cartpole,
    "ppo kl": pg.cartpole_kl,
    "ppo rnd": pg.cartpole_rnd,
}
# Those of one family keep their states in the same places.
FAMILIES = [
    ("dqn", "munchausen", "hindsight", "c51", "rainbow", "qr_dqn", "iqn"),
    ("r2d1", "r2d1 waiting"),
    ("pqn", "pqn lstm"),
    ("ddpg", "td3", "d4pg"),
    ("sac", "sac fixed", "redq", "droq", "tqc", "crossq", "sac_v", "sac_discrete"),
    ("sac_lstm",),
    ("a2c lstm", "ppo lstm"),
    ("ppo normalized", "a2c", "ppo kl", "ppo rnd"),
]
FAMILY_OF = {name: family for family in FAMILIES for name in family}
# Their states are those of others of the family.
REPEATED = {
    *("munchausen", "c51", "qr_dqn", "r2d1", "pqn"),
    *("ddpg", "sac fixed", "redq", "tqc", "a2c"),
}
WITH_MEMORY = [FAMILIES[k] for k in (1, 5, 6)]
WAITING = ("r2d1 waiting", "a2c lstm")  # A vector environment never waits.
# What these have computed to act is trained on, and a network that acts for half as many
# environments at once gives other last digits: values, probabilities, continuous actions, states.
WITH_OUTPUTS = ("ddpg", "td3", "d4pg", "sac", "ppo", "a2c", "pqn lstm")
PARALLEL = [
    (name, sampler, evaluates)
    for name, sampler, evaluates in itertools.product(CASES, SAMPLERS, (False, True))
    if not (name in WAITING and sampler[0] is VectorSampler)
    if FULL or name not in REPEATED
]
CHECKPOINT, END = 80, 120  # Steps.
WITH_CHECKPOINTS = {"checkpoint_interval_steps": CHECKPOINT, "n_steps": END}


def aspects(cell):
    """Every algorithm is tested, and each kind of sampler with memory, and with evaluation."""
    name, sampler, evaluates = cell
    has_memory, (SamplerCls, _) = FAMILY_OF[name] in WITH_MEMORY, sampler
    return {name, sampler, (has_memory, SamplerCls), (SamplerCls, evaluates)}


SERIAL = CASES if FULL else ["dqn", "r2d1 waiting", "ppo lstm", "sac"]
CELLS = [(name, None, True) for name in SERIAL] + selected(PARALLEL, aspects)


def runner_of(evaluates):
    return MinibatchRlEval if evaluates else MinibatchRl


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Gives the directory and the last snapshot of a run with checkpoints, which is made once."""

    @cache
    def of(name, sampler=None, evaluates=True):
        directory = tmp_path_factory.mktemp("whole")
        kwargs = {"sampler": sampler, **WITH_CHECKPOINTS}
        return directory, run(CASES[name], runner_of(evaluates), directory, **kwargs)

    return of


def test_memory_meets_every_kind_of_sampler():
    left_out = set() if FULL else REPEATED
    assert FAMILY_OF.keys() == CASES.keys() == left_out | {name for name, _, _ in CELLS}
    names = [name for family in WITH_MEMORY for name in family]
    assert {sampler[0] for name, sampler, _ in CELLS if name in names and sampler} == {
        SamplerCls for SamplerCls, _ in SAMPLERS
    }


def test_runs_with_other_seeds_differ(whole, tmp_path):
    other = run(CASES["dqn"], MinibatchRl, tmp_path, seed=6, n_steps=END)
    with pytest.raises(AssertionError):
        assert_equal_snapshots(whole("dqn")[1], other)


# --- Other samplers and resumed runs --------------------------------------------------------------

CLOCKS = ("cum_time", "time_since_log", "cum_eval_time")


def state_of(path):
    """The whole state in a checkpoint, but for what clocks said."""
    state = Checkpoints(path.parent).load(path)
    return {name: part for name, part in state.items() if name not in CLOCKS}


def checkpoint(directory, n_steps):
    return directory / "run_0" / "checkpoints" / f"checkpoint_{n_steps:09d}"


def assert_equal_states(first, second, path="state"):
    if isinstance(first, dict):
        assert first.keys() == second.keys(), path
        for name in first:
            assert_equal_states(first[name], second[name], f"{path}.{name}")
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second), path
        for i, (a, b) in enumerate(zip(iter(first), iter(second))):
            assert_equal_states(a, b, f"{path}.{i}")
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second), path
    elif hasattr(first, "__array__"):
        np.testing.assert_array_equal(np.asarray(first), np.asarray(second), err_msg=path)
    else:
        assert first == second or (first != first and second != second), path


def rows_without_times(directory, run=0):
    with open(directory / f"run_{run}" / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    is_time = ("Time", "PerSecond")
    return [
        {k: v for k, v in row.items() if not any(word in k for word in is_time)} for row in rows
    ]


def id_of(coordinate):
    """Name a sampler by its class and number of workers, and leave the rest to pytest."""
    return f"{coordinate[0].__name__}-{coordinate[1]}" if isinstance(coordinate, tuple) else None


def parameters(snapshot):
    return torch.utils._pytree.tree_leaves(snapshot["agent_state_dict"])


@pytest.mark.parametrize(("name", "sampler", "evaluates"), CELLS, ids=id_of)
def test_a_run_is_that_of_the_serial_sampler_and_ends_so_if_resumed(
    name, sampler, evaluates, whole, tmp_path
):
    directory, snapshot = whole(name, sampler, evaluates)
    # Buffers and minibatches were seeded after environments that are made in the process.
    is_near = sampler in (CPU, ALTERNATING) and name.startswith(WITH_OUTPUTS)
    expected, atol = parameters(whole(name)[1]), 1e-5 if is_near else 0
    torch.testing.assert_close(parameters(snapshot), expected, rtol=0, atol=atol)

    kwargs = {"sampler": sampler, "resume": checkpoint(directory, CHECKPOINT), **WITH_CHECKPOINTS}
    run(CASES[name], runner_of(evaluates), tmp_path, seed=77, **kwargs)
    assert_equal_states(*(state_of(checkpoint(path, END)) for path in (directory, tmp_path)))
    (row,), (*_, whole_row) = rows_without_times(tmp_path), rows_without_times(directory)
    assert row["Diagnostics/CumSteps"] == str(END)
    # Of an evaluation without a trajectory only a log that had one before has the columns.
    assert row == {name: x for name, x in whole_row.items() if name in row or x != "nan"}


# --- Objects that serve again ---------------------------------------------------------------------

AGAIN = ["r2d1 waiting", "sac_lstm", "ppo normalized"]


@pytest.mark.parametrize("name", list(CASES) if FULL else AGAIN)
def test_objects_of_a_run_serve_an_equal_one(name, tmp_path):
    first = CASES[name](MinibatchRl, seed=5, n_steps=80, log_interval_steps=40)
    parts = {"algo": first.algo, "agent": first.agent, "sampler": first.sampler}
    again = MinibatchRl(**parts, seed=5, n_steps=80, log_interval_steps=40)
    for k, runner in enumerate((first, again)):
        with logger_context(tmp_path, k, "test", snapshot_mode="last", override_prefix=True):
            runner.train()
    assert_equal_snapshots(*(torch.load(tmp_path / f"run_{k}" / "params.pkl") for k in (0, 1)))
    assert rows_without_times(tmp_path, 0) == rows_without_times(tmp_path, 1)


def test_a_runner_made_after_a_run_evaluates_from_its_start(tmp_path):
    """It used to wait for the first update, of which the algorithm kept the number."""
    settings = {"seed": 5, "n_steps": 80, "log_interval_steps": 40}
    runner = CASES["dqn"](MinibatchRlEval, **settings)
    parts = {"algo": runner.algo, "agent": runner.agent, "sampler": runner.sampler}
    for k in range(2):
        with logger_context(tmp_path, k, "test", override_prefix=True):
            runner.train()
        runner = MinibatchRlEval(**parts, **settings)
    assert rows_without_times(tmp_path, 0) == rows_without_times(tmp_path, 1)


def test_objects_serve_with_another_collector():
    first = CASES["r2d1 waiting"](MinibatchRl, seed=5, n_steps=80, log_interval_steps=40)
    first.train()
    other = CASES["r2d1"](MinibatchRl, seed=5, n_steps=80, log_interval_steps=40)
    other.algo = first.algo
    other.train()
    assert "valid" not in first.algo.replay_buffer.samples._fields
