"""The bonus for new observations: environments that wait, and a task that needs it."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.pg.rnd import RndPPO
from rlpyt.envs.base import Env, EnvStep
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from tests.learning.test_dqn import best_return

SETTINGS = {
    "learning_rate": 1e-3,
    "gae_lambda": 0.95,
    "minibatches": 4,
    "epochs": 4,
    "entropy_loss_coeff": 0.0,
}


class Chain(Env):
    """Walk right along 24 cells within 40 steps, for a reward at the end alone."""

    n_cells, time_limit = 24, 40

    def __init__(self):
        self._observation_space = FloatBox(-1, 1, shape=(2,))
        self._action_space = IntBox(0, 2)

    def reset(self):
        self.cell = self.n_steps = 0
        return self.observe()

    def step(self, action):
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        self.n_steps += 1
        is_end = self.cell == self.n_cells
        return EnvStep(self.observe(), float(is_end), is_end or self.n_steps == self.time_limit, ())

    def observe(self):
        x = self.cell / self.n_cells
        return np.array([2 * x - 1, np.sin(20 * x)], np.float32)


def make_runner(algo, CollectorCls=CpuResetCollector, **kwargs):
    batch = {"batch_T": 16, "batch_B": 4, "max_decorrelation_steps": 0}
    sampler = SerialSampler(Chain, {}, CollectorCls=CollectorCls, **batch)
    roles = {"algo": algo, "agent": GenericFfAgent(), "sampler": sampler}
    return MinibatchRl(**roles, log_interval_steps=64, seed=0, **kwargs)


@pytest.mark.full  # Below, with fewer steps, the bonus becomes small.
@pytest.mark.parametrize("seed", [1, 0, 2])
def test_a_distant_reward_is_found(seed):
    best = best_return(
        RndPPO(**SETTINGS),
        GenericFfAgent(),
        SerialSampler(Chain, {}, batch_T=64, batch_B=8, eval_n_envs=5, eval_max_steps=400),
        n_steps=4e4,
        threshold=0.9,
        seed=seed,
    )
    assert best >= 0.9, "without the bonus, seed 1 stays at 0"


def test_blank_rows_of_waiting_environments_do_not_count():
    algo = RndPPO(**SETTINGS)
    runner = make_runner(algo, n_steps=64, CollectorCls=CpuWaitResetCollector)
    runner.startup()
    try:
        samples, _ = runner.sampler.obtain_samples(0)
        samples.env.done[5, 1] = True
        samples.env.done[0, 3] = True
        counts = torch.ones(16, 4, dtype=torch.bool)
        counts[6:, 1] = counts[1:, 3] = False
        samples.env.observation[~counts] = 1e3
        reward = samples.env.reward.clone()
        x = samples.env.observation[counts]
        normal = ((x - x.mean(0)) / (x.std(0, correction=0) + 1e-8)).clamp(-5, 5)
        with torch.no_grad():
            errors = algo._errors(normal)
        opt_info = algo.optimize_agent(0, samples)
    finally:
        runner.shutdown()
    assert torch.equal(samples.env.reward, reward), "the sampler's batch is unchanged"
    torch.testing.assert_close(algo._seen.mean, x.mean(0))
    assert algo._seen.count == counts.sum() == 16 + 6 + 16 + 1
    assert opt_info.bonus == pytest.approx([float(errors.mean())], rel=1e-4)
    sums = torch.zeros(4)
    every = torch.zeros(16, 4)
    every[counts] = errors
    for t in range(16):
        sums[counts[t]] = algo.discount * sums[counts[t]] + every[t, counts[t]]
        every[t] = sums
    torch.testing.assert_close(algo._bonus_sum, sums, rtol=1e-4, atol=1e-6)
    std = every[counts].std(correction=0).double()
    torch.testing.assert_close(algo._bonus_std.std, std, rtol=1e-4, atol=1e-6)
