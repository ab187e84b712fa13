"""Base class of algorithms that train on each batch of the sampler, then discard it: the loop."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.checks import make_whole
from rlpyt.algos.rollouts import (
    filled_parts,
    iterate_parts,
    iterate_sequences,
    resets,
    shuffled_parts,
)
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec
from rlpyt.models.rnn import move_with_resets
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.types import Nested


class OnPolicyAlgorithm(RlAlgorithm):
    """Base class of algorithms that train on each batch of the sampler, then discard it.

    An iteration has two halves. :meth:`prepare` runs once, eagerly, on the whole batch [T,B]: it
    computes what the loss needs but does not change, such as returns. Then every minibatch is one
    update: loss, gradients, clipping, step::

        samples -> prepare -> batch -> epochs x (divided -> minibatch -> update) -> log

    Attributes:
        epochs: number of passes over a batch.
        minibatches: number of minibatches in one epoch.
        divides: whether batches are divided; otherwise an epoch is one update on the whole batch.
        next_diagnostics: values of the next update to log, by name. A loss may add its own; they
            are logged if ``opt_info_fields`` names them.
    """

    bootstrap_value = True
    epochs: int = 1
    minibatches: int = 1
    divides = True

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool = False,
        examples: Nested = None,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up the algorithm and its optimizer.

        Raises:
            ValueError: if a setting cannot work, alone or with this agent and sampler.
        """
        self._set_up(agent, n_itr, batch_spec, mid_batch_reset, examples, world_size)
        self.optim_initialize(rank)

    def _set_up(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int,
    ) -> None:
        """Set up all but the optimizer, which is made in the process that trains."""
        self._begin_run(agent)
        self.n_itr = n_itr
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.world_size = world_size
        make_whole(self, "minibatches", "epochs")
        self._check_settings(examples)
        self._check_minibatches()
        if examples and "env_info" in examples:
            self._look_for_time_limits(examples["env_info"])
        self._batch_size = batch_spec.size // self.minibatches
        if self.divides:
            self._minibatch_rng = make_generator()

    def _check_settings(self, examples: Nested) -> None:
        """Raise ``ValueError`` for settings that cannot work with this agent and sampler."""

    def _check_minibatches(self) -> None:
        """Raise ``ValueError`` if there are more ``minibatches`` than parts to divide."""
        T, B = self.batch_spec
        if self.agent.recurrent and self.minibatches > B:
            raise ValueError(
                f"minibatches is {self.minibatches}, but for a recurrent agent whole environments "
                f"are divided, and batch_B is {B}: choose minibatches <= {B}, or a larger batch_B"
            )
        if self.minibatches > T * B:
            raise ValueError(
                f"minibatches is {self.minibatches}, more than the {T * B} samples of a batch "
                f"{(T, B)}: choose fewer, or a larger batch_T or batch_B"
            )

    # Subclasses may replace the set-up.
    @cached_property
    def _minibatch_rng(self) -> np.random.Generator:
        """Generator that divides samples into minibatches."""
        return make_generator()

    @cached_property
    def next_diagnostics(self) -> dict[str, Any]:
        return {}

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        opt_info = self._get_empty_optim_info()
        samples = self.to_training_device(samples)
        batch = self.prepare(samples)
        for epoch in range(self.epochs):
            if epoch:
                batch = self.prepare_again(batch, samples)
            for minibatch in self.divided(batch):
                self._apply_optimization(minibatch, opt_info)
            if self.stops_after_epoch():
                break
        return self._finish_iteration(itr, samples, opt_info)

    def to_training_device(self, samples: Nested) -> Nested:
        """Move a batch [T,B] in one copy; its resets stay on the CPU too, to cut sequences."""
        reset = resets(samples)
        if reset is None:
            return super().to_training_device(samples)
        samples = samples._replace(env=samples.env._replace(reset=None))
        moved, (reset,) = move_with_resets(samples, [reset.cpu()], self.training_device)
        return moved._replace(env=moved.env._replace(reset=reset))

    def prepare(self, samples: Nested) -> Nested:
        """Return the inputs of the loss for a whole batch.

        Args:
            samples: batch [T,B] of the sampler, on the device of the losses.

        Returns:
            A record [T,B,...] with the fields ``valid`` (mask [T,B] of the entries that count, or
            None), ``init_rnn_state`` ([B,N,H] before the first step, or None) and ``reset`` (mask
            [T,B] on the CPU, True before which steps the recurrent state is zero, or None).
        """
        raise NotImplementedError(f"{type(self).__name__} does not define prepare()")

    def prepare_again(self, batch: Nested, samples: Nested) -> Nested:
        """Return the inputs of the loss for the next epoch: ``batch``, by default as it is."""
        return batch

    def stops_after_epoch(self) -> bool:
        """Return whether to leave out the remaining epochs."""
        return False

    def divided(self, batch: Nested) -> Iterable[Nested]:
        """Divide a batch into the minibatches of one epoch, in a new random order.

        All minibatches of the library's own loss have the same size: entries that are repeated for
        that have 0 in ``valid``. Another loss gets each entry once.

        Args:
            batch: record of :meth:`prepare`.

        Returns:
            Records [B',...]; for recurrent agents [T,B',...], of whole environments.
        """
        if not self.divides:
            return [batch]
        (T, B), device = self.batch_spec, self.training_device
        if self.agent.recurrent:
            order, sizes = shuffled_parts(np.arange(B), self.minibatches, self._minibatch_rng)
            return iterate_sequences(batch, order, sizes, device)
        rows = np.arange(T * B)
        if batch.valid is not None:
            counted = rows[batch.valid.cpu().numpy().reshape(-1) > 0]
            rows = counted if len(counted) else rows
        order, sizes = shuffled_parts(rows, self.minibatches, self._minibatch_rng)
        size = -(-T * B // self.minibatches)
        is_full = batch.valid is None and set(sizes) == {size}
        if is_full or not self._takes_fillers:
            return iterate_parts(batch, order, sizes, n_dims=2)
        order, sizes, masks = filled_parts(order, sizes, size, device)
        parts = iterate_parts(batch, order, sizes, n_dims=2)
        if batch.valid is not None and not len(counted):
            masks = tuple(0 * mask for mask in masks)
        return (part._replace(valid=mask) for part, mask in zip(parts, masks))

    @property
    def _takes_fillers(self) -> bool:
        """Whether the loss leaves out entries with 0 in ``valid``, as the library's does."""
        raise NotImplementedError

    # --- One update --------------------------------------------------------------------------

    def _apply_optimization(self, batch: Nested, opt_info: Any) -> dict[str, Any]:
        """Update the agent once, and add to ``opt_info``.

        Args:
            batch: minibatch from :meth:`divided`.
            opt_info: record of lists.

        Returns:
            The values of the update, by name.
        """
        diagnostics, self.next_diagnostics = self.next_diagnostics, {}
        values = {**diagnostics, **self.run_update(self.update_networks, batch)}
        self.record_opt_info(opt_info, values)
        self.update_counter += 1
        return values

    def _finish_iteration(self, itr: int, samples: Nested, opt_info: Any) -> Any:
        """Advance schedules, and return ``opt_info`` as numbers."""
        opt_info = self.fetch_opt_info(opt_info)
        self.update_itr_hyperparams(itr)
        return opt_info

    def update_itr_hyperparams(self, itr: int) -> None:
        """Advance schedules to the iteration after ``itr``."""

    # --- State -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        rng = {"rng": generator_state(self._minibatch_rng)} if self.divides else {}
        return {**super().state_dict(), **rng}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.divides:
            set_generator_state(self._minibatch_rng, state["rng"])
