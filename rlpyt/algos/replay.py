"""Base class of algorithms with a replay buffer: storage, the update loop, the state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.algos.augmentation import BatchAugmentation, batch_augmentation
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.checks import check_fraction, check_positive, make_whole
from rlpyt.algos.replay_buffers import make_replay_buffer, replay_buffer_class, storage_device
from rlpyt.core.protocols import AgentLike, Stateful
from rlpyt.core.records import BatchSpec, SamplesToBuffer, extended, is_image, is_stack
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.buffer import leaves
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.tensor import select_at_indexes
from rlpyt.utils.types import Nested

# Training ends after this number of successive updates without a valid sample.
MAX_MASKED_UPDATES = 100
# The log warns if a larger fraction of an iteration's samples is masked.
MANY_MASKED = 0.4


def not_timed_out(samples: Nested) -> torch.Tensor:
    """Return a mask of the samples to train on: False where a time limit truncated the return.

    Args:
        samples: batch from a replay buffer. Without ``timeout`` all samples count.

    Returns:
        Booleans in the shape of ``samples.done``: [B], or [T,B] for sequences.

    Raises:
        ValueError: if the samples have ``timeout``, but no ``timeout_n``.
    """
    if "timeout_n" not in samples._fields:
        if "timeout" not in samples._fields:
            return torch.ones_like(samples.done, dtype=torch.bool)
        raise ValueError(
            "bootstrap_timelimit needs samples with timeout_n, which the replay buffer does not "
            "give: pass a ReplayBufferCls such as TlUniformReplayBuffer or "
            "TlPrioritizedReplayBuffer, or bootstrap_timelimit=False"
        )
    timeout_n: torch.Tensor = samples.timeout_n
    return ~timeout_n.bool()


class ReplayAlgorithm(RlAlgorithm):
    """Base class of algorithms that store samples and train on batches from a replay buffer.

    Set-up and :meth:`optimize_agent` consist of small methods that a subclass may replace: the
    stored fields (:meth:`examples_to_buffer`, :meth:`samples_to_buffer`), the buffer
    (:meth:`initialize_replay_buffer`), the loss and the logged values (:meth:`_get_loss_values`),
    gradient clipping (:meth:`clip_gradients`), and one whole update (:meth:`_apply_optimization`).

    **Time limits.** With ``bootstrap_timelimit``, ``env_info.timeout`` is stored. If the sampler
    records the last observation of an episode (``record_next_observation=True``) and the replay
    buffer keeps it, a return that a time limit truncates after k rewards is bootstrapped from it,
    as in Pardo et al. and in the code of the authors of TD3 and SAC::

        y = r_1 + ... + discount^(k-1) r_k + discount^k V(last observation)

    The library's buffers keep it, except frame buffers: those store one frame a row, and the next
    row's frame begins another episode. Without that observation, such samples are left out of
    training, because 0 would be a wrong bootstrap value. Their fraction is logged as
    ``maskedFraction``. Without ``timeout`` from the
    environment every end counts as a real end, with a warning.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 4 (partial-episode bootstrapping).

    Attributes:
        sampler_bs: number of environment steps in one batch of the sampler in this process.
        updates_per_optimize: number of gradient updates in this iteration, possibly 0: so many that
            the replay ratio is exact over several iterations. A program that sets it, after
            :meth:`initialize`, gets this number in every iteration.
        min_itr_learn: first iteration that trains.
    """

    trains_on_sequences = False
    _n_samplers = 1  # Number of processes whose sampler batches together make one iteration.
    _warned_of_truncation = False
    warned_of_mask = False
    stacking: str | None = None  # Of image observations, see :func:`core.records.stacking_of`.
    n_masked_updates = 0  # Number of successive updates without a valid sample.
    _updates_per_itr: float | None = None  # By the replay ratio; None if their number is given.
    _updates_owed = 0.0  # Fraction of an update that earlier iterations left.
    _augment: BatchAugmentation | None = None

    sampler_bs: int
    replay_buffer: Any
    min_steps_learn: float
    replay_size: float = int(1e6)
    replay_ratio: float
    n_step_return: int = 1
    updates_per_sync: int = 1
    target_update_interval: int = 1
    target_update_tau: float = 1
    prioritized_replay: bool = False
    ReplayBufferCls: Any = None
    replay_device: Any = None
    augmentation: Any = None

    # --- Set-up ------------------------------------------------------------------------------

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
        """Set up schedules, replay buffer and optimizer.

        Raises:
            ValueError: if a setting cannot work, alone or with this sampler.
        """
        self.n_itr = n_itr
        self.world_size = self._n_samplers = world_size
        self._set_up(agent, batch_spec, mid_batch_reset, examples)
        self._set_updates_per_itr()
        self.initialize_replay_buffer(examples, batch_spec)
        self._wait_for_first_batch()
        self.optim_initialize(rank)

    def async_initialize(
        self,
        agent: AgentLike,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
    ) -> Any:
        """Set up schedules and a shared replay buffer; each optimizer follows in its process.

        Raises:
            ValueError: if a setting cannot work, alone or with this sampler.
        """
        self.n_itr = sampler_n_itr
        self.world_size = world_size
        self._n_samplers = 1  # All optimizers train on the batches of one sampler.
        self._set_up(agent, batch_spec, mid_batch_reset, examples)
        self.updates_per_optimize = whole_number("updates_per_sync", self.updates_per_sync)
        self.initialize_replay_buffer(examples, batch_spec, async_=True)
        self._wait_for_first_batch()
        return self.replay_buffer

    def _set_up(
        self, agent: AgentLike, batch_spec: BatchSpec, mid_batch_reset: bool, examples: Nested
    ) -> None:
        self._begin_run(agent)
        self.n_masked_updates = 0
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.sampler_bs = batch_spec.size
        self._check_settings()
        self.min_itr_learn = int(self.min_steps_learn // self.steps_per_itr)
        if self.min_itr_learn >= self.n_itr:
            logger.log(
                f"WARNING: min_steps_learn is {self.min_steps_learn:g}, but the run has only "
                f"{self.n_itr * self.steps_per_itr} steps: it trains nothing. Lower it, or train "
                "for longer."
            )
        self._configure_agent()
        if self.augmentation is not None:
            self._augment = batch_augmentation(self.augmentation, examples["observation"])

    def _wait_for_first_batch(self) -> None:
        """Train later than ``min_steps_learn``, if nothing can be drawn from the buffer by then."""
        first_itr = math.ceil(self._first_rows() / self.batch_spec.T) - 1
        if first_itr <= self.min_itr_learn:
            return
        self.min_itr_learn = first_itr
        self._configure_agent()
        logger.log(
            f"min_steps_learn is {self.min_steps_learn:g}, but the first batch is complete after "
            f"{(first_itr + 1) * self.steps_per_itr} steps of all environments: training starts "
            "then."
        )

    def _first_rows(self) -> int:
        """Return the rows of each environment that a first batch needs; 0 if that is not known."""
        buffer = getattr(self, "replay_buffer", None)  # A program may name its buffers otherwise.
        if not isinstance(buffer, BaseNStepReturnBuffer):
            return 0
        return buffer.off_backward + buffer.off_forward + 1

    @property
    def steps_per_itr(self) -> int:
        """Number of environment steps in one iteration, over all processes."""
        return self.sampler_bs * self._n_samplers

    def _check_settings(self) -> None:
        """Raise ``ValueError`` for settings that would fail later or never start training."""
        self._check_agent_and_sampler(recurrent=self.trains_on_sequences)
        make_whole(self, "batch_size", "n_step_return", "target_update_interval")
        check_positive(self, "replay_ratio", "make it positive, since 0 allows no updates")
        check_positive(self, "clip_grad_norm", "make it positive, or None")
        check_fraction(self, "discount", "target_update_tau")
        self._check_replay_size()

    def _check_replay_size(self) -> None:
        """Raise ``ValueError`` if a sampler batch or a training batch exceeds the storage."""
        for what, size in (
            ("one training batch", self.batch_size),
            (f"one sampler batch {tuple(self.batch_spec)}", self.sampler_bs),
        ):
            if self.replay_size < size:
                raise ValueError(
                    f"replay_size is {self.replay_size:g}, less than {what} ({size:g}): make it "
                    "larger, or that smaller"
                )
        first_steps = self.min_steps_learn / self._n_samplers
        if self.replay_size < first_steps:
            logger.log(
                f"WARNING: replay_size is {self.replay_size:g}, less than min_steps_learn of this "
                f"process ({first_steps:g}): the first steps are overwritten before training starts"
            )

    def _configure_agent(self) -> None:
        """Pass the settings of its schedules to the agent."""

    def _set_updates_per_itr(self) -> None:
        """Compute the number of updates in one iteration for ``replay_ratio``."""
        exact = self.replay_ratio * self.sampler_bs / self.batch_size
        self.updates_per_optimize = max(1, round(exact))  # For an optimize_agent of a program.
        self._updates_per_itr, self._updates_owed = exact, 0.0
        logger.log(
            f"From sampler batch size {self.sampler_bs}, training batch size {self.batch_size}, "
            f"and replay ratio {self.replay_ratio}, computed {exact:.6g} updates per iteration."
        )

    def initialize_replay_buffer(
        self, examples: Nested, batch_spec: BatchSpec, async_: bool = False
    ) -> None:
        """Make the replay buffer: ``ReplayBufferCls``, or the class that fits the example.

        Args:
            examples: examples of all sampled data, by name.
            batch_spec: T and B of the sampler's batches.
            async_: whether several processes use the buffer.

        Raises:
            TypeError: if ``ReplayBufferCls`` does not take the keywords.
            ValueError: if ``replay_device`` has too little memory; in asynchronous mode, if it is
                set, or if the buffer is for a single process.
        """
        if async_ and self.replay_device not in (None, "cpu"):
            raise ValueError(
                f"replay_device is {self.replay_device!r}, but in asynchronous mode the replay "
                "buffer is in host memory, which processes share: leave it None"
            )
        example = self.examples_to_buffer(examples)
        self._look_for_time_limits(example)
        if self.knows_time_limits:
            fields = (*self.opt_info_fields, "maskedFraction")
            self.opt_info_fields = tuple(dict.fromkeys(fields))  # Once, if set up again.
        ReplayCls = self.ReplayBufferCls
        self.stacking = examples.get("stacking")
        if ReplayCls is None:
            ReplayCls = self._select_replay_class(example, async_)
        else:
            logger.log(f"WARNING: using {ReplayCls} in place of the replay buffer of the algorithm")
        kwargs = self._replay_kwargs(example, batch_spec)
        is_given = self.ReplayBufferCls is not None
        self.replay_buffer = make_replay_buffer(ReplayCls, kwargs, is_given, async_)
        spaces = getattr(self.agent, "env_spaces", None)
        if spaces is not None:
            null_action = spaces.action.null_value()
            if any(np.any(part) for part in leaves(null_action)):
                self.replay_buffer.null_action = null_action
        if self.stacking == "repeated" and isinstance(self.replay_buffer, FrameBufferMixin):
            self.replay_buffer.repeats_first = True
        logger.log(self._describe_replay(example))

    def _describe_replay(self, example: Nested) -> str:
        """Return the line to log about the replay buffer."""
        text = f"Replay buffer: {type(self.replay_buffer).__name__}"
        if not isinstance(self.replay_buffer, BaseNStepReturnBuffer):
            return text
        n_bytes = sum(array.nbytes for array in self.replay_buffer.stored_rows.values())
        text += f", {n_bytes:,} bytes"
        observation = getattr(example, "observation", ())
        if self.ReplayBufferCls is not None or not is_stack(observation):
            return text
        if is_image(observation) and self.stacking == "none":
            text += "; images are stored whole, since they are no stacks of successive frames"
        elif not is_image(observation):
            text += (
                "; if the observations [C,H,W] are stacks of successive frames, "
                "ReplayBufferCls=UniformReplayFrameBuffer (or PrioritizedReplayFrameBuffer) "
                "stores each frame once"
            )
        return text

    def _select_replay_class(self, example: Nested, async_: bool) -> Any:
        """Return the class of replay buffer for entries like ``example``."""
        return replay_buffer_class(
            sequences=self.trains_on_sequences,
            time_limits=self.knows_time_limits,
            frames=is_image(example.observation) and self.stacking != "none",
            prioritized=self.prioritized_replay,
            async_=async_,
        )

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        """Return the keywords of the replay buffer's class."""
        kwargs = {
            "example": example,
            "size": self.replay_size,
            "B": batch_spec.B,
            "discount": self.discount,
            "n_step_return": self.n_step_return,
        }
        if self.replay_device is not None:
            device = storage_device(self.replay_device, self.agent.device)
            if device is not None:
                kwargs["device"] = device
        return kwargs

    # --- What is stored ----------------------------------------------------------------------

    def examples_to_buffer(self, examples: Nested) -> Nested:
        """Return one entry of the replay buffer, made from examples of all sampled data."""
        entry = SamplesToBuffer(
            observation=examples["observation"],
            action=examples["action"],
            reward=examples["reward"],
            done=examples["done"],
        )
        return self._with_timeout(entry, examples["env_info"], examples.get("next_observation"))

    def samples_to_buffer(self, samples: Nested) -> Nested:
        """Return the part of a sampler batch [T,B] to store: fields of :meth:`examples_to_buffer`.

        In asynchronous mode other processes call it: it must not change the algorithm.
        """
        entry = SamplesToBuffer(
            observation=samples.env.observation,
            action=samples.agent.action,
            reward=samples.env.reward,
            done=samples.env.done,
        )
        env = samples.env
        is_recorded = "next_observation" in env._fields
        next_observation = env.next_observation if is_recorded else None
        return self._with_timeout(entry, env.env_info, next_observation)

    def _with_timeout(self, entry: Any, env_info: Nested, next_observation: Nested) -> Nested:
        """Return ``entry`` with fields for time limits at its end, if they are needed.

        The fields are ``env_info.timeout``, and ``next_observation`` as ``last_observation``.
        """
        if not self.bootstrap_timelimit or "timeout" not in fields_of(env_info):
            return entry
        if next_observation is None:
            return extended(type(entry), ("timeout",), "Tl")(*entry, env_info.timeout)
        RecordCls = extended(type(entry), ("timeout", "last_observation"), "Tl")
        return RecordCls(*entry, env_info.timeout, next_observation)

    def add_samples_to_buffer(self, itr: int, samples: Nested) -> None:
        """Store a sampler batch [T,B]."""
        self.replay_buffer.append_samples(self.replay_entries(samples))

    def truncate_trajectories(self, B_idxs: Any) -> None:
        """Exclude transitions that end at the restart of an environment from training."""
        if hasattr(self.replay_buffer, "truncate"):
            self.replay_buffer.truncate(B_idxs)
        elif not self._warned_of_truncation:
            self._warned_of_truncation = True
            logger.log(
                f"WARNING: environments were restarted, but {type(self.replay_buffer).__name__} "
                "has no truncate(B_idxs): its n-step returns and stacked frames may reach from one "
                "episode into another without done between them."
            )

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        itr = itr if sampler_itr is None else sampler_itr  # Schedules follow the sampler.
        self._itr = itr
        if samples is not None:
            self.add_samples_to_buffer(itr, samples)
        opt_info = self._get_empty_optim_info()
        if itr < self.min_itr_learn:
            return opt_info
        self._set_updates_due()
        self.pre_optimize_process()
        for _ in range(self.updates_per_optimize):
            samples_from_replay = self.to_training_device(self.sample_from_replay())
            if self._augment is not None:
                samples_from_replay = self._augment(samples_from_replay)
            if "maskedFraction" in opt_info._fields and "timeout_n" in samples_from_replay._fields:
                fraction = 1 - not_timed_out(samples_from_replay).float().mean()
                opt_info.maskedFraction.append(fraction)
            self._apply_optimization(samples_from_replay, opt_info)
        self.update_itr_hyperparams(itr)
        opt_info = self.fetch_opt_info(opt_info)
        fractions = opt_info.maskedFraction if "maskedFraction" in opt_info._fields else ()
        if self.n_masked_updates or max(fractions, default=0) > MANY_MASKED:
            self._check_masks(fractions)
        return opt_info

    @property
    def updates_per_optimize(self) -> int:
        return self._updates_per_optimize

    @updates_per_optimize.setter
    def updates_per_optimize(self, number: int) -> None:
        self._updates_per_optimize = number
        self._updates_per_itr = None

    def _set_updates_due(self) -> None:
        """Set ``updates_per_optimize`` to what the replay ratio needs in the next iteration."""
        if self._updates_per_itr is None:
            return
        due = self._updates_owed + self._updates_per_itr
        self._updates_per_optimize = int(due + 1e-6)  # A sum of tenths may be just below 1.
        self._updates_owed = due - self._updates_per_optimize

    def _check_masks(self, fractions: Sequence[float]) -> None:
        """Warn if many samples in an iteration are masked.

        Args:
            fractions: fraction of masked samples in each update.

        Raises:
            ValueError: if ``MAX_MASKED_UPDATES`` updates in a row had no valid sample.
        """
        remedy = (
            f"lower n_step_return={self.n_step_return} below the length of episodes, or pass "
            "bootstrap_timelimit=False to count time limits as real ends, or (unless frames are "
            "stored once) give the sampler record_next_observation=True to learn from these samples"
        )
        for fraction in fractions:
            self.n_masked_updates = self.n_masked_updates + 1 if fraction == 1 else 0
            if self.n_masked_updates == MAX_MASKED_UPDATES:
                raise ValueError(
                    f"bootstrap_timelimit is True, and none of the samples of {MAX_MASKED_UPDATES} "
                    "updates was trained on, because time limits truncated all returns: "
                    f"{remedy}"
                )
        if not self.warned_of_mask and sum(fractions) > MANY_MASKED * len(fractions):
            self.warned_of_mask = True
            logger.log(
                f"WARNING: {sum(fractions) / len(fractions):.0%} of the samples in an iteration "
                "are not trained on, because time limits truncated their returns, though the "
                f"values of earlier steps are bootstrapped from theirs: {remedy}."
            )

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        """Update the agent once, on one batch, and add to ``opt_info``."""
        self._finish_update(self.run_update(self.update_networks, samples_from_replay), opt_info)

    def _finish_update(self, values: dict[str, Any], opt_info: Any) -> None:
        """Record the values of an update, and give the replay buffer and target networks theirs."""
        self.record_opt_info(opt_info, values)
        self.update_counter += 1
        try:
            self.update_priorities(values)
        except ValueError:
            self.fetch_opt_info(opt_info)  # Raises the clearer error if the loss is not finite.
            raise
        self.update_target()

    def pre_optimize_process(self) -> None:
        """Prepare the updates of an iteration; does nothing by default."""

    def sample_from_replay(self) -> Nested:
        """Draw the batch for one update."""
        return self.replay_buffer.sample_batch(self.batch_size)

    def bootstrap_steps(self, samples: Nested) -> int | torch.Tensor:
        """Return the number of rewards before the bootstrap value; [B] if samples differ."""
        differ = "bootstrap_steps" in fields_of(samples)
        return samples.bootstrap_steps if differ else self.n_step_return

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        """Update the priorities of the samples in the last batch; does nothing by default.

        Args:
            values: result of :meth:`_get_loss_values`, with the gradient norm.
        """

    def update_target(self) -> None:
        """Update the target networks, every ``target_update_interval`` updates."""
        if self.update_counter % self.target_update_interval == 0:
            self.agent.update_target(self.target_update_tau)

    def update_itr_hyperparams(self, itr: int) -> None:
        """Advance schedules at the end of iteration ``itr``; does nothing by default."""

    # Elements [B,...] of ``tensor`` [B,A,...] at ``indexes`` [B]; subclasses may replace it.
    select_at_indexes = staticmethod(select_at_indexes)

    # --- State -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "replay_buffer": self._stateful_replay().state_dict(),
            "updates_owed": self._updates_owed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # The parts that may be refused come first, so that an error leaves everything unchanged.
        if "replay_buffer" in state:  # Otherwise another process has loaded it.
            self._stateful_replay().load_state_dict(state["replay_buffer"])
        super().load_state_dict(state)
        self._updates_owed = state.get("updates_owed", 0.0)

    def _stateful_replay(self) -> Any:
        """Return the replay buffer.

        Raises:
            TypeError: if its class has no state.
        """
        if not isinstance(self.replay_buffer, Stateful):
            raise TypeError(
                "resuming a run needs the state of its replay buffer, but "
                f"{type(self.replay_buffer)} lacks state_dict() or load_state_dict(): define "
                "both in the class that is passed as ReplayBufferCls"
            )
        return self.replay_buffer
