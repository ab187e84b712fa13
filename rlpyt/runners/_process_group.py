"""Communication between the processes of a synchronous run, over torch's process groups.

Gradients are averaged by ``DistributedDataParallel``. In addition, every iteration ends with one
small sum over all processes, and every log row with a command from rank 0 to the others.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from torch import distributed
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from rlpyt.core.protocols import AgentLike
from rlpyt.utils.buffer import buffer_to

_stores: Any = distributed  # The store classes are public, but not in the stubs.

# Commands of rank 0 to the others after a log row.
CONTINUE, STOP, SEND_STATE = 0, 1, 2
SIGNALLED = 16  # Added to the number of a signal that ends the run before the row is logged.

NO_LIMIT = timedelta(days=365)

_n_runs = 0


def host_store(world_size: int) -> Any:
    """Host the store through which the processes of this machine connect, at a free port."""
    return _tcp_store(0, world_size, is_master=True)


def connect_store(port: int, world_size: int) -> Any:
    """Connect to the store of another process on this machine."""
    return _tcp_store(port, world_size, is_master=False)


def launcher_store() -> Any:
    """Connect to the store of ``torchrun``, with a separate prefix for every run."""
    global _n_runs
    _n_runs += 1
    return _stores.PrefixStore(f"rlpyt run {_n_runs}", _store_of_launcher())


@cache
def _store_of_launcher() -> Any:
    """Connect once: a late process would meet the store of the run before, if rank 0 hosts it."""
    return next(rendezvous("env://"))[0]


def _tcp_store(port: int, world_size: int, is_master: bool) -> Any:
    return _stores.TCPStore("127.0.0.1", port, world_size, is_master, wait_for_workers=False)


def backend_for(affinity: Mapping[str, Any]) -> str:
    """Return the torch backend that averages gradients for this affinity."""
    return "gloo" if affinity.get("cuda_idx") is None else "nccl"


class ProcessGroup:
    """The processes that train together, as seen by one of them.

    Args:
        rank: rank of this process.
        world_size: number of processes.
        backend: "gloo" for gradients on the CPU, "nccl" on GPUs.
        store: key-value store through which the processes connect.
        time_limit_s: longest wait for the others in an exchange; None for no limit.
    """

    def __init__(
        self, rank: int, world_size: int, backend: str, store: Any, time_limit_s: float | None
    ) -> None:
        self.rank, self.world_size, self.backend = rank, world_size, backend
        self._store = store
        self._limit = NO_LIMIT if time_limit_s is None else timedelta(seconds=time_limit_s)
        self._group: Any = None
        self._patient_group: Any = None
        # Kept until the groups are destroyed: torch 2.6 deadlocks if its thread frees it meanwhile.
        self._received: torch.Tensor | None = None

    def agree_on(self, name: str, value: Any) -> Any:
        """Return the ``value`` that rank 0 gives for ``name``; works before :meth:`join`."""
        if self.rank == 0:
            self._store.set(name, pickle.dumps(value))
            return value
        return pickle.loads(self._store.get(name))

    def join(self) -> None:
        """Make the process group, once all processes are ready."""
        if self._store.add("ready", 1) == self.world_size:
            self._store.set("all ready", b"1")
        self._store.wait(["all ready"], NO_LIMIT)
        excepthook = sys.excepthook  # Torch's own hook marks every line with the rank.
        distributed.init_process_group(
            self.backend,
            store=self._store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=self._limit,
        )
        sys.excepthook = excepthook
        # NCCL exchanges tensors on GPUs only.
        self._group = distributed.new_group(backend="gloo", timeout=self._limit)
        self._patient_group = distributed.new_group(backend="gloo", timeout=NO_LIMIT)

    def leave(self) -> None:
        """Destroy the process group, if there is one, and close the connections to the store."""
        if self._group is not None and distributed.is_initialized():
            distributed.destroy_process_group()
        self._group = self._patient_group = self._store = None

    def end_iteration(
        self, traj_infos: Sequence[Any], requests: Sequence[bool]
    ) -> tuple[list[Any], list[bool]]:
        """Exchange trajectories and requests, at the end of an iteration.

        Args:
            traj_infos: trajectories that this process completed.
            requests: requests of this process, such as to end the run; the same number in each
                process.

        Returns:
            In rank 0 the trajectory infos of all processes, by rank; elsewhere ``traj_infos``.
            Then, for each request, whether any process made it.
        """
        is_sent = self.rank > 0 and len(traj_infos) > 0
        message = pickle.dumps(list(traj_infos)) if is_sent else b""
        header = torch.zeros(self.world_size + len(requests), dtype=torch.long)
        header[self.rank] = len(message)
        header[self.world_size :] = torch.tensor(requests)
        distributed.all_reduce(header, group=self._group)
        sizes, counts = header[: self.world_size].tolist(), header[self.world_size :].tolist()
        merged = list(traj_infos)
        if any(sizes):
            merged.extend(self._gather_traj_infos(message, sizes))
        return merged, [count > 0 for count in counts]

    def _gather_traj_infos(self, message: bytes, sizes: list[int]) -> list[Any]:
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        if message:
            padded[: len(message)] = torch.frombuffer(bytearray(message), dtype=torch.uint8)
        if self.rank > 0:
            distributed.gather(padded, dst=0, group=self._group)
            return []
        received = [torch.empty_like(padded) for _ in sizes]
        distributed.gather(padded, received, dst=0, group=self._group)
        messages = [data[:size].numpy().tobytes() for data, size in zip(received, sizes) if size]
        return [info for data in messages for info in pickle.loads(data)]

    def broadcast(self, command: int = CONTINUE) -> int:
        """Return the ``command`` of rank 0; the others wait for it without a time limit."""
        received = self._received = torch.tensor(command)
        distributed.broadcast(received, src=0, group=self._patient_group)
        return int(received)

    def gather(self, state: Any) -> list[Any]:
        """Send an object from each process to rank 0; return all objects in rank 0, else none."""
        states: list[Any] = [None] * self.world_size
        into = states if self.rank == 0 else None
        distributed.gather_object(state, into, dst=0, group=self._patient_group)
        return states if self.rank == 0 else []

    def share_state(self, agent: AgentLike) -> None:
        """Copy all networks of rank 0 to every process.

        ``DistributedDataParallel`` copies only the networks that it trains; target networks would
        differ.
        """
        state: list[Any] = [_to_cpu(agent.state_dict()) if self.rank == 0 else None]
        distributed.broadcast_object_list(state, src=0, group=self._patient_group)
        if self.rank > 0:
            agent.load_state_dict(state[0])


def leave_data_parallel(agent: AgentLike) -> None:
    """Take the networks of ``agent`` out of their wrappers, which keep threads and connections."""
    for name, part in list(vars(agent).items()):
        if isinstance(part, DistributedDataParallel):
            setattr(agent, name, part.module)


def _to_cpu(state: Any) -> Any:
    """Return a state dict with its tensors on the CPU."""
    if isinstance(state, dict):
        return {name: _to_cpu(value) for name, value in state.items()}
    return buffer_to(state, device="cpu") if isinstance(state, torch.Tensor) else state
