"""What the processes of an asynchronous run do which sample, and which copy what was sampled."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat, heartbeat_paused
from rlpyt.utils.types import Nested

# --- The sampler ----------------------------------------------------------------------------------


def run_async_sampler(
    sampler: Any,
    affinity: Any,
    ctrl: Any,
    traj_infos_queue: Any,
    n_itr: int,
    heartbeat: Heartbeat | None = None,
) -> None:
    """Fill both batches in turn, ``n_itr`` in all.

    Args:
        sampler: ``async_initialize`` has been called in the process of the runner.
        affinity: for ``sampler.initialize``.
        ctrl: of :func:`~rlpyt.runners._async_control.make_control`.
        traj_infos_queue: takes the trajectory infos.
        n_itr: number of batches.
        heartbeat: tells the runner when this process is at work.
    """
    _sample(sampler, affinity, ctrl, traj_infos_queue, n_itr, None, heartbeat)


def run_async_sampler_eval(
    sampler: Any,
    affinity: Any,
    ctrl: Any,
    traj_infos_queue: Any,
    n_itr: int,
    eval_itrs: int,
    heartbeat: Heartbeat | None = None,
) -> None:
    """The same, with evaluations: before the first batch, after every ``eval_itrs``, at the end.

    Only trajectory infos of evaluations are sent; None follows those of each.
    """
    _sample(sampler, affinity, ctrl, traj_infos_queue, n_itr, eval_itrs, heartbeat)


def _sample(
    sampler: Any,
    affinity: Any,
    ctrl: Any,
    queue: Any,
    n_itr: int,
    eval_itrs: int | None,
    heartbeat: Heartbeat | None,
) -> None:
    # Files and other sinks of the log are the runner's; the console is for all.
    with logger.using(logger.Logger()):
        try:
            sampler.initialize(affinity)
            for itr in range(n_itr):
                if ctrl.stop.value:
                    break
                with heartbeat_paused(heartbeat):
                    if eval_itrs is not None and itr % eval_itrs == 0:
                        _evaluate(sampler, ctrl, queue, itr)
                    _await_turn(ctrl, itr)
                _fill(sampler, ctrl, queue, itr, eval_itrs is None)
            with heartbeat_paused(heartbeat):
                if eval_itrs is not None:
                    _evaluate(sampler, ctrl, queue, ctrl.sampler_itr.value + 1)
                for signal in ctrl.sample_copied:
                    signal.acquire()  # Everything has reached the replay buffer.
            ctrl.quit.value = True
            for signal in (*ctrl.sample_ready, ctrl.batch_copied):
                signal.release()
        finally:
            sampler.shutdown()
    with heartbeat_paused(heartbeat):
        ctrl.end.acquire()


def _await_turn(ctrl: Any, itr: int) -> None:
    """Wait until the optimizer needs a batch, and the one before last was copied."""
    if ctrl.may_sample is not None:
        ctrl.may_sample.acquire()
    ctrl.sample_copied[itr % 2].acquire()


def _fill(sampler: Any, ctrl: Any, queue: Any, itr: int, is_reported: bool) -> None:
    db_idx = itr % 2
    traj_infos = sampler.obtain_samples(itr, db_idx)
    if is_reported:
        for traj_info in traj_infos:
            queue.put(traj_info)
    ctrl.sampler_itr.value = itr
    ctrl.sample_ready[db_idx].release()


def _evaluate(sampler: Any, ctrl: Any, queue: Any, itr: int) -> None:
    start = time.time()
    traj_infos = sampler.evaluate_agent(itr)
    ctrl.eval_time.value += time.time() - start
    for traj_info in (*traj_infos, None):
        queue.put(traj_info)


# --- Memory copiers -------------------------------------------------------------------------------


def memory_copier(
    sample_buffer: Nested,
    samples_to_buffer: Callable[[Nested], Nested],
    replay_buffer: Any,
    ctrl: Any,
    db_idx: int = 0,
    heartbeat: Heartbeat | None = None,
) -> None:
    """Copy one of the two batches to the replay buffer, whenever it is filled.

    Args:
        sample_buffer: [T,B,...], numpy.
        samples_to_buffer: of the algorithm: what is stored of a batch of torch tensors.
        replay_buffer: in shared memory.
        ctrl: of :func:`~rlpyt.runners._async_control.make_control`; or ``quit``, ``sample_ready``
            and ``sample_copied`` of this batch alone, as rlpyt 0.1.2 gave it.
        db_idx: which of the two batches it is.
        heartbeat: tells the runner when this process is at work.
    """
    torch.set_num_threads(1)
    samples = torchify_buffer(sample_buffer)
    is_of_both = isinstance(ctrl.sample_ready, (list, tuple))
    ready, copied = (
        signal[db_idx] if is_of_both else signal
        for signal in (ctrl.sample_ready, ctrl.sample_copied)
    )
    while True:
        with heartbeat_paused(heartbeat):
            ready.acquire()
        if ctrl.quit.value:
            break
        entries = samples_to_buffer(samples)
        if is_of_both:
            with heartbeat_paused(heartbeat):
                ctrl.copy_turn[db_idx].acquire()
        replay_buffer.append_samples(entries)
        if is_of_both:
            ctrl.copy_turn[1 - db_idx].release()
            ctrl.batch_copied.release()
        copied.release()
    if is_of_both:
        with heartbeat_paused(heartbeat):
            ctrl.end.acquire()


def placeholder(x: Any) -> None:
    """Does nothing; a name of rlpyt."""
