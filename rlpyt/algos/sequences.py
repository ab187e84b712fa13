"""Training on replayed sequences of recurrent agents: what is stored, where episodes begin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from rlpyt.algos.checks import make_whole
from rlpyt.algos.replay import ReplayAlgorithm, not_timed_out
from rlpyt.algos.rollouts import replaced, to_model_state
from rlpyt.core.records import BatchSpec, extended
from rlpyt.models.rnn import masked_rows, move_with_resets
from rlpyt.replays.sequence.n_step import LAST_FIELDS
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.buffer import buffer_to, leaves, map_buffer
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested


class Insertion(NamedTuple):
    """Places of K last observations in sequences [T,B], which become [L,B] by them."""

    steps: torch.Tensor  # [L,B] the step in the sequences; after an observation that is inserted
    last: torch.Tensor  # [K] places in L of the last observations
    after: torch.Tensor  # [K] the steps after them, with the action and reward before them
    b: torch.Tensor  # [K] their sequences
    bootstrap: torch.Tensor  # [batch_T,B] places in L of what the steps of the loss bootstrap from
    reset: torch.Tensor | None  # [L,B] on the CPU, True where an episode begins


class SequenceReplay(ReplayAlgorithm):
    """Mixin of algorithms that train recurrent agents on replayed sequences; list it first.

    A sequence has ``warmup_T`` steps of burn-in, the ``batch_T`` steps of the loss, and n more
    observations. It may span several episodes: at the start of an episode the recurrent state and
    the previous reward are zero and the previous action null, as when acting. While an environment
    waits for the end of a sampler batch (``mid_batch_reset`` False), its steps do not count.

    Returns that time limits truncate are bootstrapped from last observations, if samples have them:
    :meth:`with_last_observations` inserts them after the last step of their episodes.

    A subclass lists in ``_runs`` the steps in which its networks run.
    """

    trains_on_sequences = True

    batch_T: int
    batch_B: int
    warmup_T: int
    store_rnn_state_interval: int
    _stores_valid = False  # Whether the field ``valid`` is stored, to mark blank steps.

    # --- Set-up ------------------------------------------------------------------------------

    @property
    def sequence_T(self) -> int:
        """Number of steps in a sequence, burn-in included."""
        return self.warmup_T + self.batch_T

    def _check_settings(self) -> None:
        make_whole(self, "batch_T", "batch_B")
        for name in ("warmup_T", "store_rnn_state_interval"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: make it 0 or more steps")
        B = self.batch_spec.B
        n_rows = math.ceil(self.replay_size / B)
        needed = self.sequence_T + self.n_step_return + 1
        if n_rows < needed:
            raise ValueError(
                f"replay_size {self.replay_size:g} is {n_rows} steps of each of B={B} "
                "environments, but one sequence needs warmup_T + batch_T + n_step_return + 1 = "
                f"{needed}: make replay_size several times {needed * B}, or sequences shorter"
            )
        if self.store_rnn_state_interval > self.batch_T:
            logger.log(
                "WARNING: sequences begin every store_rnn_state_interval="
                f"{self.store_rnn_state_interval} steps and train on batch_T={self.batch_T} of "
                "them: the others are never trained on. Make the interval at most batch_T."
            )
        super()._check_settings()

    def _check_agent_info(self, agent_info: Nested, needed: set[str]) -> None:
        """Raise ``ValueError`` if ``agent_info`` lacks fields to store or to set priorities by."""
        missing = sorted(needed - set(fields_of(agent_info)))
        if missing:
            raise ValueError(
                f"agent_info of {type(self.agent).__name__} has no {missing}: let its step() "
                "return them, or set store_rnn_state_interval=0 (prev_rnn_state) and "
                "input_priorities=False (q)"
            )

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        # A subclass with another loop decides what to append.
        cls = type(self)
        is_our_loop = cls.optimize_agent is ReplayAlgorithm.optimize_agent
        is_our_loop &= cls.add_samples_to_buffer is ReplayAlgorithm.add_samples_to_buffer
        self._stores_valid = is_our_loop and not self.mid_batch_reset
        if self._stores_valid:
            example = extended(type(example), ("valid",), "Valid")(*example, True)
        kwargs = super()._replay_kwargs(example, batch_spec)
        kwargs["rnn_state_interval"] = self.store_rnn_state_interval
        kwargs["batch_T"] = self.sequence_T
        return kwargs

    def _first_rows(self) -> int:
        if not super()._first_rows():
            return 0
        interval = max(1, self.store_rnn_state_interval)
        n_rows = self.sequence_T + self.n_step_return + 1
        if self.prioritized_replay:  # Whole intervals have priorities.
            n_rows = math.ceil(n_rows / interval) * interval + 1
        off_forward: int = self.replay_buffer.off_forward
        return math.ceil(off_forward / interval) * interval + n_rows

    # --- What is stored ----------------------------------------------------------------------

    def examples_to_buffer(self, examples: Nested) -> Nested:
        agent_info = examples["agent_info"]
        if self.store_rnn_state_interval > 0:
            self._check_agent_info(agent_info, {"prev_rnn_state"})
        return self._with_rnn_state(super().examples_to_buffer(examples), agent_info)

    def samples_to_buffer(self, samples: Nested) -> Nested:
        return self._with_rnn_state(super().samples_to_buffer(samples), samples.agent.agent_info)

    def _with_rnn_state(self, entry: Any, agent_info: Nested) -> Nested:
        if self.store_rnn_state_interval == 0:
            return entry
        RecordCls = extended(type(entry), ("prev_rnn_state",), "Rnn")
        return RecordCls(*entry, agent_info.prev_rnn_state)

    def replay_entries(self, samples: Nested) -> Nested:
        """Return :meth:`samples_to_buffer`, with a mask ``valid`` [T,B] if environments wait.

        ``valid`` is False from the end of an episode to the end of the batch.
        """
        entry = self.samples_to_buffer(samples)
        return self._with_valid(entry, samples.env.done) if self._stores_valid else entry

    def _with_valid(self, entry: Any, done: Any) -> Nested:
        RecordCls = extended(type(entry), ("valid",), "Valid")
        return RecordCls(*entry, valid_from_done(done) > 0)

    # --- Batches of sequences ----------------------------------------------------------------

    def sample_from_replay(self) -> Nested:
        return self.replay_buffer.sample_batch(self.batch_B)

    def to_training_device(self, samples: Nested) -> Nested:
        """Move a batch in one copy; its :meth:`resets` stay on the CPU too, to cut sequences."""
        device = self.training_device
        if device.type == "cpu":
            return samples
        names = [name for name in ("done", *LAST_FIELDS[:2]) if name in samples._fields]
        ends = buffer_to(tuple(getattr(samples, name) for name in names), "cpu")  # In one copy.
        on_host = samples._replace(**dict(zip(names, ends)))
        insertion = self.insertion(on_host)
        masks = [*self._of_runs(self.resets(on_host)), insertion and insertion.reset]
        rest = insertion and insertion._replace(reset=None)
        (moved, rest), (*resets, reset) = move_with_resets((samples, rest), masks, device)
        insertion = rest and Insertion(*rest)._replace(reset=reset)
        RecordCls = extended(type(moved), ("resets", "insertion"), "Resets")
        return RecordCls(*moved, resets, insertion)

    def valid_steps(self, samples: Nested) -> torch.Tensor:
        """Return a mask [warmup_T+batch_T,B] of the steps that count."""
        valid: torch.Tensor = torch.ones_like(samples.done, dtype=torch.bool)
        if not self.mid_batch_reset:
            is_stored = "valid" in samples._fields
            valid = samples.valid.bool() if is_stored else valid_from_done(samples.done) > 0
        return valid & not_timed_out(samples) if self.bootstrap_timelimit else valid

    @property
    def _runs(self) -> tuple[slice, ...]:
        """The steps of a sequence in which networks run."""
        raise NotImplementedError(f"{type(self).__name__} does not define _runs")

    def _of_runs(self, reset: torch.Tensor | None) -> list[Any]:
        return [reset if reset is None else reset[steps] for steps in self._runs]

    def sequence_inputs(self, samples: Nested) -> tuple[tuple[Nested, ...], Nested, Sequence[Any]]:
        """Return the inputs of the networks, as when acting at the start of every episode.

        Returns:
            Observation, previous action and previous reward [T,B,...] with
            T = warmup_T + batch_T + n, the state [N,B,H] before the first step (or None), and
            for the steps of each run, its part of :meth:`resets`.
        """
        is_cut = "resets" in samples._fields
        resets = samples.resets if is_cut else self._of_runs(self.resets(samples))
        prev_action, prev_reward = samples.all_action, samples.all_reward
        if resets[0] is not None:
            starts = self.episode_starts(samples)
            null_action = self.agent.env_spaces.action.null_value()
            prev_action = replaced(prev_action, starts, null_action)
            prev_reward = masked_rows(prev_reward, starts)
        # All passes share one copy on the device of the model.
        inputs = self.agent.to_model_device(samples.all_observation, prev_action, prev_reward)
        return inputs, to_model_state(samples.init_rnn_state), resets

    def with_last_observations(
        self, samples: Nested, inputs: tuple[Nested, ...]
    ) -> tuple[tuple[Nested, ...], torch.Tensor | None, torch.Tensor] | None:
        """Return longer inputs, with the last observation of every truncated episode.

        Args:
            samples: batch from the replay buffer.
            inputs: inputs of the networks [T,B,...], from :meth:`sequence_inputs`.

        Returns:
            The inputs [L,B,...], the mask [L,B] of episodes that begin, and the places
            [batch_T,B] in L of the observations that returns are bootstrapped from; None if there
            is no truncated episode.
        """
        is_known = "insertion" in samples._fields
        insertion = samples.insertion if is_known else self.insertion(samples)
        if insertion is None:
            return None
        steps, last, after, b, bootstrap, reset = insertion
        inserted = (
            samples.last_observation,
            samples.all_action[after, b],
            samples.all_reward[after, b],
        )
        entries = iter(leaves(self.agent.to_model_device(*inserted)))
        columns = torch.arange(steps.shape[1], device=steps.device)

        def longer(part: torch.Tensor) -> torch.Tensor:
            part = part[steps, columns]
            part[last, b] = next(entries).to(part.dtype)
            return part

        return map_buffer(longer, inputs), reset, bootstrap

    def insertion(self, samples: Nested) -> Insertion | None:
        """Return the places of last observations, on the CPU; None if there are none."""
        at_limit = samples.at_limit.cpu() if "at_limit" in samples._fields else torch.zeros(0)
        if not at_limit.any():
            return None
        n_before = at_limit.cumsum(0)
        n_before = torch.cat([torch.zeros_like(n_before[:1]), n_before])
        step = torch.arange(len(n_before))[:, None]
        place = step + n_before
        after, b = at_limit.nonzero(as_tuple=True)
        last, after = place[after, b] + 1, after + 1
        longer = len(step) + int(n_before[-1].max()), place.shape[1]
        # Sequences with fewer last observations than others end on copies of their last step.
        steps = torch.full(longer, len(step) - 1).scatter_(0, place, step.expand_as(place))
        steps[last, b] = after
        reset = torch.zeros(longer, dtype=torch.bool)
        reset.scatter_(0, place, self.episode_starts(samples).cpu())
        loss_steps = slice(self.warmup_T, self.sequence_T)
        ends = step[loss_steps] + samples.bootstrap_steps[loss_steps].cpu() - 1
        return Insertion(steps, last, after, b, place.gather(0, ends) + 1, reset)

    def resets(self, samples: Nested) -> torch.Tensor | None:
        """Return :meth:`episode_starts` on the CPU, or None if no step begins an episode."""
        starts = self.episode_starts(samples).cpu()
        return starts if starts.any() else None

    def episode_starts(self, samples: Nested) -> torch.Tensor:
        """Return a mask [T,B] of the steps that begin an episode, other than the first step.

        Episodes that end after the steps of the loss are not marked, and need not be: no bootstrap
        value crosses such an end.
        """
        done = samples.done
        starts = torch.zeros(samples.all_reward.shape, dtype=torch.bool, device=done.device)
        starts[1 : len(done) + 1] = done
        return starts
