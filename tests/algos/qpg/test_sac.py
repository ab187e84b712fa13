"""SAC, SAC_V and SAC's ensembles: what their oracles leave open; their set-up and state."""

import math

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC, OptInfo
from rlpyt.algos.qpg.sac_ensembles import REDQ, TQC, CrossQ
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from tests.agents.qpg.sac_parts import BOX, CROSSQ, HIGH, LOW, SMALL, UNIT, inputs, make_agent
from tests.algos.qpg.sac_parts import (
    CASES,
    SETTINGS,
    SPEC,
    batch,
    certain,
    examples,
    make_algo,
    run,
)
from tests.forked import in_two_ranks

both = pytest.mark.parametrize(("AlgoCls", "AgentCls"), CASES, ids=["sac", "sac_v"])


def flat(module_or_parameters):
    return torch.cat([p.detach().reshape(-1) for p in module_or_parameters])


# --- Losses ---------------------------------------------------------------------------------------

QUANTILES = {"q_model_kwargs": {**SMALL, "n_quantiles": 5}}


@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "kwargs"), [(*case, {}) for case in CASES] + [(TQC, None, QUANTILES)]
)
def test_cut_returns_count_in_no_loss(AlgoCls, AgentCls, kwargs, monkeypatch):
    algo = make_algo(AlgoCls, agent=make_agent(AgentCls or sac_agent.SacAgent, BOX, **kwargs))
    monkeypatch.setattr(algo.agent, "draw", certain)
    run(algo, 0, 3)
    samples = algo.replay_buffer.sample_batch(32)
    counts = ~samples.timeout_n
    assert 0 < counts.sum() < 32
    losses, expected = algo.loss(samples)[0], algo.loss(samples[counts])[0]
    torch.testing.assert_close([*losses], [*expected])


def test_loss_without_reparameterization():
    algo = make_algo(SAC_V, sac_v_agent.SacAgent, reparameterize=False)
    run(algo, 0, 3)
    samples = algo.sample_from_replay()
    torch.manual_seed(1)
    found = algo.loss(samples)[0].pi
    torch.manual_seed(1)
    x, agent = samples.agent_inputs, algo.agent
    action, log_pi, (mean, log_std) = agent.pi(*x, reparameterize=False)
    advantage = torch.min(*agent.q(*x, action)) - log_pi - agent.v(*x)
    penalty = 0.001 * (mean**2 + log_std**2).mean(-1) / 2
    expected = (-log_pi * advantage.detach() + penalty)[~samples.timeout_n].mean()
    torch.testing.assert_close(found, expected)
    parameters = [*agent.pi_parameters()]
    pairs = (torch.autograd.grad(loss, parameters) for loss in (found, expected))
    torch.testing.assert_close(*pairs)


def test_all_subsets_of_critics_are_drawn():
    algo = make_algo(REDQ, agent=make_agent(spaces=BOX, n_critics=3), target_subset=2)
    run(algo, 0, 3)
    target_q, drawn = algo.agent.target_q, set()

    def watched(*args, subset):
        drawn.add(frozenset(subset))
        return target_q(*args, subset=subset)

    algo.agent.target_q = watched
    for _ in range(50):
        algo.q_target(algo.sample_from_replay())
    assert drawn == {frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))}


@pytest.mark.parametrize(("case", "spaces"), [(CASES[0], BOX), (CASES[1], UNIT)])
def test_gaussian_prior(case, spaces):
    # SAC_V asked the space for an attribute that it does not have.
    algo = make_algo(*case, spaces, action_prior="gaussian")
    low, high = (torch.from_numpy(b) for b in spaces.action.bounds)
    action = low + (high - low) * torch.rand(5, 3)
    u = (action - (low + high) / 2) / ((high - low) / 2)
    expected = -(u**2 / 2 + torch.log((high - low) / 2) + math.log(2 * math.pi) / 2).sum(-1)
    torch.testing.assert_close(algo.get_action_prior(action), expected)
    assert make_algo(*case).get_action_prior(action) == 0
    assert np.isfinite(run(algo, 0, 4)[-1].piLoss).all()


@both
def test_the_policy_is_drawn_to_actions_that_the_prior_expects(AlgoCls, AgentCls, monkeypatch):
    algo = make_algo(AlgoCls, AgentCls, action_prior="gaussian")
    monkeypatch.setattr(algo.agent, "draw", certain)
    run(algo, 0, 3)
    samples, parameters = algo.sample_from_replay(), [*algo.agent.pi_parameters()]
    action, _, _ = algo.agent.pi(*samples.agent_inputs)
    expected = -algo.get_action_prior(action)[~samples.timeout_n].mean()
    with_prior = algo.loss(samples)[0].pi
    algo.action_prior = "uniform"
    found = with_prior - algo.loss(samples)[0].pi
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradients = (torch.autograd.grad(loss, parameters) for loss in (found, expected))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_agents_without_a_range_of_actions():
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
def test_a_network_of_policy_and_critic_learns_of_both_ways_to_it(is_shared):
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
def test_losses_of_networks_that_share_layers_use_them_before_any_step(AlgoCls, AgentCls):
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
def test_each_loss_has_gradients_of_its_network_only(AlgoCls, AgentCls):
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


def test_target_update_interval():
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


# --- Without target networks ----------------------------------------------------------------------


def statistics(agent):
    """Number of batches in the statistics of the policy and of each critic."""
    networks = [agent.model, *(getattr(agent, name) for name in agent.critic_names)]
    return [int(network.mlp.model[0].n_batches) for network in networks]


def test_statistics_move_with_their_own_updates():
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


def test_other_critics_without_target_networks():
    critics = {"q_model_kwargs": {**SMALL, "dropout": 0.1}, "model_kwargs": SMALL, "n_critics": 3}
    agent = make_agent(spaces=BOX, **{**CROSSQ, **critics})
    before = flat(agent.q1_model.parameters())
    infos = run(make_algo(CrossQ, agent=agent), 0, 6)
    assert np.isfinite(infos[-1].q1Loss).all()
    assert not torch.equal(before, flat(agent.q1_model.parameters()))
    assert list(agent.state_dict()) == list(agent.network_names)


# --- The temperature ------------------------------------------------------------------------------


def test_target_entropy_follows_the_ranges_of_actions():
    auto = -3 + np.log((HIGH - LOW) / 2).sum()
    for settings, expected, after in (({}, auto, -3), ({"target_entropy": -7}, -7, -7)):
        algo = make_algo(spaces=BOX, **settings)
        assert algo.target_entropy == pytest.approx(expected)
        # Also those of a second run.
        algo.initialize(make_agent(spaces=UNIT), 10, SPEC, True, examples())
        assert algo.target_entropy == after


@pytest.mark.parametrize("settings", [{}, {"fixed_alpha": 0.3}, {"target_entropy": None}], ids=str)
def test_alpha_is_learned_or_fixed(settings):
    algo = make_algo(**settings)
    info = run(algo, 0, 6)[-1]
    assert len(set(info.alpha)) == (1 if settings else len(info.alpha))
    assert info.alpha[-1] == pytest.approx(math.exp(algo._log_alpha.item()))
    assert info.alpha[-1] == pytest.approx(0.3) or "fixed_alpha" not in settings
    assert (algo.alpha_optimizer is None) == ("fixed_alpha" in settings)


def test_whole_numbers_may_be_floats():
    # A JSON configuration has them; they were errors of the first update.
    numbers = REDQ(target_subset=2.0).target_subset, TQC(dropped_quantiles=0.0).dropped_quantiles
    assert [str(n) for n in numbers] == ["2", "0"]


def test_fixed_alpha_prevails_over_a_loaded_one():
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


def test_optimizer_state():
    algo = make_algo()
    run(algo, 0, 6)
    state = algo.optim_state_dict()
    names = ["pi_optimizer", "q1_optimizer", "q2_optimizer", "alpha_optimizer", "log_alpha"]
    assert list(state) == names
    assert isinstance(state["log_alpha"], float)
    other = make_algo(initial_optim_state_dict=state, learning_rate=0.3)
    assert torch.equal(other._alpha, algo._alpha)
    optimizers = (*other.named_optimizers().values(), other.alpha_optimizer)
    assert {group["lr"] for o in optimizers for group in o.param_groups} == {0.3}
    del state["q2_optimizer"]
    with pytest.raises(ValueError, match="q2_optimizer"):
        make_algo(initial_optim_state_dict=state)
    assert "v_optimizer" in make_algo(SAC_V, sac_v_agent.SacAgent).optim_state_dict()


def train_one_of_two(rank, AlgoCls, kwargs):
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
def test_processes_keep_one_temperature_and_one_policy(AlgoCls, kwargs, tmp_path):
    # Each process had a temperature of its own.
    first, second = in_two_ranks(train_one_of_two, tmp_path / "store", AlgoCls, kwargs)
    assert first == second
    assert first[0] != 0


# --- Set-up ---------------------------------------------------------------------------------------


@both
def test_replay_buffer(AlgoCls, AgentCls):
    algo = make_algo(AlgoCls, AgentCls, n_step_return=3, discount=0.9)
    assert type(algo.replay_buffer) is TlUniformReplayBuffer
    # The sums within n steps had discount 1.
    assert (algo.replay_buffer.discount, algo.replay_buffer.n_step_return) == (0.9, 3)
    plain = make_algo(AlgoCls, AgentCls, bootstrap_timelimit=False)
    assert type(plain.replay_buffer) is UniformReplayBuffer
    assert "timeout" not in plain.replay_buffer.samples._fields
    run(plain, 0, 4)
    assert plain.valid(plain.sample_from_replay()).tolist() == [1] * 8


def test_shared_replay_buffer():
    algo = SAC(**SETTINGS, updates_per_sync=2)
    replay = algo.async_initialize(make_agent(spaces=BOX), 100, SPEC, True, examples())
    assert type(replay).__name__ == "AsyncTlUniformReplayBuffer"
    algo.optim_initialize()
    for itr in range(4):
        replay.append_samples(algo.samples_to_buffer(batch(itr)))
    assert len(algo.optimize_agent(0, sampler_itr=3).q1Loss) == 2


def test_optimizer_of_the_temperature_has_settings_of_its_own_in_crossq():
    # CrossQ's betas were those of the temperature too.
    for settings, expected in (({}, 0.9), ({"alpha_optim_kwargs": {"betas": (0.7, 0.99)}}, 0.7)):
        algo = make_algo(CrossQ, agent=make_agent(spaces=BOX, **CROSSQ), **settings)
        of_alpha, of_q = algo.alpha_optimizer.param_groups[0], algo.q1_optimizer.param_groups[0]
        assert (of_alpha["betas"][0], of_q["betas"][0]) == (expected, 0.5)


def test_no_sample_counts():
    algo = make_algo()
    for itr in range(3):
        samples = batch(itr)
        samples.env.env_info.timeout[:] = True
        samples.env.done[:] = True
        info = algo.optimize_agent(itr, samples)
    assert info.q1Loss == info.piLoss == [0] * 4


def test_infos():
    info = run(make_algo(), 0, 4)[-1]
    assert info._fields == (*OptInfo._fields, "maskedFraction")
    lengths = {name: len(values) for name, values in info._asdict().items()}
    # Every 10th number of 8 values, or of 8 x 3, in each of 4 updates.
    assert [lengths[n] for n in ("q1", "q2", "piMu", "piLogStd")] == [4, 4, 12, 12]
    assert {lengths[n] for n in OptInfo._fields if n not in ("piMu", "piLogStd")} == {4}
    assert all(isinstance(value, float) for values in info for value in values)


@pytest.mark.parametrize("alpha", [torch.tensor([0.25]), 0.25])
def test_alpha_may_be_assigned(alpha):
    algo = make_algo()
    algo._alpha = alpha
    assert algo._alpha.item() == pytest.approx(0.25)
    assert algo._log_alpha.exp().item() == pytest.approx(0.25)
