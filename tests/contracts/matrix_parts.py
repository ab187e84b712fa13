"""The tables of the matrix: algorithms, samplers, runners; and what is seen of a run of each."""

import math
import multiprocessing
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from rlpyt.agents.base import without_ddp
from rlpyt.agents.dqn import mlp_agent
from rlpyt.agents.pg import generic, mujoco
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.agents.qpg.sac_lstm_agent import AlternatingSacLstmAgent, SacLstmAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.munchausen import MunchausenDQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.algos.qpg.sac_ensembles import REDQ, CrossQ
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.toy import TMaze
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.callbacks import Callback
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, numpify_buffer
from tests.runners import async_parts
from tests.runners.async_parts import ACTOR_CRITIC, LSTM, SMALL, WORKERS, descendants, make_aiming
from tests.samplers.parallel_parts import PARALLEL

T, B = 8, 4
STEPS = T * B  # Of one batch.
N_ITRS = 8  # In two log intervals; more than an asynchronous sampler may be ahead of training.
FIRST_STEPS = 3 * STEPS  # Stored before a replay algorithm begins to train.
HORIZON = 6  # No episode is longer.

SETTINGS = {"min_steps_learn": FIRST_STEPS, "replay_size": 1000, "replay_ratio": 1}
STORED_EVERY = 4
SEQUENCES = {"batch_T": 4, "batch_B": 4, "warmup_T": 0, "n_step_return": 1}


def make_maze():
    return TMaze(length=1)


class Family(NamedTuple):
    """How to make an algorithm and its agent, and how much it trains.

    An agent with a recurrent state has a twin for alternating sampling.
    """

    make_algo: Callable[[], Any]
    make_agent: Callable[[], Any]
    EnvCls: Callable[[], Any]
    updates_per_itr: int
    make_alternating_agent: Callable[[], Any] | None = None

    @property
    def is_recurrent(self):
        return self.make_alternating_agent is not None


def of(AgentCls, kwargs):
    return lambda: AgentCls(**kwargs)


def ppo():
    return PPO(epochs=2, minibatches=2)


def r2d1():
    return R2D1(store_rnn_state_interval=STORED_EVERY, **SEQUENCES, **SETTINGS)


POLICY_GRADIENT = {
    "A2C": Family(A2C, of(generic.GenericFfAgent, SMALL), make_maze, 1),
    "A2C-lstm": Family(
        A2C,
        of(generic.GenericLstmAgent, LSTM),
        make_maze,
        1,
        of(generic.AlternatingGenericLstmAgent, LSTM),
    ),
    "PPO": Family(ppo, of(mujoco.MujocoFfAgent, SMALL), make_aiming, 4),
    "PPO-lstm": Family(
        ppo,
        of(mujoco.MujocoLstmAgent, LSTM),
        make_aiming,
        4,
        of(mujoco.AlternatingMujocoLstmAgent, LSTM),
    ),
}
PARALLELISED = {
    "PQN": Family(
        lambda: PQN(epochs=2, minibatches=2), of(mlp_agent.MlpPqnAgent, SMALL), make_maze, 4
    ),
    "PQN-lstm": Family(
        lambda: PQN(epochs=2, minibatches=2),
        of(mlp_agent.MlpPqnLstmAgent, LSTM),
        make_maze,
        4,
        of(mlp_agent.AlternatingMlpPqnLstmAgent, LSTM),
    ),
}
RENORM = {"hidden_sizes": [8], "batch_renorm": True}
MEMORY = {"model_kwargs": LSTM["model_kwargs"], "q_model_kwargs": LSTM["model_kwargs"]}
CROSSQ = {"model_kwargs": RENORM, "q_model_kwargs": RENORM, "target_networks": False}
REPLAY = {
    "DQN": Family(
        lambda: DQN(batch_size=16, **SETTINGS), of(mlp_agent.MlpDqnAgent, SMALL), make_maze, 2
    ),
    "CatDQN": Family(
        lambda: CategoricalDQN(batch_size=16, prioritized_replay=True, **SETTINGS),
        of(mlp_agent.MlpCatDqnAgent, SMALL),
        make_maze,
        2,
    ),
    "M-DQN": Family(
        lambda: MunchausenDQN(batch_size=16, prioritized_replay=True, **SETTINGS),
        of(mlp_agent.MlpDqnAgent, SMALL),
        make_maze,
        2,
    ),
    "R2D1": Family(
        r2d1,
        of(mlp_agent.MlpR2d1Agent, LSTM),
        make_maze,
        2,
        of(mlp_agent.MlpR2d1AlternatingAgent, LSTM),
    ),
    "DDPG": Family(
        lambda: DDPG(batch_size=16, **SETTINGS), of(DdpgAgent, ACTOR_CRITIC), make_aiming, 2
    ),
    "TD3": Family(
        lambda: TD3(batch_size=16, **SETTINGS), of(Td3Agent, ACTOR_CRITIC), make_aiming, 2
    ),
    "SAC": Family(
        lambda: SAC(batch_size=16, **SETTINGS), of(SacAgent, ACTOR_CRITIC), make_aiming, 2
    ),
    "DiscreteSAC": Family(
        lambda: DiscreteSAC(batch_size=16, **SETTINGS), of(DiscreteSacAgent, SMALL), make_maze, 2
    ),
    "RecurrentSAC": Family(
        lambda: RecurrentSAC(store_rnn_state_interval=STORED_EVERY, **SEQUENCES, **SETTINGS),
        of(SacLstmAgent, MEMORY),
        make_aiming,
        2,
        of(AlternatingSacLstmAgent, MEMORY),
    ),
    "REDQ": Family(
        lambda: REDQ(batch_size=16, policy_update_interval=1, **SETTINGS),
        of(SacAgent, {**ACTOR_CRITIC, "n_critics": 4}),
        make_aiming,
        2,
    ),
    "CrossQ": Family(
        lambda: CrossQ(batch_size=16, policy_update_interval=1, **SETTINGS),
        of(SacAgent, CROSSQ),
        make_aiming,
        2,
    ),
}
QUEUED = {
    "IMPALA": Family(IMPALA, of(generic.GenericFfAgent, SMALL), make_maze, 1),
    "IMPALA-lstm": Family(
        IMPALA,
        of(mujoco.MujocoLstmAgent, LSTM),
        make_aiming,
        1,
        of(mujoco.AlternatingMujocoLstmAgent, LSTM),
    ),
}
SYNC_ALGOS = POLICY_GRADIENT | PARALLELISED | REPLAY
ASYNC_ALGOS = REPLAY | QUEUED
ALGOS = SYNC_ALGOS | QUEUED

SAMPLERS = {SamplerCls.__name__: SamplerCls for SamplerCls in (SerialSampler, *PARALLEL)}
ASYNC_SAMPLERS = {SamplerCls.__name__: SamplerCls for SamplerCls in async_parts.SAMPLERS.values()}
SYNC_RUNNERS = {R.__name__: R for R in (MinibatchRl, MinibatchRlEval, SyncRl, SyncRlEval)}
ASYNC_RUNNERS = {R.__name__: R for R in (AsyncRl, AsyncRlEval)}
N_RANKS = {SyncRl: 2, SyncRlEval: 2}


def n_updates(name, n_itrs, n_ranks=1):
    """Updates of an algorithm in the first ``n_itrs`` batches of each of the processes."""
    first_itr = FIRST_STEPS // (STEPS * n_ranks) if name in REPLAY else 0
    return ALGOS[name].updates_per_itr * max(0, n_itrs - first_itr)


def make_runner(RunnerCls, SamplerCls, name, agent=None, **kwargs):
    """A run of :data:`N_ITRS` batches in each of the processes that train, with two log rows."""
    family = ALGOS[name]
    is_alternating = SamplerCls.alternating and family.is_recurrent
    make_agent = family.make_alternating_agent if is_alternating else family.make_agent
    n_ranks = N_RANKS.get(RunnerCls, 1)
    sampler = SamplerCls(
        EnvCls=family.EnvCls,
        env_kwargs={},
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
        eval_n_envs=2,
        eval_max_steps=2 * 2 * HORIZON,
    )
    sampler.example_subprocess = False
    affinity = WORKERS
    if n_ranks > 1:
        affinity, kwargs = [WORKERS] * n_ranks, {"start_method": "fork", **kwargs}
    if RunnerCls in ASYNC_RUNNERS.values():
        affinity = {"optimizer": [{"torch_threads": 1}], "sampler": WORKERS}
    return RunnerCls(
        algo=family.make_algo(),
        agent=agent or make_agent(),
        sampler=sampler,
        affinity=affinity,
        n_steps=N_ITRS * STEPS * n_ranks,
        log_interval_steps=N_ITRS * STEPS * n_ranks // 2,
        seed=3,
        **kwargs,
    )


def watch_ranks(algo, n_ranks):
    """Let every process look at its batches, and sum up what it has learned.

    Returns:
        [n_ranks] in shared memory, the sums after the last iteration.
    """
    sums = multiprocessing.get_context("fork").RawArray("d", n_ranks)
    optimize_agent = algo.optimize_agent

    def optimize_and_sum(itr, samples):
        if algo.agent.recurrent:
            states = samples.agent.agent_info.prev_rnn_state.h
            assert states_begin_with_episodes(states[1:], samples.env.done[:-1])
            assert states_follow_from_steps(algo.agent, samples)
        opt_info = optimize_agent(itr, samples)
        learned, _ = tree_flatten([algo.agent.state_dict(), algo.optim_state_dict()])
        sums[algo.rank] = sum(float(x.double().sum()) for x in learned if torch.is_tensor(x))
        return opt_info

    algo.optimize_agent = optimize_and_sum
    return sums


class Witness(Callback):
    """Notes what can be seen only while a run goes on."""

    def __init__(self):
        self.opt_infos = {}
        self.states_passed = []
        self.n_evals = 0
        self.pids = set()
        self._others = descendants()

    def on_start(self, runner):
        self.before = [p.detach().clone() for p in runner.agent.parameters()]
        children = multiprocessing.active_children()
        # What the library closes at the end still has the exit code.
        self.children = [child._popen for child in children if child.pid not in self._others]
        self.opt_infos = {name: [] for name in runner.algo.opt_info_fields}
        if runner.agent.recurrent:
            without_ddp(runner.agent.model).register_forward_pre_hook(self._note_state)

    def _note_state(self, model, inputs):
        if torch.is_grad_enabled():  # It is being trained.
            self.states_passed.append(inputs[3])

    def on_itr(self, runner, itr, traj_infos, opt_info):
        self.pids = self.pids or descendants() - self._others
        for name, values in self.opt_infos.items():
            values.extend(np.ravel(getattr(opt_info, name, [])))

    def on_eval(self, runner, itr, traj_infos):
        self.n_evals += 1


def all_parameters_have_changed(before, agent):
    after = list(agent.parameters())
    assert len(before) == len(after) > 2
    return all(torch.isfinite(p).all() for p in after) and not any(map(torch.equal, before, after))


def some_state_was_passed_on(states):
    """Whether the network was trained from what the agent remembered when it acted."""
    return any(state is not None and any(bool(part.any()) for part in state) for state in states)


def states_begin_with_episodes(states, done):
    """Whether recorded states are zero at the first step of an episode, and nowhere else.

    Args:
        states: [T,B,N,H] before each step.
        done: [T,B] after the step before that.
    """
    is_zero = ~np.asarray(numpify_buffer(states)).any(axis=(2, 3))
    done = np.asarray(done, bool)
    assert done.any()
    assert not done.all()
    return np.array_equal(is_zero, done)


def states_follow_from_steps(agent, samples):
    """Whether recorded states are what the network made of the step before and its state."""
    inputs = (samples.env.observation, samples.agent.prev_action, samples.env.prev_reward)
    inputs = [x[1:-1].flatten(0, 1)[None] for x in inputs]
    states = samples.agent.agent_info.prev_rnn_state
    before = buffer_func(states, lambda x: x[1:-1].flatten(0, 1).transpose(0, 1).contiguous())
    with torch.no_grad():
        after = agent(*inputs, before)[-1].h.transpose(0, 1)
    after = after.reshape(states.h[2:].shape)
    goes_on = ~(samples.env.done[:-2] | samples.env.done[1:-1])
    assert goes_on.any()
    return torch.allclose(states.h[2:][goes_on], after[goes_on], atol=1e-5)


def is_lowered(signal):
    return not signal.acquire(False)


def has_numbers(rows, name):
    """Whether a field of the algorithm has reached the log."""
    return any(math.isfinite(float(row[name + "Average"])) for row in rows)
