"""Runs with other seeds share nothing; one with the same seed is the same from every sampler.

By default every two of family of algorithms, sampler and evaluation meet in a cell; with
``RLPYT_FULL=1`` all three of algorithm, sampler and evaluation do.
"""

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger
from tests.determinism.test_runs import CASES, FAMILY_OF, run
from tests.samplers.parallel_parts import WalkEnv
from tests.selection import selected

# --- Neighbouring runs ----------------------------------------------------------------------------

N_RUNS, N_NUMBERS = 50, 500


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
    envs = [*runner.sampler.envs, *runner.sampler.eval_envs]
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
    assert abs(correlations).max() < 6  # Deviations: 5.1 are expected of so many.
    assert correlations.std() == pytest.approx(1, abs=0.01)
    assert abs(correlations.mean()) < 0.01


# --- Samplers -------------------------------------------------------------------------------------

SERIAL = ("serial", 0)
SAMPLERS = [SERIAL, ("cpu", 1), ("cpu", 2), ("gpu", 2), ("alternating", 2), ("vector", 0)]
IN_HALVES = SAMPLERS[2], SAMPLERS[4]
NAMES = [name for name in CASES if not name.endswith(" eval")]  # Here all are evaluated.
WAITING = ("r2d1 waiting", "a2c lstm")  # A vector environment never waits.
# What these have computed to act is trained on, and a network that acts for half as many
# environments at once gives other last digits: values, probabilities and continuous actions.
WITH_OUTPUTS = ("ddpg", "td3", "d4pg", "sac", "ppo", "a2c")
CELLS = [
    (name, sampler, evaluates)
    for name, sampler, evaluates in itertools.product(NAMES, SAMPLERS, (False, True))
    if (sampler, evaluates) != (SERIAL, False) and not (name in WAITING and sampler[0] == "vector")
]


def aspects(cell):
    """Every algorithm is tested, and pairs of its family, sampler and evaluation."""
    name, sampler, evaluates = cell
    family = FAMILY_OF.get(name)
    return {name, (family, sampler), (family, evaluates), (sampler, evaluates)}


def parameters(name, sampler, evaluates, directory):
    kind, n_workers = sampler
    RunnerCls = MinibatchRlEval if evaluates else MinibatchRl
    snapshot = run(CASES[name][0], RunnerCls, directory, sampler=kind, n_workers=n_workers)
    return torch.utils._pytree.tree_leaves(snapshot["agent_state_dict"])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return cache(lambda name: parameters(name, SERIAL, False, tmp_path_factory.mktemp("serial")))


@pytest.mark.parametrize(("name", "sampler", "evaluates"), selected(CELLS, aspects))
def test_parameters_are_those_of_the_serial_sampler(name, sampler, evaluates, expected, tmp_path):
    # Buffers and minibatches were seeded after environments that are made in the process.
    actual = parameters(name, sampler, evaluates, tmp_path)
    is_near = sampler in IN_HALVES and name.startswith(WITH_OUTPUTS)
    torch.testing.assert_close(actual, expected(name), rtol=0, atol=1e-5 if is_near else 0)
