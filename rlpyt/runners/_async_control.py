"""What the processes of an asynchronous run tell each other."""

from __future__ import annotations

import math
import time
from typing import Any

from rlpyt.utils.collections import AttrDict
from rlpyt.utils.processes.primitives import Barrier, Semaphore
from rlpyt.utils.processes.supervisor import Supervisor

# Batches which the sampler may be ahead of what the optimizer needs next: those of its two buffers.
LEAD_ITRS = 2


class SharedNumber:
    """A number in shared memory with a lock for whoever wants several things to happen at once.

    Reading and writing do not take it, since a process which is killed meanwhile would keep it.
    """

    def __init__(self, context: Any, kind: str, value: float) -> None:
        self._number = context.RawValue(kind, value)
        self._lock = context.RLock()

    @property
    def value(self) -> Any:
        """The number."""
        return self._number.value

    @value.setter
    def value(self, value: float) -> None:
        self._number.value = value

    def get_lock(self) -> Any:
        """The lock."""
        return self._lock


def make_control(pool: Supervisor, world_size: int, is_throttled: bool) -> AttrDict:
    """Make the semaphores and values which all processes share.

    Args:
        pool: of the run.
        world_size: number of optimizers.
        is_throttled: whether the sampler waits for the optimizer.

    Returns:
        ``quit``: everything is sampled and copied; ``stop``: the sampler shall end early; ``end``:
        raised once for each process, which then ends. ``sample_ready``, ``sample_copied``: of each
        batch, when it was filled and may be filled again. ``copy_turn``: raised for the copier
        whose batch follows in the sampler's order. ``batch_copied``: raised for every batch that
        reached the replay buffer, and at the end. ``sampler_itr``: the last one that was sampled.
        ``may_sample``: raised for every batch that the sampler may fill, None if it never waits.
        ``eval_time``: in seconds, so far. ``quit_opt``, ``opt_itr``, ``opt_throttle``: for
        optimizers of other ranks: whether to end, the iteration of the sampler which the next
        update is counted by, and where all meet before it.
    """
    context = pool.context
    ctrl = AttrDict(
        quit=SharedNumber(context, "b", False),
        stop=context.RawValue("b", False),
        end=Semaphore(pool),
        sample_ready=[Semaphore(pool), Semaphore(pool)],
        sample_copied=[Semaphore(pool), Semaphore(pool)],
        copy_turn=[Semaphore(pool), Semaphore(pool)],
        batch_copied=context.Semaphore(0),
        sampler_itr=SharedNumber(context, "l", -1),
        may_sample=Semaphore(pool) if is_throttled else None,
        eval_time=SharedNumber(context, "d", 0.0),
        quit_opt=context.RawValue("b", False),
        opt_itr=context.RawValue("l", 0),
        opt_throttle=Barrier(pool, world_size) if world_size > 1 else None,
    )
    for signal in (*ctrl.sample_copied, ctrl.copy_turn[0]):
        signal.release()
    return ctrl


class Throttle:
    """Keeps optimizer and sampler in step: so many trained samples for every sampled one.

    Counts in batches of the sampler. The optimizer's n-th iteration (from 0) begins when
    ``first + n * delta`` batches are in the replay buffer. The sampler may be ``LEAD_ITRS`` ahead.

    Args:
        ctrl: of :func:`make_control`.
        first: batches needed before training starts.
        delta: batches for each iteration of the optimizer.
        counts_copies: whether copiers raise ``ctrl.batch_copied``; if not, what was sampled is
            taken to be copied.

    Attributes:
        itr: batches needed for the next iteration, maybe a fraction.
        n_copied: batches which are in the replay buffer.
    """

    def __init__(self, ctrl: Any, first: float, delta: float, counts_copies: bool = True) -> None:
        self.itr = float(first)
        self.delta = delta
        self.n_copied = 0
        self._ctrl = ctrl
        self._counts_copies = counts_copies
        self._n_allowed = 0
        self._allow()

    def advance(self) -> None:
        """An iteration begins."""
        self.itr += self.delta
        self._allow()

    def is_due(self) -> bool:
        """Whether there are batches enough for the next iteration."""
        return self.n_copied >= self.itr

    def wait_for_batch(self, block: bool, timeout: float | None) -> bool:
        """Count one more batch, waiting for it at most ``timeout`` seconds; False if none came."""
        if not self._counts_copies:
            if block and not self._was_sampled():
                time.sleep(timeout or 0.0)
            is_new = self._was_sampled()
            self.n_copied += is_new
            return is_new
        if not self._ctrl.batch_copied.acquire(block, timeout):
            return False
        # At the end the semaphore is raised without a batch, to wake the optimizer.
        self.n_copied = min(self.n_copied + 1, self._ctrl.sampler_itr.value + 1)
        return True

    def _was_sampled(self) -> bool:
        """Whether there are more batches than were counted."""
        return bool(self.n_copied <= self._ctrl.sampler_itr.value)

    def _allow(self) -> None:
        """Let the sampler fill what is needed next, and its lead."""
        may_sample = self._ctrl.may_sample
        if may_sample is None:
            return
        n_allowed = math.ceil(self.itr) + LEAD_ITRS
        for _ in range(n_allowed - self._n_allowed):
            may_sample.release()
        self._n_allowed = n_allowed
