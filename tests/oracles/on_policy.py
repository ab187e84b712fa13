"""A2C and PPO, recurrent and with action masks, beside Stable-Baselines3.

Both libraries run whole iterations, sampling included, from equal weights; ours takes the actions
that the other one drew.
"""

from functools import partial
from unittest import mock

import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from rlpyt.agents.pg.base import PolicyAgent
from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.masks import ActionMaskWrapper
from rlpyt.models.pg.generic_model import GenericLstmModel
from tests.algos.pg.parts import Setup
from tests.oracles.comparing import CONTRIB, SB3, Outcome, assign, copies, flat, oracle
from tests.oracles.worlds import N_ACTIONS, PastShown, Tides, check_ends, wrapped

T, B, N_ITRS = 16, 3, 2
WIDTHS = [8, 8]


# --- Their side -----------------------------------------------------------------------------------


class Watch(BaseCallback):
    """Keeps the actions of every rollout."""

    def __init__(self):
        super().__init__()
        self.actions = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        model = self.model
        actions = model.rollout_buffer.actions
        self.actions += list(torch.as_tensor(actions.copy()))


def their_run(model):
    """Actions [T,B,...] of all iterations, and what was logged of the last one."""
    watch = Watch()
    # Recurrent sequences would begin somewhere within an environment.
    with mock.patch("numpy.random.randint", return_value=0):
        model.learn(N_ITRS * T * B, callback=watch, log_interval=None)
    return watch.actions, model.logger.name_to_value


def their_envs(show=lambda env: env, **kwargs):
    def maker(rank):
        return lambda: show(Tides(rank, **kwargs))

    return DummyVecEnv([maker(rank) for rank in range(B)])


# --- Our side -------------------------------------------------------------------------------------


class Follower(PolicyAgent):
    """Mixin of agents that take given actions."""

    actions = None

    def choose_action(self, dist_info):
        return super().choose_action(dist_info) if self.actions is None else next(self.actions)


class FfFollower(Follower, GenericFfAgent):
    pass


class LstmFollower(Follower, GenericLstmAgent):
    pass


class DetachedLinear(torch.nn.Linear):
    """A head that does not train what it stands on."""

    def forward(self, x):
        return super().forward(x.detach())


class ApartModel(GenericLstmModel):
    """An LSTM that only the policy trains, as Stable-Baselines3 shares it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.v = DetachedLinear(self.v.in_features, 1)


def ours(algo, agent, bound=None, EnvCls=wrapped):
    def env_kwargs(rank):
        return {"rank": rank, "bound": bound}

    env = {"EnvCls": EnvCls, "env_kwargs": env_kwargs}
    return Setup(algo, agent, **env, T=T, B=B, record_next_observation=True)


def run(theirs, setup, pairs):
    """Iterations of both; ``pairs`` are modules, ours and theirs."""
    mine, others = (flat(side) for side in zip(*pairs, strict=True))
    assert len(mine) == len(list(setup.agent.parameters()))
    assign(mine, others)
    before = copies(others)
    actions, log = their_run(theirs)
    is_discrete = theirs.action_space.shape == ()
    setup.agent.actions = iter(x[:, 0].long() if is_discrete else x for x in actions)
    *_, info = setup.train(0, N_ITRS)
    check_ends(setup.sampler.samples_pyt.env)
    policy_loss = log.get("train/policy_loss", log.get("train/policy_gradient_loss"))
    losses = {
        "policy": (np.mean(info.piLoss), policy_loss),
        "value": (2 * np.mean(info.valueLoss), log["train/value_loss"]),
        "entropy": (np.mean(info.entropy), -log["train/entropy_loss"]),
        "explained variance": (np.mean(info.explainedVariance), log["train/explained_variance"]),
    }
    return Outcome(before, copies(mine), copies(others), losses)


def perceptrons(agent, policy):
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

SHARED = {
    "discount": 0.9,
    "learning_rate": 0.01,
    "entropy_loss_coeff": 0.02,
    "value_loss_coeff": 1.0,  # Of half the square: 0.5 there.
    "clip_grad_norm": 0.5,
}
THEIR_SHARED = {
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


def a2c_pair(bound, settings, their_settings):
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


@oracle("A2C", SB3, "RMSprop, discounted returns, three actions")
def a2c():
    settings = {"OptimCls": torch.optim.RMSprop, "optim_kwargs": {"alpha": 0.99, "eps": 1e-5}}
    return a2c_pair(None, settings, {})


@oracle("A2C", SB3, "Adam, GAE, normalized advantages, two real actions")
def a2c_gaussian():
    settings = {"gae_lambda": 0.8, "normalize_advantage": True, "optim_kwargs": {"eps": 1e-5}}
    their_settings = {"gae_lambda": 0.8, "normalize_advantage": True, "use_rms_prop": False}
    return a2c_pair(float("inf"), settings, their_settings)


PPO_SETTINGS = {
    **SHARED,
    "gae_lambda": 0.8,
    "ratio_clip": 0.1,
    "minibatches": 1,
    "epochs": 4,
    "normalize_advantage": True,
    "linear_lr_schedule": False,
    "optim_kwargs": {"eps": 1e-5},
}
THEIR_PPO = {
    **THEIR_SHARED,
    "gae_lambda": 0.8,
    "clip_range": 0.1,
    "batch_size": T * B,
    "n_epochs": 4,
}


@oracle("PPO", SB3, "GAE, normalized advantages, 4 epochs, three actions")
def ppo():
    theirs = stable_baselines3.PPO("MlpPolicy", their_envs(), **THEIR_PPO, policy_kwargs=NET)
    agent = FfFollower(model_kwargs={"hidden_sizes": WIDTHS})
    return run(theirs, ours(PPO(**PPO_SETTINGS), agent), perceptrons(agent, theirs.policy))


@oracle("PPO, recurrent", CONTRIB, "as PPO, an LSTM with the past as input")
def ppo_recurrent():
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


# --- Action masks ---------------------------------------------------------------------------------


class Masked(Tides):
    """Forbids one action, by the state; the mask is in the info here, and a method there."""

    def action_masks(self):
        return np.arange(N_ACTIONS) != np.abs(self.state).argmax() % N_ACTIONS

    def reset(self, **kwargs):
        observation, info = super().reset(**kwargs)
        return observation, {**info, "action_mask": self.action_masks().astype(np.int8)}

    def step(self, action):
        *step, info = super().step(action)
        return *step, {**info, "action_mask": self.action_masks().astype(np.int8)}


def masked_env(rank, bound):
    return GymEnvWrapper(ActionMaskWrapper(Masked(rank)))


@oracle("PPO, masked actions", CONTRIB, "as PPO, one action of three forbidden")
def ppo_masked():
    envs = DummyVecEnv([partial(Masked, rank) for rank in range(B)])
    theirs = sb3_contrib.MaskablePPO("MlpPolicy", envs, **THEIR_PPO, policy_kwargs=NET)
    agent = FfFollower(model_kwargs={"hidden_sizes": WIDTHS})
    setup = ours(PPO(**PPO_SETTINGS), agent, EnvCls=masked_env)
    return run(theirs, setup, perceptrons(agent, theirs.policy))
