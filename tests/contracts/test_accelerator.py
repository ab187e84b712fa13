"""On an accelerator every algorithm computes the numbers of the CPU, and hardly ever waits for it.

One run of every algorithm, on the simulated device of ``tests.accelerator``: batches cross once,
nothing comes back but logged numbers and priorities.
"""

from collections import Counter
from functools import partial

import pytest
import torch
from torch.utils._pytree import tree_leaves

from rlpyt.algos.dqn.dqn import DQN
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.train import configuration
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from tests.accelerator import Accelerator, apart, is_supported
from tests.determinism import ddpg, dqn, pg, quantile, r2d1, sac
from tests.experiments.parts import MODULE
from tests.experiments.test_any_space import ALGORITHMS

pytestmark = pytest.mark.skipif(not is_supported, reason="this torch simulates no device")

N_UPDATES = 20
RUNS = {
    "A2C": pg.cartpole,
    "A2C-limits": pg.pendulum_a2c,
    "A2C-lstm": pg.maze_a2c,
    "IMPALA": pg.cartpole_impala,
    "PPO": pg.pendulum,
    "PPO-lstm": pg.maze_ppo,
    "PPO-kl": partial(pg.cartpole_kl, target_kl=1),
    "PPO-masks": pg.doors,
    "RndPPO": pg.cartpole_rnd,
    "DQN": dqn.cartpole,
    "M-DQN": dqn.cartpole_munchausen,
    "DQN-masks": dqn.doors,
    "PQN": dqn.cartpole_pqn,
    "PQN-lstm": dqn.cartpole_pqn_lstm,
    "C51": dqn.catch,
    "Rainbow": quantile.rainbow,
    "QR-DQN": quantile.qr_dqn,
    "IQN": quantile.iqn,
    "M-IQN": quantile.munchausen_iqn,
    "R2D1": r2d1.maze(CpuResetCollector),
    "R2D1-wait": r2d1.maze(CpuWaitResetCollector),
    "DDPG": ddpg.pendulum("ddpg"),
    "TD3": ddpg.pendulum("td3"),
    "D4PG": ddpg.pendulum("d4pg"),
    "SAC": sac.learned,
    "SAC-fixed": sac.fixed,
    "SAC-prior": sac.prior,
    "REDQ": sac.redq,
    "DroQ": sac.droq,
    "TQC": sac.tqc,
    "CrossQ": sac.crossq,
    "SAC_V": sac.sac_v,
    "DiscreteSAC": sac.discrete,
    "RecurrentSAC": sac.recurrent,
}


# Copies beyond one in for each update and one out for each iteration: (in, out) per iteration.
ALLOWED = {
    # Waiting environments do not count in the statistics of observations.
    "A2C-lstm": (2, 1),
    # Truncated episodes are found by the host.
    "A2C-limits": (2, 1),
    "PPO": (2, 1),
    "PQN-lstm": (1, 1),
    "PPO-kl": (0, 4),  # The divergence of each epoch.
}


class Leaking(DQN):
    """A loss that visits the host."""

    def loss(self, samples):
        loss, td_abs_errors = super().loss(samples)
        return loss.cpu().to(loss.device), td_abs_errors


def leaking(RunnerCls, **kwargs):
    runner = dqn.cartpole(RunnerCls, **kwargs)
    runner.algo = Leaking(**dqn.SETTINGS)
    return runner


RUNS["leaking"] = leaking


class Piecewise(MlpR2d1Model):
    """A model that runs piece by piece, since it does not take ``reset``."""

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        return super().forward(observation, prev_action, prev_reward, init_rnn_state)


def piecewise(RunnerCls, **kwargs):
    runner = RUNS["R2D1"](RunnerCls, **kwargs)
    runner.agent.ModelCls = Piecewise
    return runner


RUNS["R2D1-piecewise"] = piecewise


def on_dictionary(name):
    """A run on observations of a vector, an image and a choice."""

    def make(RunnerCls, seed, n_steps, log_interval_steps, affinity=None, compile=False):
        kind = "Continuous" if name == "sac" else "Discrete"
        words = [f"{MODULE}:{kind}-v0", *ALGORITHMS[name]]
        runner = runner_call(configuration(name, words, n_steps), seed, affinity).make()
        runner.algo.compile = compile
        return runner

    return make


RUNS |= {
    f"{name}-dict": on_dictionary(name) for name in ("dqn", "r2d1", "ppo", "sac", "sac_discrete")
}


class Trained:
    """A run of at least :data:`N_UPDATES` updates, and what crossed in acting and in updates.

    The first iteration of training does not count: constants are copied once.
    """

    def __init__(self, make, device, counts):
        runner = make(
            MinibatchRl, seed=1, n_steps=1e4, log_interval_steps=1e4, affinity={"cuda_idx": device}
        )
        algo, agent, sampler = runner.algo, runner.agent, runner.sampler
        runner.startup()
        self.acting, self.training = Counter(), Counter()
        self.n_acts = self.n_itrs = 0
        first = itr = 0
        while algo.update_counter < first + N_UPDATES:
            before = Counter(counts)
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            acted = Counter(counts) - before
            agent.train_mode(itr)
            before = Counter(counts)
            algo.optimize_agent(itr, samples)
            trained = Counter(counts) - before
            if first:
                self.acting += acted
                self.training += trained
                self.n_acts += len(samples.env.done) + algo.bootstrap_value
                self.n_itrs += 1
            first = first or algo.update_counter
            itr += 1
        runner.shutdown()
        self.n_updates = algo.update_counter - first
        self.n_draws = self.n_updates * getattr(algo, "prioritized_replay", False)
        self.parameters = [x.cpu() for x in tree_leaves(agent.state_dict())]


def compared(name):
    """Return a run on the device, without its parameters, and whether they equal the CPU's."""
    expected = Trained(RUNS[name], None, Counter())
    with Accelerator() as accelerator:
        run = Trained(RUNS[name], "sim:0", accelerator.counts)
    run.is_equal = all(map(torch.equal, expected.parameters, run.parameters))
    del run.parameters
    return run


@pytest.mark.parametrize("name", [name for name in RUNS if name != "leaking"])
def test_numbers_and_copies(name):
    run = apart(compared, name)
    assert run.is_equal
    more_in, more_out = ALLOWED.get(name, (0, 0))
    assert run.training["in"] <= run.n_updates + more_in * run.n_itrs
    assert run.training["out"] == (1 + more_out) * run.n_itrs + run.n_draws
    assert run.training["waits"] == 0
    # Noise of layers is drawn for a batch, other noise for 256 steps.
    assert run.n_acts <= run.acting["in"] <= run.n_acts + 3 * run.n_itrs
    assert run.acting["out"] == run.n_acts
    assert run.acting["waits"] == 0


def test_a_loss_that_visits_the_host_is_found():
    run = apart(compared, "leaking")
    assert run.training["out"] >= run.n_itrs + run.n_draws + run.n_updates


def places_of_lasting_tensors():
    """The devices of what compiled updates change, and of the numbers that change between them."""

    def make(RunnerCls, **kwargs):
        runner = RUNS["PPO"](RunnerCls, **kwargs)
        runner.algo.OptimCls = torch.optim.RMSprop  # Whose steps torch counts on the CPU.
        runner.algo.compile = {"backend": "eager"}  # Which does not compile for this device.
        made.append(runner.algo)
        return runner

    made = []
    with Accelerator():
        Trained(make, "sim:0", Counter())
        (algo,) = made
        ((_, lr, _, states),) = algo._compiler._steps[0]._groups
        std = algo._return_std
        tensors = [algo.ratio_clip, algo._n_skipped, lr, std.count, std.mean, std.squares]
        return {str(x.device) for x in tensors + [x for xs in states.values() for x in xs]}


def test_lasting_tensors_of_compiled_updates_are_on_the_device():
    assert apart(places_of_lasting_tensors) == {"sim:0"}


class Elsewhere(MlpDqnModel):
    """A model whose constant stays on the CPU."""

    def forward(self, *inputs):
        return super().forward(*inputs).cpu()


def outputs_elsewhere():
    def make(RunnerCls, **kwargs):
        runner = dqn.cartpole(RunnerCls, **kwargs)
        runner.agent.ModelCls = Elsewhere
        return runner

    with Accelerator():
        Trained(make, "sim:0", Counter())


def test_model_that_returns_tensors_of_another_device_is_refused():
    with pytest.raises(ValueError, match=r"Elsewhere returned tensors on \['cpu'\].*sim:0"):
        apart(outputs_elsewhere)


def with_cpu_outputs(name):
    def make(RunnerCls, **kwargs):
        runner = RUNS[name](RunnerCls, **kwargs)
        runner.agent.cpu_outputs = True
        return runner

    expected = Trained(RUNS[name], None, Counter())
    with Accelerator():
        run = Trained(make, "sim:0", Counter())
    pairs = zip(expected.parameters, run.parameters)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize("name", ["DQN", "PPO", "PPO-lstm", "R2D1", "TD3", "SAC-prior"])
def test_losses_on_the_cpu_as_in_0_1_2(name):
    # Gradients of SAC's policy come together in another order.
    assert apart(with_cpu_outputs, name) <= (1e-6 if name == "SAC-prior" else 0)
