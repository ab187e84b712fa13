"""Every combination of parts that a replay buffer can be made of."""

import importlib
import itertools
from typing import NamedTuple

import numpy as np

from rlpyt.utils.collections import namedarraytuple
from tests.reference.naive_replay import NaiveReplay, Stream
from tests.replays.test_against_naive import as_samples, fill_with_magic
from tests.replays.test_sequences_against_naive import ALPHA, DEFAULT, rnn_state_of

INTERVAL, BATCH_T = 3, 4

DictObservation = namedarraytuple("DictObservation", ["image", "sums"])
WithPriorities = namedarraytuple("WithPriorities", ["priorities", "samples"])


class Cell(NamedTuple):
    """One buffer of the matrix."""

    is_prioritized: bool
    is_sequence: bool
    storage: str  # "whole", "frames" (each once) or "dict" (records, whole)
    knows_time_limits: bool
    n_step: int
    is_shared: bool

    def __str__(self):
        parts = [self.class_name]
        parts += ["dict"] if self.storage == "dict" else []
        return "-".join([*parts, f"n{self.n_step}"])

    @property
    def class_name(self):
        return "".join(
            (
                "Async" * self.is_shared,
                "Tl" * self.knows_time_limits,
                "Prioritized" if self.is_prioritized else "Uniform",
                "Sequence" * self.is_sequence,
                "Replay",
                "Frame" * (self.storage == "frames"),
                "Buffer",
            )
        )

    @property
    def cls(self):
        package = "sequence" if self.is_sequence else "non_sequence"
        name = "prioritized" if self.is_prioritized else "uniform"
        name = "frame" if self.storage == "frames" else name
        name = "time_limit" if self.knows_time_limits else name
        module = importlib.import_module(f"rlpyt.replays.{package}.{name}")
        return getattr(module, self.class_name)

    def samples(self, steps):
        """Arrays [T,B,...] of a list over time of lists over environments."""
        samples = as_samples(steps)
        fields = dict(samples.items())
        if self.storage == "dict":
            sums = samples.observation.sum((-3, -2, -1), dtype=np.int64)
            fields["observation"] = DictObservation(samples.observation, sums)
        if not self.knows_time_limits:
            del fields["timeout"]
        if self.is_sequence:
            fields["prev_rnn_state"] = rnn_state_of(samples.note)
        return namedarraytuple("CellSamples", tuple(fields))(**fields)

    def make(self, T=21, B=2, n_frames=3, seed=0):
        """A buffer of rows full of nonsense, a stream to fill it from, and a twin."""
        np.random.seed(seed)
        stream = Stream(np.random.default_rng(seed), B, n_frames, done_prob=0.2)
        kwargs = {}
        if self.is_prioritized:
            kwargs = {"alpha": ALPHA, "default_priority": DEFAULT, "input_priorities": True}
        if self.is_sequence:
            kwargs.update(rnn_state_interval=INTERVAL, batch_T=BATCH_T)
        example = self.samples(stream.steps(1))[0, 0]
        buffer = self.cls(
            example=example, size=T * B, B=B, discount=0.9, n_step_return=self.n_step, **kwargs
        )
        assert (buffer.T, buffer.async_) == (T, self.is_shared)
        fill_with_magic(buffer)
        return buffer, stream, NaiveReplay(T, B, self.n_step, 0.9, buffer.off_forward)


def cells(**chosen):
    """All cells, or those with the given values."""
    axes = [(False, True), (False, True), ("whole", "frames", "dict"), (False, True), (1, 3)]
    every = (Cell(*values) for values in itertools.product(*axes, (False, True)))
    return [cell for cell in every if all(getattr(cell, k) == v for k, v in chosen.items())]


def take_apart(cell, batch):
    """The batch with the images only, where observations are records; these must agree."""
    if cell.storage != "dict":
        return batch
    fields = dict(batch.items())
    if cell.is_sequence:
        fields["all_observation"] = image_of(batch.all_observation)
    else:
        for name in ("agent_inputs", "target_inputs"):
            inputs = fields[name]
            fields[name] = inputs._replace(observation=image_of(inputs.observation))
    return namedarraytuple(type(batch).__name__, tuple(fields))(**fields)


def image_of(observation):
    assert (observation.image.sum((-3, -2, -1)) == observation.sums).all()
    return observation.image
