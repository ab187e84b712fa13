"""Equal seeds give equal runs, and a resumed run continues as if it had not been stopped.

By default each family of algorithms is resumed with each sampler; with ``RLPYT_FULL=1`` each
algorithm is.
"""

import csv
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
from tests.selection import selected


def run(
    make,
    RunnerCls,
    directory,
    seed=5,
    n_steps=400,
    sampler="serial",
    callbacks=(),
    state=None,
    n_workers=2,
    **kwargs,
):
    runner = make(RunnerCls, seed=seed, n_steps=n_steps, log_interval_steps=80, callbacks=callbacks)
    if state is not None:
        runner.load_state_dict(state)
    if sampler != "serial":
        use_sampler(runner, sampler, n_workers)
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

SAMPLERS = {
    "serial": None,
    "cpu": CpuSampler,
    "gpu": GpuSampler,
    "alternating": AlternatingSampler,
    "vector": VectorSampler,
}
SERVED = {CpuResetCollector: GpuResetCollector, CpuWaitResetCollector: GpuWaitResetCollector}


ALTERNATING = {
    MlpR2d1Agent: MlpR2d1AlternatingAgent,
    MlpPqnLstmAgent: AlternatingMlpPqnLstmAgent,
    GenericLstmAgent: AlternatingGenericLstmAgent,
    SacLstmAgent: AlternatingSacLstmAgent,
}


def as_alternating(agent):
    """A recurrent agent with one state for each half of the environments."""
    names = ("model_kwargs", "q_model_kwargs", "eps_final")
    settings = {name: getattr(agent, name) for name in names if hasattr(agent, name)}
    return ALTERNATING[type(agent)](**settings)


def use_sampler(runner, name, n_workers=2):
    """Put another sampler of the same environments in the place of a serial one."""
    serial, SamplerCls = runner.sampler, SAMPLERS[name]
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
    if SamplerCls is AlternatingSampler and runner.agent.recurrent:
        runner.agent = as_alternating(runner.agent)


CASES = {
    "dqn": (dqn.cartpole, MinibatchRl),
    "dqn eval": (dqn.cartpole, MinibatchRlEval),
    "munchausen": (dqn.cartpole_munchausen, MinibatchRlEval),
    "hindsight": (dqn.lock, MinibatchRlEval),
    "c51": (dqn.catch, MinibatchRlEval),
    "rainbow": (quantile.rainbow, MinibatchRlEval),
    "qr_dqn": (quantile.qr_dqn, MinibatchRl),
    "iqn": (quantile.iqn, MinibatchRlEval),
    "r2d1": (r2d1.maze(CpuResetCollector), MinibatchRlEval),
    "r2d1 waiting": (r2d1.maze(CpuWaitResetCollector), MinibatchRlEval),
    "pqn": (dqn.cartpole_pqn, MinibatchRlEval),
    "pqn lstm": (dqn.cartpole_pqn_lstm, MinibatchRlEval),
    "ddpg": (ddpg.pendulum("ddpg"), MinibatchRlEval),
    "td3": (ddpg.pendulum("td3"), MinibatchRlEval),
    "d4pg": (ddpg.pendulum("d4pg"), MinibatchRlEval),
    "sac": (sac.learned, MinibatchRl),
    "sac eval": (sac.learned, MinibatchRlEval),
    "sac fixed": (sac.fixed, MinibatchRlEval),
    "redq": (sac.redq, MinibatchRl),
    "droq": (sac.droq, MinibatchRl),
    "tqc": (sac.tqc, MinibatchRl),
    "crossq": (sac.crossq, MinibatchRl),
    "sac_v": (sac.sac_v, MinibatchRl),
    "sac_discrete": (sac.discrete, MinibatchRlEval),
    "sac_lstm": (sac.recurrent, MinibatchRlEval),
    "a2c lstm": (pg.maze_a2c, MinibatchRlEval),
    "ppo lstm": (pg.maze_ppo, MinibatchRl),
    "ppo normalized": (pg.pendulum, MinibatchRlEval),
    "a2c": (pg.cartpole, MinibatchRl),
    "ppo kl": (pg.cartpole_kl, MinibatchRl),
    "ppo rnd": (pg.cartpole_rnd, MinibatchRl),
}


WITH_CHECKPOINTS = {"checkpoint_interval_steps": 200}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Gives the directory and the last snapshot of a run with checkpoints, which is made once."""

    @cache
    def of(name, sampler):
        directory = tmp_path_factory.mktemp("whole")
        return directory, run(*CASES[name], directory, sampler=sampler, **WITH_CHECKPOINTS)

    return of


# --- Equal seeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_equal_runs(name, whole, tmp_path):
    """Also if one of them saves checkpoints on its way."""
    assert_equal_snapshots(whole(name, "serial")[1], run(*CASES[name], tmp_path))


# --- Resumed runs ---------------------------------------------------------------------------------

# Those of one family keep their states in the same places.
FAMILIES = [
    ("dqn", "c51", "rainbow"),
    ("qr_dqn", "iqn"),
    ("r2d1",),
    ("pqn", "pqn lstm"),
    ("ddpg", "td3", "d4pg"),
    ("sac", "sac_v", "redq", "droq", "tqc", "crossq", "sac_discrete"),
    ("sac_lstm",),
    ("a2c lstm", "ppo lstm"),
    ("ppo normalized", "a2c"),
]
FAMILY_OF = {name: family for family in FAMILIES for name in family}
SERIAL = [(name, "serial") for name in CASES]
# The serial sampler is enough for the other cases, which are variants of these.
PARALLEL = [(name, sampler) for name in FAMILY_OF for sampler in SAMPLERS if sampler != "serial"]


def aspects(cell):
    """Each family is resumed with each sampler, and each algorithm with some."""
    name, sampler = cell
    return {name, (FAMILY_OF[name], sampler)}


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


def rows_without_times(directory):
    with open(directory / "run_0" / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    is_time = ("Time", "PerSecond")
    return [
        {k: v for k, v in row.items() if not any(word in k for word in is_time)} for row in rows
    ]


@pytest.mark.parametrize(("name", "sampler"), SERIAL + selected(PARALLEL, aspects))
def test_a_resumed_run_ends_as_the_whole_one(name, sampler, whole, tmp_path):
    directory, _ = whole(name, sampler)
    kwargs = {"sampler": sampler, "resume": checkpoint(directory, 200), **WITH_CHECKPOINTS}
    run(*CASES[name], tmp_path, seed=77, **kwargs)
    assert_equal_states(*(state_of(checkpoint(path, 400)) for path in (directory, tmp_path)))
    rows = rows_without_times(tmp_path)
    assert [row["Diagnostics/CumSteps"] for row in rows] == ["240", "320", "400"]
    assert rows == rows_without_times(directory)[-3:]


@pytest.mark.parametrize("name", [family[0] for family in FAMILIES])
def test_runs_with_other_seeds_differ(name, whole, tmp_path):
    other = run(*CASES[name], tmp_path, seed=6)
    with pytest.raises(AssertionError):
        assert_equal_snapshots(whole(name, "serial")[1], other)


def test_every_algorithm_is_resumed_with_every_kind_of_sampler():
    variants = {"dqn eval", "munchausen", "r2d1 waiting", "sac eval", "sac fixed"}
    variants |= {"ppo kl", "ppo rnd", "hindsight"}
    assert FAMILY_OF.keys() == CASES.keys() - variants
    chosen = selected(PARALLEL, aspects)
    assert {name for name, _ in chosen} == FAMILY_OF.keys()
    for family in FAMILIES:
        samplers = {sampler for name, sampler in chosen if name in family}
        assert samplers == SAMPLERS.keys() - {"serial"}
