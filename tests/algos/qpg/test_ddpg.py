"""DDPG and TD3: losses, one whole update, what each step touches, seams, bad input."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer, TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from tests.agents.qpg.ddpg_parts import HIGH, LOW
from tests.algos.qpg.ddpg_parts import (
    SETTINGS,
    batch,
    examples,
    filled,
    initialized,
    make_algo,
    run,
)
from tests.reference.deterministic_policy_gradient import NaiveTrainer

BOTH = pytest.mark.parametrize("AlgoCls", [DDPG, TD3])
ALL = pytest.mark.parametrize("AlgoCls", [DDPG, TD3, D4PG])


def networks(agent: Any) -> dict[str, Any]:
    """Copies of the parameters of every network."""
    return copy.deepcopy(agent.state_dict())


def changed(before: dict[str, Any], agent: Any) -> set[str]:
    """The networks whose parameters are others now."""
    after = agent.state_dict()
    return {
        name
        for name, state in before.items()
        if not all(torch.equal(state[key], after[name][key]) for key in state)
    }


class TestSettings:
    def test_policy_of_td3_has_its_own_learning_rate(self) -> None:
        # mu_learning_rate was ignored, so that the policy learned at 1e-4.
        for kwargs, expected in [
            ({}, 1e-3),
            ({"mu_learning_rate": 3e-4}, 3e-4),
            ({"learning_rate": 3e-4}, 3e-4),
            ({"learning_rate": 3e-4, "mu_learning_rate": 3e-4}, 3e-4),
        ]:
            algo = initialized(TD3(replay_size=1e3, min_steps_learn=100, **kwargs))
            assert algo.mu_learning_rate == algo.learning_rate == expected
            assert algo.mu_optimizer.defaults["lr"] == expected
            assert algo.q_optimizer.defaults["lr"] == 1e-3
        with pytest.raises(ValueError, match="mu_learning_rate is 0.0003.*learning_rate is 0.01"):
            TD3(mu_learning_rate=3e-4, learning_rate=0.01)

    @ALL
    def test_discount_of_the_returns(self, AlgoCls: Any) -> None:
        # Returns of several steps were summed without discount.
        algo = make_algo(AlgoCls, n_step_return=3)
        assert algo.replay_buffer.discount == 0.9
        assert algo.replay_buffer.n_step_return == 3

    @ALL
    def test_agent_learns_when_training_starts(self, AlgoCls: Any) -> None:
        algo = make_algo(AlgoCls)
        assert algo.min_itr_learn == algo.agent.min_itr_learn == 2
        assert algo.updates_per_optimize == 4


class TestTimeLimits:
    @pytest.mark.parametrize(
        ("has_timeout", "bootstrap_timelimit", "BufferCls"),
        [
            (True, True, TlUniformReplayBuffer),
            (True, False, UniformReplayBuffer),
            (False, True, UniformReplayBuffer),
            (False, False, UniformReplayBuffer),
        ],
    )
    @BOTH
    def test_class_of_buffer(
        self, AlgoCls: Any, has_timeout: bool, bootstrap_timelimit: bool, BufferCls: Any
    ) -> None:
        # Without env_info.timeout the first update failed.
        algo = AlgoCls(**{**SETTINGS, "bootstrap_timelimit": bootstrap_timelimit})
        initialized(algo, examples=examples(has_timeout))
        assert type(algo.replay_buffer) is BufferCls
        for itr in range(4):
            info = algo.optimize_agent(itr, batch(np.random.default_rng(itr), has_timeout))
        assert len(info.qLoss) == 4

    @ALL
    def test_cut_returns_are_not_trained_on(self, AlgoCls: Any) -> None:
        algo = filled(make_algo(AlgoCls))
        samples = algo.replay_buffer.sample_batch(32)
        cut = samples.timeout_n.bool()
        assert 0 < cut.sum() < 32
        if AlgoCls is TD3:
            algo.agent.set_target_noise(0.0)
        loss = algo.q_loss(samples, algo.valid(samples)).item()
        mu_loss = algo.mu_loss(samples, algo.valid(samples)).item()
        samples.return_[cut] += 1000
        samples.agent_inputs.observation[cut] += 1
        assert algo.q_loss(samples, algo.valid(samples)).item() == pytest.approx(loss)
        assert algo.mu_loss(samples, algo.valid(samples)).item() == pytest.approx(mu_loss)

    @ALL
    def test_without_a_mask_all_samples_count(self, AlgoCls: Any) -> None:
        # The loss of the policy was an error.
        algo = filled(make_algo(AlgoCls))
        samples = algo.replay_buffer.sample_batch(32)
        if AlgoCls is TD3:
            algo.agent.set_target_noise(0.0)
        for loss in (algo.q_loss, algo.mu_loss):
            assert loss(samples, None).item() == pytest.approx(loss(samples, torch.ones(32)).item())


@pytest.mark.parametrize(
    ("AlgoCls", "settings"),
    [
        (DDPG, {}),
        (DDPG, {"n_step_return": 3, "q_target_clip": 0.8}),
        (DDPG, {"policy_update_interval": 3, "target_update_interval": 2}),
        (DDPG, {"policy_update_interval": 2.5, "n_step_return": 2.5}),  # Rounded down.
        (TD3, {}),
        (TD3, {"n_step_return": 2, "policy_update_interval": 1, "q_target_clip": 1.0}),
    ],
)
def test_whole_updates_like_the_naive_twin(AlgoCls: Any, settings: dict[str, Any]) -> None:
    algo = filled(make_algo(AlgoCls, **settings))
    agent = algo.agent
    is_td3 = AlgoCls is TD3
    names = ("discount", "n_step_return", "learning_rate", "q_learning_rate", "q_target_clip")
    names += ("policy_update_interval", "target_update_interval", "target_update_tau")
    naive = NaiveTrainer(
        agent.model.mlp,
        [agent.q_model.mlp, agent.q2_model.mlp] if is_td3 else [agent.q_model.mlp],
        LOW,
        HIGH,
        **{name: getattr(algo, name) for name in names},
        target_noise_std=0.2,
        target_noise_clip=0.5,
    )
    opt_info = algo._get_empty_optim_info()
    for update in range(6):
        samples = algo.sample_from_replay()
        torch.manual_seed(update)
        noises = torch.randn(8, 3) if is_td3 else None
        q_loss, mu_loss = naive.update(samples, noises)
        torch.manual_seed(update)
        algo._apply_optimization(samples, opt_info)
        assert opt_info.qLoss[-1] == pytest.approx(q_loss, rel=1e-3)
        if not math.isnan(mu_loss):
            assert opt_info.muLoss[-1] == pytest.approx(mu_loss, rel=1e-3, abs=1e-4)
    assert len(opt_info.qLoss) == 6
    assert len(opt_info.muLoss) == 6 // algo.policy_update_interval
    pairs = [(agent.model, naive.policy), (agent.target_model, naive.target_policy)]
    pairs += [(agent.q_model, naive.critics[0]), (agent.target_q_model, naive.target_critics[0])]
    if is_td3:
        pairs += [(agent.q2_model, naive.critics[1])]
        pairs += [(agent.target_q2_model, naive.target_critics[1])]
    for model, twin in pairs:
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


class TestGradients:
    @ALL
    def test_each_loss_reaches_its_own_networks(self, AlgoCls: Any) -> None:
        algo = filled(make_algo(AlgoCls))
        samples = algo.sample_from_replay()
        valid = algo.valid(samples)
        critics, policy = list(algo.agent.q_parameters()), list(algo.agent.mu_parameters())
        targets = [
            p
            for name in algo.agent.target_names
            for p in getattr(algo.agent, f"target_{name}").parameters()
        ]
        algo.q_loss(samples, valid).backward()
        assert all(p.grad is not None for p in critics)
        assert all(p.grad is None for p in [*policy, *targets])
        for p in critics:
            p.grad = None
        # Gradients of the critics were computed for nothing.
        algo.mu_loss(samples, valid).backward()
        assert all(p.grad is not None for p in policy)
        assert all(p.grad is None for p in [*critics, *targets])
        assert all(p.requires_grad for p in [*critics, *policy])


class TestPriorities:
    @pytest.mark.parametrize("has_timeout", [False, True])
    @BOTH
    def test_weights_and_new_priorities(self, AlgoCls: Any, has_timeout: bool) -> None:
        # Such a buffer was sampled by priorities that never changed, without weights.
        BufferCls = TlPrioritizedReplayBuffer if has_timeout else PrioritizedReplayBuffer
        algo = AlgoCls(**SETTINGS, ReplayBufferCls=BufferCls)
        initialized(algo, examples=examples(has_timeout))
        given: list[Any] = []
        for itr in range(2):
            algo.optimize_agent(itr, batch(np.random.default_rng(itr), has_timeout))
        update = algo.replay_buffer.update_batch_priorities
        algo.replay_buffer.update_batch_priorities = lambda p: given.append(p) or update(p)
        if AlgoCls is TD3:
            algo.agent.set_target_noise(0.0)
        samples = algo.sample_from_replay()._replace(is_weights=torch.linspace(0.1, 1, 8))
        valid = algo.valid(samples)
        qs = algo.agent.q(*samples.agent_inputs, samples.action)
        errors = [algo.q_target(samples) - q for q in (qs if AlgoCls is TD3 else [qs])]
        loss = sum(0.5 * e**2 for e in errors) * samples.is_weights * valid
        opt_info = algo._get_empty_optim_info()
        algo._apply_optimization(samples, opt_info)
        assert opt_info.qLoss[0] == pytest.approx((loss.sum() / valid.sum()).item(), rel=1e-4)
        expected = sum(e.abs() for e in errors) / len(errors) * valid
        torch.testing.assert_close(given[0], expected.detach(), rtol=1e-3, atol=1e-4)
        algo.optimize_agent(5, batch(np.random.default_rng(5), has_timeout))
        assert len(given) == 5

    def test_losses_that_are_not_finite(self) -> None:
        # The priorities were refused first, with an error that named no remedy.
        algo = initialized(DDPG(**SETTINGS, ReplayBufferCls=TlPrioritizedReplayBuffer))
        filled(algo)
        samples = algo.sample_from_replay()._replace(return_=torch.full((8,), math.nan))
        with pytest.raises(FloatingPointError, match="qLoss of DDPG is nan in iteration"):
            algo._apply_optimization(samples, algo._get_empty_optim_info())


class TestState:
    @ALL
    def test_optimizers(self, AlgoCls: Any) -> None:
        algo = make_algo(AlgoCls)
        run(algo, 0, 4)
        state = copy.deepcopy(algo.optim_state_dict())
        assert set(state) == {"q", "mu"}
        again = make_algo(AlgoCls, initial_optim_state_dict=state)
        for name, optimizer in again.named_optimizers().items():
            torch.testing.assert_close(optimizer.state_dict()["state"], state[name]["state"])
        with pytest.raises(ValueError, match=r"lacks the entries \['mu'\]"):
            again.load_optim_state_dict({"q": state["q"]})


class TestSeams:
    def test_other_targets(self) -> None:
        class Constant(TD3):
            def next_value(self, target_inputs: Any) -> Any:
                return torch.full((8,), 7.0)

        algo = filled(make_algo(Constant))
        samples = algo.sample_from_replay()
        y = samples.return_ + 0.9 * 7 * (1 - samples.done_n.float())
        torch.testing.assert_close(algo.q_target(samples), y)


def test_missing_timeout_is_said(capsys: Any) -> None:
    initialized(DDPG(**SETTINGS), examples=examples(has_timeout=False))
    assert "the environment gives no env_info.timeout" in capsys.readouterr().out
