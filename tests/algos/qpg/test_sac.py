"""SAC and SAC_V: losses against tables, what each step changes, set-up, state."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC, OptInfo
from rlpyt.algos.qpg.sac_ensembles import REDQ, TQC, CrossQ
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.core.records import EnvSpaces
from rlpyt.experiments.program import runner_call
from rlpyt.experiments.train import configuration
from rlpyt.replays.non_sequence.time_limit import (
    SamplesFromReplayTL,
    TlUniformReplayBuffer,
)
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.spaces.float_box import FloatBox
from tests.agents.qpg.sac_parts import BOX, CROSSQ, HIGH, LOW, SMALL, UNIT, inputs, make_agent
from tests.algos.qpg.sac_parts import CASES, SETTINGS, SPEC, batch, examples, make_algo, run
from tests.forked import in_two_ranks

both = pytest.mark.parametrize(("AlgoCls", "AgentCls"), CASES, ids=["sac", "sac_v"])


def flat(module_or_parameters: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module_or_parameters])


# --- Tables ---------------------------------------------------------------------------------------


class TableAgent(sac_agent.SacAgent):
    """Critics are linear in the action, the policy always does the same."""

    q_kind = None

    def pi(self, observation: Any, prev_action: Any, prev_reward: Any, **kwargs: Any) -> Any:
        mean = torch.full((len(observation), 3), 0.5)
        return mean, torch.full((len(observation),), -2.0), (mean, mean)

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        return 2 * action.sum(-1), 3 * action.sum(-1)

    def target_q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        return 10 * action.sum(-1), 8 * action.sum(-1)

    def v(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return torch.full((len(observation),), 4.0)

    def target_v(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return torch.full((len(observation),), 14.0)

    def v_parameters(self) -> Any:
        return self.q1_parameters()


def table_samples() -> Any:
    inputs = (torch.zeros(3, 4), torch.zeros(3, 3), torch.zeros(3))
    done = torch.tensor([False, True, True])
    timeout = torch.tensor([False, False, True])
    return SamplesFromReplayTL(
        agent_inputs=inputs,
        target_inputs=inputs,
        action=torch.tensor([[1.0, 0, 0], [0, 2, 0], [9, 9, 9]]),
        return_=torch.tensor([1.0, 1, 100]),
        done=done,
        done_n=done,
        timeout=timeout,
        timeout_n=timeout,
    )


def table_algo(AlgoCls: Any, AgentCls: Any = TableAgent, **settings: Any) -> Any:
    return make_algo(AlgoCls, AgentCls, UNIT, n_step_return=2, discount=0.5, **settings)


def test_table_of_sac() -> None:
    algo = table_algo(SAC, fixed_alpha=0.25, reward_scale=3)
    losses, _ = algo.loss(table_samples())
    # y = 3 * 1 + 0.5^2 * (min(15, 12) + 0.25 * 2) = 6.125, and 3; the third sample does not count.
    assert losses.q1.item() == pytest.approx(((6.125 - 2) ** 2 + (3 - 4) ** 2) / 4)
    assert losses.q2.item() == pytest.approx(((6.125 - 3) ** 2 + (3 - 6) ** 2) / 4)
    assert losses.pi.item() == pytest.approx(-0.25 * 2 - 3)
    assert losses.alpha is None
    algo = table_algo(SAC, target_entropy=-5)
    losses, _ = algo.loss(table_samples())
    assert losses.alpha.item() == 0  # Times log alpha, which is 0.
    assert torch.autograd.grad(losses.alpha, algo._log_alpha)[0].item() == -(-2 - 5)
    assert table_algo(SAC, target_entropy=None).loss(table_samples())[0].alpha is None


class ThreeCritics(TableAgent):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(n_critics=3, **kwargs)
        self.subsets: list[Any] = []

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        return tuple(factor * action.sum(-1) for factor in (2, 3, 7))

    def target_q(  # type: ignore[override]
        self, observation: Any, prev_action: Any, prev_reward: Any, action: Any, subset: Any
    ) -> Any:
        self.subsets.append(tuple(subset))
        return tuple((10, 8, 9)[i] * action.sum(-1) for i in subset)


def test_table_of_random_subsets() -> None:
    settings = {"fixed_alpha": 0.25, "reward_scale": 3}
    algo = make_algo(
        REDQ, ThreeCritics, UNIT, n_step_return=2, discount=0.5, target_subset=3, **settings
    )
    (q1_loss, q2_loss, q3_loss, pi_loss, _), _ = algo.loss(table_samples())
    # Targets are those of all critics; the policy's value is 1.5 (2 + 3 + 7) / 3 = 6.
    assert q1_loss.item() == pytest.approx(((6.125 - 2) ** 2 + (3 - 4) ** 2) / 4)
    assert q2_loss.item() == pytest.approx(((6.125 - 3) ** 2 + (3 - 6) ** 2) / 4)
    assert q3_loss.item() == pytest.approx(((6.125 - 7) ** 2 + (3 - 14) ** 2) / 4)
    assert pi_loss.item() == pytest.approx(-0.25 * 2 - 6)
    algo.target_subset = 2
    for _ in range(50):
        algo.q_target(table_samples())
    drawn = {frozenset(subset) for subset in algo.agent.subsets[1:]}
    assert drawn == {frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))}


class Quantiles(TableAgent):
    n_quantiles = 2

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        a = action.sum(-1, keepdim=True)
        return a * torch.tensor([2.0, 4]), a * torch.tensor([3.0, 3])

    def target_q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        a = action.sum(-1, keepdim=True)
        return a * torch.tensor([8.0, 20]), a * torch.tensor([10.0, 12])


def test_table_of_quantiles() -> None:
    settings = {"n_step_return": 2, "discount": 0.5, "fixed_alpha": 0.25, "reward_scale": 3}
    losses, values = make_algo(TQC, Quantiles, UNIT, dropped_quantiles=1, **settings).loss(
        table_samples()
    )
    # Of the quantiles 12, 15, 18 and 30 two are kept, so y = 6.125 and 6.875; and 3.
    q1 = 0.25 * 4 + 0.75 * 2, 0.75 * 0.5 + 0.25 * 4.5  # Huber losses, summed over quantiles.
    q2 = (0.25 + 0.75) * 3, (0.75 + 0.25) * 2.5
    assert losses.q1.item() == pytest.approx(sum(q1) / 4)
    assert losses.q2.item() == pytest.approx(sum(q2) / 4)
    assert losses.pi.item() == pytest.approx(-0.25 * 2 - 1.5 * 3)
    assert [v.tolist() for v in values[:2]] == [[3, 6, 81]] * 2


class NoTargets(TableAgent):
    """Critics that see the mean of their batch, as those with batch normalization do."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_networks=False, **kwargs)

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        a = action.sum(-1)
        return 2 * a + a.mean(), 3 * a + a.mean()


def test_table_without_target_networks() -> None:
    losses, values = table_algo(CrossQ, NoTargets, fixed_alpha=0.25, reward_scale=3).loss(
        table_samples()
    )
    # Actions are 1, 2 and 27, the next ones 1.5 each: their mean is 5.75.
    # y = 3 * 1 + 0.5^2 * (min(8.75, 10.25) + 0.25 * 2) = 5.3125, and 3.
    assert losses.q1.item() == pytest.approx(((5.3125 - 7.75) ** 2 + (3 - 9.75) ** 2) / 4)
    assert losses.q2.item() == pytest.approx(((5.3125 - 8.75) ** 2 + (3 - 11.75) ** 2) / 4)
    assert losses.pi.item() == pytest.approx(-0.25 * 2 - (3 + 1.5))
    assert [v.tolist() for v in values[:2]] == [[7.75, 9.75, 59.75], [8.75, 11.75, 86.75]]


def test_table_of_sac_v() -> None:
    algo = table_algo(SAC_V)
    losses, _ = algo.loss(table_samples())
    # y = 1 + 0.5^2 * 14 = 4.5, and 1; y_V = 3 + 2 = 5.
    assert losses.q1.item() == pytest.approx(((4.5 - 2) ** 2 + (1 - 4) ** 2) / 4)
    assert losses.q2.item() == pytest.approx(((4.5 - 3) ** 2 + (1 - 6) ** 2) / 4)
    assert losses.v.item() == pytest.approx((5 - 4) ** 2 / 2)
    penalty = 0.001 * (0.5**2 + 0.5**2) / 2
    assert losses.pi.item() == pytest.approx(-2 - 3 + penalty)
    losses, _ = table_algo(SAC_V, reparameterize=False).loss(table_samples())
    assert losses.pi.item() == pytest.approx(-2 * (4 - 5) + penalty)


@both
@pytest.mark.parametrize("spaces", [UNIT, BOX], ids=["unit", "box"])
def test_gaussian_prior(AlgoCls: Any, AgentCls: Any, spaces: Any) -> None:
    # SAC_V asked the space for an attribute that it does not have.
    algo = make_algo(AlgoCls, AgentCls, spaces, action_prior="gaussian")
    low, high = (torch.from_numpy(b) for b in spaces.action.bounds)
    action = low + (high - low) * torch.rand(5, 3)
    u = (action - (low + high) / 2) / ((high - low) / 2)
    expected = -(u**2 / 2 + torch.log((high - low) / 2) + math.log(2 * math.pi) / 2).sum(-1)
    torch.testing.assert_close(algo.get_action_prior(action), expected)
    assert make_algo(AlgoCls, AgentCls).get_action_prior(action) == 0
    with_prior = run(algo, 0, 4)[-1]
    assert np.isfinite(with_prior.piLoss).all()


def test_agents_without_a_range_of_actions() -> None:
    # They act in [-1, 1], as in the original; the algorithms asked for ``action_bounds``.
    agent = make_agent(spaces=UNIT)
    del agent.action_bounds
    algo = make_algo(spaces=UNIT, agent=agent, action_prior="gaussian")
    assert algo.target_entropy == -3
    action = torch.rand(5, 3)
    expected = torch.distributions.Normal(0.0, 1.0).log_prob(action).sum(-1)
    torch.testing.assert_close(algo.get_action_prior(action), expected)


# --- What each step changes -----------------------------------------------------------------------


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_network_of_policy_and_critic_learns_of_both_ways_to_it(is_shared: bool) -> None:
    # Gradients of the policy's loss stopped at all parameters of the critics.
    algo = make_algo()
    run(algo, 0, 3)
    if is_shared:
        algo.pi_optimizer.add_param_group({"params": list(algo.agent.q1_model.parameters())})
    for network in (algo.agent.q1_model, algo.agent.q2_model):
        network.zero_grad(set_to_none=True)
    losses, _ = algo.loss(algo.sample_from_replay())
    losses.pi.backward()
    assert all((p.grad is not None) == is_shared for p in algo.agent.q1_model.parameters())
    assert all(p.grad is None for p in algo.agent.q2_model.parameters())
    assert all(p.requires_grad for p in algo.agent.q1_model.parameters())


@both
def test_losses_of_networks_that_share_layers_use_them_before_any_step(
    AlgoCls: Any, AgentCls: Any
) -> None:
    """The first step used to change what the loss of the second critic went back through."""
    algo = make_algo(AlgoCls, AgentCls, learning_rate=0.1)
    agent = algo.agent
    agent.q2_model.mlp = agent.q1_model.mlp
    algo.make_optimizers()
    run(algo, 0, 3)
    samples = algo.sample_from_replay()
    state, shared = torch.get_rng_state(), list(agent.q1_model.mlp.parameters())
    expected = torch.autograd.grad(algo.loss(samples)[0].q2, shared)
    torch.set_rng_state(state)
    algo.update_networks(samples)  # The last step is that of the second critic.
    torch.testing.assert_close([p.grad for p in shared], list(expected), rtol=0, atol=0)


@both
def test_each_loss_has_gradients_of_its_network_only(AlgoCls: Any, AgentCls: Any) -> None:
    # That of the policy left gradients in the critics.
    algo = make_algo(AlgoCls, AgentCls)
    run(algo, 0, 3)
    agent = algo.agent
    networks = {"q1": agent.q1_model, "q2": agent.q2_model, "pi": agent.model}
    if AlgoCls is SAC_V:
        networks["v"] = agent.v_model
    losses, _ = algo.loss(algo.sample_from_replay())
    for name, loss in losses._asdict().items():
        if name == "alpha":
            continue
        for p in agent.parameters():
            p.grad = None
        for network in networks.values():
            network.zero_grad(set_to_none=True)
        loss.backward()
        for other, network in networks.items():
            has_gradient = [p.grad is not None for p in network.parameters()]
            assert all(has_gradient) if other == name else not any(has_gradient), (name, other)
    assert all(p.requires_grad for network in networks.values() for p in network.parameters())


def test_target_update_interval() -> None:
    algo = make_algo(target_update_interval=3)
    targets = algo.agent.target_q1_model.parameters
    run(algo, 0, 2)
    algo.updates_per_optimize = 1
    changed = []
    for itr in range(2, 8):
        before = flat(targets())
        run(algo, itr, itr + 1)
        changed.append(not torch.equal(before, flat(targets())))
    assert changed == [False, False, True] * 2


def test_policy_update_interval() -> None:
    agent = make_agent(spaces=BOX, n_critics=3)
    algo = make_algo(agent=agent, policy_update_interval=3)
    run(algo, 0, 2)
    algo.updates_per_optimize = 1
    changed = []
    for itr in range(2, 8):
        before = [flat(net.parameters()) for net in (agent.model, agent.q1_model, agent.q3_model)]
        alpha = algo._log_alpha.item()
        info = run(algo, itr, itr + 1)[-1]
        after = [flat(net.parameters()) for net in (agent.model, agent.q1_model, agent.q3_model)]
        is_changed = [not torch.equal(a, b) for a, b in zip(before, after, strict=True)]
        assert (algo._log_alpha.item() != alpha) == is_changed[0]
        assert (len(info.q2Loss), len(info.piLoss)) == (1, is_changed[0])
        changed.append(is_changed)
    assert changed == [[False, True, True]] * 2 + [[True] * 3] + [[False, True, True]] * 2 + [
        [True] * 3
    ]


# --- Without target networks ----------------------------------------------------------------------


def statistics(agent: Any) -> list[int]:
    """Number of batches in the statistics of the policy and of each critic."""
    networks = [agent.model, *(getattr(agent, name) for name in agent.critic_names)]
    return [int(network.mlp.model[0].n_batches) for network in networks]


@pytest.mark.parametrize("seed", [0, 1])
def test_states_and_next_states_are_one_batch(seed: int) -> None:
    torch.manual_seed(seed)
    agent = make_agent(**CROSSQ)
    settings = {"n_step_return": 2, "fixed_alpha": 0.3, "discount": 0.9}
    algo = make_algo(CrossQ, agent=agent, spaces=UNIT, **settings)
    run(algo, 0, 4, spaces=UNIT)
    agent.train_mode(4)
    samples = algo.sample_from_replay()
    networks = [copy.deepcopy(n) for n in (agent.model, agent.q1_model, agent.q2_model)]
    torch.manual_seed(2)
    (q1_loss, _, _, _), _ = algo.loss(samples)

    policy, *critics = networks
    mean, log_std = policy.eval()(*samples.target_inputs)
    torch.manual_seed(2)
    u = mean + log_std.exp() * torch.randn_like(mean)
    next_action = torch.tanh(u)
    log_pi = torch.distributions.Normal(mean, log_std.exp()).log_prob(u)
    log_pi = (log_pi - torch.log(1 - next_action**2 + 1e-6)).sum(-1)
    o = torch.cat([samples.agent_inputs.observation, samples.target_inputs.observation])
    a = torch.cat([samples.action, next_action])
    q, next_q = zip(*(critic(o, None, None, a).split(8) for critic in critics))
    with torch.no_grad():
        value = torch.min(*next_q) - 0.3 * log_pi
        y = samples.return_ + 0.9**2 * (~samples.done_n) * value
    valid = ~samples.timeout_n
    expected = ((y - q[0]) ** 2)[valid].sum() / 2 / valid.sum()
    assert 0 < valid.sum() < 8
    torch.testing.assert_close(q1_loss, expected)
    found, wanted = (
        torch.autograd.grad(loss, [*network.parameters()])
        for loss, network in ((q1_loss, agent.q1_model), (expected, critics[0]))
    )
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    for mine, other in zip(agent.q1_model.buffers(), critics[0].buffers(), strict=True):
        torch.testing.assert_close(mine, other)


def test_statistics_move_with_their_own_updates() -> None:
    agent = make_agent(spaces=BOX, **CROSSQ)
    algo = make_algo(CrossQ, agent=agent)
    algo.updates_per_optimize = 1
    moved = []
    for itr in range(2, 8):
        agent.sample_mode(itr)
        agent.step(*inputs())
        agent.eval_mode(itr)
        agent.step(*inputs())
        agent.train_mode(itr)
        run(algo, itr, itr + 1)
        moved.append(statistics(agent))
    assert moved == [[0, 1, 1], [0, 2, 2], [1, 3, 3], [1, 4, 4], [1, 5, 5], [2, 6, 6]]


def test_other_critics_without_target_networks() -> None:
    critics = {"q_model_kwargs": {**SMALL, "dropout": 0.1}, "model_kwargs": SMALL, "n_critics": 3}
    agent = make_agent(spaces=BOX, **{**CROSSQ, **critics})
    before = flat(agent.q1_model.parameters())
    infos = run(make_algo(CrossQ, agent=agent), 0, 6)
    assert np.isfinite(infos[-1].q1Loss).all()
    assert not torch.equal(before, flat(agent.q1_model.parameters()))
    assert list(agent.state_dict()) == list(agent.network_names)


# --- The temperature ------------------------------------------------------------------------------


def test_target_entropy_follows_the_ranges_of_actions() -> None:
    assert make_algo(spaces=UNIT).target_entropy == -3
    log_half_ranges = np.log((HIGH - LOW) / 2).sum()
    assert make_algo(spaces=BOX).target_entropy == pytest.approx(-3 + log_half_ranges)
    assert make_algo(spaces=BOX, target_entropy=-7).target_entropy == -7


def test_target_entropy_of_a_second_run_follows_its_own_ranges() -> None:
    for settings, expected in (({}, -3), ({"target_entropy": -7}, -7)):
        algo = make_algo(spaces=BOX, **settings)
        algo.initialize(make_agent(spaces=UNIT), 10, SPEC, True, examples())
        assert algo.target_entropy == expected


def test_ranges_of_actions_change_nothing_but_their_scale() -> None:
    """The same data, with actions scaled: the same losses of the policy and temperature."""
    infos = []
    for spaces in (UNIT, EnvSpaces(UNIT.observation, FloatBox(LOW, HIGH))):
        torch.manual_seed(0)
        np.random.seed(0)
        algo = make_algo(spaces=spaces, target_update_tau=1)
        low, high = (torch.from_numpy(b) for b in spaces.action.bounds)

        def scaled(
            observation: Any, action: Any, low: Any = low, high: Any = high, **kwargs: Any
        ) -> Any:
            return ((action - (low + high) / 2) / ((high - low) / 2)).sum(-1) + observation.sum(-1)

        agent = algo.agent
        agent.q = lambda o, a, r, action, q=scaled: (q(o, action), q(o, action))
        agent.target_q = agent.q
        samples = None
        for itr in range(3):
            algo.add_samples_to_buffer(itr, batch(itr, spaces=spaces))
        samples = algo.sample_from_replay()
        torch.manual_seed(1)
        losses, _ = algo.loss(samples)
        volume = math.log(float(((high - low) / 2).prod()))
        infos.append((losses.pi.item() + volume, losses.alpha.item()))
    assert infos[0] == pytest.approx(infos[1], rel=1e-4)


@pytest.mark.parametrize("fixed_alpha", [None, 0.3])
def test_alpha_is_learned_or_fixed(fixed_alpha: Any) -> None:
    algo = make_algo(fixed_alpha=fixed_alpha)
    info = run(algo, 0, 6)[-1]
    if fixed_alpha is None:
        assert len(set(info.alpha)) == len(info.alpha)
        assert info.alpha[-1] == pytest.approx(math.exp(algo._log_alpha.item()))
    else:
        assert info.alpha == pytest.approx([0.3] * len(info.alpha))
        assert algo.alpha_optimizer is None


def test_fixed_alpha_prevails_over_a_loaded_one() -> None:
    # It was overwritten by what another run had learned.
    learned = make_algo()
    run(learned, 0, 6)
    fixed = make_algo(fixed_alpha=0.3, initial_optim_state_dict=learned.optim_state_dict())
    assert fixed._alpha.item() == pytest.approx(0.3)
    assert fixed.pi_optimizer.state_dict()["state"]
    again = make_algo(initial_optim_state_dict=fixed.optim_state_dict())
    assert again._alpha.item() == pytest.approx(0.3)
    assert not again.alpha_optimizer.state_dict()["state"]
    run(again, 0, 6)
    assert again._alpha.item() != pytest.approx(0.3)


def test_optimizer_state() -> None:
    algo = make_algo()
    run(algo, 0, 6)
    state = algo.optim_state_dict()
    names = ["pi_optimizer", "q1_optimizer", "q2_optimizer", "alpha_optimizer", "log_alpha"]
    assert list(state) == names
    assert isinstance(state["log_alpha"], float)
    other = make_algo(initial_optim_state_dict=state)
    assert torch.equal(other._alpha, algo._alpha)
    del state["q2_optimizer"]
    with pytest.raises(ValueError, match="q2_optimizer"):
        make_algo(initial_optim_state_dict=state)
    assert "v_optimizer" in make_algo(SAC_V, sac_v_agent.SacAgent).optim_state_dict()


def train_one_of_two(rank: int, AlgoCls: Any, kwargs: Any) -> tuple[float, list[list[float]]]:
    torch.manual_seed(0)
    agent = make_agent(spaces=BOX, **kwargs)
    agent.data_parallel()
    algo = make_algo(AlgoCls, agent=agent, world_size=2)
    torch.manual_seed(rank)
    for itr in range(2, 6):
        algo.optimize_agent(itr, batch(itr + 100 * rank))
    parameters = [flat(net.values()).tolist() for net in agent.state_dict().values()]
    return algo._log_alpha.item(), parameters


@pytest.mark.parametrize(("AlgoCls", "kwargs"), [(SAC, {}), (CrossQ, CROSSQ)])
def test_processes_keep_one_temperature_and_one_policy(
    AlgoCls: Any, kwargs: Any, tmp_path: Any
) -> None:
    # Each process had a temperature of its own.
    first, second = in_two_ranks(train_one_of_two, tmp_path / "store", AlgoCls, kwargs)
    assert first == second
    assert first[0] != 0


# --- Set-up ---------------------------------------------------------------------------------------


@both
def test_replay_buffer(AlgoCls: Any, AgentCls: Any) -> None:
    algo = make_algo(AlgoCls, AgentCls, n_step_return=3, discount=0.9)
    assert type(algo.replay_buffer) is TlUniformReplayBuffer
    # The sums within n steps had discount 1.
    assert (algo.replay_buffer.discount, algo.replay_buffer.n_step_return) == (0.9, 3)
    plain = make_algo(AlgoCls, AgentCls, bootstrap_timelimit=False)
    assert type(plain.replay_buffer) is UniformReplayBuffer
    assert "timeout" not in plain.replay_buffer.samples._fields
    run(plain, 0, 4)
    assert plain.valid(plain.sample_from_replay()).tolist() == [1] * 8


def test_replay_buffer_without_time_limits() -> None:
    algo = make_algo(ReplayBufferCls=UniformReplayBuffer)
    with pytest.raises(ValueError, match="timeout_n.*TlUniformReplayBuffer"):
        run(algo, 0, 4)


def test_shared_replay_buffer() -> None:
    algo = SAC(**SETTINGS, updates_per_sync=2)
    replay = algo.async_initialize(make_agent(spaces=BOX), 100, SPEC, True, examples())
    assert type(replay).__name__ == "AsyncTlUniformReplayBuffer"
    algo.optim_initialize()
    for itr in range(4):
        replay.append_samples(algo.samples_to_buffer(batch(itr)))
    assert len(algo.optimize_agent(0, sampler_itr=3).q1Loss) == 2


@both
def test_agent_learns_when_training_starts(AlgoCls: Any, AgentCls: Any) -> None:
    algo = make_algo(AlgoCls, AgentCls)
    assert algo.agent.min_itr_learn == algo.min_itr_learn == 2
    assert [len(info.piLoss) for info in run(algo, 0, 4)] == [0, 0, 4, 4]
    assert algo.update_counter == 8


@both
def test_replay_ratio_is_exact(AlgoCls: Any, AgentCls: Any) -> None:
    # Fractions of an update were left out.
    algo = make_algo(AlgoCls, AgentCls, replay_ratio=2.75)
    assert [len(info.piLoss) for info in run(algo, 0, 6)] == [0, 0, 2, 3, 3, 3]
    assert algo.update_counter == 11


def test_optimizer_of_the_temperature_has_settings_of_its_own_in_crossq() -> None:
    # CrossQ's betas were those of the temperature too.
    for settings, expected in (({}, 0.9), ({"alpha_optim_kwargs": {"betas": (0.7, 0.99)}}, 0.7)):
        algo = make_algo(CrossQ, agent=make_agent(spaces=BOX, **CROSSQ), **settings)
        of_alpha, of_q = algo.alpha_optimizer.param_groups[0], algo.q1_optimizer.param_groups[0]
        assert (of_alpha["betas"][0], of_q["betas"][0]) == (expected, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "AlgoCls"), [("redq", REDQ), ("droq", REDQ), ("tqc", TQC), ("crossq", CrossQ)]
)
def test_entries_of_ensembles(entry: str, AlgoCls: Any) -> None:
    words = ["Pendulum-v1", "sampler.batch_B=2"]
    runner = runner_call(configuration(entry, words, 1e3), 0, None).make()
    assert type(runner.algo) is AlgoCls
    assert runner.agent.q_kind == AlgoCls.q_kind
    if AlgoCls is CrossQ:
        assert tuple(runner.algo.optim_kwargs["betas"]) == (0.5, 0.999)


@pytest.mark.parametrize(
    ("AlgoCls", "kwargs", "remedy"),
    [
        (SAC, CROSSQ, "without target networks"),
        (SAC, {"q_model_kwargs": {**SMALL, "n_quantiles": 3}}, "of quantiles"),
        (TQC, {}, "n_quantiles"),
        (CrossQ, {}, "target_networks=False"),
    ],
)
def test_critics_of_other_algorithms(AlgoCls: Any, kwargs: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        make_algo(AlgoCls, agent=make_agent(spaces=BOX, **kwargs))


class OwnLog(SAC):
    """Logs the loss of the policy only, twice."""

    def append_opt_info_(self, opt_info: Any, losses: Any, grad_norms: Any, values: Any) -> None:
        assert (len(losses), len(grad_norms), len(values)) == (4, 3, 4)
        opt_info.piLoss.extend([losses[2].detach()] * 2)


def test_sac_needs_reparameterization() -> None:
    with pytest.raises(NotImplementedError, match="SAC_V"):
        make_algo(reparameterize=False)


def test_loss_that_is_not_finite() -> None:
    algo = make_algo()
    run(algo, 0, 2)
    with pytest.raises(FloatingPointError, match="q1Loss of SAC is inf"):
        run(algo, 2, 6, scale=math.inf)


def test_no_sample_counts() -> None:
    algo = make_algo()
    for itr in range(3):
        samples = batch(itr)
        samples.env.env_info.timeout[:] = True
        samples.env.done[:] = True
        info = algo.optimize_agent(itr, samples)
    assert info.q1Loss == info.piLoss == [0] * 4


def test_infos() -> None:
    info = run(make_algo(), 0, 4)[-1]
    assert info._fields == (*OptInfo._fields, "maskedFraction")
    lengths = {name: len(values) for name, values in info._asdict().items()}
    # Every 10th number of 8 values, or of 8 x 3, in each of 4 updates.
    assert [lengths[n] for n in ("q1", "q2", "piMu", "piLogStd")] == [4, 4, 12, 12]
    assert {lengths[n] for n in OptInfo._fields if n not in ("piMu", "piLogStd")} == {4}
    assert all(isinstance(value, float) for values in info for value in values)


# --- Extension points -----------------------------------------------------------------------------


@pytest.mark.gpu
@both
def test_on_a_gpu(AlgoCls: Any, AgentCls: Any) -> None:
    agent = make_agent(AgentCls, BOX)
    agent.to_device(0)
    algo = make_algo(AlgoCls, agent=agent, action_prior="gaussian")
    assert len(run(algo, 0, 5)[-1].piLoss) == 4
    for network in (*agent.network_names, *("target_" + name for name in agent.target_names)):
        assert next(getattr(agent, network).parameters()).is_cuda
    assert not agent.step(torch.zeros(2, 4), torch.zeros(2, 3), torch.zeros(2)).action.is_cuda


@pytest.mark.parametrize("alpha", [torch.tensor([0.25]), 0.25])
def test_alpha_may_be_assigned(alpha: Any) -> None:
    algo = make_algo()
    algo._alpha = alpha
    assert algo._alpha.item() == pytest.approx(0.25)
    assert algo._log_alpha.exp().item() == pytest.approx(0.25)
