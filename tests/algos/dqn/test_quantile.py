"""QR-DQN and IQN: the loss, and its variants."""

import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.losses import quantile_huber_loss, quantile_midpoints
from tests.agents.parts import made
from tests.algos.parts import SETTINGS, initialized, run
from tests.reference.quantiles import quantile_huber

# --- The loss -------------------------------------------------------------------------------------


def test_midpoints():
    assert quantile_midpoints(1).tolist() == [0.5]
    assert quantile_midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


@pytest.mark.parametrize("kappa", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("own_fractions", [False, True])
def test_loss_like_its_naive_twin(kappa, own_fractions):
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


def test_minimum_is_at_the_quantiles():
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


def qr(n_quantiles=5, **model_kwargs):
    model_kwargs = {"hidden_sizes": [8], **model_kwargs}
    return made(MlpQrDqnAgent(n_quantiles=n_quantiles, model_kwargs=model_kwargs))


def iqn(n_tau=6, **model_kwargs):
    model_kwargs = {"hidden_sizes": [8], "n_cosines": 4, **model_kwargs}
    return made(MlpIqnAgent(n_tau=n_tau, model_kwargs=model_kwargs))


def make_algo(AlgoCls, agent, **settings):
    return initialized(AlgoCls(**{**SETTINGS, **settings}), agent)


@pytest.mark.parametrize("AlgoCls", [QRDQN, IQN])
def test_losses_like_their_naive_twin(AlgoCls):
    """Double, prioritized and dueling; plain ones are in ``tests/oracles``."""
    fractions, agent = {}, qr(dueling=True)
    if AlgoCls is IQN:
        fractions, agent = {"n_tau": 3.0, "n_target_tau": 4.0}, iqn(dueling=True)
    settings = {"double_dqn": True, "prioritized_replay": True, "n_step_return": 3}
    algo = make_algo(
        AlgoCls, agent, **settings, **fractions, delta_clip=0.5, target_update_interval=1000
    )
    info = run(algo, 0, 5)[-1]
    assert info._fields == ("loss", "gradNorm", "tdAbsErr", "qMean")
    with torch.no_grad():  # Else both networks would choose the same actions.
        for p in agent.model.parameters():
            p += torch.randn_like(p)
    samples = algo.replay_buffer.sample_batch(8)
    torch.manual_seed(4)
    loss, td_abs_errors = algo.loss(samples)
    torch.manual_seed(4)
    if AlgoCls is QRDQN:
        quantiles, tau = agent(*samples.agent_inputs), quantile_midpoints(5).expand(8, 5)
        choosing, target = agent(*samples.target_inputs), agent.target(*samples.target_inputs)
    else:
        quantiles, tau = agent(*samples.agent_inputs, n_tau=3)
        choosing, _ = agent(*samples.target_inputs, n_tau=6)
        target, _ = agent.target(*samples.target_inputs, n_tau=4)
    best, total = choosing.mean(-1).argmax(-1), 0.0
    for i in range(8):
        factor = 0 if samples.done_n[i] else 0.99**3
        y = [samples.return_[i].item() + factor * z for z in target[i, best[i]].tolist()]
        chosen = quantiles[i, samples.action[i]].tolist()
        sample_loss, error = quantile_huber(chosen, tau[i].tolist(), y, 0.5)
        total += samples.is_weights[i].item() * sample_loss / 8
        assert td_abs_errors[i].item() == pytest.approx(error, rel=1e-3, abs=1e-5)
    assert loss.item() == pytest.approx(total, rel=1e-3)
