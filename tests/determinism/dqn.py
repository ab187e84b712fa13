"""Runs of DQN, C51 and PQN, with and without recurrence; of DQN with action masks and goals."""

from functools import partial

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent, MlpPqnAgent, MlpPqnLstmAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.munchausen import MunchausenDQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.envs import gym
from rlpyt.envs.toy import Catch
from rlpyt.replays.non_sequence.hindsight import TlHindsightReplayBuffer
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.envs.doors import make_doors
from tests.envs.lock import is_open_lock, lock_reward, make_lock

BATCH = {"batch_T": 2, "batch_B": 4, "max_decorrelation_steps": 5}
SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 60,  # Wraps within the run.
    "eps_steps": 100,
    "target_update_interval": 3,
    "n_step_return": 2,
    "prioritized_replay": True,
    "replay_ratio": 4,
    "pri_beta_steps": 150,
}


MUNCHAUSEN = {**SETTINGS, "n_step_return": 1}


def cartpole(RunnerCls, settings=SETTINGS, AlgoCls=DQN, **kwargs):
    env = {"EnvCls": gym.make, "env_kwargs": {"id": "CartPole-v1"}}
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 40}
    return RunnerCls(
        algo=AlgoCls(**settings),
        agent=MlpDqnAgent(eps_final=0.1),
        sampler=SerialSampler(**env, **BATCH, **evaluation),
        **kwargs,
    )


cartpole_munchausen = partial(cartpole, settings=MUNCHAUSEN, AlgoCls=MunchausenDQN)


def catch(RunnerCls, **kwargs):
    env = {"EnvCls": Catch, "env_kwargs": {"img_shape": (20, 10), "num_img_obs": 3}}
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 40}
    convolution = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}
    return RunnerCls(
        algo=CategoricalDQN(V_min=-1, V_max=1, **SETTINGS),
        agent=AtariCatDqnAgent(model_kwargs={**convolution, "fc_sizes": 16}, n_atoms=7),
        sampler=SerialSampler(**env, **BATCH, **evaluation),
        **kwargs,
    )


def cartpole_pqn(RunnerCls, agent=None, **kwargs):
    env_kwargs = {"id": "CartPole-v1", "max_episode_steps": 9}
    evaluation = {"eval_n_envs": 2, "eval_max_steps": 40}
    return RunnerCls(
        algo=PQN(minibatches=2, epochs=2, eps_steps=100, bootstrap_timelimit=True),
        agent=agent or MlpPqnAgent(model_kwargs={"hidden_sizes": [8]}, eps_final=0.1),
        sampler=SerialSampler(
            gym.make, env_kwargs, **BATCH, **evaluation, record_next_observation=True
        ),
        **kwargs,
    )


def cartpole_pqn_lstm(RunnerCls, **kwargs):
    # Of these widths, torch's LSTM rounds alike with and without gradients.
    agent = MlpPqnLstmAgent(model_kwargs={"hidden_sizes": [16], "lstm_size": 8}, eps_final=0.1)
    return cartpole_pqn(RunnerCls, agent, **kwargs)


def doors(RunnerCls, **kwargs):
    return RunnerCls(
        algo=DQN(**SETTINGS, double_dqn=True),
        agent=MlpDqnAgent(eps_final=0.1, eps_final_min=0.01),
        sampler=SerialSampler(make_doors, {}, **BATCH, eval_n_envs=2, eval_max_steps=40),
        **kwargs,
    )


def lock(RunnerCls, **kwargs):
    rewards = {"compute_reward": lock_reward, "compute_terminated": is_open_lock}
    buffer = partial(TlHindsightReplayBuffer, **rewards)
    settings = {**SETTINGS, "n_step_return": 1, "prioritized_replay": False}
    return RunnerCls(
        algo=DQN(**settings, ReplayBufferCls=buffer, bootstrap_timelimit=True),
        agent=MlpDqnAgent(eps_final=0.1, model_kwargs={"hidden_sizes": [8]}),
        sampler=SerialSampler(make_lock, {}, **BATCH, eval_n_envs=2, eval_max_steps=40),
        **kwargs,
    )
