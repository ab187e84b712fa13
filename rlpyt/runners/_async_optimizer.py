"""What the processes of an asynchronous run do which train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rlpyt.runners._process import prepare_process
from rlpyt.runners._team import FOR_EVER
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat, delay_secondary_error, heartbeat_paused
from rlpyt.utils.seed import set_seed


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

    heartbeat: Heartbeat | None = None

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
                with heartbeat_paused(self.heartbeat):
                    self.ctrl.opt_throttle.wait()
                if self.ctrl.quit_opt.value:
                    break
                self.agent.train_mode(itr)
                self.algo.optimize_agent(itr, sampler_itr=self.ctrl.opt_itr.value)
                itr += 1
            self.shutdown()
        with heartbeat_paused(self.heartbeat):
            self.ctrl.end.acquire()

    def startup(self) -> None:
        """Prepare the process, and make the optimizer."""
        set_seed(self.seed)
        with heartbeat_paused(self.heartbeat):
            self.ctrl.opt_throttle.wait()  # Whoever fails before this is noticed by the runner.
        prepare_optimizer(
            self.algo, self.agent, self.affinity, self.rank, self.world_size, self.port
        )

    def shutdown(self) -> None:
        """Leave the group of optimizers."""
        torch.distributed.destroy_process_group()


def run_optimizer(worker: AsyncOptWorker, heartbeat: Heartbeat | None = None) -> None:
    """What the process of an optimizer does."""
    worker.heartbeat = heartbeat
    try:
        worker.optimize()
    except BaseException as error:
        delay_secondary_error(error, heartbeat)
        raise


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
    if world_size > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            backend="gloo" if cuda_idx is None else "nccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=world_size,
            timeout=FOR_EVER,  # The crew of the runner watches for whoever takes too long.
        )
    agent.to_device(cuda_idx)
    # On the CPU too, what is trained is apart from what samplers read.
    agent.async_cpu(share_memory=False)
    if world_size > 1:
        agent.data_parallel()
    algo.optim_initialize(rank)
