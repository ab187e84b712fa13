"""Every combination of parts that a replay buffer can be made of, each beside its naive twin."""

import importlib
import itertools
import math
from typing import NamedTuple

import numpy as np
import torch

from rlpyt.utils.collections import namedarraytuple
from tests.reference.naive_replay import NaiveReplay, Step, Stream
from tests.selection import selected

INTERVAL, BATCH_T = 3, 4
ALPHA, DEFAULT = 0.6, 2.0

DictObservation = namedarraytuple("DictObservation", ["image", "sums"])
Pixels = namedarraytuple("Pixels", ["image", "state"])
RnnState = namedarraytuple("RnnState", ["h", "c"])
Samples = namedarraytuple("Samples", Step._fields)
WithPriorities = namedarraytuple("WithPriorities", ["priorities", "samples"])


def as_samples(steps):
    """Arrays [T,B,...] of a list over time of lists over environments."""
    columns = [np.array([[step[i] for step in row] for row in steps]) for i in range(6)]
    columns[2] = columns[2].astype(np.float32)
    return Samples(*columns)


def rnn_state_of(note):
    """States [...,2,3] that tell of the step they were before."""
    h = np.multiply.outer(np.asarray(note, np.float32), np.arange(1, 7).reshape(2, 3))
    return RnnState(h.astype(np.float32), -h.astype(np.float32))


def fill_with_magic(buffer):
    """No cell that was not written looks like one that was."""
    for rows in buffer.stored_rows.values():
        is_tensor = isinstance(rows, torch.Tensor)
        dtype = torch.empty(0, dtype=rows.dtype).numpy().dtype if is_tensor else rows.dtype
        rows[...] = {"f": np.nan, "b": True, "u": 255, "i": -777}[dtype.kind]


class Cell(NamedTuple):
    """One buffer class of the matrix, with its kind of observations."""

    is_prioritized: bool
    is_sequence: bool
    storage: str  # "whole", "frames" (each once) or "dict" (records, whole)
    knows_time_limits: bool
    is_shared: bool

    def __str__(self):
        return self.class_name + "-dict" * (self.storage == "dict")

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

    def make(
        self,
        T=21,
        B=2,
        n_frames=3,
        seed=0,
        n_step=3,
        interval=INTERVAL,
        batch_T=BATCH_T,
        done_prob=0.2,
        image=(3, 2),
        missing=0,
        **kwargs,
    ):
        """A buffer of rows full of nonsense, a stream to fill it from, and a twin."""
        np.random.seed(seed)
        stream = Stream(np.random.default_rng(seed), B, n_frames, done_prob, image)
        if self.is_prioritized:
            defaults = {"alpha": ALPHA, "default_priority": DEFAULT, "input_priorities": True}
            kwargs = {**defaults, **kwargs}
        if self.is_sequence:
            kwargs.update(rnn_state_interval=interval, batch_T=batch_T)
            T = math.ceil(T / max(1, interval)) * max(1, interval)
        buffer = self.cls(
            example=self.samples(stream.steps(1))[0, 0],
            size=float(T * B - missing),
            B=B,
            discount=0.9,
            n_step_return=n_step,
            **kwargs,
        )
        assert (buffer.T, buffer.async_) == (T, self.is_shared)
        fill_with_magic(buffer)
        return buffer, stream, NaiveReplay(T, B, n_step, 0.9, buffer.off_forward)


def cells(**chosen):
    """All cells, or those with the given values."""
    axes = [(False, True), (False, True), ("whole", "frames", "dict"), (False, True), (False, True)]
    every = (Cell(*values) for values in itertools.product(*axes))
    return [cell for cell in every if all(getattr(cell, k) == v for k, v in chosen.items())]


def thinned_cells():
    """All cells in memory of one process, and some in shared memory: ``test_async`` has all."""
    return cells(is_shared=False) + selected(cells(is_shared=True))


def go_on(cell, buffers, stream, n_rows=7):
    """Append, draw and update alike in all; their batches."""
    batch = cell.samples(stream.steps(n_rows))
    if cell.is_prioritized and n_rows % 2:
        batch = WithPriorities(np.linspace(0.1, 2, n_rows * 2).reshape(n_rows, 2), batch)
    values = np.random.default_rng(n_rows).random(6)
    drawn = []
    for buffer in buffers:
        buffer.append_samples(batch)
        if buffer.window.n_filled < 14:
            continue
        drawn.append(buffer.sample_batch(6))
        if cell.is_prioritized:
            buffer.update_batch_priorities(values)
    return drawn


def assert_same(*batches):
    """Every field of the two batches, if there are two, is equal in every bit."""
    if not batches:
        return
    one, other = batches
    if isinstance(one, tuple):
        for x, y in zip(one, other, strict=True):
            assert_same(x, y)
    else:
        np.testing.assert_array_equal(one, other)


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
