"""Micro-benchmarks of replay: the sum tree, plain buffers, frame buffers and sequences of frames.

    python tests/benchmarks/bench_replay.py [--json FILE] [--frames 1e6] [--rounds 7]

Microseconds per call: the median over rounds, and the slowest round. One thread, with the
allocator tuned as a runner tunes it. ``--frames`` is the size of the frame buffers (8.3 GB at 1e6,
filled once); smaller ones fit smaller machines and measure nearly the same. A batch of sequences
is limited by how fast one thread can write memory, so the time for zeros of its size stands beside.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.core.records import SamplesToBuffer
from rlpyt.processes.allocator import tune_allocator
from rlpyt.replays.non_sequence.frame import PrioritizedReplayFrameBuffer, UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence.frame import (
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.seed import set_seed

IMAGE = (4, 104, 80)
BATCH_T, BATCH_B = 4, 16
SEQUENCE_B = 32
STATE = (1, 512)

SamplesToBufferRnn = namedarraytuple(
    "SamplesToBufferRnn", [*SamplesToBuffer._fields, "prev_rnn_state"]
)


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    median_us: float
    slowest_us: float


class Bench:
    """Times functions and collects the figures."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.figures: list[Figure] = []

    def time(self, name: str, function: Callable[[], object], n: int) -> None:
        """Call ``function`` n times per round, after one round that does not count."""
        rounds = [_us_per_call(function, n) for _ in range(self.rounds + 1)][1:]
        self.add(name, rounds)

    def add(self, name: str, rounds: list[float]) -> None:
        figure = Figure(name, statistics.median(rounds), max(rounds))
        self.figures.append(figure)
        print(f"{figure.name:<58}{figure.median_us:>10.1f}{figure.slowest_us:>10.1f}", flush=True)


def _us_per_call(function: Callable[[], object], n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        function()
    return 1e6 * (time.perf_counter() - start) / n


def bench_tree(bench: Bench) -> None:
    """2^20 leaves with random priorities."""
    tree = SumTree(T=2**16, B=BATCH_B, off_backward=1, off_forward=3, enable_input_priorities=True)
    rng = np.random.default_rng(0)
    for _ in range(2**16 // 64 + 1):
        tree.advance(64, rng.random((64, BATCH_B)))
    priorities = rng.random(32)

    def sample_and_update() -> None:
        tree.sample(32)
        tree.update_batch_priorities(priorities)

    bench.time("SumTree 2^20: sample 32", lambda: tree.sample(32), 2000)
    bench.time("SumTree 2^20: sample 32 unique", lambda: tree.sample(32, unique=True), 1000)
    bench.time("SumTree 2^20: sample 32 + update", sample_and_update, 2000)
    plain = SumTree(T=2**16, B=BATCH_B, off_backward=1, off_forward=3)
    bench.time("SumTree 2^20: advance T=4 B=16", lambda: plain.advance(BATCH_T), 5000)


def vector_samples(T: int) -> Any:
    """Torch samples [T,1,...] of a task with 17 numbers to observe and 6 to choose."""
    return SamplesToBuffer(
        torch.rand(T, 1, 17), torch.rand(T, 1, 6), torch.rand(T, 1), torch.rand(T, 1) < 0.001
    )


def bench_vectors(bench: Bench, cls: Any) -> None:
    """1e6 transitions of 17 numbers, B=1."""
    example = SamplesToBuffer(*(x.numpy() for x in vector_samples(1)[0, 0]))
    buffer = cls(example=example, size=1e6, B=1)
    long, short = vector_samples(1000), vector_samples(1)
    for _ in range(1001):
        buffer.append_samples(long)
    name = f"{cls.__name__} 1e6, 17 numbers"
    bench.time(f"{name}: append T=1", lambda: buffer.append_samples(short), 3000)
    bench.time(f"{name}: sample 256", lambda: buffer.sample_batch(256), 300)


def image_samples(T: int = BATCH_T, B: int = BATCH_B) -> Any:
    """Torch samples [T,B,...] of Atari: stacks of successive frames, of no ending episode."""
    lead, n_frames = (T, B), IMAGE[0]
    frames = torch.randint(0, 256, (T + n_frames - 1, B, *IMAGE[1:]), dtype=torch.uint8)
    stacks = torch.stack([frames[t : t + n_frames].transpose(0, 1) for t in range(T)])
    done = torch.zeros(lead, dtype=torch.bool)
    return SamplesToBuffer(stacks, torch.randint(0, 6, lead), torch.rand(lead), done)


def bench_frames(bench: Bench, cls: Any, size: float) -> None:
    """``size`` transitions of Atari, B=16."""
    samples = image_samples()
    example = SamplesToBuffer(np.zeros(IMAGE, np.uint8), np.int64(0), np.float32(0), np.bool_(0))
    buffer = cls(example=example, size=size, B=BATCH_B)
    name = f"{cls.__name__} {size:g}"
    n_appends = buffer.T // BATCH_T
    append = functools.partial(buffer.append_samples, samples)
    bench.add(
        f"{name}: append T=4, first pass",
        [_us_per_call(append, n_appends // bench.rounds) for _ in range(bench.rounds)],
    )
    bench.time(f"{name}: append T=4, pages touched", append, n_appends // bench.rounds + 1)
    bench.time(f"{name}: sample 32", lambda: buffer.sample_batch(32), 300)
    bench.time(f"{name}: sample 256", lambda: buffer.sample_batch(256), 40)
    if isinstance(buffer, PrioritizedReplayFrameBuffer):
        bench.time(f"{name}: sample 32 + update", lambda: _sample_and_update(buffer), 300)


def _sample_and_update(buffer: Any) -> None:
    buffer.sample_batch(32)
    buffer.update_batch_priorities(torch.ones(32))


def sequence_samples(T: int) -> Any:
    """Torch samples [T,B,...] of Atari with the state of an LSTM."""
    states = torch.rand(T, SEQUENCE_B, *STATE)
    return SamplesToBufferRnn(*image_samples(T, SEQUENCE_B), states)


def bench_sequences(bench: Bench, cls: Any, batch_T: int, n_step_return: int) -> None:
    """1e5 transitions of Atari, B=32, a state every 40 rows; batches of 32 sequences."""
    samples = sequence_samples(40)
    example = SamplesToBufferRnn(
        np.zeros(IMAGE, np.uint8), np.int64(0), np.float32(0), np.bool_(0), np.zeros(STATE, "f4")
    )
    buffer = cls(
        example=example,
        size=1e5,
        B=SEQUENCE_B,
        rnn_state_interval=40,
        batch_T=batch_T,
        n_step_return=n_step_return,
    )
    for _ in range(buffer.T // 40 + 1):
        buffer.append_samples(samples)
    name = f"{cls.__name__} {batch_T}+{n_step_return}"
    bench.time(f"{name}: sample 32", lambda: buffer.sample_batch(32), 20)
    observation = buffer.sample_batch(32).all_observation
    megabytes = observation.nbytes / 1e6
    bench.time(f"{megabytes:.0f} MB: write zeros", observation.zero_, 20)
    sample, zeros = (megabytes * 1e3 / figure.median_us for figure in bench.figures[-2:])
    print(f"    {sample:.1f} GB/s of {zeros:.1f}")


def main() -> None:
    """Run everything, print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    parser.add_argument("--frames", type=float, default=1e6, help="size of the frame buffers")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tune_allocator()
    set_seed(0)
    bench = Bench(args.rounds)
    print(f"{'microseconds per call':<58}{'median':>10}{'slowest':>10}")
    bench_tree(bench)
    for cls in (UniformReplayBuffer, PrioritizedReplayBuffer):
        bench_vectors(bench, cls)
    for cls in (UniformReplayFrameBuffer, PrioritizedReplayFrameBuffer):
        bench_frames(bench, cls, args.frames)
    for cls in (UniformSequenceReplayFrameBuffer, PrioritizedSequenceReplayFrameBuffer):
        bench_sequences(bench, cls, batch_T=80, n_step_return=1)
    # With the warm-up and the returns of R2D1.
    bench_sequences(bench, PrioritizedSequenceReplayFrameBuffer, batch_T=120, n_step_return=5)
    if args.json:
        figures = [figure._asdict() for figure in bench.figures]
        with open(args.json, "w") as file:
            json.dump({"machine": platform.processor(), "figures": figures}, file, indent=2)


if __name__ == "__main__":
    main()
