"""PPO and SAC of Tianshou, which compiles nothing, for ``bench_device.py``.

Each function returns how to act (a batch of T steps in B environments) and how to learn from it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import torch
from bare import Parts
from tianshou.algorithm import PPO, SAC
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import TorchOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step


def adam(s: Any) -> TorchOptimizerFactory:
    return TorchOptimizerFactory(torch.optim.Adam, lr=s.learning_rate, fused=True)


def parts(algorithm: Any, s: Any, replay_size: int, update: Any) -> Parts:
    """Return the parts of a loop whose ``update`` takes the replay buffer."""
    envs = DummyVectorEnv([partial(gymnasium.make, s.env_id)] * s.B)
    collector: Any = Collector(algorithm, envs, VectorReplayBuffer(replay_size, s.B))
    collector.reset()

    def act() -> Any:
        with policy_within_training_step(algorithm.policy):
            collector.collect(n_step=s.T * s.B)
        return collector

    def learn(_: Any) -> None:
        with policy_within_training_step(algorithm.policy):
            update(collector)

    return act, learn


def ppo(s: Any, device: torch.device) -> Parts:
    def net() -> Net:
        return Net(state_shape=s.n_observed, hidden_sizes=s.hidden_sizes, activation=torch.nn.Tanh)

    actor = DiscreteActor(preprocess_net=net(), action_shape=s.n_actions, softmax_output=False)
    space = gymnasium.make(s.env_id).action_space
    algorithm: Any = PPO(
        policy=DiscreteActorPolicy(actor=actor, action_space=space),
        critic=DiscreteCritic(preprocess_net=net()),
        optim=adam(s),
        eps_clip=s.ratio_clip,
        advantage_normalization=False,
        vf_coef=0.5,
        ent_coef=s.entropy_loss_coeff,
        max_grad_norm=s.clip_grad_norm,
        gae_lambda=s.gae_lambda,
        gamma=s.discount,
    ).to(device)

    def update(collector: Any) -> None:
        algorithm.update(collector.buffer, batch_size=s.batch_size, repeat=s.epochs)
        collector.reset_buffer(keep_statistics=True)

    return parts(algorithm, s, s.T * s.B, update)


def sac(s: Any, device: torch.device) -> Parts:
    def net(n_inputs: int) -> Net:
        return Net(state_shape=n_inputs, hidden_sizes=s.hidden_sizes)

    actor = ContinuousActorProbabilistic(
        preprocess_net=net(s.n_observed),
        action_shape=s.n_actions,
        unbounded=True,
        conditioned_sigma=True,
    )
    space = gymnasium.make(s.env_id).action_space
    algorithm: Any = SAC(
        policy=SACPolicy(actor=actor, action_space=space),
        policy_optim=adam(s),
        critic=ContinuousCritic(preprocess_net=net(s.n_observed + s.n_actions)),
        critic_optim=adam(s),
        critic2=ContinuousCritic(preprocess_net=net(s.n_observed + s.n_actions)),
        tau=s.target_update_tau,
        gamma=s.discount,
        alpha=AutoAlpha(-float(s.n_actions), 0.0, adam(s)).to(device),
    ).to(device)

    def update(collector: Any) -> None:
        for _ in range(s.n_updates):
            algorithm.update(collector.buffer, sample_size=s.batch_size)

    act, learn = parts(algorithm, s, s.replay_size, update)
    act().collect(n_step=s.min_steps_learn, random=True)
    return act, learn
