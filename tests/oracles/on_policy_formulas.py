"""IMPALA, PQN and random network distillation beside the formulas of their papers."""

import copy

import numpy as np
import torch

from rlpyt.agents.dqn.mlp_agent import MlpPqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.rnd import RndPPO
from rlpyt.models.mlp import MlpModel
from rlpyt.utils.buffer import map_buffer
from tests.oracles.comparing import Outcome, copies, flat, oracle
from tests.oracles.on_policy import PPO_SETTINGS, SHARED, WIDTHS, B, T, ours
from tests.oracles.worlds import DIM, check_ends
from tests.reference.adam import NaiveAdam
from tests.reference.policy_gradient import naive_vtrace


def in_double(modules):
    """Copies of layers."""
    return copy.deepcopy(torch.nn.Sequential(*modules)).double()


def ends(samples, t, b):
    """Whether an episode ended at a step, and whether a time limit cut it."""
    return bool(samples.env.done[t, b]), bool(samples.env.env_info.timeout[t, b])


def impala_terms(samples, b, acting, present):
    """Losses and importance weights of the steps of one environment, by policies and values."""
    observations = samples.env.observation[:, b].double()
    following = samples.env.next_observation[:, b].double()
    actions, rewards = samples.agent.action[:, b], samples.env.reward[:, b].tolist()
    values = [present[1](x)[0] for x in observations]
    policies = [present[0](x).softmax(-1) for x in observations]
    ratio = [
        (p[a] / acting[0](x).softmax(-1)[a]).item()
        for p, a, x in zip(policies, actions, observations, strict=True)
    ]
    is_over, is_cut = zip(*(ends(samples, t, b) for t in range(T)), strict=True)
    for t in range(T):
        rewards[t] += 0.9 * present[1](following[t]).item() if is_cut[t] else 0.0
    last = acting[1](following[-1]).item()
    numbers = ratio, rewards, [x.item() for x in values], is_over, last
    advantages, targets = naive_vtrace(*numbers, 0.9, 1.2, 0.9)
    terms = []
    for p, a, value, advantage, y in zip(policies, actions, values, advantages, targets):
        entropy = -sum(x * x.log() for x in p)
        terms.append(-p[a].log() * advantage + (value - y) ** 2 / 2 - 0.02 * entropy)
    return terms, ratio


@oracle(
    "IMPALA",
    "Espeholt et al. 2018",
    "V-trace as a double sum, bounds 1.2 and 0.9, a policy that has moved",
)
def impala():
    agent = GenericFfAgent(model_kwargs={"hidden_sizes": WIDTHS})
    setup = ours(IMPALA(**SHARED, rho_bar=1.2, c_bar=0.9), agent)
    layers = [*agent.model.pi.model, agent.model.head.linear], agent.model.v.model
    acting = [in_double(part) for part in layers]
    samples = setup.sample()
    check_ends(samples.env)
    rng = np.random.default_rng(1)
    for p in agent.parameters():
        p.data += torch.from_numpy(rng.normal(0, 0.3, p.shape)).float()
    present = [in_double(part) for part in layers]
    theirs, mine = flat(present), flat([module for part in layers for module in part])
    before = copies(theirs)
    found = [impala_terms(samples, b, acting, present) for b in range(B)]
    loss = sum(sum(terms) for terms, _ in found) / (T * B)
    NaiveAdam(theirs, 0.01).minimize(loss, 0.5)
    info = setup.algo.optimize_agent(0, samples)
    ratios = np.array([ratio for _, ratio in found])
    losses = {
        "loss": (info.loss, loss),
        "mean weight": (info.rhoMean, ratios.clip(max=1.2).mean()),
        "share of clipped weights": (info.clipFraction, (ratios > 1.2).mean()),
    }
    return Outcome(before, copies(mine), copies(theirs), losses)


@oracle("PQN", "Gallici et al. 2024", "lambda returns, normalized layers, 2 epochs, a time limit")
def pqn():
    settings = {"discount": 0.9, "learning_rate": 0.01, "clip_grad_norm": 0.5}
    agent = MlpPqnAgent(model_kwargs={"hidden_sizes": WIDTHS, "layer_norm": True})
    algo = PQN(**settings, minibatches=1, epochs=2, bootstrap_timelimit=True)
    setup = ours(algo, agent)
    samples = setup.sample()
    check_ends(samples.env)
    mine = list(agent.parameters())
    net = in_double([agent.model.body, agent.model.head])
    theirs = list(net.parameters())
    before = copies(theirs)
    targets = np.zeros((T, B))
    for b in range(B):
        following = samples.env.next_observation[:, b].double()
        values = [net(x[None]).max().item() for x in following]  # V_{t+1}
        return_ = values[-1]
        for t in reversed(range(T)):
            is_over, is_cut = ends(samples, t, b)
            mixed = 0.65 * return_ + 0.35 * values[t]
            if is_over:
                mixed = values[t] if is_cut else 0.0
            return_ = float(samples.env.reward[t, b]) + 0.9 * mixed
            targets[t, b] = return_
    optimizer, found = NaiveAdam(theirs, 0.01), []
    for _ in range(2):
        loss = torch.zeros((), dtype=torch.double)
        for t in range(T):
            for b in range(B):
                q = net(samples.env.observation[t, b].double()[None])[0]
                error = targets[t, b] - q[samples.agent.action[t, b]]
                loss = loss + error**2 / 2 / (T * B)
        found.append(loss)
        optimizer.minimize(loss, 0.5)
    info = algo.optimize_agent(0, samples)
    losses = {"loss": (info.loss, torch.stack(found))}
    return Outcome(before, copies(mine), copies(theirs), losses)


# --- Random network distillation ------------------------------------------------------------------


class NaiveBonus:
    """The bonus of every step, from all that was seen so far."""

    def __init__(self, nets, discount, rate):
        self.predicting, self.fixed = (copy.deepcopy(net).double() for net in nets)
        self.optimizer = NaiveAdam(list(self.predicting.parameters()), rate)
        self.discount, self.seen, self.sums, self.last = discount, [], [], [0.0] * B

    def bonuses(self, following):
        """Of the observations [T,B,...] after each step; the predicting network learns them."""
        self.seen += list(following.flatten(0, 1).double())
        every = torch.stack(self.seen)
        mean, std = every.mean(0), every.std(0, correction=0)
        errors = [
            [self.error(((x - mean) / (std + 1e-8)).clamp(-5, 5)) for x in row.double()]
            for row in following
        ]
        for row in errors:
            self.last = [0.9 * total + x.item() for total, x in zip(self.last, row)]
            self.sums += self.last
        self.optimizer.minimize(sum(sum(row) for row in errors) / (T * B))
        self.errors = np.array([[x.item() for x in row] for row in errors])
        return self.errors / np.std(self.sums)

    def error(self, x):
        return (self.predicting(x[None]) - self.fixed(x[None]).detach()).square().mean()


@oracle(
    "RND", "Burda et al. 2018", "its bonus added to the reward of PPO, whose update is that above"
)
def rnd():
    agents = [GenericFfAgent(model_kwargs={"hidden_sizes": WIDTHS}) for _ in range(2)]
    bonus = {"bonus_coeff": 0.5, "bonus_learning_rate": 0.01, "bonus_hidden_sizes": (8,)}
    setup = ours(RndPPO(**PPO_SETTINGS, **bonus, bonus_features=4), agents[0])
    plain = ours(PPO(**PPO_SETTINGS), agents[1])
    agents[1].load_state_dict(copy.deepcopy(agents[0].state_dict()))
    nets = torch.nn.ModuleList([MlpModel(DIM, [8], 4), MlpModel(DIM, [8], 4)])
    nets.load_state_dict(setup.algo.state_dict()["further"]["_bonus_nets"])
    naive = NaiveBonus(nets, 0.9, 0.01)
    theirs = [*agents[1].parameters(), *naive.predicting.parameters()]
    before = copies(theirs)
    for itr in range(2):
        samples = map_buffer(torch.clone, setup.sample(itr))
        env = samples.env
        check_ends(env)
        more = 0.5 * torch.from_numpy(naive.bonuses(env.next_observation)).float()
        info = setup.algo.optimize_agent(itr, samples)
        agents[1].train_mode(itr)
        rewarded = samples._replace(env=env._replace(reward=env.reward + more))
        plain.algo.optimize_agent(itr, rewarded)
    nets.load_state_dict(setup.algo.state_dict()["further"]["_bonus_nets"])
    mine = [*agents[0].parameters(), *nets[0].parameters()]
    losses = {"bonus": (info.bonus, [naive.errors.mean()])}
    return Outcome(before, copies(mine), copies(theirs), losses)
