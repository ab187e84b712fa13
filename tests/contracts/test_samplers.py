"""All samplers give the same: batches field by field, trajectories, evaluations, states.

``N_WORKERS`` lists them with the numbers of workers to try. A further sampler is to be added there.
With ``RLPYT_FULL=1`` there are more numbers, and ``RaySampler``, whose actors take long to start.
"""

import copy
import itertools
from functools import cache

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import (
    AlternatingMlpPqnLstmAgent,
    MlpCatDqnAgent,
    MlpDqnAgent,
    MlpIqnAgent,
    MlpPqnLstmAgent,
    MlpR2d1Agent,
    MlpR2d1AlternatingAgent,
)
from rlpyt.agents.pg.generic import AlternatingGenericLstmAgent, GenericFfAgent, GenericLstmAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_lstm_agent import AlternatingSacLstmAgent, SacLstmAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.ray.sampler import RaySampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.sampler import VectorSampler
from rlpyt.utils.buffer import buffer_func
from tests.samplers.parallel_parts import (
    PARALLEL,
    AlternatingRule,
    ChanceAgent,
    CoinAgent,
    DiceEnv,
    RecurrentRule,
    RuleAgent,
    WalkEnv,
    as_dict,
    assert_equal,
    start,
)
from tests.samplers.parts import CountEnv
from tests.selection import FULL, pairs_of, selected

MAGIC = 77  # Shows in a cell that nobody writes.
B = 10  # Divides neither into three, nor its halves into two.
N_BATCHES = 3
# Three have parts of unequal size; so have four of an alternating sampler, which need to be even.
# Two are in the tests of ``ONE_OF_EACH``.
ODD, EVEN = ([1, 2, 3, 4], [2, 4]) if FULL else ([3], [4])
N_WORKERS = {VectorSampler: [0], **{Cls: EVEN if Cls.alternating else ODD for Cls in PARALLEL}}
if FULL:
    N_WORKERS[RaySampler] = [3]
SAMPLERS = [
    pytest.param(SamplerCls, n, id=f"{SamplerCls.__name__}-{n}")
    for SamplerCls, numbers in N_WORKERS.items()
    for n in numbers
]
WITH_WORKERS = [pytest.param(SamplerCls, 2, id=SamplerCls.__name__) for SamplerCls in PARALLEL]
ONE_OF_EACH = [pytest.param(VectorSampler, 0, id="VectorSampler"), *WITH_WORKERS]
if FULL:
    ONE_OF_EACH.append(pytest.param(RaySampler, 2, id="RaySampler"))
EVALUATION = dict(eval_n_envs=4, eval_max_steps=4 * 30)
LIMITS = {
    "steps": {},
    "trajectories": {"eval_max_trajectories": 5},
    "more trajectories than there are": {"eval_max_trajectories": 999},
    "episodes": {"eval_n_episodes": 7, "eval_max_steps": None},
    "fewer episodes than environments": {"eval_n_episodes": 3, "eval_max_steps": None},
    "episodes and steps": {"eval_n_episodes": 30},
}


@pytest.fixture(autouse=True)
def _cluster(request):
    """Actors join a cluster of two nodes."""
    if "RaySampler" in request.node.name:
        request.applymarker(pytest.mark.filterwarnings("ignore"))
        request.getfixturevalue("ray_cluster")


def with_collectors(samplers):
    """Each sampler with each kind of collector; a vector environment never waits."""
    return [
        pytest.param(*sampler.values, collector, id=f"{sampler.id}-{collector}")
        for sampler in samplers
        for collector in ("reset", "wait")
        if not (sampler.values[0] is VectorSampler and collector == "wait")
    ]


def thinned(samplers, values, aspects=pairs_of):
    """Enough samplers with collectors for every pair of a class or a collector and a value."""
    cells = {(*s.values, value): f"{s.id}-{value}" for s in samplers for value in values}
    return [pytest.param(*cell, id=cells[cell]) for cell in selected(cells, aspects)]


def make_agent(SamplerCls, kind):
    if kind != "recurrent":
        return RuleAgent() if kind == "feed-forward" else ChanceAgent()
    return AlternatingRule() if SamplerCls.alternating else RecurrentRule()


def fill(buffer):
    buffer_func(buffer, lambda x: x.fill(MAGIC))


def batch(sampler, itr):
    """Everything a batch gives, from a buffer in which all cells were spoilt before."""
    fill(sampler.samples_np)
    samples, infos = sampler.obtain_samples(itr)
    return as_dict(samples), [dict(info) for info in infos]


def assert_same_batch(actual, expected):
    assert_equal(actual[0], expected[0])
    assert actual[1] == expected[1]


def run(SamplerCls, n_workers, kind, collector, **kwargs):
    """Three batches, with an evaluation after the first."""
    sampler, agent = start(
        SamplerCls,
        n_workers,
        make_agent(SamplerCls, kind),
        batch_B=B,
        CollectorCls=collector,
        record_next_observation=True,
        env_kwargs=[{"offset": 100 * b} for b in range(B)],
        **EVALUATION,
        **kwargs,
    )
    batches = []
    for itr in range(N_BATCHES):
        agent.sample_mode(itr)
        batches.append(batch(sampler, itr))
        agent.train_mode(itr)
        if itr == 0:
            batches.append(({}, [dict(info) for info in sampler.evaluate_agent(itr)]))
    sampler.shutdown()
    return batches


@cache
def expected_run(kind, collector):
    return run(SerialSampler, 0, kind, collector)


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers", "collector", "kind"),
    thinned(with_collectors(SAMPLERS), ("feed-forward", "recurrent", "by chance")),
)
def test_batches_are_those_of_the_serial_sampler(SamplerCls, n_workers, collector, kind):
    expected = expected_run(kind, collector)
    actual = run(SamplerCls, n_workers, kind, collector)
    for a, b in zip(actual, expected, strict=True):
        assert_same_batch(a, b)


class CountsEpisodes(RuleAgent):
    """An agent that does something of its own for each episode."""

    n_episodes = 0

    def reset_one(self, idx):
        self.n_episodes += 1


@pytest.mark.parametrize("collector", ["reset", "wait"])
@pytest.mark.parametrize("SamplerCls", [SerialSampler, GpuSampler])
def test_agents_are_reset_once_for_each_episode(SamplerCls, collector):
    # Where environments waited, that was done in each blank row.
    sampler, agent = start(SamplerCls, agent=CountsEpisodes(), CollectorCls=collector)
    n_episodes = 0
    for itr in range(N_BATCHES):
        done = as_dict(sampler.obtain_samples(itr)[0])[".env.done"]
        n_episodes += (done if collector == "reset" else done.any(axis=0)).sum()
    sampler.shutdown()
    assert agent.n_episodes == n_episodes > 4


def test_the_case_is_not_trivial():
    """What is compared above has lost lives, resets, blanks, and all columns are different."""
    fields = {**expected_run("recurrent", "reset")[2][0]}
    done, over = fields[".env.done"], fields[".env.env_info.traj_done"]
    assert over.any()
    assert (done & ~over).any()
    assert (over & ~done).any()
    assert np.unique(fields[".env.reward"], axis=1).shape[1] == B
    assert len(np.unique(fields[".agent.action"])) == 4
    assert fields[".agent.agent_info.prev_rnn_state"].max() > 7, "states survive the batch"
    waiting = expected_run("recurrent", "wait")[2][0]
    ended = waiting[".env.done"] | waiting[".env.env_info.traj_done"]
    blank = np.cumsum(ended, axis=0)[:-1] > 0
    assert blank.any()
    assert waiting[".env.done"][1:][blank].all()
    for name in (".env.reward", ".env.env_info.draw", ".agent.action", ".env.observation.count"):
        assert not waiting[name][1:][blank].any(), name
    assert not any((array == MAGIC).any() for array in fields.values())


@pytest.mark.parametrize(
    ("SamplerCls", "method"),
    # Both send what a worker is made of. How CpuSampler spawns: tests/samplers.
    list(itertools.product(PARALLEL, ("spawn", "forkserver"))),
)
@pytest.mark.full
def test_every_start_method_gives_the_same(SamplerCls, method):
    actual = run(SamplerCls, 2, "recurrent", "wait", start_method=method)
    for a, b in zip(actual, expected_run("recurrent", "wait"), strict=True):
        assert_same_batch(a, b)


# --- Evaluation -----------------------------------------------------------------------------------


def evaluate(SamplerCls, n_workers, limits):
    agent = make_agent(SamplerCls, "by chance")
    sampler, agent = start(SamplerCls, n_workers, agent, **{**EVALUATION, **limits})
    results = []
    for itr in range(2):  # The second shows whether the first left everything as it was.
        agent.eval_mode(itr)
        results.append([dict(info) for info in sampler.evaluate_agent(itr)])
        agent.sample_mode(itr)
        results.append(batch(sampler, itr)[1])
    sampler.shutdown()
    return results


@cache
def expected_evaluation(limit):
    return evaluate(SerialSampler, 0, LIMITS[limit])


def aspects_of_limit(cell):
    """Every limit; every sampler with one of trajectories and of episodes (above: of steps)."""
    *sampler, limit = cell
    return {limit} | {(*sampler, key) for key in LIMITS[limit].keys() - {"eval_max_steps"}}


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers", "limit"),
    thinned(SAMPLERS if FULL else ONE_OF_EACH, LIMITS, aspects_of_limit),
)
def test_evaluations_are_those_of_the_serial_sampler(SamplerCls, n_workers, limit):
    # A limit of trajectories used to end in a TypeError (alternating), or to leave a semaphore
    # raised, so that all later evaluations were out of step (without overlap).
    actual = evaluate(SamplerCls, n_workers, LIMITS[limit])
    first, batch_1, second, batch_2 = expected_evaluation(limit)
    assert [actual[i] for i in (0, 1, 3)] == [first, batch_1, batch_2]
    if limit == "trajectories":
        # Workers that were ahead have drawn more from the streams of their environments.
        assert len(actual[2]) >= LIMITS[limit]["eval_max_trajectories"]
    elif SamplerCls is VectorSampler and "eval_n_episodes" in LIMITS[limit]:
        # All parts of a vector environment are stepped to the end, also the ones that are done.
        assert len(actual[2]) == len(second) or limit == "episodes and steps"
    else:
        assert actual[2] == second


def test_evaluations_end_at_their_limits():
    n_trajs = {limit: len(expected_evaluation(limit)[0]) for limit in LIMITS}
    assert 5 <= n_trajs["trajectories"] < n_trajs["steps"]
    assert n_trajs["steps"] == n_trajs["more trajectories than there are"]
    assert n_trajs["episodes"] == 7
    assert n_trajs["fewer episodes than environments"] == 3
    assert 7 < n_trajs["episodes and steps"] < 30


@pytest.mark.parametrize(("SamplerCls", "n_workers"), [(SerialSampler, 0), *ONE_OF_EACH])
def test_exactly_n_episodes_do_not_favour_short_ones(SamplerCls, n_workers):
    """Environment 0 of 2 has episodes ten times as long, and half of the trajectories are its."""
    sampler, _ = start(
        SamplerCls,
        n_workers,
        EnvCls=CountEnv,
        env_kwargs={"episode_steps": 3},
        eval_n_envs=2,
        eval_env_kwargs=[{"episode_steps": 30}, {"episode_steps": 3}],
        eval_n_episodes=4,
    )
    lengths = [info.Length for info in sampler.evaluate_agent(0)]
    sampler.shutdown()
    assert sorted(lengths) == [3, 3, 30, 30]


# --- Every trajectory once ------------------------------------------------------------------------


@pytest.mark.parametrize(("SamplerCls", "n_workers"), ONE_OF_EACH)
def test_every_trajectory_is_counted_once_and_at_once(SamplerCls, n_workers):
    # Infos that were still on their way used to be counted an iteration later, or never.
    sampler, _ = start(SamplerCls, n_workers, RuleAgent(), batch_T=20)
    for itr in range(12):
        samples, infos = sampler.obtain_samples(itr)
        assert len(infos) == int(samples.env.env_info.traj_done.sum())
    sampler.shutdown()


# --- Random actions -------------------------------------------------------------------------------


@pytest.mark.parametrize(("SamplerCls", "n_workers"), ONE_OF_EACH)
def test_random_actions_have_the_same_distribution(SamplerCls, n_workers):
    sampler, _ = start(SamplerCls, n_workers, CoinAgent(), batch_T=400)
    samples, _ = sampler.obtain_samples(0)
    actions = samples.agent.action.numpy().copy()
    sampler.shutdown()
    shares = np.bincount(actions.ravel(), minlength=5)[1:] / actions.size
    np.testing.assert_allclose(shares, 0.25, atol=0.045)  # Four deviations of the share.
    for b in range(1, actions.shape[1]):
        assert (actions[:, 0] == actions[:, b]).mean() < 0.4, "streams are different"


# --- Agents of the library ------------------------------------------------------------------------

EPSILON = dict(eps_init=0.3, eps_final=0.3, eps_eval=0.2)
SMALL = {"model_kwargs": {"hidden_sizes": [16]}}
SMALL_LSTM = {"model_kwargs": {"hidden_sizes": [16], "lstm_size": 16}}
# Class of the agent, that of alternating samplers, whether actions are continuous, settings.
AGENTS = {
    "epsilon-greedy": (MlpDqnAgent, MlpDqnAgent, False, EPSILON),
    "epsilon-greedy by atoms": (MlpCatDqnAgent, MlpCatDqnAgent, False, EPSILON),
    "random fractions": (MlpIqnAgent, MlpIqnAgent, False, dict(n_tau=4, **EPSILON)),
    "noisy network": (MlpDqnAgent, MlpDqnAgent, False, {"model_kwargs": {"noisy": True}}),
    "recurrent epsilon-greedy": (
        MlpR2d1Agent,
        MlpR2d1AlternatingAgent,
        False,
        {**SMALL_LSTM, **EPSILON},
    ),
    "recurrent PQN": (
        MlpPqnLstmAgent,
        AlternatingMlpPqnLstmAgent,
        False,
        {**SMALL_LSTM, **EPSILON},
    ),
    "categorical": (GenericFfAgent, GenericFfAgent, False, {}),
    "recurrent categorical": (GenericLstmAgent, AlternatingGenericLstmAgent, False, SMALL_LSTM),
    "Gaussian": (GenericFfAgent, GenericFfAgent, True, {}),
    "recurrent Gaussian": (GenericLstmAgent, AlternatingGenericLstmAgent, True, SMALL_LSTM),
    "TD3": (Td3Agent, Td3Agent, True, {**SMALL, "action_noise_clip": 0.2}),
    "SAC": (SacAgent, SacAgent, True, SMALL),
    "recurrent SAC": (SacLstmAgent, AlternatingSacLstmAgent, True, SMALL_LSTM),
}


def aspects_of_walk(cell):
    """Every agent and every sampler is tried, and every kind of agent acts in each way.

    It acts for the environments of a worker or for all; one with a state also for halves of them.
    """
    SamplerCls, n_workers, name = cell
    AgentCls, AlternatingCls, is_continuous, _ = AGENTS[name]
    has_state = AgentCls is not AlternatingCls
    kind, in_halves = (has_state, is_continuous), SamplerCls.alternating and has_state
    return {name, (SamplerCls is CpuSampler, in_halves, kind), (SamplerCls, n_workers)}


def walk(SamplerCls, n_workers, name, seed=3, EnvCls=WalkEnv):
    """Three batches of 40 steps with an untrained network, and an evaluation."""
    AgentCls, AlternatingCls, is_continuous, settings = AGENTS[name]
    torch.manual_seed(0)
    sampler, agent = start(
        SamplerCls,
        n_workers,
        (AlternatingCls if SamplerCls.alternating else AgentCls)(**settings),
        seed,
        EnvCls=EnvCls,
        env_kwargs={"is_continuous": is_continuous},
        batch_T=40,
        bootstrap_value=False,
        **EVALUATION,
    )
    torch.manual_seed(SamplerCls.alternating + n_workers)  # Not what actions depend on.
    results = []
    for itr in range(3):
        agent.sample_mode(itr)
        results.append(batch(sampler, itr))
        agent.train_mode(itr)
    agent.eval_mode(3)
    results.append(({}, [dict(info) for info in sampler.evaluate_agent(3)]))
    sampler.shutdown()
    return results


expected_walk = cache(lambda name: walk(SerialSampler, 0, name))


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers", "name"),
    selected([(*s.values, name) for s in SAMPLERS for name in AGENTS], aspects_of_walk),
)
def test_exploration_is_that_of_the_serial_sampler(SamplerCls, n_workers, name):
    """Exact actions, if they are discrete; all else as the network's outputs, which are not."""
    is_continuous = AGENTS[name][2]
    expected = expected_walk(name)
    actual = walk(SamplerCls, n_workers, name)
    for (fields, infos), (expected_fields, expected_infos) in zip(actual, expected, strict=True):
        assert fields.keys() == expected_fields.keys()
        for field, array in fields.items():
            is_near = is_continuous or field.startswith(".agent.agent_info")
            tolerance = 1e-4 if is_near and array.dtype == np.float32 else 0
            np.testing.assert_allclose(
                array, expected_fields[field], rtol=0, atol=tolerance, err_msg=field
            )
        assert infos == [pytest.approx(info, rel=0, abs=1e-3) for info in expected_infos]


class ScribblingEnv(WalkEnv):
    """Writes into the action that it is given, as one that changes units in place."""

    def step(self, action):
        step = super().step(action)
        action[:] = MAGIC
        return step


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers"),
    [
        pytest.param(SerialSampler, 0, id="SerialSampler"),
        *(s for s in ONE_OF_EACH if FULL or not s.values[0].alternating),
    ],
)
def test_environments_may_write_into_their_actions(SamplerCls, n_workers):
    """Agents used to be given what they had written, or batches recorded it."""
    actual = walk(SamplerCls, n_workers, "Gaussian", EnvCls=ScribblingEnv)
    for one, other in zip(actual, walk(SamplerCls, n_workers, "Gaussian"), strict=True):
        assert_same_batch(one, other)


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "noisy network"])
def test_agents_explore(name):
    """What is compared above differs between environments, steps and seeds."""
    first, second = (fields[".agent.action"] for fields, _ in expected_walk(name)[:2])
    other = walk(SerialSampler, 0, name, seed=4)[0][0][".agent.action"]
    for a, b in ((first, second), (first[:, :-1], first[:, 1:]), (first, other)):
        assert (a != b).mean() > 0.05
    assert expected_walk(name)[0][0][".env.done"].sum() > 15


# --- State ----------------------------------------------------------------------------------------


STATEFUL = with_collectors([pytest.param(SerialSampler, 0, id="SerialSampler"), *ONE_OF_EACH])


def aspects_of_state(cell):
    """Every sampler with each of its collectors, and every agent in workers or served."""
    SamplerCls, _, collector, AgentCls = cell
    return {(SamplerCls, collector), (AgentCls, hasattr(SamplerCls, "gpu"))}


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers", "collector", "AgentCls"),
    # None: one that acts by a rule.
    thinned(STATEFUL, (None, CoinAgent, ChanceAgent), aspects_of_state),
)
def test_goes_on_from_its_state(SamplerCls, n_workers, collector, AgentCls):
    def begin(seed):
        agent = AgentCls() if AgentCls else make_agent(SamplerCls, "recurrent")
        kwargs = dict(CollectorCls=collector, **EVALUATION)
        return start(SamplerCls, n_workers, agent, seed=seed, **kwargs)

    torch.manual_seed(1)
    sampler, agent = begin(seed=3)
    batch(sampler, 0)
    agent.train_mode(0)
    state, rng = copy.deepcopy(sampler.state_dict()), torch.get_rng_state()
    agent.sample_mode(1)
    expected = [batch(sampler, itr) for itr in (1, 2)]
    sampler.shutdown()

    other, agent = begin(seed=4)
    batch(other, 0)
    agent.train_mode(0)
    other.load_state_dict(state)
    if AgentCls is CoinAgent:
        torch.set_rng_state(rng)
    agent.sample_mode(1)
    actual = [batch(other, itr) for itr in (1, 2)]
    other.shutdown()
    for a, b in zip(actual, expected):
        assert_same_batch(a, b)


class ForgetfulEnv(DiceEnv):
    """Has a state, or says that it has none."""

    def __init__(self, has_state=True, **kwargs):
        super().__init__(**kwargs)
        self.has_state = has_state

    def state_dict(self):
        if not self.has_state:
            raise NotImplementedError("this one forgets")
        return super().state_dict()


@pytest.mark.parametrize(
    ("SamplerCls", "n_workers", "collector"),
    # The samplers that serve actions share their collectors.
    [s for s in STATEFUL if FULL or not issubclass(s.values[0], AlternatingSampler)],
)
def test_environments_without_a_state_begin_anew_and_the_others_go_on(
    SamplerCls, n_workers, collector
):
    def begin(seed):
        return start(
            SamplerCls,
            n_workers,
            make_agent(SamplerCls, "recurrent"),
            seed=seed,
            CollectorCls=collector,
            EnvCls=ForgetfulEnv,
            env_kwargs=[{"offset": 100 * b, "has_state": b not in (1, 2)} for b in range(4)],
        )

    sampler, agent = begin(seed=3)
    batch(sampler, 0)
    agent.train_mode(0)
    state = copy.deepcopy(sampler.state_dict())
    agent.sample_mode(1)
    continued, _ = batch(sampler, 1)
    sampler.shutdown()
    # A vector environment is saved as a whole, or not at all.
    lost = [0, 1, 2, 3] if SamplerCls is VectorSampler else [1, 2]
    assert sampler.envs_without_state(state) == dict.fromkeys(lost, "this one forgets")

    fresh, agent = begin(seed=4)
    agent.sample_mode(1)
    begun, _ = batch(fresh, 1)
    fresh.shutdown()

    other, agent = begin(seed=4)
    other.load_state_dict(state)
    agent.sample_mode(1)
    actual, infos = batch(other, 1)
    other.shutdown()
    assert len(infos) == actual[".env.env_info.traj_done"].sum()
    for name, array in actual.items():
        for b in range(4):
            expected = begun if b in lost else continued
            np.testing.assert_array_equal(array[:, b], expected[name][:, b], err_msg=name)


def test_a_state_of_other_sizes_is_refused():
    sampler, _ = start(PARALLEL[0], 2)
    state = sampler.state_dict()
    sampler.shutdown()
    other, _ = start(PARALLEL[0], 1)
    with pytest.raises(ValueError, match="resume with the same sampler, sizes and number"):
        other.load_state_dict(state)
    other.shutdown()
