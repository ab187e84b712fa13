"""Runs of SAC and SAC_V."""

from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.envs import gym
from rlpyt.samplers.serial.sampler import SerialSampler

SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 120,  # Wraps within the run.
    "replay_ratio": 4,
    "n_step_return": 2,
}
SMALL = {"hidden_sizes": [8]}


def runner(RunnerCls, algo, AgentCls, **kwargs):
    return RunnerCls(
        algo=algo,
        agent=AgentCls(model_kwargs=SMALL, q_model_kwargs=SMALL, v_model_kwargs=SMALL),
        sampler=SerialSampler(
            gym.make,
            {"id": "Pendulum-v1", "max_episode_steps": 17},
            batch_T=2,
            batch_B=4,
            max_decorrelation_steps=5,
            eval_n_envs=2,
            eval_max_steps=40,
        ),
        **kwargs,
    )


def learned(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(**SETTINGS), sac_agent.SacAgent, **kwargs)


def fixed(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(fixed_alpha=0.2, **SETTINGS), sac_agent.SacAgent, **kwargs)


def prior(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC(action_prior="gaussian", **SETTINGS), sac_agent.SacAgent, **kwargs)


def sac_v(RunnerCls, **kwargs):
    return runner(RunnerCls, SAC_V(**SETTINGS), sac_v_agent.SacAgent, **kwargs)
