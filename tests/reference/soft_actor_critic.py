"""Naive twin of one update of SAC: one sample at a time, every formula written out, Adam by hand.

Networks are dictionaries of weights; the policy and all critics have one hidden layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

Net = dict[str, torch.Tensor]


def network(state: Mapping[str, torch.Tensor]) -> Net:
    """Copies, in double precision, of the weights of one hidden layer and of the output."""
    names = {"W1": "0.weight", "b1": "0.bias", "W2": "2.weight", "b2": "2.bias"}
    return {
        short: state[f"mlp.model.{name}"].detach().clone().double().requires_grad_()
        for short, name in names.items()
    }


def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
    hidden = (net["W1"] @ x + net["b1"]).clamp(min=0)
    return net["W2"] @ hidden + net["b2"]


def critic(net: Net, s: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    return forward(net, torch.cat([s, a]))[0]


def draw(
    net: Net, s: torch.Tensor, noise: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Action [A] within the bounds, and the logarithm of its density."""
    mean, log_std = forward(net, s).chunk(2)
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
    """Networks by the names of the agent's state, the temperature, and moments of the gradients."""

    def __init__(self, state: Mapping[str, Any], low: Any, high: Any, settings: Any) -> None:
        self.nets = {name: network(part) for name, part in state.items()}
        self.log_alpha = torch.zeros(1, dtype=torch.double, requires_grad=True)
        self.low, self.high = torch.as_tensor(low).double(), torch.as_tensor(high).double()
        self.settings = settings
        self.moments: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.n_updates = 0

    def losses(
        self, samples: Any, next_noise: torch.Tensor, noise: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Sums over the samples that count, divided by their number."""
        s_ = self.settings
        alpha = self.log_alpha.detach().exp()[0]
        totals = {name: torch.zeros((), dtype=torch.double) for name in ("q1", "q2", "pi", "alpha")}
        n_valid = 0
        for i in range(len(samples.return_)):
            if samples.timeout_n[i]:
                continue
            n_valid += 1
            s = samples.agent_inputs.observation[i].double()
            y = s_["reward_scale"] * samples.return_[i].double()
            if not samples.done_n[i]:
                s_n = samples.target_inputs.observation[i].double()
                a_n, log_pi_n = draw(
                    self.nets["model"], s_n, next_noise[i].double(), self.low, self.high
                )
                q_n = min(critic(self.nets[f"target_q{k}_model"], s_n, a_n) for k in (1, 2))
                y = y + s_["discount"] ** s_["n_step_return"] * (q_n - alpha * log_pi_n)
            a = samples.action[i].double()
            for k in (1, 2):
                error = y.detach() - critic(self.nets[f"q{k}_model"], s, a)
                totals[f"q{k}"] = totals[f"q{k}"] + error**2 / 2
            u, log_pi = draw(self.nets["model"], s, noise[i].double(), self.low, self.high)
            q = min(critic(self.nets[f"q{k}_model"], s, u) for k in (1, 2))
            totals["pi"] = totals["pi"] + alpha * log_pi - q
            gap = log_pi.detach() + s_["target_entropy"]
            totals["alpha"] = totals["alpha"] - self.log_alpha[0] * gap
        return {name: total / n_valid for name, total in totals.items()}

    def update(
        self, samples: Any, next_noise: torch.Tensor, noise: torch.Tensor
    ) -> dict[str, float]:
        """Step everything, and return the losses and the norms of the gradients."""
        losses = self.losses(samples, next_noise, noise)
        parts = {
            "alpha": [self.log_alpha],
            "pi": list(self.nets["model"].values()),
            "q1": list(self.nets["q1_model"].values()),
            "q2": list(self.nets["q2_model"].values()),
        }
        gradients = {
            name: torch.autograd.grad(losses[name], parameters, retain_graph=True)
            for name, parameters in parts.items()
        }
        self.n_updates += 1
        info = {f"{name}Loss": loss.item() for name, loss in losses.items()}
        for name, parameters in parts.items():
            norm = math.sqrt(sum(g.square().sum().item() for g in gradients[name]))
            info[f"{name}GradNorm"] = norm
            limit = self.settings["clip_grad_norm"]
            factor = 1.0 if name == "alpha" else min(1.0, limit / norm)
            for p, g in zip(parameters, gradients[name], strict=True):
                self.adam(p, g * factor)
        for k in (1, 2):
            for name, target in self.nets[f"target_q{k}_model"].items():
                tau = self.settings["target_update_tau"]
                new = tau * self.nets[f"q{k}_model"][name] + (1 - tau) * target
                target.data = new.detach()
        return info

    def adam(self, p: torch.Tensor, g: torch.Tensor) -> None:
        """Kingma and Ba 2015, algorithm 1, with the usual constants."""
        zeros = torch.zeros_like(p)
        m, v = self.moments.get(id(p), (zeros, zeros))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        self.moments[id(p)] = m, v
        m_hat, v_hat = m / (1 - 0.9**self.n_updates), v / (1 - 0.999**self.n_updates)
        p.data = p.data - self.settings["learning_rate"] * m_hat / (v_hat.sqrt() + 1e-8)
