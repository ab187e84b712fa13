"""Runs of Rainbow, QR-DQN and IQN."""

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpIqnAgent, MlpQrDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.munchausen import MunchausenIQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.determinism.dqn import BATCH, MUNCHAUSEN, SETTINGS

EVALUATION = {"eval_n_envs": 2, "eval_max_steps": 40}


def rainbow(RunnerCls, **kwargs):
    env = {"EnvCls": Catch, "env_kwargs": {"img_shape": (20, 10), "num_img_obs": 3}}
    convolution = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}
    model_kwargs = {**convolution, "fc_sizes": 16, "noisy": True, "dueling": True}
    return RunnerCls(
        algo=CategoricalDQN(V_min=-1, V_max=1, double_dqn=True, **SETTINGS),
        agent=AtariCatDqnAgent(model_kwargs=model_kwargs, n_atoms=7),
        sampler=SerialSampler(**env, **BATCH, **EVALUATION),
        **kwargs,
    )


def cartpole(algo, agent):
    def make(RunnerCls, **kwargs):
        env = {"EnvCls": gym.make, "env_kwargs": {"id": "CartPole-v1", "max_episode_steps": 15}}
        sampler = SerialSampler(**env, **BATCH, **EVALUATION)
        return RunnerCls(algo=algo(), agent=agent(), sampler=sampler, **kwargs)

    return make


qr_dqn = cartpole(
    lambda: QRDQN(bootstrap_timelimit=True, **SETTINGS),
    lambda: MlpQrDqnAgent(n_quantiles=5, model_kwargs={"dueling": True}),
)
iqn = cartpole(
    lambda: IQN(n_tau=3, n_target_tau=4, **SETTINGS),
    lambda: MlpIqnAgent(n_tau=5, model_kwargs={"noisy": True}),
)
munchausen_iqn = cartpole(
    lambda: MunchausenIQN(n_tau=3, n_target_tau=4, bootstrap_timelimit=True, **MUNCHAUSEN),
    lambda: MlpIqnAgent(n_tau=5),
)
