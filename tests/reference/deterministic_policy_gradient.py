"""Naive twin of DDPG and TD3: samples one at a time, and an optimizer written out."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch


class NaiveAdam:
    """Kingma and Ba 2015, algorithm 1, of gradients scaled down to a norm."""

    def __init__(self, parameters: Sequence[torch.Tensor], lr: float, eps: float = 1e-8) -> None:
        self.parameters, self.lr, self.eps, self.n = list(parameters), lr, eps, 0
        self.m = [torch.zeros_like(p) for p in self.parameters]
        self.v = [torch.zeros_like(p) for p in self.parameters]

    def minimize(self, loss: torch.Tensor, max_norm: float = math.inf) -> None:
        self.step(self.gradients(loss), max_norm)

    def gradients(self, loss: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.autograd.grad(loss, self.parameters, retain_graph=True)

    def step(self, gradients: Sequence[torch.Tensor], max_norm: float = math.inf) -> None:
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        self.n += 1
        for p, g, m, v in zip(self.parameters, gradients, self.m, self.v, strict=True):
            g = g * min(1.0, max_norm / norm) if norm else g
            m.mul_(0.9).add_(0.1 * g)
            v.mul_(0.999).add_(0.001 * g * g)
            m_hat, v_hat = m / (1 - 0.9**self.n), v / (1 - 0.999**self.n)
            p.data.sub_(self.lr * m_hat / (v_hat.sqrt() + self.eps))


class NaiveTrainer:
    """One policy, one or two critics and their targets, as functions of single inputs.

    Args:
        policy: perceptron, whose tanh spans the bounds.
        critics: perceptrons of observation and action.
        low: [A] least action.
        high: [A] greatest action.
        settings: discount, n_step_return, learning rates, intervals and so on, as of the algorithm.
    """

    def __init__(
        self,
        policy: torch.nn.Module,
        critics: Sequence[torch.nn.Module],
        low: Sequence[float],
        high: Sequence[float],
        **settings: Any,
    ) -> None:
        self.policy, self.critics = copy.deepcopy(policy), [copy.deepcopy(q) for q in critics]
        self.target_policy = copy.deepcopy(policy)
        self.target_critics = [copy.deepcopy(q) for q in critics]
        self.low, self.high = torch.tensor(low), torch.tensor(high)
        self.settings = settings
        q_parameters = [p for q in self.critics for p in q.parameters()]
        self.q_optimizer = NaiveAdam(q_parameters, settings["q_learning_rate"])
        self.mu_optimizer = NaiveAdam(list(self.policy.parameters()), settings["learning_rate"])
        self.n_updates = 0

    def mu(self, policy: torch.nn.Module, observation: torch.Tensor) -> torch.Tensor:
        u = torch.tanh(policy(observation[None]))[0]
        return self.low + (self.high - self.low) * (u + 1) / 2

    def q(
        self, critic: torch.nn.Module, observation: torch.Tensor, action: torch.Tensor
    ) -> torch.Tensor:
        return critic(torch.cat([observation, action])[None])[0, 0]

    def target_action(self, observation: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
        action = self.mu(self.target_policy, observation)
        if noise is None:
            return action
        std, clip = self.settings["target_noise_std"], self.settings["target_noise_clip"]
        scaled = [max(-clip, min(clip, std * float(x))) for x in noise]
        moved = action + (self.high - self.low) / 2 * torch.tensor(scaled)
        return torch.minimum(torch.maximum(moved, self.low), self.high)

    @torch.no_grad()
    def target(self, samples: Any, i: int, noise: torch.Tensor | None) -> float:
        observation = samples.target_inputs.observation[i]
        action = self.target_action(observation, noise)
        y = float(samples.return_[i])
        if not samples.done_n[i]:
            discount_n = math.prod([self.settings["discount"]] * self.settings["n_step_return"])
            y += discount_n * min(
                float(self.q(q, observation, action)) for q in self.target_critics
            )
        limit = self.settings["q_target_clip"]
        return max(-limit, min(limit, y))

    def update(self, samples: Any, noises: torch.Tensor | None = None) -> tuple[float, float]:
        """Losses of critics and policy; the latter is NaN where the policy is not updated."""
        valid = [i for i in range(len(samples.return_)) if not samples.timeout_n[i]]
        observations = samples.agent_inputs.observation
        total = torch.zeros(())
        for i in valid:
            y = self.target(samples, i, None if noises is None else noises[i])
            for critic in self.critics:
                q = self.q(critic, observations[i], samples.action[i])
                total = total + (y - q) ** 2 / 2 / len(valid)
        self.q_optimizer.minimize(total)
        self.n_updates += 1
        mu_loss = torch.tensor(math.nan)
        if self.n_updates % self.settings["policy_update_interval"] == 0:
            mu_loss = torch.zeros(())
            for i in valid:
                action = self.mu(self.policy, observations[i])
                mu_loss = mu_loss - self.q(self.critics[0], observations[i], action) / len(valid)
            self.mu_optimizer.minimize(mu_loss)
        if self.n_updates % self.settings["target_update_interval"] == 0:
            self.follow(self.target_policy, self.policy)
            for target, critic in zip(self.target_critics, self.critics, strict=True):
                self.follow(target, critic)
        return float(total.detach()), float(mu_loss.detach())

    def follow(self, target: torch.nn.Module, model: torch.nn.Module) -> None:
        tau = self.settings["target_update_tau"]
        for old, new in zip(target.parameters(), model.parameters(), strict=True):
            old.data.copy_((1 - tau) * old.data + tau * new.data)
