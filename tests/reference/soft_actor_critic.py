"""Naive twins of soft actor-critics: one sample at a time, every formula written out."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch

from tests.reference.adam import NaiveAdam


def draw(
    net: Any, s: torch.Tensor, noise: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Action [A] within the bounds, and the logarithm of its density."""
    mean, log_std = net(s[None])[0].chunk(2)
    std = log_std.clamp(-20, 2).exp()
    u = mean + std * noise
    log_pi = torch.zeros((), dtype=torch.double)
    for i in range(len(u)):
        z = (u[i] - mean[i]) / std[i]
        density = torch.exp(-0.5 * z**2) / (std[i] * math.sqrt(2 * math.pi))
        slope = (high[i] - low[i]) / 2 * (1 - torch.tanh(u[i]) ** 2)
        log_pi = log_pi + torch.log(density / slope)
    return (low + high) / 2 + (high - low) / 2 * torch.tanh(u), log_pi


class NaiveSac:
    """SAC, with any number of critics, all or some of which make a target.

    Args:
        policy: perceptron.
        critics: perceptrons, each with a copy in ``targets``.
        targets: perceptrons.
        settings: discount, learning_rate, tau, clip_grad_norm, target_entropy; low and high, which
            bound actions; reward_scale; is_mean, whether the policy climbs the mean of all critics
            instead of the least.
    """

    def __init__(
        self, policy: Any, critics: Sequence[Any], targets: Sequence[Any], **settings: Any
    ) -> None:
        self.policy = copy.deepcopy(policy).double()
        self.critics = [copy.deepcopy(q).double() for q in critics]
        self.targets = [copy.deepcopy(q).double() for q in targets]
        self.log_alpha = torch.zeros(1, dtype=torch.double, requires_grad=True)
        self.settings = settings
        trained = [[self.log_alpha], list(self.policy.parameters())]
        trained += [list(q.parameters()) for q in self.critics]
        self.optimizers = [NaiveAdam(part, settings["learning_rate"]) for part in trained]

    @property
    def alpha(self) -> float:
        return self.log_alpha.exp().item()

    # --- Of one sample ---------------------------------------------------------------------------

    def q(self, critic: Any, s: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return critic(torch.cat([s, a])[None])[0, 0]

    def drawn(self, s: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = (torch.as_tensor(self.settings[name]).double() for name in ("low", "high"))
        return draw(self.policy, s, noise.double(), low, high)

    def next_value(self, s: torch.Tensor, noise: Any, subset: Sequence[int]) -> float:
        a, log_pi = self.drawn(s, noise)
        return (min(self.q(self.targets[k], s, a) for k in subset) - self.alpha * log_pi).item()

    def pi_loss(self, s: torch.Tensor, noise: Any) -> tuple[torch.Tensor, float]:
        """Loss, and an estimate of the entropy."""
        a, log_pi = self.drawn(s, noise)
        qs = [self.q(critic, s, a) for critic in self.critics]
        q = sum(qs) / len(qs) if self.settings["is_mean"] else min(qs)
        return self.alpha * log_pi - q, -log_pi.item()

    # --- One update ------------------------------------------------------------------------------

    def update(
        self,
        steps: Sequence[Any],
        next_noise: Any,
        noise: Any,
        subset: Sequence[int],
        with_policy: bool = True,
    ) -> tuple[float, float]:
        """Losses of all critics together, and of the policy.

        All gradients are of the networks as they were. ``steps`` have observation, action, return_,
        n_steps, is_over and following.
        """
        s_, B = self.settings, len(steps)
        losses = [torch.zeros((), dtype=torch.double) for _ in self.optimizers]
        for i, step in enumerate(steps):
            y = s_["reward_scale"] * step.return_
            if not step.is_over:
                value = self.next_value(step.following, next_noise[i], subset)
                y += s_["discount"] ** step.n_steps * value
            for k, critic in enumerate(self.critics, 2):
                q = self.q(critic, step.observation, step.action)
                losses[k] = losses[k] + (y - q) ** 2 / 2 / B
            if with_policy:
                pi_loss, entropy = self.pi_loss(step.observation, noise[i])
                losses[1] = losses[1] + pi_loss / B
                losses[0] = losses[0] + self.log_alpha[0] * (entropy - s_["target_entropy"]) / B
        first = 0 if with_policy else 2
        optimizers = self.optimizers[first:]
        gradients = [o.gradients(x) for o, x in zip(optimizers, losses[first:], strict=True)]
        for optimizer, gradient in zip(optimizers, gradients, strict=True):
            is_alpha = optimizer is self.optimizers[0]
            optimizer.step(gradient, math.inf if is_alpha else s_["clip_grad_norm"])
        for target, critic in zip(self.targets, self.critics, strict=True):
            for old, new in zip(target.parameters(), critic.parameters(), strict=True):
                old.data.copy_((1 - s_["tau"]) * old.data + s_["tau"] * new.data)
        return sum(x.item() for x in losses[2:]), losses[1].item()


class NaiveDiscreteSac(NaiveSac):
    """SAC for discrete actions, without draws: networks have one output for each action."""

    def q(self, critic: Any, s: torch.Tensor, a: Any) -> torch.Tensor:
        return critic(s[None])[0, a]

    def least(self, critics: Sequence[Any], s: torch.Tensor) -> list[float]:
        outputs = [critic(s[None])[0].tolist() for critic in critics]
        return [min(qs) for qs in zip(*outputs, strict=True)]

    def next_value(self, s: torch.Tensor, noise: Any, subset: Sequence[int]) -> float:
        p = self.policy(s[None])[0].softmax(-1).tolist()
        least = self.least(self.targets, s)
        return sum(p_a * (q - self.alpha * math.log(p_a)) for p_a, q in zip(p, least, strict=True))

    def pi_loss(self, s: torch.Tensor, noise: Any) -> tuple[torch.Tensor, float]:
        p = self.policy(s[None])[0].softmax(-1)
        least = self.least(self.critics, s)
        loss = sum(p_a * (self.alpha * p_a.log() - q) for p_a, q in zip(p, least, strict=True))
        return torch.as_tensor(loss), -sum((p_a * p_a.log()).item() for p_a in p)
