"""Runs of A2C, IMPALA and PPO, and of PPO with action masks."""

from rlpyt.agents.pg.generic import GenericFfAgent, GenericLstmAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.rnd import RndPPO
from rlpyt.envs import gym
from rlpyt.envs.toy import TMaze
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.envs.doors import make_doors

BATCH = {"batch_T": 5, "batch_B": 4, "max_decorrelation_steps": 5}
EVALUATION = {"eval_n_envs": 2, "eval_max_steps": 40}


def maze_a2c(RunnerCls, algo=None, **kwargs):
    return RunnerCls(
        algo=algo or A2C(normalize_advantage=True, gae_lambda=0.9),
        agent=GenericLstmAgent(model_kwargs={"hidden_sizes": [8], "lstm_size": 8}),
        sampler=SerialSampler(TMaze, {}, CollectorCls=CpuWaitResetCollector, **BATCH, **EVALUATION),
        **kwargs,
    )


def maze_ppo(RunnerCls, **kwargs):
    return RunnerCls(
        algo=PPO(minibatches=3, recompute_returns=True),  # Of which two have one environment.
        agent=GenericLstmAgent(model_kwargs={"hidden_sizes": [8], "lstm_size": 8}),
        sampler=SerialSampler(TMaze, {}, CollectorCls=CpuResetCollector, **BATCH, **EVALUATION),
        **kwargs,
    )


def pendulum(RunnerCls, algo=None, **kwargs):
    env_kwargs = {"id": "Pendulum-v1", "max_episode_steps": 7}
    ppo = PPO(minibatches=3, epochs=2, normalize_return=True, value_clip=0.2)
    return RunnerCls(
        algo=algo or ppo,
        agent=MujocoFfAgent(model_kwargs={"normalize_observation": True}),
        sampler=SerialSampler(
            gym.make, env_kwargs, **BATCH, **EVALUATION, record_next_observation=True
        ),
        **kwargs,
    )


def pendulum_a2c(RunnerCls, **kwargs):
    return pendulum(RunnerCls, A2C(gae_lambda=0.9, normalize_return=True), **kwargs)


def cartpole(RunnerCls, algo=None, **kwargs):
    return RunnerCls(
        algo=algo or A2C(),
        agent=GenericFfAgent(),
        sampler=SerialSampler(gym.make, {"id": "CartPole-v1"}, **BATCH, **EVALUATION),
        **kwargs,
    )


class InTurn(IMPALA):
    """IMPALA for a synchronous run, in which it trains on what it has just sampled."""

    only_async = False


def cartpole_impala(RunnerCls, **kwargs):
    return cartpole(RunnerCls, InTurn(gae_lambda=0.9, normalize_return=True), **kwargs)


def maze_impala(RunnerCls, **kwargs):
    return maze_a2c(RunnerCls, InTurn(gae_lambda=0.9), **kwargs)


def cartpole_kl(RunnerCls, target_kl=2e-3, **kwargs):
    settings = {"learning_rate": 3e-3, "minibatches": 2, "linear_lr_schedule": False}
    algo = PPO(epochs=4, target_kl=target_kl, desired_kl=1e-3, **settings)
    return cartpole(RunnerCls, algo, **kwargs)


def cartpole_rnd(RunnerCls, **kwargs):
    return cartpole(RunnerCls, RndPPO(minibatches=2, bonus_features=4), **kwargs)


def doors(RunnerCls, **kwargs):
    return RunnerCls(
        algo=PPO(minibatches=2, epochs=2),
        agent=GenericFfAgent(model_kwargs={"normalize_observation": True}),
        sampler=SerialSampler(make_doors, {}, **BATCH, **EVALUATION),
        **kwargs,
    )
