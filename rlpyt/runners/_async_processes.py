"""The sampler, memory-copier and optimizer processes of an asynchronous run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike, AsyncAlgoLike, AsyncSamplerLike
from rlpyt.processes.child import delay_secondary_error, heartbeat_paused
from rlpyt.processes.primitives import Barrier, Semaphore
from rlpyt.processes.supervisor import Supervisor
from rlpyt.runners._process_group import NO_LIMIT, backend_for
from rlpyt.runners.base import prepare_process
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_seed
from rlpyt.utils.shared_array import np_mp_array
from rlpyt.utils.types import Nested


def make_control(
    supervisor: Supervisor, world_size: int, is_limited: bool, batch_B: int
) -> AttrDict:
    """Make the semaphores and values that all processes share.

    Args:
        supervisor: supervisor of the run's processes.
        world_size: number of optimizers.
        is_limited: whether the sampler waits for the optimizer.
        batch_B: number of environments in a batch.

    Returns:
        ``quit``: whether everything is sampled and copied; ``stop``: whether to end the sampler
            early; ``begin``: semaphore that lets the sampler begin; ``end``: semaphore that lets
            processes end, released once per process.
        ``sample_ready``, ``sample_copied``: semaphores of each batch, released when it is filled
        and when it may be filled again. ``copy_turn``: semaphores of the copiers, released in the
        sampler's order. ``restarted``: [2,B], columns of each batch that do not continue the
        previous batch. ``batch_copied``: semaphore released for every batch that reached the replay
        buffer, and at the end. ``sampler_itr``: index of the last batch sampled. ``may_sample``:
        semaphore released for every batch that the sampler may fill; None if it never waits.
        ``eval_time``: seconds spent in evaluation. For the optimizers of other ranks, ``quit_opt``:
        whether to end; ``opt_itr``: iteration of the sampler at the next update; ``opt_throttle``:
        barrier before each update.
    """
    context = supervisor.context
    ctrl = AttrDict(
        quit=context.RawValue("b", False),
        stop=context.RawValue("b", False),
        begin=Semaphore(supervisor),
        end=Semaphore(supervisor),
        sample_ready=[Semaphore(supervisor), Semaphore(supervisor)],
        sample_copied=[Semaphore(supervisor), Semaphore(supervisor)],
        copy_turn=[Semaphore(supervisor), Semaphore(supervisor)],
        restarted=np_mp_array((2, batch_B), bool),
        batch_copied=context.Semaphore(0),
        sampler_itr=context.RawValue("l", -1),
        may_sample=Semaphore(supervisor) if is_limited else None,
        eval_time=context.RawValue("d", 0.0),
        quit_opt=context.RawValue("b", False),
        opt_itr=context.RawValue("l", 0),
        opt_throttle=Barrier(supervisor, world_size) if world_size > 1 else None,
    )
    ctrl.sampler_itr.get_lock = nullcontext  # For loops written for rlpyt 0.1.2, which lock it.
    for semaphore in (*ctrl.sample_copied, ctrl.copy_turn[0]):
        semaphore.release()
    return ctrl


# --- The sampler ----------------------------------------------------------------------------------


def run_async_sampler(
    sampler: AsyncSamplerLike,
    affinity: Any,
    ctrl: Any,
    traj_infos_queue: Any,
    n_itr: int,
    eval_itrs: int | None = None,
    start_itr: int = 0,
    n_evals: int = 0,
) -> None:
    """Fill both batches in turn, until there are ``n_itr`` in all.

    Args:
        sampler: sampler after ``async_initialize`` in the runner's process.
        affinity: argument of ``sampler.initialize``.
        ctrl: result of :func:`make_control`.
        traj_infos_queue: queue for trajectory infos.
        n_itr: number of batches.
        eval_itrs: number of batches from one evaluation to the next; None for no evaluation. If
            there are evaluations, only their trajectory infos are sent, with None after each
            evaluation.
        start_itr: number of earlier batches, in a resumed run.
        n_evals: number of earlier evaluations.
    """
    # Files and other sinks of the log belong to the runner; the console is shared.
    with logger.using(logger.Logger()):
        try:
            sampler.initialize(affinity)
            with heartbeat_paused():
                ctrl.begin.acquire()
            for itr in range(start_itr, n_itr):
                if ctrl.stop.value:
                    break
                db_idx = (itr - start_itr) % 2
                with heartbeat_paused():
                    if eval_itrs is not None and itr >= n_evals * eval_itrs:
                        _evaluate(sampler, ctrl, traj_infos_queue, itr)
                        n_evals += 1
                    if ctrl.may_sample is not None:
                        ctrl.may_sample.acquire()
                    ctrl.sample_copied[db_idx].acquire()
                traj_infos = sampler.obtain_samples(itr, db_idx)
                ctrl.restarted[db_idx, sampler.take_restarted()] = True
                if eval_itrs is None:
                    for traj_info in traj_infos:
                        traj_infos_queue.put(traj_info)
                ctrl.sampler_itr.value = itr
                ctrl.sample_ready[db_idx].release()
            with heartbeat_paused():
                n_sampled = ctrl.sampler_itr.value + 1
                if eval_itrs is not None and n_sampled > (n_evals - 1) * eval_itrs:
                    _evaluate(sampler, ctrl, traj_infos_queue, n_sampled)
                for semaphore in ctrl.sample_copied:
                    semaphore.acquire()  # Everything has reached the replay buffer.
            ctrl.quit.value = True
            for semaphore in (*ctrl.sample_ready, ctrl.batch_copied):
                semaphore.release()
        finally:
            sampler.shutdown()
    with heartbeat_paused():
        ctrl.end.acquire()


def run_async_sampler_eval(
    sampler: AsyncSamplerLike,
    affinity: Any,
    ctrl: Any,
    traj_infos_queue: Any,
    n_itr: int,
    eval_itrs: int,
) -> None:
    """Fill both batches in turn, and evaluate: at the start, after every ``eval_itrs``, at the end.

    Args:
        sampler: see :func:`run_async_sampler`.
        affinity: see :func:`run_async_sampler`.
        ctrl: see :func:`run_async_sampler`.
        traj_infos_queue: queue for the trajectory infos of evaluations, with None after each
            evaluation.
        n_itr: number of batches.
        eval_itrs: number of batches from one evaluation to the next.
    """
    run_async_sampler(sampler, affinity, ctrl, traj_infos_queue, n_itr, eval_itrs)


def _evaluate(sampler: AsyncSamplerLike, ctrl: Any, traj_infos_queue: Any, itr: int) -> None:
    start = time.time()
    traj_infos = sampler.evaluate_agent(itr)
    ctrl.eval_time.value += time.time() - start
    for traj_info in (*traj_infos, None):
        traj_infos_queue.put(traj_info)


# --- Memory copiers -------------------------------------------------------------------------------


def memory_copier(
    sample_buffer: Nested,
    samples_to_buffer: Callable[[Nested], Nested],
    replay_buffer: Any,
    ctrl: Any,
    db_idx: int = 0,
    truncate: Callable[[Any], None] | None = None,
) -> None:
    """Copy one of the two batches to the replay buffer, whenever it is filled.

    Args:
        sample_buffer: batch [T,B,...] of numpy arrays.
        samples_to_buffer: method of the algorithm that selects the entries to append.
        replay_buffer: replay buffer or queue in shared memory.
        ctrl: result of :func:`make_control`.
        db_idx: index of the batch, 0 or 1.
        truncate: method of the algorithm that notes restarted environments; None if there is no
            such method.
    """
    torch.set_num_threads(1)
    samples = torchify_buffer(sample_buffer)
    while True:
        with heartbeat_paused():
            ctrl.sample_ready[db_idx].acquire()
        if ctrl.quit.value:
            break
        entries = samples_to_buffer(samples)
        with heartbeat_paused():
            ctrl.copy_turn[db_idx].acquire()
        restarted = np.flatnonzero(ctrl.restarted[db_idx])
        if len(restarted) and truncate is not None:
            truncate(restarted)
        ctrl.restarted[db_idx] = False
        replay_buffer.append_samples(entries)
        ctrl.copy_turn[1 - db_idx].release()
        ctrl.batch_copied.release()
        ctrl.sample_copied[db_idx].release()
    with heartbeat_paused():
        ctrl.end.acquire()


def placeholder(x: Any) -> None:
    """Do nothing; kept for programs written against rlpyt 0.1.2."""


# --- Optimizers -----------------------------------------------------------------------------------


class AsyncOptWorker:
    """Optimizer that trains along with the runner and averages gradients with it; logs nothing.

    Args:
        rank: rank among the optimizers, 1 or more.
        world_size: number of optimizers.
        algo: algorithm with the shared replay buffer.
        agent: agent that is trained.
        n_itr: iterations of the sampler.
        affinity: affinity of this optimizer.
        seed: seed of this process.
        ctrl: result of :func:`make_control`.
        port: port at which all optimizers connect.

    Attributes:
        resume_state: state of agent and algorithm to resume from; None for a new run.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        algo: AsyncAlgoLike,
        agent: AgentLike,
        n_itr: int,
        affinity: Mapping[str, Any],
        seed: int,
        ctrl: Any,
        port: int | None,
    ) -> None:
        self.rank = rank
        self.world_size = world_size
        self.algo = algo
        self.agent = agent
        self.n_itr = n_itr
        self.affinity = affinity
        self.seed = seed
        self.ctrl = ctrl
        self.port = port

    resume_state: dict[str, Any] | None = None

    def optimize(self) -> None:
        """Train until the runner ends the run."""
        with logger.using(logger.Logger()):
            self.startup()
            itr = 0
            while True:
                with heartbeat_paused():
                    self.ctrl.opt_throttle.wait()
                if self.ctrl.quit_opt.value:
                    break
                self.agent.train_mode(itr)
                self.algo.optimize_agent(itr, sampler_itr=self.ctrl.opt_itr.value)
                itr += 1
            self.shutdown()
        with heartbeat_paused():
            self.ctrl.end.acquire()

    def startup(self) -> None:
        """Prepare the process, and make the optimizer."""
        set_seed(self.seed)
        with heartbeat_paused():
            self.ctrl.opt_throttle.wait()  # The runner notices failures before this point.
        prepare_optimizer(
            self.algo, self.agent, self.affinity, self.rank, self.world_size, self.port
        )
        if self.resume_state is not None:
            self.agent.load_state_dict(self.resume_state["agent"])
            self.algo.load_state_dict(self.resume_state["algo"])

    def shutdown(self) -> None:
        """Leave the process group of the optimizers."""
        torch.distributed.destroy_process_group()


def run_optimizer(worker: AsyncOptWorker) -> None:
    """Run the process of an optimizer above rank 0."""
    try:
        worker.optimize()
    except BaseException as error:
        delay_secondary_error(error)
        raise


def prepare_optimizer(
    algo: AsyncAlgoLike,
    agent: AgentLike,
    affinity: Mapping[str, Any],
    rank: int,
    world_size: int,
    port: int | None,
) -> None:
    """Prepare the process of an optimizer, give its agent a separate model, initialize ``algo``.

    Args:
        algo: algorithm after ``async_initialize``.
        agent: agent on the CPU, in shared memory.
        affinity: ``cpus``, ``torch_threads``, ``cuda_idx`` and ``set_affinity``, all optional.
        rank: rank among the optimizers.
        world_size: number of optimizers.
        port: port at which they connect; None for a single one.
    """
    threads = affinity.get("torch_threads", affinity.get("master_torch_threads"))
    prepare_process(
        dict(
            master_cpus=affinity.get("cpus", affinity.get("master_cpus")),
            master_torch_threads=threads,
            set_affinity=affinity.get("set_affinity", True),
        )
    )
    if world_size > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            backend=backend_for(affinity),
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=world_size,
            timeout=NO_LIMIT,  # The runner watches for slow processes.
        )
    agent.to_device(affinity.get("cuda_idx"))
    # The trained model is separate from the one that samplers read, on the CPU too.
    agent.async_cpu(share_memory=False)
    if world_size > 1:
        agent.data_parallel()
    algo.optim_initialize(rank)
