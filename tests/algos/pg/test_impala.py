"""IMPALA: the loss beside A2C's, time limits, the queue of batches."""

import copy
import threading
from types import SimpleNamespace

import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.envs import gym
from rlpyt.models.pg.generic_model import GenericFfModel
from rlpyt.runners.rate_limiter import RateLimiter
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.utils.buffer import map_buffer
from rlpyt.utils.seed import set_seed
from tests.algos.pg.parts import FF, Setup, lstm_agent

LIMITED = {"id": "CartPole-v1", "max_episode_steps": 3}


def made(algo, agent=None, **kwargs):
    """An algorithm that trains in turn with its sampler, from equal parameters."""
    set_seed(3)
    return Setup(algo, agent and agent(), **kwargs)


# --- The loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"normalize_advantage": True, "normalize_return": True}])
@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_the_policy_that_acted_is_updated_as_by_a2c(agent, CollectorCls, settings):
    setups = [
        made(AlgoCls(**settings), agent, T=8, CollectorCls=CollectorCls)
        for AlgoCls in (A2C, IMPALA)
    ]
    (expected,), (info,) = (setup.train() for setup in setups)
    for name in A2C.opt_info_fields:
        assert getattr(info, name) == pytest.approx(getattr(expected, name), rel=1e-4, abs=1e-5)
    first, second = (setup.parameters() for setup in setups)
    assert second == pytest.approx(first, abs=1e-5)
    assert info.rhoMean == pytest.approx(1, abs=1e-5)


class ConstantModel(GenericFfModel):
    """A model with the value 7 everywhere, except of what it learns."""

    def forward(self, observation, prev_action, prev_reward):
        *policy, value = super().forward(observation, prev_action, prev_reward)
        return (*policy, 0 * value + 7)


def test_the_last_value_stands_in_at_a_time_limit():
    agent = GenericFfAgent(ModelCls=ConstantModel, **FF)
    setup = made(IMPALA(), lambda: agent, EnvCls=gym.make, env_kwargs=LIMITED, T=3)
    samples = setup.sample()
    assert samples.env.env_info.timeout[-1].all()
    process_returns, found = setup.algo.process_returns, []
    setup.algo.process_returns = lambda batch: found.append(process_returns(batch)) or found[0]
    setup.algo.optimize_agent(0, samples)
    return_, advantage, _ = found[0]
    assert return_[-1].tolist() == [7.0] * 3
    assert advantage[-1].tolist() == [0.0] * 3


# --- The queue ----------------------------------------------------------------------------------


def begun():
    """IMPALA as an asynchronous runner sets it up."""
    setup = made(IMPALA(linear_lr_schedule=True))
    setup.algo.async_initialize(
        agent=setup.agent,
        sampler_n_itr=10,
        batch_spec=setup.sampler.batch_spec,
        mid_batch_reset=True,
        examples={**setup.examples, "batch": setup.sampler.samples_np},
    )
    setup.algo.optim_initialize()
    return setup


def test_each_batch_of_the_queue_is_trained_on_once():
    setup, direct = begun(), made(IMPALA(linear_lr_schedule=True))
    algo, batches = setup.algo, []
    for itr in range(2):  # Both are sampled before the first update.
        samples = setup.sample(itr)
        algo.replay_buffer.append_samples(algo.replay_entries(samples))
        batches.append(map_buffer(torch.clone, samples))
    for itr in range(2):
        algo.optimize_agent(itr, sampler_itr=1)
        direct.algo.optimize_agent(itr, batches[itr])
    assert setup.parameters() == direct.parameters()
    assert algo.batch_size == 15
    assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.001 * 0.8)
    empty = algo.optimize_agent(2, sampler_itr=1)
    assert empty.loss == []
    assert algo.update_counter == 2
    assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.001 * 0.7)


def test_a_state_has_the_batches_that_are_not_trained_on():
    setup = begun()
    for itr in range(3):
        setup.algo.replay_buffer.append_samples(setup.sample(itr))
    setup.algo.optimize_agent(0, sampler_itr=2)
    other = begun()
    other.agent.load_state_dict(setup.agent.state_dict())
    other.algo.load_state_dict(copy.deepcopy(setup.algo.state_dict()))
    for itr in range(1, 4):
        for each in (setup, other):
            each.algo.optimize_agent(itr, sampler_itr=2)
    assert setup.algo.update_counter == other.algo.update_counter == 3
    assert setup.parameters() == other.parameters()


def test_queue_holds_all_that_the_runner_lets_wait():
    """Most of all when an iteration has begun, and its batch is not yet taken."""
    setup, may_sample, n_batches = begun(), threading.Semaphore(0), 0
    queue = setup.algo.replay_buffer
    RateLimiter(SimpleNamespace(may_sample=may_sample), first=1, delta=1).advance()
    while may_sample.acquire(blocking=False):
        queue.append_samples(setup.algo.replay_entries(setup.sample(n_batches)))
        n_batches += 1
    assert n_batches == 4
    assert all(queue.next_batch() is not None for _ in range(n_batches))
