from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

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
from tests.algos.pg.parts import FF, LSTM, Setup, lstm_agent
from tests.reference.policy_gradient import mean, normalized, returns, surrogate

PENDULUM = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1"}}
COLLECTORS = [CpuResetCollector, CpuWaitResetCollector]
AGENTS = [lambda: None, lstm_agent]


# --- The loss -----------------------------------------------------------------------------------


def naive_outputs(agent: Any, samples: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Probabilities [B,A] and values [B] of one step after the other; episodes start from zero."""
    probs, values = [], []
    state = samples.agent.agent_info.prev_rnn_state[0] if agent.recurrent else None
    if state is not None:
        state = type(state)(*(x.transpose(0, 1).contiguous() for x in state))
    goes_on = torch.ones(samples.env.done.shape[1])
    for t, done in enumerate(samples.env.done):
        inputs = (
            samples.env.observation[t],
            samples.agent.prev_action[t] * goes_on.long(),
            samples.env.prev_reward[t] * goes_on,
        )
        if state is None:
            dist_info, value = agent(*inputs)
        else:
            state = type(state)(*(x * goes_on[:, None] for x in state))
            dist_info, value, state = agent(*inputs, state)
        probs.append(dist_info.prob)
        values.append(value)
        goes_on = 1 - done.float()
    return probs, values


def naive_loss(setup: Setup, samples: Any, ratio_clip: float | None) -> float:
    """Of a whole batch of an agent with discrete actions, without GAE; lives in plain numbers."""
    algo, agent = setup.algo, setup.agent
    prob, value = naive_outputs(agent, samples)
    T, B = samples.env.reward.shape
    pi, squares, entropies, valids, advantages, ratios, loglis = [], [], [], [], [], [], []
    for b in range(B):
        cut = [None] * T
        return_ = returns(
            samples.env.reward[:, b].tolist(),
            samples.env.done[:, b].tolist(),
            samples.agent.bootstrap_value[0, b].item(),
            algo.discount,
            cut,
        )
        is_over = False
        for t in range(T):
            old, a = samples.agent.agent_info.dist_info.prob[t, b], samples.agent.action[t, b]
            valids.append(0.0 if is_over else 1.0)
            advantages.append(return_[t] - samples.agent.agent_info.value[t, b].item())
            ratios.append((prob[t][b, a] / old[a]).item())
            loglis.append(prob[t][b, a].log().item())
            squares.append((value[t][b].item() - return_[t]) ** 2 / 2)
            entropies.append(-(prob[t][b] * prob[t][b].log()).sum().item())
            waits = not setup.sampler.mid_batch_reset
            is_over = is_over or (waits and bool(samples.env.done[t, b]))
    if algo.normalize_advantage:
        among = [x for x, v in zip(advantages, valids, strict=True) if v]
        advantages = normalized(advantages, among)
    for ratio, logli, advantage in zip(ratios, loglis, advantages, strict=True):
        plain = -logli * advantage
        pi.append(plain if ratio_clip is None else surrogate(ratio, advantage, ratio_clip))
    return (
        mean(pi, valids)
        + algo.value_loss_coeff * mean(squares, valids)
        - algo.entropy_loss_coeff * mean(entropies, valids)
    )


def disturb(agent: Any) -> None:
    """Change the policy a little, so that ratios are not 1."""
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("CollectorCls", COLLECTORS)
@pytest.mark.parametrize("agent", AGENTS)
def test_a2c_like_its_naive_twin(agent: Any, CollectorCls: Any, normalize: bool) -> None:
    algo = A2C(normalize_advantage=normalize, bootstrap_timelimit=False, discount=0.9)
    setup = Setup(algo, agent(), T=12, B=4, CollectorCls=CollectorCls)
    samples = setup.sample()
    loss, entropy, perplexity = algo.loss(samples)
    assert loss.item() == pytest.approx(naive_loss(setup, samples, None), rel=1e-4)
    assert not perplexity.requires_grad
    assert perplexity.item() >= 1


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("agent", AGENTS)
def test_ppo_of_waiting_environments_like_its_naive_twin(agent: Any, normalize: bool) -> None:
    algo = PPO(normalize_advantage=normalize, bootstrap_timelimit=False, minibatches=1, epochs=1)
    setup = Setup(algo, agent(), T=12, B=4, CollectorCls=CpuWaitResetCollector)
    samples = setup.sample()
    disturb(setup.agent)
    expected = naive_loss(setup, samples, 0.1)
    (loss,) = algo.optimize_agent(0, samples).loss
    assert loss == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("AgentCls", "kwargs"), [(MujocoFfAgent, {}), (MujocoLstmAgent, LSTM)], ids=["ff", "lstm"]
)
def test_first_ratio_is_one_while_observations_are_normalised(AgentCls: Any, kwargs: Any) -> None:
    # Statistics were updated between acting and training: the policy had changed before.
    settings = {"normalize_observation": True, **kwargs.get("model_kwargs", {})}
    ratios: list[torch.Tensor] = []

    class Watched(PPO):
        def _get_loss_values(self, *inputs: Any) -> Any:
            values = super()._get_loss_values(*inputs)
            ratios.append(values["ratio"])
            return values

    setup = Setup(Watched(minibatches=2), AgentCls(model_kwargs=settings), **PENDULUM, T=8, B=4)
    for itr in range(3):
        del ratios[:]
        before = setup.agent.model.obs_rms.count.item()
        setup.train(itr, itr + 1)
        assert torch.allclose(ratios[0], torch.ones(()), atol=1e-4)
        assert not torch.allclose(ratios[-1], torch.ones(()), atol=1e-4)
        assert setup.agent.model.obs_rms.count.item() == before + 32


def has_bfloat16_lstm() -> bool:
    """Whether torch has this kernel on this processor."""
    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 3)(torch.zeros(1, 1, 2))
    except RuntimeError:
        return False
    return True


LSTM_MARK = pytest.mark.skipif(not has_bfloat16_lstm(), reason="no bfloat16 LSTM here")


@pytest.mark.parametrize(
    ("AgentCls", "ModelCls"),
    [
        (GenericFfAgent, GenericFfModel),
        pytest.param(GenericLstmAgent, GenericLstmModel, marks=LSTM_MARK),
    ],
    ids=["ff", "lstm"],
)
def test_first_ratio_is_one_in_lower_precision(AgentCls: Any, ModelCls: Any) -> None:
    # The policy acts in float32 and was compared with its outputs in bfloat16.
    ratios: list[torch.Tensor] = []

    class Watched(PPO):
        def _get_loss_values(self, *inputs: Any) -> Any:
            values = super()._get_loss_values(*inputs)
            ratios.append(values["ratio"])
            return values

    agent = AgentCls(ModelCls=Autocast(ModelCls))
    setup = Setup(Watched(minibatches=3, learning_rate=0.01), agent, T=16, B=6)
    setup.train(0, 3)
    for first in ratios[:: len(ratios) // 3]:
        assert torch.allclose(first, torch.ones(()), rtol=0, atol=1e-6)
    assert not torch.allclose(ratios[-1], torch.ones(()), atol=1e-4)


def test_blank_rows_are_no_observations() -> None:
    env = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1", "max_episode_steps": 3}}
    agent = MujocoFfAgent(model_kwargs={"normalize_observation": True})
    setup = Setup(A2C(), agent, **env, T=8, B=4, CollectorCls=CpuWaitResetCollector)
    setup.train()
    assert agent.model.obs_rms.count.item() == 3 * 4


class Narrow(Env):
    """Many actions of a small range; an episode takes three steps."""

    def __init__(self) -> None:
        self._observation_space = FloatBox(-1, 1, shape=(2,))
        self._action_space = FloatBox(-0.01, 0.01, shape=(21,))

    def reset(self) -> Any:
        self.t = 0
        return np.zeros(2, dtype=np.float32)

    def step(self, action: Any) -> EnvStep:
        self.t += 1
        return EnvStep(np.full(2, 0.1 * self.t, dtype=np.float32), 1.0, self.t == 3, ())


def test_ratios_of_blank_rows_do_not_overflow() -> None:
    """Their old policy has mean 0 and deviation 1, as all that is blank; the loss was NaN."""
    algo = PPO(minibatches=1, epochs=2)
    setup = Setup(algo, lstm_agent(), EnvCls=Narrow, T=6, CollectorCls=CpuWaitResetCollector)
    (info,) = setup.train()
    assert np.isfinite([*info.loss, *info.gradNorm, *info.approxKL]).all()


# --- Minibatches --------------------------------------------------------------------------------


class Recorder(PPO):
    """Keeps the minibatches."""

    def _get_loss_values(self, batch: Any) -> dict[str, Any]:
        self.seen = [*getattr(self, "seen", []), batch]
        return super()._get_loss_values(batch)


def test_every_sample_once_per_epoch() -> None:
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


def test_fields_of_a_minibatch_belong_together() -> None:
    setup = Setup(Recorder(minibatches=3), EnvCls=Counter, T=6, B=2)
    setup.train()
    for inputs in setup.algo.seen:
        assert inputs.init_rnn_state is None
        dist_info, value = setup.agent(*inputs.agent_inputs)
        assert inputs.agent_inputs.observation.shape == (4, 1)
        assert dist_info.prob.shape == inputs.old_dist_info.prob.shape == (4, 2)


def test_recurrent_agents_train_on_whole_environments() -> None:
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


def test_minibatches_without_a_valid_sample_cannot_be() -> None:
    # Their mean was NaN.
    env = {"EnvCls": Counter, "env_kwargs": {"length": 1}}
    setup = Setup(Recorder(minibatches=8), **env, T=8, B=2, CollectorCls=CpuWaitResetCollector)
    (info,) = setup.train()
    assert len(info.loss) == 32
    assert all(inputs.valid.tolist() == [1, 0] for inputs in setup.algo.seen)


# --- Options ------------------------------------------------------------------------------------


def test_value_clip() -> None:
    setup = Setup(Recorder(minibatches=2, value_clip=0.01, learning_rate=0.1))
    setup.train()
    inputs = setup.algo.seen[-1]
    _, value = setup.agent(*inputs.agent_inputs)
    assert ((value - inputs.old_value).abs() > 0.01).any()
    limited = setup.algo._get_loss_values(inputs)["valueLoss"]
    setup.algo.value_clip = None
    assert limited > setup.algo._get_loss_values(inputs)["valueLoss"]


@pytest.mark.parametrize("agent", AGENTS)
def test_returns_are_computed_anew(agent: Any) -> None:
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


def test_returns_computed_anew_are_no_new_data() -> None:
    # Each epoch counted the batch again; the recorded value after it was taken for one in the
    # new unit.
    class Watched(PPO):
        seen: tuple[Any, ...] = ()

        def compute_returns(self, samples: Any, done: Any) -> Any:
            self.seen = (*self.seen, samples.agent.bootstrap_value * self._return_std.std)
            return super().compute_returns(samples, done)

    algo = Watched(epochs=3, minibatches=1, recompute_returns=True, normalize_return=True)
    setup = Setup(algo, EnvCls=Counter, T=6, B=2)
    setup.train(0, 2)
    assert algo._return_std.count == 2 * 6 * 2
    first, second, third = algo.seen[3:]
    assert torch.allclose(first, second)
    assert torch.allclose(first, third)


def test_returns_in_units_of_their_deviation() -> None:
    class Scaled(Counter):
        def step(self, action: Any) -> Any:
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


def test_learning_rate_and_clip_fall_together() -> None:
    # The clip was one iteration behind.
    setup = Setup(PPO(learning_rate=0.1, ratio_clip=0.2), n_itr=4)
    found = []
    for itr in range(4):
        found.append((setup.algo.optimizer.param_groups[0]["lr"], setup.algo.ratio_clip))
        setup.train(itr, itr + 1)
    learning_rates, ratio_clips = zip(*found, strict=True)
    assert learning_rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert ratio_clips == pytest.approx([0.2, 0.15, 0.1, 0.05])
    assert setup.algo._ratio_clip == 0.2
    # Another run with the same algorithm began where the schedule of this one ended, at 0.
    assert Setup(setup.algo, n_itr=4).algo.ratio_clip == 0.2


def test_clip_and_learning_rate_have_schedules_of_their_own() -> None:
    for falling_rate in (True, False):
        options = {"linear_lr_schedule": falling_rate, "linear_clip_schedule": not falling_rate}
        setup = Setup(PPO(learning_rate=0.1, ratio_clip=0.2, **options), n_itr=4)
        setup.train(0, 2)
        state = copy.deepcopy(setup.algo.optim_state_dict())
        other = Setup(PPO(learning_rate=0.1, ratio_clip=0.2, **options), n_itr=4)
        other.algo.load_optim_state_dict(state)
        for algo in (setup.algo, other.algo):
            rate = algo.optimizer.param_groups[0]["lr"]
            assert rate == pytest.approx(0.05 if falling_rate else 0.1)
            assert algo.ratio_clip == pytest.approx(0.2 if falling_rate else 0.1)
        new = PPO(ratio_clip=0.2, initial_optim_state_dict=state, **options)
        assert Setup(new, n_itr=4).algo.ratio_clip == 0.2


def test_without_a_schedule() -> None:
    setup = Setup(PPO(learning_rate=0.1, linear_lr_schedule=False), n_itr=2)
    setup.train(0, 2)
    assert setup.algo.lr_scheduler is None
    assert setup.algo.optimizer.param_groups[0]["lr"] == 0.1
    assert setup.algo.ratio_clip == 0.1
    assert setup.algo.optim_state_dict().keys() == {"state", "param_groups"}


def test_schedule_of_a2c() -> None:
    setup = Setup(A2C(learning_rate=0.1, linear_lr_schedule=True), n_itr=4)
    found = []
    for itr in range(3):
        found.append(setup.algo.optimizer.param_groups[0]["lr"])
        setup.train(itr, itr + 1)
    assert found == pytest.approx([0.1, 0.075, 0.05])
    other = Setup(A2C(learning_rate=0.1, linear_lr_schedule=True), n_itr=4)
    other.algo.load_optim_state_dict(copy.deepcopy(setup.algo.optim_state_dict()))
    assert other.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    assert Setup(A2C(learning_rate=0.1), n_itr=4).algo.lr_scheduler is None


def test_another_schedule_in_the_place_of_the_linear_one() -> None:
    # Programs assign lr_scheduler; only the methods of our own class were called on it.
    class Halving(PPO):
        def initialize(self, *args: Any, **kwargs: Any) -> None:
            super().initialize(*args, **kwargs)
            self.lr_scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)

    setup = Setup(Halving(learning_rate=0.4), n_itr=4)
    setup.train(0, 2)
    state = copy.deepcopy(setup.algo.optim_state_dict())
    other = Setup(Halving(learning_rate=0.4), n_itr=4)
    other.algo.load_optim_state_dict(state)
    for algo in (setup.algo, other.algo):
        assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
        assert algo.ratio_clip == pytest.approx(0.05)
    other.train(2, 3)
    assert other.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_schedule_goes_on_from_the_state_of_the_optimizer() -> None:
    # The schedule was no part of it, and began anew.
    setup = Setup(PPO(learning_rate=0.1), n_itr=4)
    setup.train(0, 2)
    state = copy.deepcopy(setup.algo.optim_state_dict())
    other = Setup(PPO(learning_rate=0.1), n_itr=4)
    other.algo.load_optim_state_dict(state)
    assert other.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    assert other.algo.ratio_clip == pytest.approx(0.05)
    other.train(2, 3)
    assert other.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    longer = Setup(PPO(learning_rate=0.1), n_itr=8)
    longer.algo.load_optim_state_dict(state)
    assert longer.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.075)
    assert longer.algo.ratio_clip == pytest.approx(0.075)


def test_a_new_run_from_an_old_optimizer_has_its_own_schedule() -> None:
    setup = Setup(PPO(learning_rate=0.1), n_itr=2)
    setup.train(0, 2)
    state = copy.deepcopy(setup.algo.optim_state_dict())
    assert state["param_groups"][0]["lr"] == 0
    other = Setup(PPO(learning_rate=0.1, initial_optim_state_dict=state), n_itr=4)
    assert other.algo.optimizer.param_groups[0]["lr"] == 0.1
    assert other.algo.ratio_clip == 0.1
    moments = next(iter(other.algo.optimizer.state.values()))
    assert moments["step"].item() == 32, "the rest of the state is taken over"


def test_state_of_an_optimizer_alone_is_accepted() -> None:
    setup = Setup(PPO(), n_itr=4)
    state = torch.optim.Adam(setup.agent.parameters(), lr=0.5).state_dict()
    setup.algo.load_optim_state_dict(state)
    setup.train()
    assert setup.algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.375)


# --- What is reported, and errors ---------------------------------------------------------------


def test_what_is_reported() -> None:
    (info,) = Setup(A2C()).train()
    assert info._fields == (*OptInfo._fields, "piLoss", "valueLoss", "explainedVariance")
    assert all(isinstance(value, float) for value in info)
    (info,) = Setup(PPO(epochs=2, minibatches=3)).train()
    assert info._fields[:7] == A2C.opt_info_fields
    assert info._fields[7:] == ("approxKL", "clipFraction")
    assert [len(values) for values in info] == [6, 6, 6, 6, 6, 6, 1, 1, 1]
    assert all(isinstance(values[0], float) for values in info)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("CollectorCls", COLLECTORS)
def test_diagnostics(agent: Any, CollectorCls: Any) -> None:
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


def test_diagnostics_without_what_they_need() -> None:
    class OwnRatios(PPO):
        def loss(self, agent_inputs: Any, **others: Any) -> Any:
            dist_info, _ = self.agent(*agent_inputs)
            entropy = self.agent.distribution.mean_entropy(dist_info)
            return -entropy, entropy, entropy

        def loss_input_from_samples(self, samples: Any) -> Any:
            loss_inputs = super().loss_input_from_samples(samples)
            return loss_inputs._replace(return_=loss_inputs.return_[..., None])

    (info,) = Setup(OwnRatios(minibatches=2)).train()
    assert len(info.loss) == 8
    assert info[4:] == ([], [], [], [], [])


WAITS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select")


class Waits(TorchDispatchMode):
    """Records the operations for which a host would wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.names += [name] if name in WAITS else []
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("CollectorCls", COLLECTORS)
@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_nothing_is_waited_for(AlgoCls: Any, CollectorCls: Any) -> None:
    settings = {"normalize_advantage": True, "normalize_return": True, "gae_lambda": 0.9}
    env = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1", "max_episode_steps": 3}}
    agent = MujocoFfAgent(model_kwargs={"normalize_observation": True})
    setup = Setup(
        AlgoCls(**settings),
        agent,
        **env,
        T=8,
        B=4,
        CollectorCls=CollectorCls,
        record_next_observation=True,
    )
    setup.train()
    samples = setup.sample(1)
    with Waits() as waits:
        setup.algo.optimize_agent(1, samples)
    assert waits.names == []


def test_numbers_of_json_files() -> None:
    (info,) = Setup(PPO(epochs=2.0, minibatches=3.0)).train()  # type: ignore[arg-type]
    assert len(info.loss) == 6


def test_epochs_end_at_target_kl() -> None:
    settings = {"minibatches": 2, "epochs": 5, "learning_rate": 0.1, "linear_lr_schedule": False}
    n_updates = []
    for target_kl in (None, 1e9, 1e-9):
        torch.manual_seed(0)
        setup = Setup(PPO(target_kl=target_kl, **settings), T=16)
        samples = setup.sample()
        with Waits() as waits:
            info = setup.algo.optimize_agent(0, samples)
        assert len(info.loss) == setup.algo.update_counter
        assert len(waits.names) <= (0 if target_kl is None else setup.algo.update_counter // 2)
        n_updates.append(setup.algo.update_counter)
    # The second minibatch differs from the policy that acted: one epoch is enough.
    assert n_updates == [10, 10, 2]


@pytest.mark.parametrize("name", ["target_kl", "desired_kl"])
def test_divergence_needs_the_ratios_of_the_loss(name: str) -> None:
    class OwnLoss(PPO):
        def loss(self, *args: Any, **kwargs: Any) -> Any:
            found = super().loss(*args, **kwargs)
            self.next_diagnostics.clear()
            return found

    setup = Setup(OwnLoss(linear_lr_schedule=False, **{name: 0.01}))
    with pytest.raises(ValueError, match=rf"{name}=0.01 .*OwnLoss.loss\(\) does not leave"):
        setup.train()


def test_learning_rate_adapts_to_divergence() -> None:
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


def test_no_entropy_bonus_is_still_reported() -> None:
    (info,) = Setup(A2C(entropy_loss_coeff=0)).train()
    assert info.entropy > 0


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_losses_that_are_not_finite_change_nothing(AlgoCls: Any) -> None:
    setup = Setup(AlgoCls() if AlgoCls is A2C else PPO(minibatches=1))
    setup.train()
    before = setup.parameters()
    samples = setup.sample()
    samples.env.reward[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=rf"loss of {AlgoCls.__name__} is nan"):
        setup.algo.optimize_agent(1, samples)
    assert setup.parameters() == before


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_two_value_heads(AlgoCls: Any) -> None:
    # Values by other names were refused, although the subclass computes its own returns.
    TwoValues = namedarraytuple("TwoValues", ["dist_info", "ext_value", "int_value"])

    class TwoHeads(GenericFfAgent):
        def step(self, *inputs: Any) -> Any:
            step = super().step(*inputs)
            dist_info, value = step.agent_info
            return step._replace(agent_info=TwoValues(dist_info, value, value))

    class WithoutBootstrap(AlgoCls):  # type: ignore[misc, valid-type]
        bootstrap_value = False

    class TwoReturns(WithoutBootstrap):
        def process_returns(self, samples: Any) -> Any:
            info = samples.agent.agent_info
            return_ = samples.env.reward + info.ext_value
            return return_, return_ - info.int_value, None

    (info,) = Setup(TwoReturns(), TwoHeads(**FF)).train()
    assert np.isfinite(info.loss).all()
    assert info.explainedVariance == []
