import copy
import math

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent, MujocoLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.base import OptInfo
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs import gym
from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.toy import Counter
from rlpyt.models.autocast import Autocast
from rlpyt.models.pg.generic_model import GenericFfModel, GenericLstmModel
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.collections import namedarraytuple
from tests.algos.pg.parts import FF, LSTM, Recorder, Setup, lstm_agent
from tests.models.test_autocast import has_bfloat16_lstm
from tests.reference.policy_gradient import naive_gae, normalized

PENDULUM = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1"}}
COLLECTORS = [CpuResetCollector, CpuWaitResetCollector]
AGENTS = [lambda: None, lstm_agent]


# --- The loss -----------------------------------------------------------------------------------


def disturb(agent):
    """Change the policy a little, so that ratios are not 1."""
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_rows_of_waiting_environments_count_in_nothing(AlgoCls, agent, normalize):
    """Episodes of a batch end together: the rest of it changes no number of an update."""
    settings = {"minibatches": 1, "epochs": 1} if AlgoCls is PPO else {}
    waits = {"EnvCls": Counter, "env_kwargs": {"length": 3}, "CollectorCls": CpuWaitResetCollector}
    algo = AlgoCls(normalize_advantage=normalize, **settings)
    setup = Setup(algo, agent(), **waits, T=8)
    samples = setup.sample()
    assert samples.env.done[2].all()
    disturb(setup.agent)
    state = copy.deepcopy((setup.agent.state_dict(), algo.optim_state_dict()))
    infos = []
    for batch in (samples, samples[:3]):
        setup.agent.load_state_dict(state[0])
        algo.load_optim_state_dict(copy.deepcopy(state[1]))
        algo.batch_spec = algo.batch_spec._replace(T=len(batch.env.done))
        infos.append(algo.optimize_agent(0, batch))
    for whole, cut in zip(*infos, strict=True):
        assert whole == pytest.approx(cut, rel=1e-4)


def assert_only_the_first_ratios_are_one(algo, atol):
    assert torch.allclose(algo.ratios[0], torch.ones(()), atol=atol)
    assert not torch.allclose(algo.ratios[-1], torch.ones(()), atol=1e-4)
    algo.ratios.clear()


@pytest.mark.parametrize(
    ("AgentCls", "kwargs"), [(MujocoFfAgent, {}), (MujocoLstmAgent, LSTM)], ids=["ff", "lstm"]
)
def test_first_ratio_is_one_while_observations_are_normalised(AgentCls, kwargs):
    # Statistics were updated between acting and training: the policy had changed before.
    settings = {"normalize_observation": True, **kwargs.get("model_kwargs", {})}
    setup = Setup(Recorder(minibatches=2), AgentCls(model_kwargs=settings), **PENDULUM, T=8, B=4)
    for itr in range(3):
        before = setup.agent.model.obs_rms.count.item()
        setup.train(itr, itr + 1)
        assert_only_the_first_ratios_are_one(setup.algo, atol=1e-4)
        assert setup.agent.model.obs_rms.count.item() == before + 32


LSTM_MARK = pytest.mark.skipif(not has_bfloat16_lstm(), reason="no bfloat16 LSTM here")


@pytest.mark.parametrize(
    ("AgentCls", "ModelCls"),
    [
        (GenericFfAgent, GenericFfModel),
        pytest.param(GenericLstmAgent, GenericLstmModel, marks=LSTM_MARK),
    ],
    ids=["ff", "lstm"],
)
def test_first_ratio_is_one_in_lower_precision(AgentCls, ModelCls):
    # The policy acts in float32 and was compared with its outputs in bfloat16.
    agent = AgentCls(ModelCls=Autocast(ModelCls))
    setup = Setup(Recorder(minibatches=3, learning_rate=0.01), agent, T=16, B=6)
    for itr in range(3):
        setup.train(itr, itr + 1)
        assert_only_the_first_ratios_are_one(setup.algo, atol=1e-6)


def test_blank_rows_are_no_observations():
    env = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1", "max_episode_steps": 3}}
    agent = MujocoFfAgent(model_kwargs={"normalize_observation": True})
    setup = Setup(A2C(), agent, **env, T=8, B=4, CollectorCls=CpuWaitResetCollector)
    setup.train()
    assert agent.model.obs_rms.count.item() == 3 * 4


class Narrow(Env):
    """Many actions of a small range; an episode takes three steps."""

    def __init__(self):
        self._observation_space = FloatBox(-1, 1, shape=(2,))
        self._action_space = FloatBox(-0.01, 0.01, shape=(21,))

    def reset(self):
        self.t = 0
        return np.zeros(2, dtype=np.float32)

    def step(self, action):
        self.t += 1
        return EnvStep(np.full(2, 0.1 * self.t, dtype=np.float32), 1.0, self.t == 3, ())


def test_ratios_of_blank_rows_do_not_overflow():
    """Their old policy has mean 0 and deviation 1, as all that is blank; the loss was NaN."""
    algo = PPO(minibatches=1, epochs=2)
    setup = Setup(algo, lstm_agent(), EnvCls=Narrow, T=6, CollectorCls=CpuWaitResetCollector)
    (info,) = setup.train()
    assert np.isfinite([*info.loss, *info.gradNorm, *info.approxKL]).all()


# --- Returns and advantages ---------------------------------------------------------------------


@pytest.mark.parametrize("gae_lambda", [1, 0.95])
@pytest.mark.parametrize(
    ("options", "CollectorCls"),
    [
        ({}, CpuResetCollector),
        ({"normalize_return": True}, CpuResetCollector),
        ({"normalize_return": True}, CpuWaitResetCollector),
        ({"normalize_advantage": True}, CpuWaitResetCollector),
    ],
)
def test_targets_like_their_naive_twin(options, CollectorCls, gae_lambda):
    # Episodes of 4 steps are cut by a time limit, and the values behind it are known.
    env = {"EnvCls": Counter, "env_kwargs": {"length": 4, "time_limit": True}}
    algo = A2C(discount=0.9, gae_lambda=gae_lambda, **options)
    setup = Setup(algo, **env, T=6, B=2, CollectorCls=CollectorCls, record_next_observation=True)
    samples, n_rows = setup.sample(), 4 if CollectorCls is CpuWaitResetCollector else 6
    last_value = algo.with_last_values(samples).env.last_value
    unit, seen = 1.0, []
    for _ in range(2):  # Then values are in units of the first returns' deviation.
        found = algo.process_returns(samples)[:2]
        reward = samples.env.reward + 0.9 * unit * last_value
        value, end = (
            unit * x for x in (samples.agent.agent_info.value, samples.agent.bootstrap_value[0])
        )
        columns = zip(reward.T.tolist(), value.T.tolist(), samples.env.done.T.tolist(), end)
        each = [naive_gae(*column, 0.9, gae_lambda)[:n_rows] for column in columns]
        advantage = torch.tensor(each).T
        return_ = advantage + value[:n_rows]
        if "normalize_return" in options:
            seen += return_.flatten().tolist()
            unit = float(np.std(seen))
            return_, advantage = return_ / unit, advantage / unit
        if "normalize_advantage" in options:
            advantage = torch.tensor(normalized(advantage.flatten().tolist())).reshape(n_rows, 2)
        for mine, expected in zip(found, (return_, advantage)):
            torch.testing.assert_close(mine[:n_rows].float(), expected, rtol=1e-4, atol=1e-4)


# --- Minibatches --------------------------------------------------------------------------------


def test_every_sample_once_per_epoch():
    # The remainder of an uneven division was dropped.
    setup = Setup(Recorder(minibatches=4, epochs=2), T=5, B=3)
    samples = setup.sample()
    return_, _, _ = setup.algo.process_returns(samples)
    expected = sorted(return_.flatten().tolist())
    info = setup.algo.optimize_agent(0, samples)
    assert len(info.loss) == setup.algo.update_counter == 8
    for epoch in (setup.algo.seen[:4], setup.algo.seen[4:]):
        # Entries that fill up the last minibatch do not count.
        found = [inputs.return_[inputs.valid > 0] for inputs in epoch]
        assert [len(x) for x in found] == [4, 4, 4, 3]
        assert {len(inputs.return_) for inputs in epoch} == {4}
        assert sorted(torch.cat(found).tolist()) == expected
    first, second = (setup.algo.seen[i].return_.tolist() for i in (0, 4))
    assert first != second


def test_fields_of_a_minibatch_belong_together():
    setup = Setup(Recorder(minibatches=3), EnvCls=Counter, T=6, B=2)
    setup.train()
    for inputs in setup.algo.seen:
        assert inputs.init_rnn_state is None
        dist_info, value = setup.agent(*inputs.agent_inputs)
        assert inputs.agent_inputs.observation.shape == (4, 1)
        assert dist_info.prob.shape == inputs.old_dist_info.prob.shape == (4, 2)


def test_recurrent_agents_train_on_whole_environments():
    setup = Setup(Recorder(minibatches=2, epochs=1), lstm_agent(), T=5, B=3)
    samples = setup.sample()
    setup.algo.optimize_agent(0, samples)
    first, second = setup.algo.seen
    assert first.return_.shape == (5, 2)
    assert second.return_.shape == (5, 1)
    assert first.init_rnn_state.h.shape == (2, 1, 4)
    assert second.init_rnn_state.h.shape == (1, 1, 4)
    found = torch.cat([first.action, second.action], dim=1).T.tolist()
    assert sorted(found) == sorted(samples.agent.action.T.tolist())


def test_minibatches_without_a_valid_sample_cannot_be():
    # Their mean was NaN.
    env = {"EnvCls": Counter, "env_kwargs": {"length": 1}}
    setup = Setup(Recorder(minibatches=8), **env, T=8, B=2, CollectorCls=CpuWaitResetCollector)
    (info,) = setup.train()
    assert len(info.loss) == 32
    assert all(inputs.valid.tolist() == [1, 0] for inputs in setup.algo.seen)


# --- Options ------------------------------------------------------------------------------------


def test_value_clip():
    setup = Setup(Recorder(minibatches=2, value_clip=0.01, learning_rate=0.1))
    setup.train()
    inputs = setup.algo.seen[-1]
    _, value = setup.agent(*inputs.agent_inputs)
    assert ((value - inputs.old_value).abs() > 0.01).any()
    limited = setup.algo._get_loss_values(inputs)["valueLoss"]
    setup.algo.value_clip = None
    assert limited > setup.algo._get_loss_values(inputs)["valueLoss"]


@pytest.mark.parametrize("agent", AGENTS)
def test_returns_are_computed_anew(agent):
    setup = Setup(
        Recorder(
            minibatches=1, epochs=2, recompute_returns=True, learning_rate=0.05, gae_lambda=0.9
        ),
        agent(),
    )
    samples = setup.sample()
    expected, _, _ = setup.algo.process_returns(samples)
    setup.algo.optimize_agent(0, samples)
    first, second = setup.algo.seen
    assert sorted(first.return_.flatten().tolist()) == sorted(expected.flatten().tolist())
    assert sorted(second.return_.flatten().tolist()) != sorted(expected.flatten().tolist())
    assert not second.return_.requires_grad


def test_returns_computed_anew_are_no_new_data():
    # Each epoch counted the batch again; the recorded value after it was taken for one in the
    # new unit.
    class Watched(PPO):
        seen = ()

        def compute_returns(self, samples, done):
            self.seen = (*self.seen, samples.agent.bootstrap_value * self._return_std.std)
            return super().compute_returns(samples, done)

    algo = Watched(epochs=3, minibatches=1, recompute_returns=True, normalize_return=True)
    setup = Setup(algo, EnvCls=Counter, T=6, B=2)
    setup.train(0, 2)
    assert algo._return_std.count == 2 * 6 * 2
    first, second, third = algo.seen[3:]
    assert torch.allclose(first, second)
    assert torch.allclose(first, third)


def test_returns_in_units_of_their_deviation():
    class Scaled(Counter):
        def step(self, action):
            step = super().step(action)
            return step._replace(reward=step.reward * 1000)

    setup = Setup(A2C(normalize_return=True), EnvCls=Scaled, T=40, B=2)
    samples = setup.sample()
    return_, _, _ = setup.algo.process_returns(samples)
    assert return_.std(unbiased=False).item() == pytest.approx(1, rel=1e-3)
    # Now values of 1 mean the deviation of all returns so far.
    unit = setup.algo._return_std.std.float()
    samples.agent.agent_info.value[:] = samples.agent.bootstrap_value[:] = 1
    raw, _ = setup.algo.compute_returns(samples, samples.env.done.float())
    assert torch.allclose(raw[-1], samples.env.reward[-1] + 0.99 * unit * ~samples.env.done[-1])


# --- Schedule and state -------------------------------------------------------------------------


def rate_and_clip(algo):
    return pytest.approx((algo.optimizer.param_groups[0]["lr"], getattr(algo, "ratio_clip", None)))


SCHEDULES = [
    # The clip was one iteration behind.
    (PPO, {}, [0.1, 0.075, 0.05, 0.025], [0.2, 0.15, 0.1, 0.05]),
    (PPO, {"linear_clip_schedule": False}, [0.1, 0.075, 0.05, 0.025], [0.2] * 4),
    (
        PPO,
        {"linear_lr_schedule": False, "linear_clip_schedule": True},
        [0.1] * 4,
        [0.2, 0.15, 0.1, 0.05],
    ),
    (PPO, {"linear_lr_schedule": False}, [0.1] * 4, [0.2] * 4),
    (A2C, {"linear_lr_schedule": True}, [0.1, 0.075, 0.05, 0.025], [None] * 4),
    (A2C, {}, [0.1] * 4, [None] * 4),
]


@pytest.mark.parametrize(("AlgoCls", "settings", "rates", "clips"), SCHEDULES)
def test_schedules_and_their_state(AlgoCls, settings, rates, clips):
    # They were no part of the state, and began anew.
    settings = {"learning_rate": 0.1, **settings, **({"ratio_clip": 0.2} if clips[0] else {})}
    setup = Setup(AlgoCls(**settings), n_itr=4)
    for itr in range(4):
        assert (rates[itr], clips[itr]) == rate_and_clip(setup.algo)
        other = Setup(AlgoCls(**settings), n_itr=4)
        other.algo.load_optim_state_dict(copy.deepcopy(setup.algo.optim_state_dict()))
        assert (rates[itr], clips[itr]) == rate_and_clip(other.algo)
        setup.train(itr, itr + 1)
    falls = rates[0] != rates[1]
    assert (setup.algo.lr_scheduler is not None) == falls
    assert (setup.algo.optim_state_dict().keys() == {"state", "param_groups"}) == (
        not falls and clips[0] == clips[1]
    )
    # Another run with the same algorithm began where the schedule of this one ended, at 0.
    assert Setup(setup.algo, n_itr=4).algo.optimizer.param_groups[0]["lr"] == 0.1
    assert getattr(setup.algo, "ratio_clip", None) == clips[0]


def test_another_schedule_in_the_place_of_the_linear_one():
    # Programs assign lr_scheduler; only the methods of our own class were called on it.
    class Halving(PPO):
        def initialize(self, *args, **kwargs):
            super().initialize(*args, **kwargs)
            self.lr_scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)

    setup = Setup(Halving(learning_rate=0.4), n_itr=4)
    setup.train(0, 2)
    other = Setup(Halving(learning_rate=0.4), n_itr=4)
    other.algo.load_optim_state_dict(copy.deepcopy(setup.algo.optim_state_dict()))
    for algo in (setup.algo, other.algo):
        assert rate_and_clip(algo) == (0.1, 0.05)
    other.train(2, 3)
    assert other.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_schedules_of_longer_and_of_new_runs():
    setup = Setup(PPO(learning_rate=0.1), n_itr=4)
    setup.train(0, 2)
    longer = Setup(PPO(learning_rate=0.1), n_itr=8).algo
    longer.load_optim_state_dict(copy.deepcopy(setup.algo.optim_state_dict()))
    assert rate_and_clip(longer) == (0.075, 0.075)
    setup.train(2, 4)
    state = copy.deepcopy(setup.algo.optim_state_dict())
    assert state["param_groups"][0]["lr"] == 0
    new = Setup(PPO(learning_rate=0.1, initial_optim_state_dict=state), n_itr=4).algo
    assert rate_and_clip(new) == (0.1, 0.1)
    # They trained with the last rate of the other run, 0, or followed its schedule.
    settings = {"learning_rate": 0.2, "initial_optim_state_dict": state}
    for is_annealed in (True, False):
        algo = Setup(PPO(**settings, linear_lr_schedule=is_annealed), n_itr=4).algo
        assert algo.optimizer.param_groups[0]["lr"] == 0.2
    moments = next(iter(new.optimizer.state.values()))
    assert moments["step"].item() == 64, "the rest of the state is taken over"


def test_state_of_an_optimizer_alone_is_accepted():
    setup = Setup(PPO(), n_itr=4)
    setup.algo.load_optim_state_dict(torch.optim.Adam(setup.agent.parameters(), 0.5).state_dict())
    setup.train()
    assert setup.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.375)


# --- What is reported, and errors ---------------------------------------------------------------


def test_what_is_reported():
    (info,) = Setup(A2C(entropy_loss_coeff=0)).train()
    assert info.entropy > 0
    assert info._fields == (*OptInfo._fields, "piLoss", "valueLoss", "explainedVariance")
    assert all(isinstance(value, float) for value in info)
    # Numbers of json files.
    (info,) = Setup(PPO(epochs=2.0, minibatches=3.0)).train()
    assert info._fields[:7] == A2C.opt_info_fields
    assert info._fields[7:] == ("approxKL", "clipFraction")
    assert [len(values) for values in info] == [6, 6, 6, 6, 6, 6, 1, 1, 1]
    assert all(isinstance(values[0], float) for values in info)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("CollectorCls", COLLECTORS)
def test_diagnostics(agent, CollectorCls):
    # The values are those recorded, also where returns are computed anew.
    settings = {"recompute_returns": True, "minibatches": 1, "epochs": 2, "learning_rate": 0.1}
    setup = Setup(Recorder(**settings), agent(), CollectorCls=CollectorCls)
    samples = setup.sample()
    return_, _, valid = setup.algo.process_returns(setup.algo.with_resets(samples))
    counts = torch.ones_like(return_, dtype=torch.bool) if valid is None else valid > 0
    error = (return_ - samples.agent.agent_info.value)[counts]
    expected = 1 - error.var(unbiased=False) / return_[counts].var(unbiased=False)
    info = setup.algo.optimize_agent(0, samples)
    assert info.explainedVariance == pytest.approx([expected.item()], rel=1e-4)
    (kl,), (fraction,) = info.approxKL, info.clipFraction
    assert kl > 0
    assert 0 < fraction <= 0.5, "in the first of two updates, all ratios are 1"


def test_diagnostics_without_what_they_need():
    class OwnRatios(PPO):
        def loss(self, agent_inputs, **others):
            dist_info, _ = self.agent(*agent_inputs)
            entropy = self.agent.distribution.mean_entropy(dist_info)
            return -entropy, entropy, entropy

        def loss_input_from_samples(self, samples):
            loss_inputs = super().loss_input_from_samples(samples)
            return loss_inputs._replace(return_=loss_inputs.return_[..., None])

    (info,) = Setup(OwnRatios(minibatches=2)).train()
    assert len(info.loss) == 8
    assert info[4:] == ([], [], [], [], [])


def test_epochs_end_at_target_kl():
    settings = {"minibatches": 2, "epochs": 5, "learning_rate": 0.1, "linear_lr_schedule": False}
    n_updates = []
    for target_kl in (None, 1e9, 1e-9):
        torch.manual_seed(0)
        setup = Setup(PPO(target_kl=target_kl, **settings), T=16)
        (info,) = setup.train()
        assert len(info.loss) == setup.algo.update_counter
        n_updates.append(setup.algo.update_counter)
    # The second minibatch differs from the policy that acted: one epoch is enough.
    assert n_updates == [10, 10, 2]


def test_the_divergence_of_the_last_epoch_decides():
    algo = Setup(PPO(minibatches=2)).algo
    minibatches = [[9.0, 0.1], [9.0, 0.1], [1.4, 0.8], [0.9, 50.0]]
    masks = [[1.0, 1.0]] * 3 + [[1.0, 0.0]]
    algo._ratios = [tuple(map(torch.tensor, pair)) for pair in zip(minibatches, masks)]
    kl = sum(ratio - 1 - math.log(ratio) for ratio in (1.4, 0.8, 0.9)) / 3
    verdicts = []
    for algo.target_kl in (0.99 * kl, 1.01 * kl):
        verdicts.append(algo.stops_after_epoch())
    assert verdicts == [True, False]


@pytest.mark.parametrize("name", ["target_kl", "desired_kl"])
def test_divergence_needs_the_ratios_of_the_loss(name):
    class OwnLoss(PPO):
        def loss(self, *args, **kwargs):
            found = super().loss(*args, **kwargs)
            self.next_diagnostics.clear()
            return found

    setup = Setup(OwnLoss(linear_lr_schedule=False, **{name: 0.01}))
    with pytest.raises(ValueError, match=rf"{name}=0.01 .*OwnLoss.loss\(\) does not leave"):
        setup.train()


def test_learning_rate_adapts_to_divergence():
    settings = {"minibatches": 2, "epochs": 2, "linear_lr_schedule": False}
    for desired_kl, start, expected in (
        (1e-12, 9e-4, 4e-4),  # Divided twice by 1.5.
        (1e9, 4e-4, 9e-4),
        (1e-12, 1.2e-5, 1e-5),  # The limits.
        (1e9, 8e-3, 1e-2),
    ):
        algo = PPO(desired_kl=desired_kl, learning_rate=start, **settings)
        setup = Setup(algo, T=16)
        setup.train()
        (group,) = algo.optimizer.param_groups
        assert group["lr"] == pytest.approx(expected)
        # It belongs to the state of the optimizer.
        other = Setup(PPO(desired_kl=desired_kl, learning_rate=start, **settings), T=16).algo
        other.load_state_dict(algo.state_dict())
        assert other.optimizer.param_groups[0]["lr"] == group["lr"]


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.021, 1 / 1.5), (0.019, 1), (0.0051, 1), (0.0049, 1.5)]
)
def test_learning_rate_stays_while_the_divergence_is_within_a_factor_of_two(kl, factor):
    algo = Setup(PPO(desired_kl=0.01, learning_rate=1e-3, linear_lr_schedule=False)).algo
    algo._adapt_learning_rate(kl)
    assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 * factor)


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_losses_that_are_not_finite_change_nothing(AlgoCls):
    setup = Setup(AlgoCls() if AlgoCls is A2C else PPO(minibatches=1))
    setup.train()
    before = setup.parameters()
    samples = setup.sample()
    samples.env.reward[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=rf"loss of {AlgoCls.__name__} is nan"):
        setup.algo.optimize_agent(1, samples)
    assert setup.parameters() == before


def test_a_second_run_measures_anew():
    # Else on the device of the first run, where its tensors are.
    algo = A2C()
    Setup(algo).train()
    algo._n_skipped, first = torch.ones(()), algo.health
    Setup(algo)
    assert algo._n_skipped == 0
    assert algo.health is not first


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_two_value_heads(AlgoCls):
    # Values by other names were refused, although the subclass computes its own returns.
    TwoValues = namedarraytuple("TwoValues", ["dist_info", "ext_value", "int_value"])

    class TwoHeads(GenericFfAgent):
        def step(self, *inputs):
            step = super().step(*inputs)
            dist_info, value = step.agent_info
            return step._replace(agent_info=TwoValues(dist_info, value, value))

    class WithoutBootstrap(AlgoCls):
        bootstrap_value = False

    class TwoReturns(WithoutBootstrap):
        def process_returns(self, samples):
            info = samples.agent.agent_info
            return_ = samples.env.reward + info.ext_value
            return return_, return_ - info.int_value, None

    recorded = {"env_kwargs": {"id": "CartPole-v1"}, "record_next_observation": True}
    for settings in ({}, {"EnvCls": gym.make, **recorded}):
        (info,) = Setup(TwoReturns(), TwoHeads(**FF), **settings).train()
        assert np.isfinite(info.loss).all()
        assert info.explainedVariance == []
