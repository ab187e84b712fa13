"""On an accelerator every algorithm computes the numbers of the CPU, and hardly ever waits for it.

A run of every algorithm, on the devices of ``tests.accelerator``: batches cross once, nothing comes
back but logged numbers and priorities. Then all kinds of replay buffers: by default
enough cells that every two aspects of one meet, with ``RLPYT_FULL=1`` with every algorithm. Last,
samplers whose agent acts for worker processes.
"""

import itertools
import math
from collections import Counter
from functools import partial
from typing import NamedTuple

import pytest
import torch
from torch.utils._pytree import tree_leaves

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.experiments.catalog import ALGORITHMS as CATALOG, load
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.train import configuration
from rlpyt.models.dqn.mlp_dqn_model import MlpDqnModel
from rlpyt.models.dqn.mlp_r2d1_model import MlpR2d1Model
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.utils.buffer import buffer_method, buffer_to, leaves
from tests.accelerator import GPU, ROUNDING, SIMULATED, apart, on_each_device, present
from tests.determinism import ddpg, dqn, pg, quantile, r2d1, sac
from tests.determinism.test_runs import use_sampler
from tests.experiments.parts import MODULE
from tests.experiments.test_any_space import ALGORITHMS
from tests.selection import FULL, pairs_of, selected

N_UPDATES = 5
LENGTH = {"seed": 1, "n_steps": 1e4, "log_interval_steps": 1e4}
RUNS = {
    "A2C": pg.cartpole,
    "A2C-limits": pg.pendulum_a2c,
    "A2C-lstm": pg.maze_a2c,
    "IMPALA": pg.cartpole_impala,
    "IMPALA-lstm": pg.maze_impala,
    "PPO": pg.pendulum,
    "PPO-lstm": pg.maze_ppo,
    "PPO-kl": partial(pg.cartpole_kl, target_kl=1),
    "PPO-masks": pg.doors,
    "RndPPO": pg.cartpole_rnd,
    "DQN": dqn.cartpole,
    "M-DQN": dqn.cartpole_munchausen,
    "DQN-masks": dqn.doors,
    "DQN-hindsight": dqn.lock,
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
    "IMPALA-lstm": (2, 1),
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

    The first iteration of training does not count: constants are copied once. ``results`` are the
    parameters and the last batch of the sampler.
    """

    def __init__(self, make, device, counts):
        runner = make(MinibatchRl, **LENGTH, affinity={"cuda_idx": device})
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
                n_groups = len(getattr(sampler, "groups", [agent]))
                self.n_acts += n_groups * (len(samples.env.done) + algo.bootstrap_value)
                self.n_itrs += 1
            first = first or algo.update_counter
            itr += 1
        runner.shutdown()
        self.n_updates = algo.update_counter - first
        self.n_draws = self.n_updates * getattr(algo, "prioritized_replay", False)
        self.parameters = [x.cpu() for x in tree_leaves(agent.state_dict())]
        self.results = [*self.parameters, *leaves(buffer_method(samples, "clone"))]


def run_of(name):
    return RUNS[name]


def relative_difference(x, expected):
    if not expected.is_floating_point():
        return 0 if torch.equal(x, expected) else math.inf
    return (x - expected).norm().item() / max(expected.norm().item(), 1)


def compared(device, make_of, *args):
    """Return the run ``make_of(*args)`` on the device, compared with the same on the CPU."""
    make = make_of(*args)
    expected = Trained(make, None, Counter())
    with present(device) as accelerator:
        run = Trained(make, device, accelerator.counts)
    run.difference = max(map(relative_difference, run.results, expected.results))
    run.device, run.places = device, accelerator.places
    del run.parameters, run.results
    return run


# On a GPU: Adam scales up the rounding of gradients near zero.
CLOSE = {"PPO-masks": 1e-3, "CrossQ": 2e-3}


def check(run, more_in=0, more_out=0, n_cuts=0, rounding=None):
    """Raise ``AssertionError`` unless a run computed the CPU's numbers with few copies.

    Args:
        more_in, more_out: copies in one iteration beyond a batch in each update, and logged values.
        n_cuts: copies in each direction in one update, for sequences that are on the device before
            they are cut.
        rounding: greatest difference on a GPU, instead of the usual one.
    """
    is_other = rounding is not None and run.device == GPU
    assert run.difference <= (rounding if is_other else ROUNDING[run.device])
    assert run.training["in"] <= (1 + n_cuts) * run.n_updates + more_in * run.n_itrs
    n_out = (1 + more_out) * run.n_itrs + run.n_draws + n_cuts * run.n_updates
    assert run.training["out"] == n_out
    assert run.training["waits"] == 0, run.places
    # Noise of layers is drawn for a batch, other noise for 256 steps.
    assert run.n_acts <= run.acting["in"] <= run.n_acts + 3 * run.n_itrs
    assert run.acting["out"] == run.n_acts
    assert run.acting["waits"] == 0, run.places


# With ``RLPYT_FULL=1``: others compute what these do, and replay buffers below store dictionaries.
REPEATED = {
    *("A2C", "IMPALA", "PPO-lstm", "PPO-masks", "DQN-masks", "M-DQN", "PQN", "C51", "M-IQN"),
    *("R2D1-wait", "R2D1-piecewise", "DDPG", "SAC-fixed", "SAC-prior", "REDQ", "DroQ", "TQC"),
    *("dqn-dict", "r2d1-dict", "ppo-dict", "sac-dict", "sac_discrete-dict"),
    *("IMPALA-lstm", "PQN-lstm", "SAC_V"),
}
LEFT_OUT = {"leaking"} | (set() if FULL else REPEATED)


@on_each_device
@pytest.mark.parametrize("name", [name for name in RUNS if name not in LEFT_OUT])
def test_numbers_and_copies(name, device):
    run = apart(compared, device, run_of, name)
    check(run, *ALLOWED.get(name, ()), rounding=CLOSE.get(name))


@on_each_device
def test_a_loss_that_visits_the_host_is_found(device):
    run = apart(compared, device, run_of, "leaking")
    assert run.training["out"] >= run.n_itrs + run.n_draws + run.n_updates
    with pytest.raises(AssertionError):
        check(run)


def test_every_algorithm_has_a_run():
    found = {type(make(MinibatchRl, **LENGTH).algo) for make in RUNS.values()}
    for name, algorithm in CATALOG.items():
        assert any(issubclass(cls, load(algorithm.name)) for cls in found), name


# --- Replay buffers -------------------------------------------------------------------------------

DEEP_Q = ("DQN", "M-DQN", "C51", "Rainbow", "QR-DQN", "IQN", "M-IQN")
CONTINUOUS = ("DDPG", "TD3", "D4PG", "SAC", "REDQ", "DroQ", "TQC", "CrossQ", "SAC_V")
SEQUENCES = ("R2D1", "RecurrentSAC")


class Cell(NamedTuple):
    """An algorithm with a kind of replay buffer, and observations that it stores."""

    name: str
    observation: str  # "vector", "frames" (each stored once) or "dict"
    is_prioritized: bool
    limits: str  # Episodes at time limits "end", are left "out", or their "last" values are used.
    is_on_device: bool

    def __str__(self):
        draw = "prioritized" if self.is_prioritized else "uniform"
        place = "device" if self.is_on_device else "host"
        return f"{self.name}-{self.observation}-{draw}-{self.limits}-{place}"

    @property
    def is_possible(self):
        is_deep_q = self.name in (*DEEP_Q, "R2D1")
        if self.is_prioritized and not (is_deep_q or self.name == "D4PG"):
            return False
        if self.observation == "frames" and not is_deep_q:
            return False
        # Buffers of frames do not keep last observations.
        return self.limits != "last" or self.observation != "frames"

    def environment(self):
        """The class of an environment of short episodes, and its arguments."""
        is_continuous = self.name in (*CONTINUOUS, "RecurrentSAC")
        if self.observation == "frames":
            return Truncated, {}
        if self.observation == "dict":
            kind = "Continuous" if is_continuous else "Discrete"
            return gym.make, {"id": f"{MODULE}:{kind}-v0", "max_episode_steps": 4}
        env_id = "Pendulum-v1" if is_continuous else "CartPole-v1"
        return gym.make, {"id": env_id, "max_episode_steps": 7}


class Truncated(Catch):
    """Catch with small images and a time limit before the ball is down."""

    def __init__(self):
        super().__init__(img_shape=(10, 10), num_img_obs=3)
        self._horizon = 7


def with_replay(cell):
    def make(RunnerCls, **kwargs):
        runner = RUNS[cell.name](RunnerCls, **kwargs)
        algo, sampler = runner.algo, runner.sampler
        algo.prioritized_replay = cell.is_prioritized
        algo.bootstrap_timelimit = cell.limits != "end"
        algo.replay_device = "agent" if cell.is_on_device else None
        sampler.record_next_observation = cell.limits == "last"
        sampler.EnvCls, sampler.env_kwargs = cell.environment()
        if cell.name in ("C51", "Rainbow"):  # Instead of an agent for images alone.
            layers = {"noisy": True, "dueling": True} if cell.name == "Rainbow" else {}
            runner.agent = MlpCatDqnAgent(n_atoms=7, model_kwargs=layers)
        return runner

    return make


def aspects(cell):
    """Any two of the family of an algorithm and what is stored, how it is drawn, and where."""
    name, *kind = cell
    families = {"deep Q": DEEP_Q, "sequences": SEQUENCES}
    family = next((key for key, names in families.items() if name in names), "actor-critic")
    return pairs_of((family, *kind))


CELLS = itertools.starmap(
    Cell,
    itertools.product(
        (*DEEP_Q, *CONTINUOUS, "DiscreteSAC", *SEQUENCES),
        ("vector", "frames", "dict"),
        (False, True),
        ("end", "out", "last"),
        (False, True),
    ),
)
CELLS = [cell for cell in CELLS if cell.is_possible]


@on_each_device
@pytest.mark.parametrize("cell", selected(CELLS, aspects), ids=str)
def test_replay_buffers(cell, device):
    run = apart(compared, device, with_replay, cell)
    # New rows are copied to the device, and where its sequences are cut is read from there.
    n_cuts = cell.is_on_device and cell.name in SEQUENCES
    check(run, more_in=3 * cell.is_on_device, n_cuts=n_cuts)


# --- Action servers -------------------------------------------------------------------------------


def with_server(name, SamplerCls):
    def make(RunnerCls, affinity, **kwargs):
        runner = RUNS[name](RunnerCls, **kwargs)
        use_sampler(runner, SamplerCls, n_workers=2)
        runner.affinity = {**runner.affinity, **affinity}
        return runner

    return make


SERVED = itertools.product(
    ("DQN", "PPO", "SAC", "A2C-lstm", "R2D1"), (GpuSampler, AlternatingSampler)
)


def is_recurrent_and_sampler(cell):
    name, SamplerCls = cell
    return {(name in ("A2C-lstm", "R2D1"), SamplerCls)}


@on_each_device
@pytest.mark.parametrize(("name", "SamplerCls"), selected(SERVED, is_recurrent_and_sampler))
def test_action_servers(name, SamplerCls, device):
    check(apart(compared, device, with_server, name, SamplerCls), *ALLOWED.get(name, ()))


# --- What must lie on the device, and what may not ------------------------------------------------


def crossing(device):
    x = torch.arange(24.0).reshape(2, 3, 4)
    some = (x, x.mT, x[:, 1], x[0, 0, 1], x[:, :0], x > 3, x.double(), x.to(torch.int16)[..., 1:2])
    with present(device) as counted:
        there = buffer_to(some, device)
        back = buffer_to(there, "cpu")
        assert counted.counts == {"in": 1, "out": 1}, counted.counts
        strides = [y.stride() for y in there]
    for before, after, stride in zip(some, back, strides):
        assert after.dtype == before.dtype
        assert torch.equal(after, before)
        assert stride == before.contiguous().stride()


@on_each_device
def test_tensors_of_all_layouts_cross_in_one_copy(device):
    apart(crossing, device)


def places_of_lasting_tensors(device):
    """The devices of what compiled updates change, and of the numbers that change between them."""

    def make(RunnerCls, **kwargs):
        runner = RUNS["PPO"](RunnerCls, **kwargs)
        runner.algo.OptimCls = torch.optim.RMSprop  # Whose steps torch counts on the CPU.
        runner.algo.compile = {"backend": "eager"}  # Which does not compile for this device.
        made.append(runner.algo)
        return runner

    made = []
    with present(device):
        Trained(make, device, Counter())
        (algo,) = made
        ((_, lr, _, states),) = algo._compiler.steps._steps[0]._groups
        std = algo._return_std
        tensors = [algo.ratio_clip, algo._n_skipped, lr, std.count, std.mean, std.squares]
        return {str(x.device) for x in tensors + [x for xs in states.values() for x in xs]}


@on_each_device
def test_lasting_tensors_of_compiled_updates_are_on_the_device(device):
    assert apart(places_of_lasting_tensors, device) == {device}


class Elsewhere(MlpDqnModel):
    """A model whose constant stays on the CPU."""

    def forward(self, *inputs):
        return super().forward(*inputs).cpu()


def outputs_elsewhere(device):
    def make(RunnerCls, **kwargs):
        runner = dqn.cartpole(RunnerCls, **kwargs)
        runner.agent.ModelCls = Elsewhere
        return runner

    with present(device):
        Trained(make, device, Counter())


@on_each_device
def test_model_that_returns_tensors_of_another_device_is_refused(device):
    with pytest.raises(ValueError, match=rf"Elsewhere returned tensors on \['cpu'\].*{device}"):
        apart(outputs_elsewhere, device)


def with_cpu_outputs(device, name):
    def make(RunnerCls, **kwargs):
        runner = RUNS[name](RunnerCls, **kwargs)
        runner.agent.cpu_outputs = True
        return runner

    expected = Trained(RUNS[name], None, Counter())
    with present(device):
        run = Trained(make, device, Counter())
    pairs = zip(expected.parameters, run.parameters)
    return max((a - b).abs().max().item() for a, b in pairs)


@on_each_device
@pytest.mark.parametrize("name", ["DQN", "PPO-lstm", "SAC-prior", *["PPO", "R2D1", "TD3"] * FULL])
def test_losses_on_the_cpu_as_in_0_1_2(name, device):
    # Gradients of SAC's policy come together in another order.
    limit = 1e-6 if name == "SAC-prior" else 0
    assert apart(with_cpu_outputs, device, name) <= (limit if device == SIMULATED else 1e-5)
