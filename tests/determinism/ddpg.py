"""Runs of DDPG, TD3 and D4PG."""

from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs import gym
from rlpyt.samplers.serial.sampler import SerialSampler

SETTINGS = {
    "batch_size": 16,
    "min_steps_learn": 24,
    "replay_size": 60,  # Wraps within the run.
    "replay_ratio": 4,
    "n_step_return": 2,
}
SMALL = {"model_kwargs": {"hidden_sizes": [8]}, "q_model_kwargs": {"hidden_sizes": [8]}}
ALGOS = {
    "ddpg": (lambda: DDPG(**SETTINGS), DdpgAgent),
    "td3": (lambda: TD3(**SETTINGS), Td3Agent),
    "d4pg": (lambda: D4PG(-10, 0, prioritized_replay=True, **SETTINGS), D4pgAgent),
}


def pendulum(name):
    make_algo, AgentCls = ALGOS[name]

    def make(RunnerCls, **kwargs):
        sampler = SerialSampler(
            EnvCls=gym.make,
            env_kwargs={"id": "Pendulum-v1", "max_episode_steps": 7},
            batch_T=2,
            batch_B=4,
            max_decorrelation_steps=5,
            eval_n_envs=2,
            eval_max_steps=40,
        )
        return RunnerCls(algo=make_algo(), agent=AgentCls(**SMALL), sampler=sampler, **kwargs)

    return make
