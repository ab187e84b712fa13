"""Base class of all algorithms: set-up of optimizers, the one gradient update, and its log."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from rlpyt.algos._compiled import GraphSteps, UpdateCompiler, lasting, optimizers_in
from rlpyt.algos._optim import (
    FusedAdam,
    keeping_options,
    load_optimizer_state,
    make_optimizer,
    scale_down,
)
from rlpyt.algos.health import Health
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.tensor import numbers_of, thinned
from rlpyt.utils.types import Nested


@cache
def opt_info_class(fields: tuple[str, ...]) -> Any:
    """Return a namedtuple class ``OptInfo`` with these fields."""
    return namedtuple("OptInfo", fields)


class EagerStep:
    """The parts of a gradient step that an eager update and a compiled one take differently.

    :class:`~rlpyt.algos._compiled.GraphSteps` has the others.
    """

    def parameters_of(self, optimizer: Any) -> list[torch.nn.Parameter]:
        """Return all parameters of ``optimizer``."""
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def set_gradients(self, loss: torch.Tensor, parameters: list[torch.nn.Parameter]) -> None:
        """Set the gradients of ``parameters`` to those of ``loss``."""
        for parameter in parameters:
            parameter.grad = None
        loss.backward()

    def scale(self, gradients: list[torch.Tensor], norm: torch.Tensor, limit: float) -> None:
        """Scale ``gradients`` of this norm down to the norm ``limit``."""
        if not norm.is_cpu or norm.numpy() > limit:
            scale_down(gradients, norm, limit)

    def take(self, optimizer: Any, number: torch.Tensor, n_skipped: Any) -> Any:
        """Step ``optimizer`` if ``number`` is finite; return the number of skipped steps."""
        is_fused = all(group.get("fused") for group in optimizer.param_groups)
        if is_fused and not number.is_cpu:  # The kernel skips the step: no wait for the number.
            optimizer.found_inf = (~torch.isfinite(number)).float()
            n_skipped = n_skipped + optimizer.found_inf
        elif not np.isfinite(number.cpu().numpy()):
            return n_skipped + 1
        optimizer.short_step() if isinstance(optimizer, FusedAdam) else optimizer.step()
        return n_skipped


class RlAlgorithm:
    """Base class of algorithms, which turn batches of experience into gradients.

    Constructors only store their arguments; :meth:`initialize` does the set-up, once the agent is
    on its device. Class attributes are the defaults of settings that the constructor of a subclass
    does not store.

    With a fused optimizer, updates never wait for the device: losses and norms stay tensors until
    :meth:`fetch_opt_info` reads them once per iteration. A step whose loss or gradient is not
    finite is skipped, and the iteration then ends with an error.

    Attributes:
        opt_info_fields: names of the values that :meth:`optimize_agent` returns to be logged.
        opt_info_stride: stride between the samples whose values are logged.
        bootstrap_value: whether the sampler records values after the last step of a batch.
        compile: whether updates are compiled: False, True, or keywords of ``torch.compile``.
        only_async: whether the algorithm trains only in asynchronous runs.
        q_kind: kind of networks that the loss takes, as ``q_kind`` of the agent. A subclass with
            another loss may take others: only a class that sets it is compared with its agent.
        agent_example: name of a fitting agent, for errors.
        update_counter: number of gradient updates so far.
    """

    __signature__ = ConstructorSignature()

    opt_info_fields: tuple[str, ...] = ()
    opt_info_stride = 8
    bootstrap_value = False
    compile: Any = False
    only_async = False
    q_kind: str | None = None
    agent_example = ""
    update_counter = 0
    knows_time_limits = False  # Whether returns that a time limit truncates are bootstrapped.

    agent: Any = None
    n_itr: int
    batch_spec: BatchSpec
    mid_batch_reset: bool
    optimizer: Any
    rank: int = 0
    world_size: int = 1
    min_itr_learn: int = 0
    # Defaults of settings that the constructor of a subclass does not store.
    discount: float = 1.0
    OptimCls: Any
    optim_kwargs: Any = None
    learning_rate: float
    clip_grad_norm: float | None = None
    initial_optim_state_dict: Any = None
    bootstrap_timelimit: bool = False

    _itr = 0
    # Number of skipped steps since the last fetch: a tensor, so that nothing waits for it.
    _n_skipped: Any = 0
    _step: EagerStep | GraphSteps = EagerStep()  # In compiled updates GraphSteps.

    # --- Set-up ------------------------------------------------------------------------------

    @cached_property
    def _compiler(self) -> UpdateCompiler:
        return UpdateCompiler(self)

    @cached_property
    def health(self) -> Health:
        """Measurements for the columns of the log on networks, updates and data."""
        return Health()

    def _begin_run(self, agent: AgentLike) -> None:
        """Keep the agent, and forget an earlier run; what a program has set before it stays."""
        if self.agent is not None:
            self.update_counter, self._n_skipped = 0, 0
            vars(self).pop("health", None)  # Its tensors are on that run's device.
            self.recompile()
        self.agent = agent

    def _check_agent_and_sampler(self, recurrent: bool | None) -> None:
        """Raise ``ValueError`` if the library's loss cannot train this agent on these batches.

        Args:
            recurrent: whether the loss takes sequences; None for sequences and single steps.
        """
        if "q_kind" not in vars(type(self)):
            return
        agent, name = type(self.agent).__name__, type(self).__name__
        kind = getattr(self.agent, "q_kind", None)  # Not every agent is a BaseAgent.
        remedy = f"use an agent such as {self.agent_example}, or the algorithm of that agent"
        if recurrent and not self.agent.recurrent:
            raise ValueError(f"{name} trains recurrent agents, but {agent} is not: {remedy}")
        if self.agent.recurrent and recurrent is False:
            raise ValueError(f"{name} trains on single steps, but {agent} is recurrent: {remedy}")
        if kind not in (None, self.q_kind):
            raise ValueError(
                f"the agent {agent} has networks of the kind {kind!r}, but the loss of {name} "
                f"takes {self.q_kind!r}: {remedy}"
            )
        if not self.mid_batch_reset and not recurrent:
            raise ValueError(
                f"mid_batch_reset is False, but {name} trains on every step of a batch: use a "
                "sampler whose collector resets environments at once, such as CpuResetCollector"
            )

    def _check_agent_has(self, name: str, such_as: str) -> None:
        """Raise ``ValueError`` if the agent lacks a method that the algorithm calls.

        Args:
            name: name of the method.
            such_as: name of an agent that has it, for the message.
        """
        if not hasattr(self.agent, name):
            raise ValueError(
                f"the agent {type(self.agent).__name__} has no {name}(): {type(self).__name__} "
                f"trains agents such as {such_as}"
            )

    def _look_for_time_limits(self, record: Nested) -> None:
        """Set ``knows_time_limits``; warn if ``bootstrap_timelimit`` asks for it in vain.

        Args:
            record: example of the record that may have the field ``timeout``.
        """
        self.knows_time_limits = bool(self.bootstrap_timelimit) and "timeout" in fields_of(record)
        if self.bootstrap_timelimit and not self.knows_time_limits:
            logger.log(
                "WARNING: bootstrap_timelimit is True, but the environment gives no "
                "env_info.timeout: episodes that a time limit ends count as real ends. If there is "
                "such a limit, make the environment with rlpyt.envs.gym or let it set timeout; "
                "otherwise pass bootstrap_timelimit=False."
            )

    def recompile(self) -> None:
        """Compile updates anew, if they are compiled.

        After the first compiled update, only learning rates and what the loss reads may change.
        Call this after replacing optimizers, their options, their state or what they train.
        """
        vars(self).pop("_compiler", None)

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up for training in this process, which also samples.

        Args:
            agent: agent that was initialized and is on its device.
            n_itr: number of iterations of the whole run.
            batch_spec: T and B of the sampler's batches in this process.
            mid_batch_reset: whether environments are reset within a batch.
            examples: examples of all sampled data, by name.
            world_size: number of processes that sample and train together.
            rank: rank of this process among them.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define initialize()")

    def async_initialize(
        self,
        agent: AgentLike,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
    ) -> Any:
        """Set up what the processes of an asynchronous run share, before they start.

        Args:
            agent: agent that was initialized and is on the CPU.
            sampler_n_itr: number of the sampler's iterations in the whole run.
            batch_spec: T and B of the sampler's batches.
            mid_batch_reset: whether environments are reset within a batch.
            examples: examples of all sampled data, by name; ``batch`` is a whole batch [T,B].
            world_size: number of processes that train together.

        Returns:
            The replay buffer or queue of batches, in shared memory.
        """
        raise NotImplementedError(f"{type(self).__name__} has no asynchronous mode")

    def optim_initialize(self, rank: int = 0) -> None:
        """Make the optimizers, in the process that trains, with their initial state.

        Rates and other options are those of this algorithm, not of the state.

        Args:
            rank: rank of this process among those that train.
        """
        self.rank = rank
        self.make_optimizers()
        if self.initial_optim_state_dict is not None:
            optimizers = [o for value in vars(self).values() for o in optimizers_in(value)]
            with keeping_options(optimizers):
                self.load_optim_state_dict(self.initial_optim_state_dict)

    def make_optimizers(self) -> None:
        """Make ``optimizer``, or an attribute for each of several, by :meth:`make_optimizer`."""
        self.optimizer = self.make_optimizer(self.agent.parameters())

    def make_optimizer(
        self, parameters: Iterable[torch.nn.Parameter], learning_rate: float | None = None
    ) -> Any:
        """Make an optimizer of ``OptimCls``; by default with the algorithm's learning rate."""
        lr = self.learning_rate if learning_rate is None else learning_rate
        return make_optimizer(self.OptimCls, parameters, lr, self.optim_kwargs)

    @property
    def batch_size(self) -> int:
        """Number of samples in one gradient update in this process; subclasses may compute it.

        Raises:
            ValueError: when set to less than 1.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: float) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: make it at least 1")
        self._batch_size = int(batch_size)

    # --- One iteration -----------------------------------------------------------------------

    def samples_to_buffer(self, samples: Nested) -> Nested:
        """Return the part of a sampler batch [T,B] to store in a replay buffer."""
        raise NotImplementedError(f"{type(self).__name__} does not define samples_to_buffer()")

    def replay_entries(self, samples: Nested) -> Nested:
        """Return the samples to append to a replay buffer: :meth:`samples_to_buffer` by default.

        In asynchronous mode other processes call it.
        """
        return self.samples_to_buffer(samples)

    def truncate_trajectories(self, B_idxs: Any) -> None:
        """Record that environments were restarted: their next step does not continue the last.

        Called between iterations, when a run resumes without the state of an environment or a
        worker was restarted. Does nothing by default, for algorithms without data from earlier
        iterations.

        Args:
            B_idxs: indexes of the environments in the columns B of the sampler's batch.
        """

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        """Train the agent in one iteration.

        Args:
            itr: iteration of the process that trains.
            samples: batch [T,B] of the sampler, which reuses the memory; None in asynchronous mode.
            sampler_itr: iteration of the sampler, in asynchronous mode.

        Returns:
            A record with ``opt_info_fields``, of numbers or lists of numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define optimize_agent()")

    @property
    def training_device(self) -> torch.device:
        """The device of losses: the agent's, or the CPU for an agent with ``cpu_outputs``."""
        device: torch.device = self.agent.device
        is_host = device.type == "cpu" or self.agent.cpu_outputs
        return torch.device("cpu") if is_host else device

    def to_training_device(self, samples: Nested) -> Nested:
        """Move a batch in one copy to :attr:`training_device`."""
        device = self.training_device
        return samples if device.type == "cpu" else buffer_to(samples, device)

    def run_networks(self, batch: Nested) -> torch.Tensor | None:
        """Run all trained networks on a minibatch, for the columns of the log on their health.

        Args:
            batch: minibatch [B,...] or [T,B,...] of an update.

        Returns:
            Values [...] of its observations or actions; None if they are not known.
        """
        return None

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, batch: Nested) -> dict[str, Any]:
        """Compute the loss to minimize, and the values to log, for the batch of one update.

        Returns:
            Values by the names of ``opt_info_fields``; other names are not logged. The entry "loss"
            is minimized.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define _get_loss_values()")

    def update_networks(self, batch: Nested) -> dict[str, Any]:
        """Take the steps of all optimizers on one batch; return values to log, by name."""
        values = self._get_loss_values(batch)
        values["loss"], values["gradNorm"] = self.minimize(values["loss"], self.optimizer)
        return values

    def minimize(
        self,
        loss: torch.Tensor,
        optimizer: Any,
        parameters: Iterable[torch.nn.Parameter] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take one step of ``optimizer`` down the gradient of ``loss``, if both are finite.

        Args:
            loss: scalar to minimize.
            optimizer: optimizer to step.
            parameters: parameters whose gradients are clipped together; None for all of
                ``optimizer``.

        Returns:
            The loss and the norm of the gradients before clipping, both without gradient.

        Raises:
            ValueError: if the loss is no scalar tensor.
        """
        if not isinstance(loss, torch.Tensor) or loss.dim():
            is_tensor = isinstance(loss, torch.Tensor)
            given = f"of shape {tuple(loss.shape)}" if is_tensor else repr(loss)
            raise ValueError(
                f"the loss of {type(self).__name__} is {given}: make it a scalar tensor, such as a "
                "mean"
            )
        own = self.parameters_of(optimizer)
        self._step.set_gradients(loss, own)
        return self._step_down(loss, optimizer, own if parameters is None else list(parameters))

    def minimize_all(
        self, losses: Iterable[torch.Tensor], optimizers: Iterable[Any]
    ) -> list[torch.Tensor]:
        """Minimize several losses, with all gradients before the first step.

        Networks may then share layers, which every step changes.

        Args:
            losses: scalars to minimize.
            optimizers: optimizer of each.

        Returns:
            The norms of the gradients before clipping, one for each loss.
        """
        steps = []
        for loss, optimizer in zip(losses, optimizers):
            parameters = self.parameters_of(optimizer)
            self._step.set_gradients(loss, parameters)
            steps.append((loss, optimizer, parameters, [p.grad for p in parameters]))
            for parameter in parameters:
                parameter.grad = None  # The next loss may depend on it, and would add to it.
        norms = []
        for loss, optimizer, parameters, gradients in steps:
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            norms.append(self._step_down(loss, optimizer, parameters)[1])
        return norms

    def _step_down(
        self, loss: torch.Tensor, optimizer: Any, parameters: list[torch.nn.Parameter]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        norm = torch.as_tensor(self.clip_gradients(parameters))
        loss = loss.detach()
        self.step_if_finite(optimizer, loss + norm.to(loss.device))
        return loss, norm

    def parameters_of(self, optimizer: Any) -> list[torch.nn.Parameter]:
        """Return all parameters of ``optimizer``."""
        return self._step.parameters_of(optimizer)

    def step_if_finite(self, optimizer: Any, number: torch.Tensor) -> None:
        """Step ``optimizer``, unless the scalar ``number`` is not finite."""
        self._n_skipped = self._step.take(optimizer, number, self._n_skipped)

    def run_update(self, update: Callable[..., Any], *batch: Nested) -> Any:
        """Return ``update(*batch)``, compiled if ``compile`` is set.

        Args:
            update: method of this algorithm, free of effects other than on networks, optimizers
                and tensors that it keeps.
            *batch: arguments of the method.
        """
        if self.health.is_due and self.health.begins(update):
            return self.health.of_update(self, update, *batch)
        if not self.compile:
            return update(*batch)
        if not isinstance(self._n_skipped, torch.Tensor):
            self._n_skipped = lasting(torch.zeros((), device=self.training_device))
        return self._compiler.run(update, batch, self.compile)

    def clip_gradients(self, parameters: list[torch.nn.Parameter]) -> Any:
        """Scale gradients down to the norm ``clip_grad_norm``; None leaves them unchanged.

        Args:
            parameters: parameters whose gradients are clipped together.

        Returns:
            The norm of the gradients before clipping.
        """
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return torch.zeros(())
        norm = torch.linalg.vector_norm(torch.stack([*map(torch.linalg.vector_norm, gradients)]))
        if self.clip_grad_norm is None:
            return norm
        self._step.scale(gradients, norm, self.clip_grad_norm)
        return norm

    # --- The log -----------------------------------------------------------------------------

    def _get_empty_optim_info(self) -> Any:
        """Return a record of ``opt_info_fields``, each an empty list."""
        fields = tuple(self.opt_info_fields)
        return opt_info_class(fields)(*([] for _ in fields))

    def record_opt_info(self, opt_info: Any, values: Mapping[str, Any]) -> None:
        """Append the values of one update to the lists of ``opt_info``, without reading tensors.

        Args:
            opt_info: record of lists.
            values: values by the names in ``opt_info_fields``: numbers, scalars, or larger tensors,
                which are thinned to about every ``opt_info_stride``-th element.
        """
        for name in self.opt_info_fields:
            value = values.get(name)
            if isinstance(value, torch.Tensor):
                value = thinned(value.detach(), self.opt_info_stride)
            if value is not None:
                getattr(opt_info, name).append(value)

    def fetch_opt_info(self, opt_info: Any) -> Any:
        """Return ``opt_info`` with numbers instead of tensors; only here training waits for them.

        Args:
            opt_info: record of lists of numbers and tensors, from :meth:`record_opt_info`.

        Raises:
            FloatingPointError: if a loss or gradient was not finite; its step was not taken.
        """
        tensors = [torch.as_tensor(self._n_skipped, dtype=torch.float32)]
        tensors += [x for values in opt_info for x in values if isinstance(x, torch.Tensor)]
        numbers = iter(numbers_of(tensors))
        (n_skipped,) = next(numbers)
        if isinstance(self._n_skipped, torch.Tensor):
            self._n_skipped.zero_()
        else:
            self._n_skipped = 0
        fetched = opt_info._make([] for _ in opt_info)
        for values, new in zip(opt_info, fetched):
            for x in values:
                new.extend(next(numbers) if isinstance(x, torch.Tensor) else (x,))
        if n_skipped:
            self._raise_not_finite(fetched)
        return fetched

    def _raise_not_finite(self, opt_info: Any) -> None:
        name, value = next(
            ((k, x) for k, xs in opt_info._asdict().items() for x in xs if not math.isfinite(x)),
            ("a gradient", "not finite"),
        )
        raise FloatingPointError(
            f"{name} of {type(self).__name__} is {value} in iteration {self._itr}, by "
            f"update {self.update_counter}: lower learning_rate={self.learning_rate} or "
            f"clip_grad_norm={self.clip_grad_norm}, scale rewards down, and look for non-finite "
            "observations; torch.autograd.set_detect_anomaly(True) finds the operation"
        )

    # --- State -------------------------------------------------------------------------------

    def named_optimizers(self) -> dict[str, Any]:
        """Return the optimizers whose states :meth:`optim_state_dict` has, by name."""
        return {"optimizer": self.optimizer} if "optimizer" in vars(self) else {}

    def optim_state_dict(self) -> Any:
        """Return the optimizer's state for a snapshot: tensors and plain values only."""
        return self.optimizer.state_dict()

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Load a state from :meth:`optim_state_dict`; it may come from another device."""
        load_optimizer_state(self.optimizer, state_dict)
        self.recompile()

    def state_dict(self) -> dict[str, Any]:
        """Return the state to continue training from; its arrays may be shared, not copied.

        It includes all attributes that are networks, optimizers or schedules of learning rates.
        """
        return {
            "update_counter": self.update_counter,
            "optimizer": self.optim_state_dict(),
            "further": {name: part.state_dict() for name, part in self._further_parts().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state that :meth:`state_dict` returned.

        Raises:
            ValueError: if it has a network or optimizer that this algorithm does not have yet.
        """
        parts = self._further_parts()
        if missing := sorted(state["further"].keys() - parts.keys()):
            raise ValueError(
                f"the checkpoint has states of {missing}, which {type(self).__name__} lacks: make "
                "them in initialize() or make_optimizers(), before the first update"
            )
        self.load_optim_state_dict(state["optimizer"])
        for name, part_state in state["further"].items():
            if isinstance(parts[name], torch.optim.Optimizer):
                load_optimizer_state(parts[name], part_state)
            else:
                parts[name].load_state_dict(part_state)
        self.recompile()
        self.update_counter = state["update_counter"]

    def _further_parts(self) -> dict[str, Any]:
        """Return networks, schedules and optimizers outside :meth:`optim_state_dict`, by name."""
        kinds = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
        known = [id(optimizer) for optimizer in self.named_optimizers().values()]
        parts = {name: x for name, x in vars(self).items() if isinstance(x, kinds)}
        return {name: x for name, x in parts.items() if id(x) not in known}
