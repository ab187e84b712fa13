"""DDPG and TD3: targets, intervals, time limits, priorities, and what each loss reaches."""

import copy
import math

import numpy as np
import pytest
import torch

from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer
from tests.algos.qpg.ddpg_parts import (
    SETTINGS,
    batch,
    examples,
    filled,
    initialized,
    make_algo,
    run,
)

BOTH = pytest.mark.parametrize("AlgoCls", [DDPG, TD3])
ALL = pytest.mark.parametrize("AlgoCls", [DDPG, TD3, D4PG])


class TestSettings:
    def test_policy_of_td3_has_its_own_learning_rate(self):
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
    def test_discount_of_the_returns(self, AlgoCls):
        # Returns of several steps were summed without discount.
        algo = make_algo(AlgoCls, n_step_return=3)
        assert algo.replay_buffer.discount == 0.9
        assert algo.replay_buffer.n_step_return == 3


@pytest.mark.parametrize(("n", "clip"), [(1, None), (3, 0.8)])
def test_target(n, clip):
    class Constant(TD3):
        def next_value(self, target_inputs):
            return torch.full((8,), 7.0)

    algo = filled(make_algo(Constant, n_step_return=n, q_target_clip=clip))
    samples = algo.sample_from_replay()
    y = samples.return_ + 0.9**n * 7 * (1 - samples.done_n.float())
    limit = clip or math.inf
    torch.testing.assert_close(algo.q_target(samples), y.clamp(-limit, limit))


@BOTH
def test_intervals(AlgoCls):
    """Of updates of the policy, 2.5 is rounded down; targets have an interval of their own."""
    algo = filled(make_algo(AlgoCls, policy_update_interval=2.5, target_update_interval=3))
    opt_info, found = algo._get_empty_optim_info(), []
    for _ in range(6):
        before = copy.deepcopy(algo.agent.state_dict())
        algo._apply_optimization(algo.sample_from_replay(), opt_info)
        after = algo.agent.state_dict()
        moved = {
            k for k, v in before.items() if not all(map(torch.equal, v.values(), after[k].values()))
        }
        found.append(["q_model" in moved, "model" in moved, "target_model" in moved])
    assert found == [[True, i % 2 == 0, i % 3 == 0] for i in range(1, 7)]
    assert len(opt_info.muLoss) == 3


class TestTimeLimits:
    @ALL
    def test_cut_returns_are_not_trained_on(self, AlgoCls):
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
    def test_without_a_mask_all_samples_count(self, AlgoCls):
        # The loss of the policy was an error.
        algo = filled(make_algo(AlgoCls))
        samples = algo.replay_buffer.sample_batch(32)
        if AlgoCls is TD3:
            algo.agent.set_target_noise(0.0)
        for loss in (algo.q_loss, algo.mu_loss):
            assert loss(samples, None).item() == pytest.approx(loss(samples, torch.ones(32)).item())


class TestGradients:
    @ALL
    def test_each_loss_reaches_its_own_networks(self, AlgoCls):
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
    @pytest.mark.parametrize(("AlgoCls", "has_timeout"), [(DDPG, True), (TD3, False)])
    def test_weights_and_new_priorities(self, AlgoCls, has_timeout):
        # Such a buffer was sampled by priorities that never changed, without weights.
        BufferCls = TlPrioritizedReplayBuffer if has_timeout else PrioritizedReplayBuffer
        algo = AlgoCls(**SETTINGS, ReplayBufferCls=BufferCls)
        initialized(algo, examples=examples(has_timeout))
        given = []
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

    def test_losses_that_are_not_finite(self):
        # The priorities were refused first, with an error that named no remedy.
        algo = initialized(DDPG(**SETTINGS, ReplayBufferCls=TlPrioritizedReplayBuffer))
        filled(algo)
        samples = algo.sample_from_replay()._replace(return_=torch.full((8,), math.nan))
        with pytest.raises(FloatingPointError, match="qLoss of DDPG is nan in iteration"):
            algo._apply_optimization(samples, algo._get_empty_optim_info())


class TestState:
    @ALL
    def test_optimizers(self, AlgoCls):
        algo = make_algo(AlgoCls)
        run(algo, 0, 4)
        state = copy.deepcopy(algo.optim_state_dict())
        assert set(state) == {"q", "mu"}
        again = make_algo(AlgoCls, initial_optim_state_dict=state)
        # A compiled step would go on with the tensors that loading replaces.
        vars(again)["_compiler"] = compiled = object()
        again.load_optim_state_dict(state)
        assert again._compiler is not compiled
        for name, optimizer in again.named_optimizers().items():
            torch.testing.assert_close(optimizer.state_dict()["state"], state[name]["state"])
        with pytest.raises(ValueError, match=r"lacks the entries \['mu'\]"):
            again.load_optim_state_dict({"q": state["q"]})
