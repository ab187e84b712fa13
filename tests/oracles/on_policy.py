"""A2C and PPO beside Stable-Baselines3, IMPALA and PQN beside their papers' formulas.

Both libraries run whole iterations, sampling included, from equal weights; ours takes the actions
that the other one drew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from rlpyt.agents.dqn.mlp_agent import MlpPqnAgent
from rlpyt.agents.pg.base import PolicyAgent
from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.pg.ppo import PPO
from rlpyt.models.pg.generic_model import GenericLstmModel
from tests.algos.pg.parts import Setup
from tests.oracles.comparing import CONTRIB, SB3, Outcome, assign, copies, flat, oracle
from tests.oracles.worlds import PastShown, Tides, wrapped
from tests.reference.deterministic_policy_gradient import NaiveAdam
from tests.reference.policy_gradient import naive_vtrace

T, B, N_ITRS = 16, 3, 2
WIDTHS = [8, 8]


# --- Their side -----------------------------------------------------------------------------------


class Watch(BaseCallback):
    """Keeps the actions of every rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[Any] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        actions = model.rollout_buffer.actions
        self.actions += list(torch.as_tensor(actions.copy()))


def their_run(model: Any) -> tuple[Any, Any]:
    """Actions [T,B,...] of all iterations, and what was logged of the last one."""
    watch = Watch()
    # Recurrent sequences would begin somewhere within an environment.
    with mock.patch("numpy.random.randint", return_value=0):
        model.learn(N_ITRS * T * B, callback=watch, log_interval=None)
    return watch.actions, model.logger.name_to_value


def their_envs(show: Callable[[Any], Any] = lambda env: env, **kwargs: Any) -> DummyVecEnv:
    def maker(rank: int) -> Callable[[], Any]:
        return lambda: show(Tides(rank, **kwargs))

    return DummyVecEnv([maker(rank) for rank in range(B)])


# --- Our side -------------------------------------------------------------------------------------


class Follower(PolicyAgent):
    """Mixin of agents that take given actions."""

    actions: Iterator[Any] | None = None

    def choose_action(self, dist_info: Any) -> Any:
        return super().choose_action(dist_info) if self.actions is None else next(self.actions)


class FfFollower(Follower, GenericFfAgent):
    pass


class LstmFollower(Follower, GenericLstmAgent):
    pass


class DetachedLinear(torch.nn.Linear):
    """A head that does not train what it stands on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.detach())


class ApartModel(GenericLstmModel):
    """An LSTM that only the policy trains, as Stable-Baselines3 shares it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.v = DetachedLinear(self.v.in_features, 1)


def ours(algo: Any, agent: Any, bound: float | None = None) -> Setup:
    def env_kwargs(rank: int) -> dict[str, Any]:
        return {"rank": rank, "bound": bound}

    env: Any = {"EnvCls": wrapped, "env_kwargs": env_kwargs}
    return Setup(algo, agent, **env, T=T, B=B, record_next_observation=True)


def run(theirs: Any, setup: Setup, pairs: list[tuple[Any, Any]]) -> Outcome:
    """Iterations of both; ``pairs`` are modules, ours and theirs."""
    mine, others = (flat(side) for side in zip(*pairs, strict=True))
    assert len(mine) == len(list(setup.agent.parameters()))
    assign(mine, others)
    before = copies(others)
    actions, log = their_run(theirs)
    is_discrete = theirs.action_space.shape == ()
    setup.agent.actions = iter(x[:, 0].long() if is_discrete else x for x in actions)
    *_, info = setup.train(0, N_ITRS)
    policy_loss = log[
        "train/policy_loss" if "train/policy_loss" in log else ("train/policy_gradient_loss")
    ]
    losses = {
        "policy": (np.mean(info.piLoss), policy_loss),
        "value": (2 * np.mean(info.valueLoss), log["train/value_loss"]),
        "entropy": (np.mean(info.entropy), -log["train/entropy_loss"]),
        "explained variance": (np.mean(info.explainedVariance), log["train/explained_variance"]),
    }
    return Outcome(before, copies(mine), copies(others), losses)


def perceptrons(agent: Any, policy: Any) -> list[tuple[Any, Any]]:
    """Modules that correspond; policy and value have hidden layers of their own."""
    model, extractor = agent.model, policy.mlp_extractor
    pairs = [
        (model.pi.model, extractor.policy_net),
        (model.head.linear, policy.action_net),
        (model.v.model[:-1], extractor.value_net),
        (model.v.model[-1], policy.value_net),
    ]
    return [*pairs, (model.head.log_std, policy.log_std)] if hasattr(policy, "log_std") else pairs


# --- Comparisons with Stable-Baselines3 -----------------------------------------------------------

SHARED: dict[str, Any] = {
    "discount": 0.9,
    "learning_rate": 0.01,
    "entropy_loss_coeff": 0.02,
    "value_loss_coeff": 1.0,  # Of half the square: 0.5 there.
    "clip_grad_norm": 0.5,
}
THEIR_SHARED: dict[str, Any] = {
    "n_steps": T,
    "gamma": 0.9,
    "learning_rate": 0.01,
    "ent_coef": 0.02,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "device": "cpu",
    "seed": 0,
}
NET = {"net_arch": WIDTHS}


def a2c_pair(bound: float | None, settings: Any, their_settings: Any) -> Outcome:
    theirs = stable_baselines3.A2C(
        "MlpPolicy",
        their_envs(bound=bound and 1e3),
        **THEIR_SHARED,
        policy_kwargs={**NET, "log_std_init": -0.5},
        **their_settings,
    )
    agent = FfFollower(model_kwargs={"hidden_sizes": WIDTHS})
    setup = ours(A2C(**SHARED, **settings), agent, bound)
    return run(theirs, setup, perceptrons(agent, theirs.policy))


ON_POLICY = "policy, value, entropy, explained variance"


@oracle("A2C", SB3, "RMSprop, discounted returns, three actions", ON_POLICY)
def a2c() -> Outcome:
    settings = {"OptimCls": torch.optim.RMSprop, "optim_kwargs": {"alpha": 0.99, "eps": 1e-5}}
    return a2c_pair(None, settings, {})


@oracle("A2C", SB3, "Adam, GAE, normalized advantages, two real actions", ON_POLICY)
def a2c_gaussian() -> Outcome:
    settings = {"gae_lambda": 0.8, "normalize_advantage": True, "optim_kwargs": {"eps": 1e-5}}
    their_settings = {"gae_lambda": 0.8, "normalize_advantage": True, "use_rms_prop": False}
    return a2c_pair(float("inf"), settings, their_settings)


PPO_SETTINGS: dict[str, Any] = {
    **SHARED,
    "gae_lambda": 0.8,
    "ratio_clip": 0.1,
    "minibatches": 1,
    "epochs": 4,
    "normalize_advantage": True,
    "linear_lr_schedule": False,
    "optim_kwargs": {"eps": 1e-5},
}
THEIR_PPO: dict[str, Any] = {
    **THEIR_SHARED,
    "gae_lambda": 0.8,
    "clip_range": 0.1,
    "batch_size": T * B,
    "n_epochs": 4,
}


@oracle("PPO", SB3, "GAE, normalized advantages, 4 epochs, three actions", ON_POLICY)
def ppo() -> Outcome:
    theirs = stable_baselines3.PPO("MlpPolicy", their_envs(), **THEIR_PPO, policy_kwargs=NET)
    agent = FfFollower(model_kwargs={"hidden_sizes": WIDTHS})
    return run(theirs, ours(PPO(**PPO_SETTINGS), agent), perceptrons(agent, theirs.policy))


@oracle("PPO, recurrent", CONTRIB, "as PPO, an LSTM with the past as input", ON_POLICY)
def ppo_recurrent() -> Outcome:
    theirs = sb3_contrib.RecurrentPPO(
        "MlpLstmPolicy",
        their_envs(PastShown),
        **THEIR_PPO,
        policy_kwargs={
            "net_arch": [],
            "lstm_hidden_size": 8,
            "shared_lstm": True,
            "enable_critic_lstm": False,
        },
    )
    agent = LstmFollower(ApartModel, model_kwargs={"hidden_sizes": [], "lstm_size": 8})
    setup = ours(PPO(**PPO_SETTINGS), agent)
    model, policy = agent.model, theirs.policy
    pairs = [
        (model.lstm, policy.lstm_actor),
        (model.head.linear, policy.action_net),
        (model.v, policy.value_net),
    ]
    return run(theirs, setup, pairs)


# --- Comparisons with formulas --------------------------------------------------------------------


def in_double(modules: Sequence[torch.nn.Module]) -> torch.nn.Sequential:
    """Copies of layers."""
    return copy.deepcopy(torch.nn.Sequential(*modules)).double()


def ends(samples: Any, t: int, b: int) -> tuple[bool, bool]:
    """Whether an episode ended at a step, and whether a time limit cut it."""
    return bool(samples.env.done[t, b]), bool(samples.env.env_info.timeout[t, b])


@oracle(
    "IMPALA",
    "Espeholt et al. 2018",
    "V-trace as a double sum, bounds 1.2 and 0.9, a policy that has moved",
    "loss, mean weight, share of clipped weights",
)
def impala() -> Outcome:
    agent = GenericFfAgent(model_kwargs={"hidden_sizes": WIDTHS})
    setup = ours(IMPALA(**SHARED, rho_bar=1.2, c_bar=0.9), agent)
    pi, v = [*agent.model.pi.model, agent.model.head.linear], agent.model.v.model
    acting_pi, acting_v = in_double(pi), in_double(v)
    samples = setup.sample()
    rng = np.random.default_rng(1)
    for p in agent.parameters():
        p.data += torch.from_numpy(rng.normal(0, 0.3, p.shape)).float()
    new_pi, new_v = in_double(pi), in_double(v)
    theirs, mine = [*new_pi.parameters(), *new_v.parameters()], flat([*pi, v])
    before = copies(theirs)
    terms, ratios = [], []
    for b in range(B):
        observations = samples.env.observation[:, b].double()
        following = samples.env.next_observation[:, b].double()
        actions, rewards = samples.agent.action[:, b], samples.env.reward[:, b].tolist()
        values = [new_v(x)[0] for x in observations]
        policies = [new_pi(x).softmax(-1) for x in observations]
        ratio = [
            (p[a] / acting_pi(x).softmax(-1)[a]).item()
            for p, a, x in zip(policies, actions, observations, strict=True)
        ]
        dones = [ends(samples, t, b)[0] for t in range(T)]
        for t in range(T):
            rewards[t] += 0.9 * new_v(following[t]).item() if ends(samples, t, b)[1] else 0.0
        last = acting_v(following[-1]).item()
        numbers = (ratio, rewards, [x.item() for x in values], dones, last)
        advantages, targets = naive_vtrace(*numbers, 0.9, 1.2, 0.9)
        for t in range(T):
            entropy = -sum(p * p.log() for p in policies[t])
            pi_term = -policies[t][actions[t]].log() * advantages[t]
            terms.append(pi_term + (values[t] - targets[t]) ** 2 / 2 - 0.02 * entropy)
        ratios += ratio
    loss = sum(terms) / len(terms)
    NaiveAdam(theirs, 0.01).minimize(loss, 0.5)
    info = setup.algo.optimize_agent(0, samples)
    losses = {
        "loss": (info.loss, loss),
        "mean weight": (info.rhoMean, np.mean([min(1.2, x) for x in ratios])),
        "share": (info.clipFraction, np.mean([x > 1.2 for x in ratios])),
    }
    return Outcome(before, copies(mine), copies(theirs), losses)


@oracle(
    "PQN",
    "Gallici et al. 2024",
    "lambda returns, normalized layers, 2 epochs, a time limit",
    "loss",
)
def pqn() -> Outcome:
    settings: dict[str, Any] = {"discount": 0.9, "learning_rate": 0.01, "clip_grad_norm": 0.5}
    agent = MlpPqnAgent(model_kwargs={"hidden_sizes": WIDTHS, "layer_norm": True})
    algo = PQN(**settings, minibatches=1, epochs=2, bootstrap_timelimit=True)
    setup = ours(algo, agent)
    samples = setup.sample()
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
