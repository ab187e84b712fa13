"""QR-DQN and IQN: the loss, its variants, what is refused, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.losses import quantile_huber_loss, quantile_midpoints
from rlpyt.utils.buffer import torchify_buffer
from tests.agents.parts import made
from tests.algos.parts import SETTINGS, batch, initialized, run
from tests.reference.quantiles import quantile_huber

# --- The loss -------------------------------------------------------------------------------------


def test_midpoints() -> None:
    assert quantile_midpoints(1).tolist() == [0.5]
    assert quantile_midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


# quantiles, fractions, targets, kappa; loss, difference of means
TABLE = [
    ([0.0], [0.5], [0.0], 1.0, 0.0, 0.0),
    ([0.0], [0.25], [1.0], 1.0, 0.25 * 0.5, 1.0),  # Too low by one: weight tau.
    ([1.0], [0.25], [0.0], 1.0, 0.75 * 0.5, 1.0),  # Too high: weight 1 - tau.
    ([0.0], [0.25], [3.0], 1.0, 0.25 * 2.5, 1.0),  # Linear, and the difference is clipped.
    ([0.0], [0.25], [3.0], 2.0, 0.25 * 4.0 / 2, 2.0),
    ([0.0], [0.5], [2.0], 4.0, 0.5 * 2.0 / 4, 2.0),
    # Sum over quantiles, mean over targets: (0.25 * 0.5 + 0.75 * 0.5) / 2 + (0.75 * 0.5 + 0) / 2.
    ([0.0, 1.0], [0.25, 0.75], [1.0, -1.0], 1.0, 0.25 + (0.25 * 1.5) / 2, 0.5),
]


@pytest.mark.parametrize(("quantiles", "tau", "targets", "kappa", "loss", "error"), TABLE)
def test_loss_by_hand(
    quantiles: list[float],
    tau: list[float],
    targets: list[float],
    kappa: float,
    loss: float,
    error: float,
) -> None:
    found, td_abs_error = quantile_huber_loss(
        torch.tensor([quantiles]), torch.tensor(tau), torch.tensor([targets]), kappa
    )
    assert (found.item(), td_abs_error.item()) == pytest.approx((loss, error))
    assert quantile_huber(quantiles, tau, targets, kappa) == pytest.approx((loss, error))


@pytest.mark.parametrize("kappa", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("own_fractions", [False, True])
def test_loss_like_its_naive_twin(kappa: float, own_fractions: bool) -> None:
    quantiles, targets = torch.randn(20, 5) * 3, torch.randn(20, 7) * 3
    tau = torch.rand(20, 5) if own_fractions else quantile_midpoints(5)
    quantiles.requires_grad_()
    loss, td_abs_error = quantile_huber_loss(quantiles, tau, targets, kappa)
    assert loss.requires_grad
    assert not td_abs_error.requires_grad
    for i in range(20):
        tau_i = tau[i] if own_fractions else tau
        expected = quantile_huber(quantiles[i].tolist(), tau_i.tolist(), targets[i].tolist(), kappa)
        assert (loss[i].item(), td_abs_error[i].item()) == pytest.approx(expected, rel=1e-4)


def test_gradients_of_the_loss() -> None:
    quantiles = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    targets = torch.randn(4, 5, dtype=torch.double)
    tau = torch.rand(4, 3, dtype=torch.double)
    assert torch.autograd.gradcheck(
        lambda q: quantile_huber_loss(q, tau, targets, 1.0)[0], (quantiles,)
    )


def test_minimum_is_at_the_quantiles() -> None:
    """With a small kappa: the ones of 1000 numbers that have so many below them."""
    targets = torch.arange(1000.0).flip(0)[None] / 1000
    theta = torch.full((1, 4), 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([theta], lr=0.01)
    for _ in range(400):
        optimizer.zero_grad()
        loss, _ = quantile_huber_loss(theta, quantile_midpoints(4), targets, 1e-3)
        loss.sum().backward()
        optimizer.step()
    assert theta.flatten().tolist() == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.01)


# --- The algorithms -------------------------------------------------------------------------------


def qr(n_quantiles: int = 5, **model_kwargs: Any) -> Any:
    model_kwargs = {"hidden_sizes": [8], **model_kwargs}
    return made(MlpQrDqnAgent(n_quantiles=n_quantiles, model_kwargs=model_kwargs))


def iqn(n_tau: int = 6, **model_kwargs: Any) -> Any:
    model_kwargs = {"hidden_sizes": [8], "n_cosines": 4, **model_kwargs}
    return made(MlpIqnAgent(n_tau=n_tau, model_kwargs=model_kwargs))


IQN_SETTINGS = {"n_tau": 3, "n_target_tau": 4}
ALGOS = [(QRDQN, qr, {}), (IQN, iqn, IQN_SETTINGS)]


def make_algo(AlgoCls: Any, agent: Any, **settings: Any) -> Any:
    return initialized(AlgoCls(**{**SETTINGS, **settings}), agent)


def targets_of(samples: Any, i: int, quantiles: torch.Tensor, discount_n: float) -> list[float]:
    """One sample's targets, of the quantiles [N'] at the observation after n steps."""
    not_done = 0 if samples.done_n[i] else discount_n
    return [samples.return_[i].item() + not_done * value for value in quantiles.tolist()]


VARIANTS = [
    {"double_dqn": double_dqn, "prioritized_replay": prioritized, "n_step_return": n_step}
    for double_dqn in (False, True)
    for prioritized in (False, True)
    for n_step in (1, 3)
]


def assert_loss_is(
    algo: Any, samples: Any, found: Any, chosen: Any, tau: Any, targets: Any
) -> None:
    """Compare with the naive twin: quantiles, fractions and targets of each sample as lists."""
    loss, td_abs_errors = found
    weights = samples.is_weights.tolist() if algo.prioritized_replay else [1.0] * 8
    total = 0.0
    for i in range(8):
        sample_loss, error = quantile_huber(chosen[i], tau[i], targets[i], algo.delta_clip)
        total += weights[i] * sample_loss / 8
        assert td_abs_errors[i].item() == pytest.approx(error, rel=1e-3, abs=1e-5)
    assert loss.item() == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dueling", [False, True])
def test_qr_dqn_like_its_naive_twin(variant: dict[str, Any], dueling: bool) -> None:
    agent = qr(dueling=dueling)
    algo = make_algo(QRDQN, agent, **variant, delta_clip=0.5, target_update_interval=1000)
    run(algo, 0, 5)
    samples = algo.replay_buffer.sample_batch(8)
    found = algo.loss(samples)
    quantiles = agent(*samples.agent_inputs)
    target = agent.target(*samples.target_inputs)
    choosing = agent(*samples.target_inputs) if algo.double_dqn else target
    best = choosing.mean(-1).argmax(-1)
    discount_n = 0.99**algo.n_step_return
    assert_loss_is(
        algo,
        samples,
        found,
        chosen=[quantiles[i, samples.action[i]].tolist() for i in range(8)],
        tau=[[0.1, 0.3, 0.5, 0.7, 0.9]] * 8,
        targets=[targets_of(samples, i, target[i, best[i]], discount_n) for i in range(8)],
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dueling", [False, True])
def test_iqn_like_its_naive_twin(variant: dict[str, Any], dueling: bool) -> None:
    agent = iqn(dueling=dueling)
    algo = make_algo(IQN, agent, **variant, **IQN_SETTINGS, target_update_interval=1000)
    run(algo, 0, 5)
    samples = algo.replay_buffer.sample_batch(8)
    torch.manual_seed(4)
    found = algo.loss(samples)
    torch.manual_seed(4)
    quantiles, tau = agent(*samples.agent_inputs, n_tau=3)
    if algo.double_dqn:
        choosing, _ = agent(*samples.target_inputs, n_tau=6)
        target, _ = agent.target(*samples.target_inputs, n_tau=4)
    else:
        both, tau_both = agent.target(*samples.target_inputs, n_tau=10)
        assert tau_both.shape == (8, 10)
        choosing, target = both[..., :6], both[..., 6:]
    best = choosing.mean(-1).argmax(-1)
    discount_n = 0.99**algo.n_step_return
    assert_loss_is(
        algo,
        samples,
        found,
        chosen=[quantiles[i, samples.action[i]].tolist() for i in range(8)],
        tau=tau.tolist(),
        targets=[targets_of(samples, i, target[i, best[i]], discount_n) for i in range(8)],
    )


def test_numbers_of_fractions_may_be_floats() -> None:
    run(make_algo(IQN, iqn(), n_tau=3.0, n_target_tau=4.0), 0, 3)


@pytest.mark.parametrize(("AlgoCls", "make_agent", "settings"), ALGOS)
class TestBoth:
    def test_target_has_no_gradient(self, AlgoCls: Any, make_agent: Any, settings: Any) -> None:
        algo = make_algo(AlgoCls, make_agent(), **settings)
        run(algo, 0, 2)
        loss, _ = algo.loss(algo.sample_from_replay())
        loss.backward()
        assert all(p.grad is None for p in algo.agent.target_model.parameters())
        assert all(p.grad is not None for p in algo.agent.model.parameters())

    def test_what_is_logged(self, AlgoCls: Any, make_agent: Any, settings: Any) -> None:
        algo = make_algo(AlgoCls, make_agent(), prioritized_replay=True, **settings)
        info = run(algo, 0, 3)[-1]
        assert info._fields == ("loss", "gradNorm", "tdAbsErr", "qMean")
        assert len(info.loss) == algo.updates_per_optimize
        assert 0 < max(info.tdAbsErr) <= 1

    def test_learns_the_distribution_of_rewards(
        self, AlgoCls: Any, make_agent: Any, settings: Any
    ) -> None:
        """Rewards are 0 or 1, once in four: the quantiles below 3/4 are 0, those above are 1."""
        agent = make_agent(8, hidden_sizes=[32], **({"n_cosines": 32} if settings else {}))
        algo = make_algo(
            AlgoCls,
            agent,
            **{**settings, **({"n_tau": 16} if settings else {})},
            learning_rate=5e-3,
            batch_size=64,
            replay_ratio=32,
            replay_size=1024,
            delta_clip=0.05,
        )
        rng = np.random.default_rng(0)
        for itr in range(150):
            samples = batch(rng, done=1.0)
            reward = torchify_buffer((rng.random((4, 2)) < 0.25).astype(np.float32))
            env = samples.env._replace(reward=reward, observation=0 * samples.env.observation)
            algo.optimize_agent(itr, samples._replace(env=env))
        data = torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64), torch.zeros(1)
        if AlgoCls is QRDQN:
            quantiles, tau = agent(*data)[0], quantile_midpoints(8)
        else:
            tau = quantile_midpoints(8)
            quantiles = agent.model(torch.zeros(1, 3), None, None, tau[None])[0]
        quantiles = quantiles.detach()
        low, high = quantiles[:, tau < 0.6], quantiles[:, tau > 0.9]
        assert low.abs().max() < 0.2
        assert (high - 1).abs().max() < 0.2
