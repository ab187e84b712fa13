"""Neighbouring runs have different environments: runs with other seeds share nothing."""

import numpy as np
import pytest

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from tests.samplers.parallel_parts import WalkEnv

N_RUNS, N_NUMBERS = 20, 500


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
    assert abs(correlations).max() < 6  # Deviations: 4.9 are expected of so many.
    assert correlations.std() == pytest.approx(1, abs=0.01)
    assert abs(correlations.mean()) < 0.01
