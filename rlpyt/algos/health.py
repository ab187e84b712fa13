"""The health of a run: what a log row says about networks, updates and data.

Before a row, one update of each kind is measured: its minibatch passes through the networks once
more, without gradients, and their parameters are compared before and after it. No other update
takes longer, and no number of training changes. An algorithm that lacks what a column needs, as
that of a program may, has fewer columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from rlpyt.algos._compiled import optimizers_in
from rlpyt.distributions.categorical import Categorical
from rlpyt.models.noisy import NoisyLinear
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import rng_state, set_rng_state
from rlpyt.utils.types import Nested

LAYERS = (nn.Linear, nn.Conv2d, nn.LSTM)
NONLINEARITIES = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh)
ADAPTIVE = {"exp_avg_sq", "square_avg"}  # State of optimizers whose steps do not grow with losses.
CONSTANT = 1e-6  # Largest range of outputs that count as constant.
SATURATED = 1e-3  # Largest slope of a unit at its bounds.


class Health:
    """Measurements of an algorithm since the last log row.

    Attributes:
        is_due: whether the next update of each kind is measured; set by the runner.
    """

    def __init__(self) -> None:
        self.is_due = False
        self._values: dict[str, Any] = {}  # Numbers and scalars on the device, by column.
        self._measured: set[str] = set()  # Names of updates.
        self._has_failed = False
        self._targets: list[torch.Tensor] = []  # Sums of their parameters, at the last two rows.
        self._moved_at = 0  # Update at which target networks were last seen to move.

    def begins(self, update: Callable[..., Any]) -> bool:
        """Return whether an update that is due is to be measured: the first of its name."""
        return update.__name__ not in self._measured

    def of_update(self, algo: Any, update: Callable[..., Any], *batch: Nested) -> Any:
        """Run an update of ``algo`` by its ``run_update``, and measure it."""
        if not self._measured:
            self._look_at(algo, batch[0])
        self._measured.add(update.__name__)
        before = _weights(algo)
        result = algo.run_update(update, *batch)
        changes = {
            name: torch.stack([(x - y).norm() for x, y in zip(after, before[name])])
            for name, after in _weights(algo).items()
        }
        for name, change in changes.items():
            if change.any() or not any(x.any() for x in changes.values()):  # Others step others.
                weights = torch.cat([x.reshape(-1) for x in before[name]])
                self._values[_joined(name, "updateRatio")] = change.norm() / weights.norm()
                self._values[_joined(name, "frozenLayers")] = (change == 0).float().mean()
                (optimizer, *_) = optimizers_in(vars(algo)[name])
                if ADAPTIVE & {key for state in optimizer.state.values() for key in state}:
                    rate = optimizer.param_groups[0]["lr"] / _rms(weights)
                    self._values[_joined(name, "relativeRate")] = rate
        return result

    def _look_at(self, algo: Any, batch: Nested) -> None:
        """Measure a minibatch and the networks on it, unless that has failed before."""
        for columns in (data_columns, network_columns):
            try:
                self._values.update({} if self._has_failed else columns(algo, batch))
            except Exception as error:  # A measurement must not end a run.
                self._has_failed = True
                logger.log(f"The log has fewer columns on the health of this run: {error!r}")
        targets = (x for name, x in vars(algo.agent).items() if name.startswith("target_"))
        parameters = [p for x in targets if isinstance(x, nn.Module) for p in x.parameters()]
        if parameters:
            sums = torch.stack([p.detach().double().sum() for p in parameters])
            self._targets = [*self._targets[-1:], sums]

    def row(self, algo: Any, opt_infos: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Return the columns of a log row, and begin the next.

        Args:
            algo: algorithm of the run.
            opt_infos: values since the last row, by field of the opt info.
        """
        values, self._values, self._measured = self._values, {}, set()
        if values and self._targets and hasattr(algo, "target_update_tau"):
            if len(self._targets) == 1 or not torch.equal(*self._targets):
                self._moved_at = algo.update_counter
            planned = algo.target_update_interval / max(algo.target_update_tau, 1e-9)
            values["targetLag"] = max(planned, algo.update_counter - self._moved_at)
        named = (xs for name, xs in opt_infos.items() if name.lower().endswith("gradnorm"))
        norms = [x for xs in named for x in xs]
        if norms and algo.clip_grad_norm is not None:
            values["clippedGradients"] = np.mean(np.array(norms) > algo.clip_grad_norm)
        entropies, distribution = opt_infos.get("entropy"), algo.agent.distribution
        if entropies and isinstance(distribution, Categorical):
            values["entropyShare"] = np.mean(entropies) / math.log(max(2, distribution.dim))
        return {name: float(value) for name, value in values.items()}


def data_columns(algo: Any, batch: Nested) -> dict[str, Any]:
    """Return measurements of a minibatch, and settings that they are judged by.

    ``returnScale`` is the root mean square of returns; ``rewardScale``, that of the n-step rewards
    from a replay buffer that are not 0. ``replayAge`` is the mean age of the data to train on, in
    environment steps of this process: drawn by priority, or stored. ``bootstrapsTimeLimits`` is 1
    if returns that a time limit truncates are bootstrapped, else 0; ``epsilon``, the mean over
    environments, where the network itself does not explore; ``actionNoise``, the mean standard
    deviation of noise on actions, in units of half their range. ``entropyWeight`` is the
    coefficient of the entropy over the root mean square of advantages, or of rewards from replay.
    """
    found: dict[str, Any] = {"bootstrapsTimeLimits": float(algo.knows_time_limits)}
    found["discount"] = algo.discount
    return_ = getattr(batch, "return_", None)
    if isinstance(return_, torch.Tensor):
        is_replayed = "done_n" in fields_of(batch)
        scale = _rms(return_[return_ != 0] if is_replayed else return_)
        found["rewardScale" if is_replayed else "returnScale"] = scale
        found["batchSize"] = return_.numel()
        temperature = getattr(algo, "_alpha", getattr(algo, "entropy_tau", None))
        if is_replayed and temperature is not None:
            found["entropyWeight"] = temperature / (scale * getattr(algo, "reward_scale", 1))
        elif "advantage" in fields_of(batch):
            found["entropyWeight"] = algo.entropy_loss_coeff / _rms(batch.advantage)
    epsilon = getattr(algo.agent, "eps_sample", None)
    layers = [layer for _, network in _networks(algo.agent) for layer in network.modules()]
    # An agent that explores by the noise of its network needs none.
    if epsilon is not None and not any(isinstance(layer, NoisyLinear) for layer in layers):
        found["epsilon"] = torch.as_tensor(epsilon, dtype=torch.float).mean()
    if hasattr(algo.agent, "sampling_std"):
        found["actionNoise"] = np.mean(algo.agent.sampling_std(algo._itr))
    buffer: Any = getattr(algo, "replay_buffer", None)
    if isinstance(buffer, BaseNStepReturnBuffer):
        age = (buffer.window.n_filled - 1) / 2
        tree: Any = getattr(buffer, "priority_tree", None)
        drawn = getattr(tree, "prev_tree_idxs", None)
        if drawn is not None:
            age = torch.as_tensor(tree.ages(drawn)).double().mean() * buffer.T / tree.T
        found["replayAge"] = age * buffer.B
    return found


@torch.no_grad()
def network_columns(algo: Any, batch: Nested) -> dict[str, Any]:
    """Run the networks of the agent on a minibatch, and return measurements of their layers.

    ``deadUnits.<layer>`` is the share of units with one output for the whole minibatch, such as 0
    of a ReLU, or with no output but the bounds of a tanh or sigmoid. ``inputScale`` is the largest
    root mean square of an input feature of a first layer, ``inputSpread`` the largest range of one,
    ``activationScale`` the largest root mean square at the input of a later layer, and
    ``valueScale`` that of values.
    """
    found: dict[str, Any] = {}
    scales: dict[str, Any] = {}  # Of each network's first layer.
    later: list[Any] = []

    def keep_dead_units(name: str, module: Any, inputs: Any, output: torch.Tensor) -> None:
        units = output.movedim(1, -1) if output.dim() == 4 else output  # Channels of images.
        units = units.reshape(-1, units.shape[-1])
        low, high = units.aminmax(dim=0)
        is_dead = high - low <= CONSTANT
        if isinstance(module, (nn.Tanh, nn.Sigmoid)):
            slope = 1 - units**2 if isinstance(module, nn.Tanh) else units * (1 - units)
            is_dead |= slope.amax(dim=0) <= SATURATED
        found[f"deadUnits.{name}"] = is_dead.float().mean()

    def keep_scale(name: str, module: Any, inputs: Any) -> None:
        features = inputs[0].data  # Also of a PackedSequence.
        features = features.movedim(-3, -1) if isinstance(module, nn.Conv2d) else features
        features = features.float().reshape(-1, features.shape[-1])
        if name in scales:
            later.append(_rms(features))
        else:
            low, high = features.aminmax(dim=0)
            scales[name] = features.square().mean(0).max().sqrt(), (high - low).max()

    state = rng_state()
    with ExitStack() as stack:
        for name, network in _networks(algo.agent):
            # It must neither drop units nor keep statistics.
            for path, module in network.named_modules():
                stack.callback(setattr, module, "training", module.training)
                module.training = False
                if isinstance(module, NONLINEARITIES):
                    hook = module.register_forward_hook(partial(keep_dead_units, f"{name}.{path}"))
                    stack.callback(hook.remove)
                elif isinstance(module, LAYERS):
                    hook = module.register_forward_pre_hook(partial(keep_scale, name))
                    stack.callback(hook.remove)
        stack.callback(set_rng_state, state)
        value = algo.run_networks(batch)
    if value is not None:
        found["valueScale"] = _rms(value)
    if scales:
        found["inputScale"], found["inputSpread"] = map(max, zip(*scales.values()))
    if later:
        found["activationScale"] = max(later)
    return found


def _networks(agent: Any) -> list[tuple[str, nn.Module]]:
    """Return the trained networks of an agent, by attribute."""
    found = ((name, x) for name, x in vars(agent).items() if isinstance(x, nn.Module))
    return [(name, x) for name, x in found if name[:7] != "target_" and name != "shared_model"]


def _weights(algo: Any) -> dict[str, list[torch.Tensor]]:
    """Return copies of the parameters of each optimizer of an algorithm, by its attribute."""
    optimizers = {name: optimizers_in(value) for name, value in vars(algo).items()}
    return {
        name: [p.detach().clone() for o in found for p in algo.parameters_of(o)]
        for name, found in optimizers.items()
        if found
    }


def _joined(optimizer: str, name: str) -> str:
    """Return the column of an optimizer: ``piUpdateRatio`` of ``pi_optimizer``."""
    part = optimizer.strip("_").removesuffix("optimizers").removesuffix("optimizer").strip("_")
    return part + name[0].upper() + name[1:] if part else name


def _rms(x: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(x.float().square().mean().sqrt())
