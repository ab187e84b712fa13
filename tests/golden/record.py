"""Golden runs: short seeded runs of every algorithm, with the numbers that they end with.

``python -m tests.golden.record [FILE]`` writes ``numbers.json``, or another file. That file is
recorded again only in a commit that says why the numbers of a run change.

Left out are asynchronous runs, which never repeat to the bit, and runs in several processes that
train: ``tests/runners/test_sync_rl.py`` compares them with runs in one.
"""

import contextlib
import hashlib
import io
import json
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.agents.dqn.mlp_agent import MlpR2d1Agent
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import Catch, TMaze
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.logging.context import processor
from tests.determinism import dqn, pg, quantile, sac
from tests.determinism.test_runs import CASES, rows_without_times, run

NUMBERS = Path(__file__).with_name("numbers.json")
SEED, N_STEPS = 5, 160

# --- Runs that the table of tests/determinism does not have --------------------------------------

UNIFORM = {**dqn.SETTINGS, "prioritized_replay": False}
IMAGES = {"img_shape": (20, 10), "num_img_obs": 3}
CONVOLUTION = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}
SEQUENCES = {
    "batch_T": 4,
    "batch_B": 6,
    "warmup_T": 2,
    "store_rnn_state_interval": 3,
    "min_steps_learn": 40,
    "replay_size": 60,
    "replay_ratio": 4,
    "n_step_return": 2,
    "target_update_interval": 3,
}


def on(EnvCls, env_kwargs, algo, agent, RunnerCls, batch_T=5, **kwargs):
    """A run of what ``algo()`` and ``agent()`` make."""
    batch = {**pg.BATCH, "batch_T": batch_T}
    sampler = SerialSampler(EnvCls, env_kwargs, **batch, **pg.EVALUATION)
    return RunnerCls(algo=algo(), agent=agent(), sampler=sampler, **kwargs)


on_catch, on_maze = partial(on, Catch, IMAGES), partial(on, TMaze, {"length": 1})
atari_dqn = partial(
    AtariDqnAgent, model_kwargs={**CONVOLUTION, "fc_sizes": 16, "dueling": True}, eps_final=0.1
)
atari_r2d1 = partial(
    AtariR2d1Agent,
    model_kwargs={**CONVOLUTION, "fc_size": 16, "lstm_size": 8, "head_size": 8, "dueling": True},
    eps_final=0.1,
)
atari_ff = partial(AtariFfAgent, model_kwargs={**CONVOLUTION, "fc_sizes": 16})
atari_lstm = partial(AtariLstmAgent, model_kwargs={**CONVOLUTION, "fc_sizes": 16, "lstm_size": 8})
mlp_r2d1 = partial(MlpR2d1Agent, model_kwargs={"hidden_sizes": 8, "lstm_size": 6}, eps_final=0.1)


def cartpole_waiting(RunnerCls, **kwargs):
    """A2C on environments that wait at the end of an episode for the next batch."""
    runner = pg.cartpole(RunnerCls, **kwargs)
    runner.sampler.CollectorCls = CpuWaitResetCollector
    return runner


MORE = {
    "dqn uniform": partial(dqn.cartpole, settings={**UNIFORM, "n_step_return": 1}),
    "double dqn": partial(dqn.cartpole, settings={**UNIFORM, "double_dqn": True}),
    "double dqn masks": dqn.doors,
    "dueling dqn frames": partial(on_catch, partial(DQN, **UNIFORM), atari_dqn, batch_T=2),
    "munchausen iqn": quantile.munchausen_iqn,
    "r2d1 uniform": partial(
        on_maze, partial(R2D1, prioritized_replay=False, **SEQUENCES), mlp_r2d1
    ),
    "r2d1 frames": partial(on_catch, partial(R2D1, **SEQUENCES), atari_r2d1),
    "sac prior": sac.prior,
    "a2c waiting": cartpole_waiting,
    "a2c gae": partial(on_catch, partial(A2C, gae_lambda=0.9, normalize_advantage=True), atari_ff),
    "a2c normalized": pg.pendulum_a2c,
    "impala": pg.cartpole_impala,
    "impala lstm": pg.maze_impala,
    "ppo": lambda RunnerCls, **kwargs: pg.cartpole(RunnerCls, PPO(), **kwargs),
    "ppo gae": partial(
        on_catch, partial(PPO, gae_lambda=0.9, normalize_advantage=True, minibatches=3), atari_ff
    ),
    "ppo images lstm": partial(on_catch, partial(PPO, minibatches=2), atari_lstm),
    "ppo masks": pg.doors,
}
SAMPLED = {  # With the number of workers.
    "dqn": (CpuSampler, 2),
    "ppo normalized": (GpuSampler, 2),
    "r2d1": (AlternatingSampler, 2),
    "a2c": (VectorSampler, 0),
}
EVALUATED = ("dqn", "sac", "ppo lstm")
RUNS = {name: partial(run, make, MinibatchRl) for name, make in {**CASES, **MORE}.items()}
RUNS |= {f"{name}, evaluated": partial(run, CASES[name], MinibatchRlEval) for name in EVALUATED}
RUNS |= {
    f"{name}, {sampler[0].__name__}": partial(run, CASES[name], MinibatchRl, sampler=sampler)
    for name, sampler in SAMPLED.items()
}

# --- Their numbers --------------------------------------------------------------------------------

OF_SPREAD = ("Std", "Median", "Min", "Max")  # Columns that the log has beside an average.


def machine():
    """What last digits depend on: versions, and the kind of processor."""
    return {
        "processor": processor(),
        **{name: version(name) for name in ("torch", "numpy", "gymnasium")},
    }


def numbers_of(name):
    """Make a run.

    Returns:
        The digest of all bytes of the agent's state, the norm of each array in it, and each column
        of the log but those of times and spread: the values, as text.
    """
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        snapshot = RUNS[name](Path(directory), seed=SEED, n_steps=N_STEPS)
        rows = rows_without_times(Path(directory))
    leaves, _ = tree_flatten_with_path(snapshot["agent_state_dict"])
    state = {keystr(path): torch.as_tensor(leaf).cpu().numpy() for path, leaf in leaves}
    state = {path: state[path] for path in sorted(state)}
    content = b"".join(path.encode() + x.tobytes() for path, x in state.items())
    columns = [column for column in rows[-1] if not column.endswith(OF_SPREAD)]
    return {
        "digest": hashlib.sha256(content).hexdigest()[:16],
        "norms": {path: float(np.linalg.norm(x.astype(np.float64))) for path, x in state.items()},
        "log": {column: " ".join(row[column] or "nan" for row in rows) for column in columns},
    }


def main(path=NUMBERS):
    runs = {}
    for name in RUNS:
        with contextlib.redirect_stdout(io.StringIO()):
            runs[name] = numbers_of(name)
        print(runs[name]["digest"], name)
    text = json.dumps({"machine": machine(), "runs": runs}, indent=1)
    Path(path).write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
