"""What the processes of an asynchronous run do, besides the one which trains and logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from rlpyt.runners._process import prepare_process
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import set_seed
from rlpyt.utils.types import Nested

# --- The sampler ----------------------------------------------------------------------------------


def run_async_sampler(
    sampler: Any, affinity: Any, ctrl: Any, traj_infos_queue: Any, n_itr: int
) -> None:
    """Fill both batches in turn, ``n_itr`` in all.

    Args:
        sampler: ``async_initialize`` has been called in the process of the runner.
        affinity: for ``sampler.initialize``.
        ctrl: of :func:`~rlpyt.runners._async_control.make_control`.
        traj_infos_queue: takes the trajectory infos.
        n_itr: number of batches.
    """
    _sample(sampler, affinity, ctrl, traj_infos_queue, n_itr, None)


def run_async_sampler_eval(
    sampler: Any, affinity: Any, ctrl: Any, traj_infos_queue: Any, n_itr: int, eval_itrs: int
) -> None:
    """The same, with evaluations: before the first batch, after every ``eval_itrs``, at the end.

    Only trajectory infos of evaluations are sent; None follows those of each.
    """
    _sample(sampler, affinity, ctrl, traj_infos_queue, n_itr, eval_itrs)


def _sample(
    sampler: Any, affinity: Any, ctrl: Any, queue: Any, n_itr: int, eval_itrs: int | None
) -> None:
    # Files and other sinks of the log are the runner's; the console is for all.
    with logger.using(logger.Logger()):
        try:
            sampler.initialize(affinity)
            for itr in range(n_itr):
                if ctrl.stop.value:
                    break
                if eval_itrs is not None and itr % eval_itrs == 0:
                    _evaluate(sampler, ctrl, queue, itr)
                _fill(sampler, ctrl, queue, itr, eval_itrs is None)
            if eval_itrs is not None:
                _evaluate(sampler, ctrl, queue, ctrl.sampler_itr.value + 1)
            for signal in ctrl.sample_copied:
                signal.acquire()  # Everything has reached the replay buffer.
            ctrl.quit.value = True
            for signal in (*ctrl.sample_ready, ctrl.batch_copied):
                signal.release()
        finally:
            sampler.shutdown()
    ctrl.end.acquire()


def _fill(sampler: Any, ctrl: Any, queue: Any, itr: int, is_reported: bool) -> None:
    db_idx = itr % 2
    if ctrl.may_sample is not None:
        ctrl.may_sample.acquire()
    ctrl.sample_copied[db_idx].acquire()
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
) -> None:
    """Copy one of the two batches to the replay buffer, whenever it is filled.

    Args:
        sample_buffer: [T,B,...], numpy.
        samples_to_buffer: of the algorithm: what is stored of a batch of torch tensors.
        replay_buffer: in shared memory.
        ctrl: of :func:`~rlpyt.runners._async_control.make_control`.
        db_idx: which of the two batches it is.
    """
    torch.set_num_threads(1)
    samples = torchify_buffer(sample_buffer)
    while True:
        ctrl.sample_ready[db_idx].acquire()
        if ctrl.quit.value:
            break
        entries = samples_to_buffer(samples)
        ctrl.copy_turn[db_idx].acquire()
        replay_buffer.append_samples(entries)
        ctrl.copy_turn[1 - db_idx].release()
        ctrl.batch_copied.release()
        ctrl.sample_copied[db_idx].release()
    ctrl.end.acquire()


# --- Optimizers of other ranks --------------------------------------------------------------------


class AsyncOptWorker:
    """Trains along with the runner, whose gradients it shares; logs nothing.

    Args:
        rank: among the optimizers, 1 or more.
        world_size: number of optimizers.
        algo: with the shared replay buffer.
        agent: which is trained.
        n_itr: of the sampler.
        affinity: of this optimizer.
        seed: of this process.
        ctrl: of :func:`~rlpyt.runners._async_control.make_control`.
        port: where all optimizers meet.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        algo: Any,
        agent: Any,
        n_itr: int,
        affinity: Any,
        seed: int,
        ctrl: Any,
        port: int,
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

    def optimize(self) -> None:
        """Train until the runner says that it is over."""
        with logger.using(logger.Logger()):
            self.startup()
            itr = 0
            while True:
                self.ctrl.opt_throttle.wait()
                if self.ctrl.quit_opt.value:
                    break
                self.agent.train_mode(itr)
                self.algo.optimize_agent(itr, sampler_itr=self.ctrl.opt_itr.value)
                itr += 1
            self.shutdown()
        self.ctrl.end.acquire()

    def startup(self) -> None:
        """Prepare the process, and make the optimizer."""
        set_seed(self.seed)
        self.ctrl.opt_throttle.wait()  # Whoever fails before this is noticed by the runner.
        prepare_optimizer(
            self.algo, self.agent, self.affinity, self.rank, self.world_size, self.port
        )

    def shutdown(self) -> None:
        """Leave the group of optimizers."""
        torch.distributed.destroy_process_group()


def run_optimizer(worker: AsyncOptWorker) -> None:
    """What the process of an optimizer does."""
    worker.optimize()


def prepare_optimizer(
    algo: Any, agent: Any, affinity: Mapping[str, Any], rank: int, world_size: int, port: int | None
) -> None:
    """Prepare the process of an optimizer, give its agent a model of its own, and make ``algo``'s.

    Args:
        algo: after ``async_initialize``.
        agent: on the CPU, in shared memory.
        affinity: ``cpus``, ``torch_threads``, ``cuda_idx`` and ``set_affinity``, all optional.
        rank: among the optimizers.
        world_size: number of optimizers.
        port: where they meet; None for a single one.
    """
    threads = affinity.get("torch_threads", affinity.get("master_torch_threads"))
    prepare_process(
        dict(
            master_cpus=affinity.get("cpus", affinity.get("master_cpus")),
            master_torch_threads=threads,
            set_affinity=affinity.get("set_affinity", True),
        )
    )
    cuda_idx = affinity.get("cuda_idx")
    if world_size > 1:
        torch.distributed.init_process_group(
            backend="gloo" if cuda_idx is None else "nccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=world_size,
        )
    agent.to_device(cuda_idx)
    # On the CPU too, what is trained is apart from what samplers read.
    agent.async_cpu(share_memory=False)
    if world_size > 1:
        agent.data_parallel()
    algo.optim_initialize(rank)


def placeholder(x: Any) -> None:
    """Does nothing; a name of rlpyt."""
