"""PPO and SAC of TorchRL, for ``bench_device.py``.

Each function returns how to act (a batch of T steps in B environments) and how to learn from it.
Compiled are what TorchRL's own examples compile: the update and the acting policy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import torch
from bare import Parts
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, SACLoss, SoftUpdate
from torchrl.objectives.value import GAE


def make_env(s: Any, device: torch.device) -> GymWrapper:
    """Make B environments in this process; a ``SerialEnv`` is less than half as fast."""
    envs = SyncVectorEnv(
        [partial(gymnasium.make, s.env_id)] * s.B, autoreset_mode=AutoresetMode.DISABLED
    )
    return GymWrapper(envs, categorical_action_encoding=True)


def mlp(s: Any, activation: type, n_inputs: int, n_outputs: int) -> MLP:
    return MLP(n_inputs, n_outputs, num_cells=s.hidden_sizes, activation_class=activation)


def batches_of(
    env: GymWrapper, actor: Any, s: Any, device: torch.device, is_compiled: bool, n_random: int = 0
) -> Callable[[], Any]:
    collector = Collector(
        env,
        actor,
        frames_per_batch=s.T * s.B,
        init_random_frames=n_random,
        policy_device=device,
        env_device="cpu",
        storing_device=device,
        compile_policy=is_compiled or None,
        auto_register_policy_transforms=False,
    )
    return partial(next, iter(collector))


def ppo(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    env = make_env(s, device)
    actor = ProbabilisticActor(
        TensorDictModule(
            mlp(s, torch.nn.Tanh, s.n_observed, s.n_actions), ["observation"], ["logits"]
        ),
        in_keys=["logits"],
        spec=env.full_action_spec_unbatched,
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    ).to(device)
    critic = ValueOperator(mlp(s, torch.nn.Tanh, s.n_observed, 1), ["observation"]).to(device)
    gae = GAE(gamma=s.discount, lmbda=s.gae_lambda, value_network=critic)
    objective = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=s.ratio_clip,
        entropy_coeff=s.entropy_loss_coeff,
        critic_coeff=0.5,
        loss_critic_type="l2",
    )
    optimizer = torch.optim.Adam(objective.parameters(), lr=s.learning_rate, fused=True)
    minibatches = ReplayBuffer(
        storage=LazyTensorStorage(s.T * s.B, device=device),
        sampler=SamplerWithoutReplacement(),
        batch_size=s.batch_size,
    )

    def update(minibatch: Any) -> None:
        optimizer.zero_grad()
        losses = objective(minibatch)
        (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), s.clip_grad_norm)
        optimizer.step()

    if is_compiled:
        update = torch.compile(update)

    def learn(batch: Any) -> None:
        with torch.no_grad():
            minibatches.extend(gae(batch).reshape(-1))
        for _ in range(s.epochs):
            for minibatch in minibatches:
                update(minibatch)

    return batches_of(env, actor, s, device, is_compiled), learn


def sac(s: Any, device: torch.device, is_compiled: bool) -> Parts:
    env = make_env(s, device)
    policy = torch.nn.Sequential(
        mlp(s, torch.nn.ReLU, s.n_observed, 2 * s.n_actions), NormalParamExtractor()
    )
    actor = ProbabilisticActor(
        TensorDictModule(policy, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=env.full_action_spec_unbatched,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
    ).to(device)
    q = mlp(s, torch.nn.ReLU, s.n_observed + s.n_actions, 1)
    critic = ValueOperator(q, in_keys=["action", "observation"])
    objective = SACLoss(actor, critic.to(device), loss_function="l2")
    objective.make_value_estimator(gamma=s.discount)
    targets = SoftUpdate(objective, tau=s.target_update_tau)
    optimizer = torch.optim.Adam(objective.parameters(), lr=s.learning_rate, fused=True)
    replay = ReplayBuffer(
        storage=LazyTensorStorage(s.replay_size, device=device), batch_size=s.batch_size
    )

    def update(batch: Any) -> None:
        optimizer.zero_grad()
        losses = objective(batch)
        (losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]).backward()
        optimizer.step()
        targets.step()

    if is_compiled:
        update = torch.compile(update)

    def learn(batch: Any) -> None:
        replay.extend(batch.reshape(-1))
        for _ in range(s.n_updates):
            update(replay.sample())

    act = batches_of(env, actor, s, device, is_compiled, n_random=s.min_steps_learn)
    for _ in range(s.min_steps_learn // (s.T * s.B)):
        replay.extend(act().reshape(-1))
    return act, learn
