"""PPO, DQN and SAC of this library, for ``bench_device.py``.

Each function returns how to act (a batch of T steps in B environments) and how to learn from it.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from bare import Parts

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs import gym
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler


def started(algo: Any, agent: Any, s: Any, device: torch.device, is_compiled: bool) -> Parts:
    """Start a run, and let it act until its first update."""
    affinity = {"cuda_idx": None if device.type == "cpu" else device, "master_torch_threads": 1}
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=SerialSampler(
            gym.make, {"id": s.env_id}, batch_T=s.T, batch_B=s.B, max_decorrelation_steps=0
        ),
        n_steps=1e9,
        log_interval_steps=1e9,
        seed=0,
        affinity=affinity,
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
    return started(algo, agent, s, device, is_compiled)


def dqn(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    algo = DQN(
        batch_size=s.batch_size,
        min_steps_learn=s.min_steps_learn,
        replay_size=s.replay_size,
        replay_ratio=s.n_updates * s.batch_size / (s.T * s.B),
    )
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": s.hidden_sizes})
    return started(algo, agent, s, device, is_compiled)


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
    return started(
        algo, SacAgent(model_kwargs=kwargs, q_model_kwargs=kwargs), s, device, is_compiled
    )
