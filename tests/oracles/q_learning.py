"""DQN and QR-DQN beside Stable-Baselines3, their kin beside the formulas of their papers."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import sb3_contrib
import stable_baselines3
import torch

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpIqnAgent, MlpQrDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.munchausen import MunchausenDQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from tests.oracles.comparing import CONTRIB, SB3, Outcome, assign, copies, flat, oracle
from tests.oracles.replayed import (
    BATCH,
    DRAWS,
    N_UPDATES,
    SHARED,
    THEIR_SHARED,
    Transition,
    Watched,
    fill,
    importance_weights,
    ours,
    transition,
)
from tests.oracles.worlds import N_ACTIONS, Tides
from tests.reference.adam import NaiveAdam
from tests.reference.q_learning import divergence, munchausen_target, project, td_loss
from tests.reference.quantiles import quantile_huber

WIDTHS = [8, 8]
SETTINGS = {
    **SHARED,
    "learning_rate": 0.01,
    "clip_grad_norm": 0.5,
    "optim_kwargs": {"eps": 1e-8},
    "target_update_tau": 1,
    "target_update_interval": 1000,
}
THEIRS = {**THEIR_SHARED, "learning_rate": 0.01, "max_grad_norm": 0.5}


def halve(network):
    """Make a target network differ from the one that is trained."""
    with torch.no_grad():
        for p in network.parameters():
            p *= 0.5


# --- Beside Stable-Baselines3 ---------------------------------------------------------------------


Order = Callable[[list[Any]], list[Any]]


def run(theirs, algo, agent, nets, order=list, their_order=list):
    """Updates of both; ``nets`` are theirs, trained and target; orders make parameters alike."""
    setup, samples = ours(algo, agent)
    fill(theirs, samples)
    halve(nets[1])
    models = agent.model, agent.target_model
    mine = [p for model in models for p in order(flat([model.body, model.head]))]
    others = [p for net in nets for p in their_order(list(net.parameters()))]
    assign(mine, others)
    before = copies(others)
    theirs.train(N_UPDATES, BATCH)
    info = setup.algo.optimize_agent(0, samples)
    losses = {"loss": (np.mean(info.loss), theirs.logger.name_to_value["train/loss"])}
    return Outcome(before, copies(mine), copies(others), losses)


@oracle("DQN", SB3, "4 updates, clipped gradients")
def dqn():
    theirs = stable_baselines3.DQN(
        "MlpPolicy", Tides(), **THEIRS, policy_kwargs={"net_arch": WIDTHS}
    )
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": WIDTHS})
    return run(theirs, DQN(**SETTINGS), agent, (theirs.q_net, theirs.q_net_target))


N_QUANTILES = 5


def by_action(parameters):
    """The last layer as [A,N,...], as it is here."""
    return [*parameters[:-2], *(p.unflatten(0, (N_ACTIONS, N_QUANTILES)) for p in parameters[-2:])]


def by_quantile(parameters):
    """The last layer as [A,N,...], which has the order [N,A,...] there."""
    last = (p.unflatten(0, (N_QUANTILES, N_ACTIONS)).transpose(0, 1) for p in parameters[-2:])
    return [*parameters[:-2], *last]


@oracle("QR-DQN", CONTRIB, "4 updates, 5 quantiles, clipped gradients")
def qr_dqn():
    policy = {"net_arch": WIDTHS, "n_quantiles": N_QUANTILES}
    # Both make Adam's eps of the size of a batch.
    theirs = sb3_contrib.QRDQN(
        "MlpPolicy", Tides(), **THEIRS, batch_size=BATCH, policy_kwargs=policy
    )
    agent = MlpQrDqnAgent(n_quantiles=N_QUANTILES, model_kwargs={"hidden_sizes": WIDTHS})
    nets = theirs.quantile_net, theirs.quantile_net_target
    algo = QRDQN(**{**SETTINGS, "optim_kwargs": None})
    return run(theirs, algo, agent, nets, by_action, by_quantile)


# --- Beside formulas ------------------------------------------------------------------------------

ONE_STEP, THREE_STEPS = (partial(transition, n=n, discount=0.9) for n in (1, 3))

# The loss of one transition, given networks in double precision and the place in the batch, and its
# priority.
Loss = Callable[[Any, Any, Transition, int], tuple[Any, float]]


def naive(algo, agent, loss_of, step_of=ONE_STEP, alpha=None, beta=0.0, **env):
    """Updates of both, by priority^alpha if that is given; targets are copied after two.

    ``step_of`` gives a transition of the sampler's batch.
    """
    setup, samples = ours(algo, agent, **env)
    halve(agent.target_model)
    net, target = (copy.deepcopy(m).double() for m in (agent.model, agent.target_model))
    mine, theirs = list(agent.parameters()), list(net.parameters())
    before = copies(theirs)
    info = setup.algo.optimize_agent(0, samples)
    drawn = DRAWS
    if alpha is not None:
        drawn = [rows for rows, _ in setup.algo.replay_buffer.drawn]
    priorities = np.ones(len(samples.env.done))
    optimizer, found = NaiveAdam(theirs, 0.01, algo.optim_kwargs["eps"]), []
    for i, rows in enumerate(drawn, 1):
        pairs = [loss_of(net, target, step_of(samples, t), k) for k, t in enumerate(rows)]
        weights = np.ones(BATCH)
        if alpha is not None:
            weights = importance_weights(priorities[rows], alpha, beta)
            priorities[rows] = [priority for _, priority in pairs]
        loss = sum(weight * one for weight, (one, _) in zip(weights, pairs, strict=True)) / BATCH
        optimizer.minimize(loss, 0.5)
        found.append(loss)
        if i % 2 == 0:
            target.load_state_dict(net.state_dict())
    losses = {"loss": (info.loss, torch.stack(found))}
    return Outcome(before, copies(mine), copies(theirs), losses)


def values(net, observation, *args):
    """Outputs [A,...] for one observation, of a copy in double precision."""
    return net.head(net.body(observation[None]), *args)[0]


EVERY_SECOND = {**SETTINGS, "target_update_interval": 2}
PRIORITIZED = {
    "prioritized_replay": True,
    "pri_alpha": 0.6,
    "pri_beta_init": 0.4,
    "ReplayBufferCls": Watched,
}
BY_PRIORITY = {"alpha": 0.6, "beta": 0.4}


@oracle(
    "DQN, double, prioritized",
    "van Hasselt et al. 2016, Schaul et al. 2016",
    "3-step returns, errors clipped at 0.3, target copied",
)
def double_dqn():
    def loss_of(net, target, step, k):
        q = values(net, step.observation)[step.action]
        choosing, judging = (values(m, step.following).tolist() for m in (net, target))
        ends = step.return_, step.is_over
        loss, error = td_loss(q, *ends, judging, choosing, 0.9, step.n_steps, 0.3)
        return loss, float(torch.as_tensor(error).detach())

    settings = {**EVERY_SECOND, **PRIORITIZED, "delta_clip": 0.3, "default_priority": 1.0}
    algo = DQN(**settings, double_dqn=True, n_step_return=3)
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": WIDTHS})
    return naive(algo, agent, loss_of, THREE_STEPS, **BY_PRIORITY)


ATOMS = np.linspace(-3, 3, 7)


def categorical_loss(is_double):
    def loss_of(net, target, step, k):
        p = values(net, step.observation)[step.action].softmax(-1)
        next_p = values(target, step.following).softmax(-1).detach().numpy()
        choosing = next_p
        if is_double:
            choosing = values(net, step.following).softmax(-1).detach().numpy()
        best = int((choosing @ ATOMS).argmax())
        ends = step.return_, step.is_over
        y = project(*ends, next_p[best].tolist(), ATOMS.tolist(), 0.9**step.n_steps)
        loss = -sum(share * p_i.log() for share, p_i in zip(y, p))
        return loss, divergence(p.tolist(), y)

    return loss_of


def categorical_agent(**kwargs):
    return MlpCatDqnAgent(n_atoms=7, model_kwargs={"hidden_sizes": WIDTHS, **kwargs})


@oracle("C51", "Bellemare et al. 2017", "7 atoms from -3 to 3, target copied")
def c51():
    algo = CategoricalDQN(**EVERY_SECOND, V_min=-3, V_max=3)
    return naive(algo, categorical_agent(), categorical_loss(is_double=False))


@oracle("Rainbow", "Hessel et al. 2018", "C51, double, dueling, noisy, prioritized, 3-step returns")
def rainbow():
    noise = torch.from_numpy(np.random.default_rng(2).normal(size=1000))

    def same(n, dtype, device):
        return noise[:n].to(dtype)

    settings = {**EVERY_SECOND, **PRIORITIZED, "optim_kwargs": {"eps": 1.5e-4}}
    algo = CategoricalDQN(**settings, V_min=-3, V_max=3, double_dqn=True, n_step_return=3)
    agent = categorical_agent(dueling=True, noisy=True)
    with mock.patch("torch.randn", same):  # Every pass has the same noise.
        return naive(algo, agent, categorical_loss(is_double=True), THREE_STEPS, **BY_PRIORITY)


# --- Quantiles, Munchausen ------------------------------------------------------------------------


class IqnWatched(MlpIqnAgent):
    """Keeps the fractions that were drawn, in order, of each network."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.fractions = {"online": [], "target": []}

    def __call__(self, *args, **kwargs):
        quantiles, tau = super().__call__(*args, **kwargs)
        self.fractions["online"].append(tau)
        return quantiles, tau

    def target(self, *args, **kwargs):
        quantiles, tau = super().target(*args, **kwargs)
        self.fractions["target"].append(tau)
        return quantiles, tau


def iqn_loss(agent):
    """Of each transition, at the fractions that the agent drew."""
    update = {"n": 0}

    def drawn(name, k):
        return agent.fractions[name][update["n"]][k : k + 1].double()

    def loss_of(net, target, step, k):
        tau = drawn("online", k)
        quantiles = values(net, step.observation, tau)[step.action]
        both = values(target, step.following, drawn("target", k)).detach()
        choosing, judging = both[:, :6].mean(-1), both[:, 6:]
        y = [
            step.return_ + (0 if step.is_over else 0.9**step.n_steps * float(z))
            for z in judging[choosing.argmax()]
        ]
        update["n"] += k == BATCH - 1
        loss, error = quantile_huber(list(quantiles), tau[0].tolist(), y, 1.0)
        return loss, float(torch.as_tensor(error).detach())

    return loss_of


@oracle("IQN", "Dabney et al. 2018", "3-step returns, 5 fractions, 4 of the target")
def iqn():
    agent = IqnWatched(n_tau=6, model_kwargs={"hidden_sizes": WIDTHS, "n_cosines": 4})
    algo = IQN(**EVERY_SECOND, n_step_return=3, n_tau=5, n_target_tau=4)
    return naive(algo, agent, iqn_loss(agent), THREE_STEPS)


MUNCHAUSEN = {"munchausen_alpha": 0.9, "entropy_tau": 0.2, "munchausen_clip": -0.3}


@oracle(
    "Munchausen DQN", "Vieillard et al. 2020", "temperature 0.2, clipped at -0.3, squared errors"
)
def munchausen():
    def loss_of(net, target, step, k):
        q_now, q_next = (values(target, x).tolist() for x in (step.observation, step.following))
        ends = step.return_, step.is_over, int(step.action)
        y = munchausen_target(*ends, q_now, q_next, q_next, 0.9, *MUNCHAUSEN.values())
        q = values(net, step.observation)[step.action]
        return td_loss(q, y, True, [0.0], [0.0], 0.9, 1, None)[0], 0.0

    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": WIDTHS})
    return naive(MunchausenDQN(**EVERY_SECOND, **MUNCHAUSEN, delta_clip=None), agent, loss_of)
