"""PPO, DQN and SAC of this library, for ``bench_device.py``.

Each function returns how to act (a batch of T steps in B environments) and how to learn from it.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import Any

import torch
from bare import Parts

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs import gym
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler


def started(
    algo: Any, agent: Any, sampler: Any, device: torch.device, is_compiled: bool, **affinity: Any
) -> Parts:
    """Start a run, and let it act until its first update."""
    cuda_idx = None if device.type == "cpu" else device
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=1e9,
        log_interval_steps=1e9,
        seed=0,
        affinity={"cuda_idx": cuda_idx, "master_torch_threads": 1, **affinity},
        compile=is_compiled,
    )
    runner.startup()
    itrs = itertools.count()

    def act() -> tuple[int, Any]:
        itr = next(itrs)
        agent.sample_mode(itr)
        return itr, runner.sampler.obtain_samples(itr)[0]

    def learn(batch: tuple[int, Any]) -> None:
        agent.train_mode(batch[0])
        algo.optimize_agent(*batch)

    while not algo.update_counter:
        learn(act())
    return act, learn


def serial(s: Any) -> SerialSampler:
    sizes = {"batch_T": s.T, "batch_B": s.B}
    return SerialSampler(gym.make, {"id": s.env_id}, **sizes, max_decorrelation_steps=0)


def ppo(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    algo = PPO(
        discount=s.discount,
        learning_rate=s.learning_rate,
        entropy_loss_coeff=s.entropy_loss_coeff,
        clip_grad_norm=s.clip_grad_norm,
        gae_lambda=s.gae_lambda,
        minibatches=s.T * s.B // s.batch_size,
        epochs=s.epochs,
        ratio_clip=s.ratio_clip,
        linear_lr_schedule=False,
    )
    agent = GenericFfAgent(model_kwargs={"hidden_sizes": s.hidden_sizes})
    return started(algo, agent, serial(s), device, is_compiled)


def dqn(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    algo = DQN(
        batch_size=s.batch_size,
        min_steps_learn=s.min_steps_learn,
        replay_size=s.replay_size,
        replay_ratio=s.n_updates * s.batch_size / (s.T * s.B),
    )
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": s.hidden_sizes})
    return started(algo, agent, serial(s), device, is_compiled)


def sac(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    algo = SAC(
        discount=s.discount,
        batch_size=s.batch_size,
        min_steps_learn=s.min_steps_learn,
        replay_size=s.replay_size,
        replay_ratio=s.n_updates * s.batch_size / (s.T * s.B),
        target_update_tau=s.target_update_tau,
        learning_rate=s.learning_rate,
        clip_grad_norm=None,
    )
    kwargs = {"hidden_sizes": s.hidden_sizes}
    agent = SacAgent(model_kwargs=kwargs, q_model_kwargs=kwargs)
    return started(algo, agent, serial(s), device, is_compiled)


PONG = {
    "a2c": (A2C, AtariFfAgent),
    "ppo": (partial(PPO, minibatches=4, epochs=4, linear_lr_schedule=False), AtariFfAgent),
    "dqn": (
        partial(DQN, batch_size=128, replay_ratio=8, min_steps_learn=1000, replay_size=50_000),
        AtariDqnAgent,
    ),
}


def pong(
    name: str, SamplerCls: Any, T: int, B: int, device: torch.device, is_compiled: bool
) -> Parts:
    """Return a loop on the Atari game, with one worker per CPU."""
    make_algo, AgentCls = PONG[name]
    sizes = {"batch_T": T, "batch_B": B}
    sampler = SamplerCls(AtariEnv, {"game": "pong"}, **sizes, max_decorrelation_steps=0)
    cpus = sorted(os.sched_getaffinity(0))
    return started(make_algo(), AgentCls(), sampler, device, is_compiled, workers_cpus=cpus)
