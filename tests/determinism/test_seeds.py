"""Neighbouring runs have different environments: runs with other seeds share nothing."""

import random

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.core.records import EnvStep
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import seed_streams, set_seed
from tests.samplers.parallel_parts import WalkEnv

N_RUNS, N_NUMBERS = 8, 500


class NoiseEnv(WalkEnv):
    def seed(self, seed):
        super().seed(seed)
        self.noise = np.random.default_rng(seed).random(N_NUMBERS)


def begins(seed):
    """The noise of 8 training and 4 evaluation environments, and what their action spaces draw."""
    runner = MinibatchRlEval(
        algo=A2C(),
        agent=GenericFfAgent(model_kwargs={"hidden_sizes": [4]}),
        sampler=SerialSampler(
            NoiseEnv,
            {"is_continuous": True},
            batch_T=1,
            batch_B=8,
            max_decorrelation_steps=0,
            eval_n_envs=4,
            eval_max_steps=40,
        ),
        n_steps=8,
        seed=seed,
    )
    runner.startup()
    envs = [*runner.sampler.collector.envs, *runner.sampler.eval_collector.envs]
    runner.shutdown()
    actions = [np.ravel([env.action_space.sample() for _ in range(N_NUMBERS // 2)]) for env in envs]
    return [env.noise for env in envs], actions


def test_environments_of_neighbouring_runs_have_nothing_in_common():
    # Environment i had the seed of the run plus i, and its action space had it again.
    with logger.using(logger.Logger(sinks=[])):
        numbers = np.array([begins(seed) for seed in range(N_RUNS)]).reshape(-1, N_NUMBERS)
    assert len(numbers) == N_RUNS * (8 + 4) * 2
    assert len(np.unique(numbers[:, 0])) == len(numbers)
    correlations = np.corrcoef(numbers)[np.triu_indices(len(numbers), k=1)] * N_NUMBERS**0.5
    assert abs(correlations).max() < 6  # Deviations: 4.4 are expected of so many.
    assert correlations.std() == pytest.approx(1, abs=0.03)
    assert abs(correlations.mean()) < 0.03


def drawn():
    return torch.rand(()).item(), np.random.random(), random.random()


class SeedingEnv(WalkEnv):
    """Seeds all global generators wherever it can, and shows numbers of them as its reward."""

    is_seeding = True

    def __init__(self, **kwargs):
        self._begin()
        super().__init__(**kwargs)

    def _begin(self):
        if self.is_seeding:
            seed_streams(5)

    def reset(self):
        self._begin()
        return super().reset()

    def step(self, action):
        self._begin()
        observation, _, done, info = super().step(action)
        return EnvStep(observation, np.float32(sum(drawn())), done, info)


class DrawingEnv(SeedingEnv):
    """Only draws from the global generators."""

    is_seeding = False


def make_sampler(EnvCls, seed=0):
    sampler = SerialSampler(EnvCls, {}, batch_T=4, batch_B=2, eval_n_envs=1, eval_max_steps=8)
    set_seed(seed)
    sampler.initialize(GenericFfAgent(model_kwargs={"hidden_sizes": [4]}), seed=seed)
    seed_streams(seed + 1)
    return sampler


def trainer_numbers(sampler, n_itr=3):
    rewards, numbers = [], []
    for itr in range(n_itr):
        rewards.append(sampler.obtain_samples(itr)[0].env.reward.numpy().copy())
        numbers.extend(drawn())
    return rewards, numbers


@pytest.mark.parametrize("EnvCls", [SeedingEnv, DrawingEnv])
def test_environments_do_not_reach_the_generators_of_the_trainer(EnvCls):
    # An environment that seeded torch in reset repeated the noise of every iteration.
    _, expected = trainer_numbers(make_sampler(WalkEnv))
    _, numbers = trainer_numbers(make_sampler(EnvCls))
    assert numbers == expected
    assert len(set(numbers)) == len(numbers)


def test_environments_do_not_fix_the_initial_weights():
    models = [make_sampler(SeedingEnv, seed).agent.model for seed in (0, 1)]
    first, second = (torch.nn.utils.parameters_to_vector(m.parameters()) for m in models)
    assert not torch.equal(first, second)


def test_environments_that_draw_globally_are_reproducible_and_go_on_from_a_state():
    sampler, other = make_sampler(DrawingEnv), make_sampler(DrawingEnv)
    first = trainer_numbers(sampler)[0]
    np.testing.assert_equal(trainer_numbers(other)[0], first)
    assert len(np.unique(first)) == np.size(first)
    state = sampler.state_dict()
    expected = trainer_numbers(sampler)[0]
    other = make_sampler(DrawingEnv, seed=7)
    other.load_state_dict(state)
    np.testing.assert_equal(trainer_numbers(other)[0], expected)
