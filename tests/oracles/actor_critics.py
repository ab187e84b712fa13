"""DDPG, TD3, SAC, TQC and CrossQ beside Stable-Baselines3."""

from unittest import mock

import numpy as np
import sb3_contrib
import stable_baselines3
import torch

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_ensembles import TQC, CrossQ
from rlpyt.algos.qpg.td3 import TD3
from tests.oracles.comparing import CONTRIB, SB3, Outcome, assign, copies, flat, oracle
from tests.oracles.replayed import BATCH, N_UPDATES, SHARED, THEIR_SHARED, fill, ours
from tests.oracles.worlds import Tides

WIDTHS = [8, 8]
HIDDEN = {"hidden_sizes": WIDTHS}


def mlp(model):
    """Parameters of one of our perceptrons, in the order of its layers."""
    return flat([model.mlp])


# --- DDPG and TD3 ---------------------------------------------------------------------------------

# Half the square here, the square there: half the gradient, so twice the rate.
RATES = {"learning_rate": 0.1, "q_learning_rate": 0.2, "OptimCls": torch.optim.SGD}


def deterministic(theirs, algo, agent, n_critics):
    setup, samples = ours(algo, agent, bound=1.0)
    fill(theirs, samples)
    critics = ["q_model", "q2_model"][:n_critics]
    pairs = []
    for ours_prefix, actor, critic in (
        ("", theirs.actor, theirs.critic),
        ("target_", theirs.actor_target, theirs.critic_target),
    ):
        pairs += [(getattr(agent, ours_prefix + "model"), actor.mu)]
        for name, network in zip(critics, critic.q_networks, strict=True):
            pairs += [(getattr(agent, ours_prefix + name), network)]
    mine = [p for model, _ in pairs for p in mlp(model)]
    others = [p for _, network in pairs for p in network.parameters()]
    assign(mine, others)
    before = copies(others)
    torch.manual_seed(1)
    theirs.train(N_UPDATES, BATCH)
    torch.manual_seed(1)
    info = setup.algo.optimize_agent(0, samples)
    log = theirs.logger.name_to_value
    losses = {
        "critics": (2 * np.mean(info.qLoss), log["train/critic_loss"]),
        "policy": (np.mean(info.muLoss), log["train/actor_loss"]),
    }
    return Outcome(before, copies(mine), copies(others), losses)


def their_settings(**optimizer):
    return {**THEIR_SHARED, "policy_kwargs": {"net_arch": WIDTHS, **optimizer}}


@oracle("DDPG", SB3, "SGD, 4 updates")
def ddpg():
    settings = their_settings(optimizer_class=torch.optim.SGD)
    theirs = stable_baselines3.DDPG("MlpPolicy", Tides(bound=1.0), learning_rate=0.1, **settings)
    agent = DdpgAgent(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN)
    algo = DDPG(**SHARED, **RATES, q_target_clip=None, policy_update_interval=1)
    return deterministic(theirs, algo, agent, n_critics=1)


@oracle("TD3", SB3, "SGD, 4 updates, a noisy target, every second update of the policy")
def td3():
    settings = their_settings(optimizer_class=torch.optim.SGD)
    theirs = stable_baselines3.TD3("MlpPolicy", Tides(bound=1.0), learning_rate=0.1, **settings)
    agent = Td3Agent(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN)
    return deterministic(theirs, TD3(**SHARED, **RATES, q_target_clip=None), agent, n_critics=2)


# --- SAC, TQC and CrossQ --------------------------------------------------------------------------


class Seeded(SacAgent):
    """Draws the actions of states with one seed, those of next states with another."""

    def pi(self, *args, **kwargs):
        if hasattr(self, "seeds"):
            torch.manual_seed(next(self.seeds))
        return super().pi(*args, **kwargs)


def seed_their_draws(actor, seeds):
    draw = actor.action_log_prob

    def seeded(observation):
        torch.manual_seed(next(seeds))
        return draw(observation)

    actor.action_log_prob = seeded
    actor.action_dist.epsilon = 0.0  # Else added to what the likelihood divides by.


def let_critics_wait(theirs):
    """Their policy learns of the critics after their step; here it is of those before.

    So the step of the critics waits for the policy's.
    """
    critic, actor = theirs.critic.optimizer, theirs.actor.optimizer
    parameters = [p for group in critic.param_groups for p in group["params"]]
    step_critics, step_actor = critic.step, actor.step
    kept = []

    def keep():
        if theirs._n_updates % getattr(theirs, "policy_delay", 1):
            step_critics()  # No step of the policy follows.
        kept[:] = [p.grad.clone() for p in parameters]

    def step_both():
        step_actor()
        for p, gradient in zip(parameters, kept, strict=True):
            p.grad = gradient
        step_critics()

    critic.step, actor.step = keep, step_both


def stacked(model):
    """Parameters of our policy: mean and deviation, which are one layer, as two."""
    *hidden, weight, bias = mlp(model)
    return [*hidden, *(x for part in (0, 1) for x in (weight.chunk(2)[part], bias.chunk(2)[part]))]


def soft_parameters(theirs, agent):
    """Parameters and running statistics of both sides that correspond."""
    actor = theirs.actor
    with torch.no_grad():  # Where actions saturate, their likelihood is inexact there.
        actor.log_std.bias -= 1
        actor.mu.weight *= 0.5
    mine = stacked(agent.model)
    others = flat([actor.latent_pi, actor.mu, actor.log_std])
    sides = [("", theirs.critic)]
    if hasattr(theirs, "critic_target"):
        sides += [("target_", theirs.critic_target)]
    for prefix, critic in sides:
        for k, network in enumerate(critic.q_networks, 1):
            mine += mlp(getattr(agent, f"{prefix}q{k}_model"))
            others += list(network.parameters())
    for model, network in zip(
        (getattr(agent, name) for name in agent.network_names), (actor, *theirs.critic.q_networks)
    ):
        mine += [x for name, x in model.named_buffers() if "running" in name]
        others += [x for name, x in network.named_buffers() if "ra_" in name]
    return mine, others


# Seeds of the draws in each update, 1 for states and 2 for next states, as they come there; here
# those of next states come first.
BOTH = [(1, 2)] * N_UPDATES
SELDOM = [(2,), (2, 1)] * (N_UPDATES // 2)


def soft(theirs, algo, agent, critic_loss=1.0, order=BOTH):
    """Updates of both; ``critic_loss`` is our loss of all critics, in units of theirs."""
    setup, samples = ours(algo, agent, bound=1.0)
    fill(theirs, samples)
    mine, others = soft_parameters(theirs, agent)
    assign(mine, others)
    before = [*copies(others), np.ones(1)]
    seed_their_draws(theirs.actor, iter([10 * i + k for i, part in enumerate(order) for k in part]))
    ordered = [sorted(part, reverse=True) for part in order]
    agent.seeds = iter([10 * i + k for i, part in enumerate(ordered) for k in part])
    let_critics_wait(theirs)
    theirs.train(N_UPDATES, BATCH)
    info = setup.algo.optimize_agent(0, samples)
    log = theirs.logger.name_to_value
    q_losses = np.add(info.q1Loss, info.q2Loss)
    losses = {
        "critics": (np.mean(q_losses), critic_loss * log["train/critic_loss"]),
        "policy": (np.mean(info.piLoss), log["train/actor_loss"]),
    }
    alpha = theirs.log_ent_coef.detach().exp()
    return Outcome(
        before,
        [*copies(mine), np.asarray(info.alpha[-1:])],
        [*copies(others), alpha.numpy()],
        losses,
    )


@oracle("SAC", SB3, "Adam, 4 updates, a learned temperature")
def sac():
    theirs = stable_baselines3.SAC(
        "MlpPolicy", Tides(bound=1.0), learning_rate=0.01, **their_settings()
    )
    agent = Seeded(model_kwargs=HIDDEN, q_model_kwargs=HIDDEN)
    return soft(theirs, SAC(**SHARED, learning_rate=0.01), agent)


@oracle("TQC", CONTRIB, "Adam, 4 updates, 2 critics of 5 quantiles, 1 dropped of each")
def tqc():
    tiny = {"eps": 1e-15}  # The mean over critics, there, has half the gradient of the sum.
    settings = their_settings(optimizer_kwargs=tiny, n_quantiles=5, n_critics=2)
    theirs = sb3_contrib.TQC(
        "MlpPolicy",
        Tides(bound=1.0),
        learning_rate=0.01,
        top_quantiles_to_drop_per_net=1,
        **settings,
    )
    agent = Seeded(model_kwargs=HIDDEN, q_model_kwargs={**HIDDEN, "n_quantiles": 5})
    algo = TQC(**SHARED, learning_rate=0.01, dropped_quantiles=1, optim_kwargs=tiny)
    return soft(theirs, algo, agent, critic_loss=2.0)


@oracle("CrossQ", CONTRIB, "Adam, 4 updates, batch renormalization, every second of the policy")
def crossq():
    usual = {"betas": (0.9, 0.999)}  # Of the temperature's optimizer, there.
    theirs = sb3_contrib.CrossQ(
        "MlpPolicy",
        Tides(bound=1.0),
        learning_rate=0.01,
        policy_delay=2,
        **{k: v for k, v in their_settings(optimizer_kwargs=usual).items() if k != "tau"},
    )
    normalized = {**HIDDEN, "batch_renorm": True}
    agent = Seeded(model_kwargs=normalized, q_model_kwargs=normalized, target_networks=False)
    algo = CrossQ(**SHARED, learning_rate=0.01, policy_update_interval=2, optim_kwargs=usual)

    def of_batch(x, dim):
        return torch.var(x, dim, correction=0)

    # There the variance of a batch is that of a sample: divided by n - 1, not n.
    with mock.patch.object(torch.Tensor, "var", of_batch):
        return soft(theirs, algo, agent, order=SELDOM)
