"""SAC's options and variants, and D4PG, beside the formulas of their papers."""

import copy
import math

import numpy as np
import torch

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.algos.qpg.sac_ensembles import REDQ
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.models.qpg.mlp import QofMuMlpModel
from tests.oracles.actor_critics import HIDDEN, Seeded
from tests.oracles.comparing import Outcome, copies, flat, oracle
from tests.oracles.replayed import (
    BATCH,
    DRAWS,
    SHARED,
    Watched,
    importance_weights,
    ours,
    transition,
)
from tests.oracles.worlds import N_ACTIONS
from tests.reference.adam import NaiveAdam
from tests.reference.q_learning import divergence, project
from tests.reference.soft_actor_critic import NaiveDiscreteSac, NaiveSac, draw


class Chosen(Seeded):
    """Keeps the subsets of critics that make targets."""

    def target_q(self, *args, subset=None):
        n = len(self.critic_names)
        self.subsets.append(range(n) if subset is None else subset)
        return super().target_q(*args, subset=subset)


def of_mlp(model):
    return [model.mlp.model]


def twin_of(agent, n_critics, layers, NaiveCls, settings):
    """Our networks, and the naive twin that begins with copies of them."""
    names = [f"q{k}_model" for k in range(1, n_critics + 1)]
    critics = [torch.nn.Sequential(*layers(getattr(agent, name))) for name in names]
    targets = [torch.nn.Sequential(*layers(getattr(agent, f"target_{name}"))) for name in names]
    policy = torch.nn.Sequential(*layers(agent.model))
    shared = {"discount": 0.9, "learning_rate": 0.01, "clip_grad_norm": 0.5, "tau": 0.1}
    bounds = {"low": [-2.0, -2.0], "high": [2.0, 2.0], "reward_scale": 1.0}
    twin = NaiveCls(policy, critics, targets, **{**shared, **bounds, **settings})
    return [policy, *critics, *targets], twin


def updates_of(twin, samples, n, subsets, with_policy):
    """Losses [N_UPDATES] of all critics together, and of the policy where it is updated."""
    found = []
    for i, rows in enumerate(DRAWS):
        noises = []
        for seed in (10 * i + 2, 10 * i + 1):
            torch.manual_seed(seed)
            noises.append(torch.randn(BATCH, 2))
        steps = [transition(samples, t, n, 0.9) for t in rows]
        found.append(twin.update(steps, *noises, subsets[i], with_policy[i]))
    q_loss, pi_loss = np.array(found).T
    return q_loss, pi_loss[with_policy]


def soft(
    algo,
    agent,
    n_critics=2,
    subset=2,
    interval=1,
    n=1,
    layers=of_mlp,
    NaiveCls=NaiveSac,
    bound=2.0,
    **settings,
):
    """Updates of both.

    Args:
        subset: number of critics for a target.
        interval: number of updates for one of the policy.
        n: number of rewards in a return.
        layers: function that returns the layers of one of our networks.
    """
    setup, samples = ours(algo, agent, bound)
    networks, twin = twin_of(agent, n_critics, layers, NaiveCls, settings)
    theirs = flat([twin.policy, *twin.critics, *twin.targets])
    before = [*copies(theirs), np.ones(1)]
    with_policy = [i % interval == 0 for i in range(1, len(DRAWS) + 1)]
    drawn = enumerate(with_policy)
    agent.seeds = iter([10 * i + k for i, both in drawn for k in (2, 1)[: 1 + both]])
    agent.subsets = []
    info = setup.algo.optimize_agent(0, samples)
    subsets = agent.subsets or [range(subset)] * len(DRAWS)
    assert all(len(set(chosen)) == subset for chosen in subsets)
    q_loss, pi_loss = updates_of(twin, samples, n, subsets, with_policy)
    losses = {"policy": (np.array(info.piLoss), pi_loss)}
    if n_critics == 2:
        losses["critics"] = np.add(info.q1Loss, info.q2Loss), q_loss
    mine = [*copies(flat(networks)), np.array(info.alpha[-1:])]
    return Outcome(before, mine, [*copies(theirs), np.array([twin.alpha])], losses)


SETTINGS = {**SHARED, "learning_rate": 0.01, "clip_grad_norm": 0.5}


@oracle(
    "SAC, 3-step",
    "Haarnoja et al. 2018",
    "actions from -2 to 2, clipped gradients, rewards doubled, a target entropy",
)
def sac_options():
    algo = SAC(**SETTINGS, n_step_return=3, reward_scale=2.0, target_entropy=-1.7)
    agent = Chosen(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN)
    return soft(algo, agent, n=3, is_mean=False, reward_scale=2.0, target_entropy=-1.7)


REDQ_SETTINGS = {**SETTINGS, "target_subset": 2, "policy_update_interval": 2}
# By default -1 for each number, in units of half the range of actions.
OF_REDQ = {"interval": 2, "is_mean": True, "target_entropy": -2 + 2 * math.log(2)}


@oracle("REDQ", "Chen et al. 2021", "4 critics, 2 for a target, every second of the policy")
def redq():
    agent = Chosen(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN, n_critics=4)
    return soft(REDQ(**REDQ_SETTINGS), agent, n_critics=4, **OF_REDQ)


class FixedDropout(torch.nn.Module):
    """Leaves out the same units of every input."""

    def __init__(self, n, p):
        super().__init__()
        mask = torch.from_numpy(np.random.default_rng(n).random(n) > p)
        self.register_buffer("scale", mask.float() / (1 - p))

    def forward(self, x):
        return x * self.scale


class DroppedQ(QofMuMlpModel):
    """Critics whose dropout is no chance."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        layers = self.mlp.model
        for i, layer in enumerate(layers):
            if isinstance(layer, torch.nn.Dropout):
                layers[i] = FixedDropout(layers[i - 1].out_features, layer.p)


@oracle("DroQ", "Hiraoka et al. 2022", "2 critics with dropout and normalized layers")
def droq():
    critics = {**HIDDEN, "layer_norm": True, "dropout": 0.2}
    agent = Chosen(QModelCls=DroppedQ, model_kwargs=HIDDEN, q_model_kwargs=critics)
    return soft(REDQ(**REDQ_SETTINGS), agent, **OF_REDQ)


class WatchedDiscrete(DiscreteSacAgent):
    """Takes the seeds of draws that it does not make."""

    seeds = ()
    subsets = ()


@oracle("SAC, discrete", "Christodoulou 2019", "three actions, 2-step returns")
def sac_discrete():
    def layers(model):
        return [model.body, model.head]

    of_actions = {"target_entropy": 0.98 * math.log(N_ACTIONS), "is_mean": False}
    algo, agent = DiscreteSAC(**SETTINGS, n_step_return=2), WatchedDiscrete(model_kwargs=HIDDEN)
    return soft(
        algo, agent, n=2, layers=layers, NaiveCls=NaiveDiscreteSac, bound=None, **of_actions
    )


class SeededV(SacVAgent):
    """Draws the actions of each update with a seed."""

    def pi(self, *args, **kwargs):
        torch.manual_seed(next(self.seeds))
        return super().pi(*args, **kwargs)


@oracle("SAC_V", "Haarnoja et al. 2018, the first", "a network of state values, 4 updates")
def sac_v():
    agent = SeededV(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN, v_model_kwargs=HIDDEN)
    setup, samples = ours(SAC_V(**SETTINGS), agent, 1.0)
    agent.seeds = iter(range(len(DRAWS)))
    names = "model", "q1_model", "q2_model", "v_model", "target_v_model"
    nets = [getattr(agent, name).mlp.model for name in names]
    pi, q1, q2, v, target_v = theirs = [copy.deepcopy(net).double() for net in nets]
    before = copies(flat(theirs))
    info = setup.algo.optimize_agent(0, samples)
    optimizers = [NaiveAdam(list(net.parameters()), 0.01) for net in (pi, q1, q2, v)]
    bounds = -torch.ones(2).double(), torch.ones(2).double()
    found = []
    for i, rows in enumerate(DRAWS):
        torch.manual_seed(i)
        noise = torch.randn(BATCH, 2).double()
        losses = [torch.zeros((), dtype=torch.double) for _ in optimizers]
        for t, z in zip(rows, noise, strict=True):
            step = transition(samples, t, 1, 0.9)
            s = step.observation
            u, log_pi = draw(pi, s, z, *bounds)
            least = min(q(torch.cat([s, u])[None])[0, 0] for q in (q1, q2))
            y = step.return_ + (0 if step.is_over else 0.9 * target_v(step.following[None]).item())
            outputs = pi(s[None])[0]
            losses[0] = losses[0] + log_pi - least + 0.001 * outputs.square().sum() / 4
            for k, q in enumerate((q1, q2), 1):
                losses[k] = losses[k] + (y - q(torch.cat([s, step.action])[None])[0, 0]) ** 2 / 2
            losses[3] = losses[3] + ((least - log_pi).detach() - v(s[None])[0, 0]) ** 2 / 2
        means = [loss / BATCH for loss in losses]
        gradients = [o.gradients(x) for o, x in zip(optimizers, means, strict=True)]
        for optimizer, gradient in zip(optimizers, gradients, strict=True):
            optimizer.step(gradient, 0.5)
        for old, new in zip(target_v.parameters(), v.parameters(), strict=True):
            old.data.copy_(0.9 * old.data + 0.1 * new.data)
        found.append([x.item() for x in means])
    logged = np.array([info.piLoss, info.q1Loss, info.q2Loss, info.vLoss]).T
    losses_by_name = {"policy, critics, value": (logged, np.array(found))}
    return Outcome(before, copies(flat(nets)), copies(flat(theirs)), losses_by_name)


# --- D4PG -----------------------------------------------------------------------------------------

ATOMS = np.linspace(-3, 3, 7)


def p_at(critic, s, a):
    return critic(torch.cat([s, a])[None])[0].softmax(-1)


def categorical_loss(q, target_q, target_mu, step):
    """Cross-entropy of one transition, and its divergence."""
    next_action = target_mu(step.following[None])[0].tanh()
    next_p = p_at(target_q, step.following, next_action).tolist()
    ends = step.return_, step.is_over
    y = project(*ends, next_p, ATOMS.tolist(), 0.9**step.n_steps)
    p = p_at(q, step.observation, step.action.double())
    return -sum(y_i * x.log() for y_i, x in zip(y, p)), divergence(p.tolist(), y)


@oracle("D4PG", "Barth-Maron et al. 2018", "7 atoms, 3-step returns, prioritized, 4 updates")
def d4pg():
    settings = {**SETTINGS, "ReplayBufferCls": Watched}
    algo = D4PG(
        -3, 3, **settings, q_learning_rate=0.02, n_step_return=3, prioritized_replay=True,
        pri_alpha=0.6, pri_beta=0.4, policy_update_interval=1,
    )  # fmt: skip
    agent = D4pgAgent(n_atoms=7, model_kwargs=HIDDEN, q_model_kwargs=HIDDEN)
    setup, samples = ours(algo, agent, 1.0)
    names = "model", "q_model", "target_model", "target_q_model"
    nets = [getattr(agent, name).mlp.model for name in names]
    mu, q, target_mu, target_q = theirs = [copy.deepcopy(net).double() for net in nets]
    before = copies(flat(theirs))
    info = setup.algo.optimize_agent(0, samples)
    priorities, found = np.ones(len(samples.env.done)), []
    optimizers = NaiveAdam(list(q.parameters()), 0.02), NaiveAdam(list(mu.parameters()), 0.01)

    for rows, _ in algo.replay_buffer.drawn:
        weights = importance_weights(priorities[rows], alpha=0.6, beta=0.4)
        steps = [transition(samples, t, 3, 0.9) for t in rows]
        q_loss = mu_loss = torch.zeros((), dtype=torch.double)
        for t, weight, step in zip(rows, weights, steps, strict=True):
            loss, priorities[t] = categorical_loss(q, target_q, target_mu, step)
            q_loss = q_loss + weight * loss / BATCH
        optimizers[0].minimize(q_loss, 0.5)
        for step in steps:
            p = p_at(q, step.observation, mu(step.observation[None])[0].tanh())
            mu_loss = mu_loss - sum(z * x for z, x in zip(ATOMS, p)) / BATCH
        optimizers[1].minimize(mu_loss, 0.5)
        found.append((q_loss.item(), mu_loss.item()))
        for old, new in zip(flat([target_mu, target_q]), flat([mu, q]), strict=True):
            old.data.copy_(0.9 * old.data + 0.1 * new.data)
    losses = {
        "critics": (np.array(info.qLoss), np.array(found)[:, 0]),
        "policy": (np.array(info.muLoss), np.array(found)[:, 1]),
    }
    return Outcome(before, copies(flat(nets)), copies(flat(theirs)), losses)
