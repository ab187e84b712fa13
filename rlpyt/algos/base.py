"""The base of all algorithms: an algorithm turns batches of experience into gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from rlpyt.algos._optim import load_optimizer_state, make_optimizer
from rlpyt.algos._settings import at_least_one
from rlpyt.core.records import BatchSpec
from rlpyt.utils.types import Nested


class RlAlgorithm:
    """Trains the agent on what the sampler gives.

    Constructors only store their arguments; :meth:`initialize` does the set-up, once the agent is
    on its device.

    Attributes:
        opt_info_fields: names of what :meth:`optimize_agent` returns to be logged.
        bootstrap_value: whether the sampler shall record values after the last step of a batch.
        update_counter: gradient updates so far.
    """

    opt_info_fields: tuple[str, ...] = ()
    bootstrap_value = False
    update_counter = 0

    agent: Any
    n_itr: int
    batch_spec: BatchSpec
    mid_batch_reset: bool
    world_size = 1
    rank = 0
    discount: float
    optimizer: Any
    OptimCls: Any
    optim_kwargs: Any
    learning_rate: float
    initial_optim_state_dict: Any

    def initialize(
        self,
        agent: Any,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up for training in this process, which also samples.

        Args:
            agent: initialized, on its device.
            n_itr: iterations of the whole run.
            batch_spec: T and B of the sampler's batches in this process.
            mid_batch_reset: whether environments are reset within a batch.
            examples: one of everything that is sampled, by name.
            world_size: number of processes which sample and train together.
            rank: of this process.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define initialize()")

    def async_initialize(
        self,
        agent: Any,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
    ) -> Any:
        """Set up what all processes of an asynchronous run share, before they start.

        Args:
            agent: initialized, on the CPU.
            sampler_n_itr: iterations of the sampler in the whole run.
            batch_spec: T and B of the sampler's batches.
            mid_batch_reset: whether environments are reset within a batch.
            examples: one of everything that is sampled, by name.
            world_size: number of processes which train together.

        Returns:
            The replay buffer, in shared memory.
        """
        raise NotImplementedError(f"{type(self).__name__} has no asynchronous mode")

    def optim_initialize(self, rank: int = 0) -> None:
        """Make the optimizer, in the process which trains.

        Args:
            rank: of this process among those which train.
        """
        self.rank = rank
        self.optimizer = self.make_optimizer(self.agent.parameters())
        if self.initial_optim_state_dict is not None:
            self.load_optim_state_dict(self.initial_optim_state_dict)

    def make_optimizer(
        self, parameters: Iterable[torch.nn.Parameter], learning_rate: float | None = None
    ) -> Any:
        """Make an optimizer of ``OptimCls``; by default with the algorithm's learning rate."""
        lr = self.learning_rate if learning_rate is None else learning_rate
        return make_optimizer(self.OptimCls, parameters, lr, self.optim_kwargs)

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        """Train the agent in one iteration.

        Args:
            itr: iteration of the process which trains.
            samples: [T,B] one batch of the sampler, whose memory the sampler uses again; None in
                asynchronous mode.
            sampler_itr: iteration of the sampler, in asynchronous mode.

        Returns:
            A record with ``opt_info_fields``, of numbers or lists of numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define optimize_agent()")

    def optim_state_dict(self) -> Any:
        """State of the optimizer: what a snapshot keeps, tensors and plain values only."""
        return self.optimizer.state_dict()

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Take the state of :meth:`optim_state_dict`, of a run on any device."""
        load_optimizer_state(self.optimizer, state_dict)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on training; arrays may be the live ones."""
        return {"update_counter": self.update_counter, "optimizer": self.optim_state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the state of :meth:`state_dict`."""
        self.load_optim_state_dict(state["optimizer"])
        self.update_counter = state["update_counter"]

    @property
    def batch_size(self) -> int:
        """Samples in one gradient update, in this process; subclasses may compute it.

        Raises:
            ValueError: when set to less than 1.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: float) -> None:
        self._batch_size = at_least_one("batch_size", batch_size)

    def _store_batch_size(self, batch_size: float) -> None:
        """Store the argument of a constructor, if no subclass did before.

        Not by the property, which subclasses replace by one that cannot be set.
        """
        if not hasattr(self, "_batch_size"):
            self._batch_size = at_least_one("batch_size", batch_size)
