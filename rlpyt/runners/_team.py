"""What the processes of a synchronous run tell each other, over torch's process group.

Gradients are averaged by ``DistributedDataParallel``. Beside these, every iteration ends with one
small sum over all processes, and every log row with a word of rank 0, for which the others wait.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from rlpyt.utils.buffer import buffer_to

_stores: Any = distributed  # Its store classes are public, but not declared to be.

# What rank 0 tells the others after a log row.
GO_ON, STOP, SEND_STATE = 0, 1, 2

FOR_EVER = timedelta(days=365)
_n_runs = 0


def host_store(world_size: int) -> Any:
    """The store by which the processes of this machine find each other, at a free port."""
    return _tcp_store(0, world_size, is_master=True)


def connect_store(port: int, world_size: int) -> Any:
    """The store which another process of this machine hosts."""
    return _tcp_store(port, world_size, is_master=False)


def launcher_store() -> Any:
    """The store which ``torchrun`` told this process about; a part of its own for every run."""
    global _n_runs
    _n_runs += 1
    return _stores.PrefixStore(f"rlpyt run {_n_runs}", next(rendezvous("env://"))[0])


def _tcp_store(port: int, world_size: int, is_master: bool) -> Any:
    return _stores.TCPStore("127.0.0.1", port, world_size, is_master, wait_for_workers=False)


class Team:
    """The processes which train together, as one of them sees them.

    Args:
        rank: of this process.
        world_size: how many there are.
        backend: "gloo" for gradients on the CPU, "nccl" on GPUs.
        store: by which they find each other.
        time_limit_s: how long one waits for the others in an exchange; None for no limit.
    """

    def __init__(
        self, rank: int, world_size: int, backend: str, store: Any, time_limit_s: float | None
    ) -> None:
        self.rank, self.world_size, self.backend = rank, world_size, backend
        self._store = store
        self._limit = FOR_EVER if time_limit_s is None else timedelta(seconds=time_limit_s)
        self._group: Any = None
        self._patient_group: Any = None

    def agree_on(self, name: str, value: Any) -> Any:
        """What rank 0 says about ``name``; works before :meth:`join`."""
        if self.rank == 0:
            self._store.set(name, pickle.dumps(value))
            return value
        return pickle.loads(self._store.get(name))

    def join(self) -> None:
        """Make the process group, once all processes have come."""
        if self._store.add("ready", 1) == self.world_size:
            self._store.set("all ready", b"1")
        self._store.wait(["all ready"], FOR_EVER)
        excepthook = sys.excepthook  # Torch would mark every line of a traceback with the rank.
        distributed.init_process_group(
            self.backend,
            store=self._store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=self._limit,
        )
        sys.excepthook = excepthook
        # NCCL moves what is on GPUs only.
        self._group = distributed.new_group(backend="gloo", timeout=self._limit)
        self._patient_group = distributed.new_group(backend="gloo", timeout=FOR_EVER)

    def leave(self) -> None:
        """Give up the process group, if there is one."""
        if self._group is not None and distributed.is_initialized():
            distributed.destroy_process_group()
        self._group = self._patient_group = None

    def merge(self, traj_infos: Sequence[Any], stop: bool) -> tuple[list[Any], bool]:
        """End an iteration together.

        Args:
            traj_infos: which this process completed.
            stop: whether it wants to end the run.

        Returns:
            In rank 0 the trajectory infos of all, by rank, elsewhere the own ones; and whether
            anybody wants to end the run.
        """
        is_sent = self.rank > 0 and len(traj_infos) > 0
        message = pickle.dumps(list(traj_infos)) if is_sent else b""
        header = torch.zeros(self.world_size + 1, dtype=torch.long)
        header[self.rank], header[-1] = len(message), int(stop)
        distributed.all_reduce(header, group=self._group)
        *sizes, n_stops = header.tolist()
        merged = list(traj_infos)
        if any(sizes):
            merged.extend(self._gather(message, sizes))
        return merged, n_stops > 0

    def _gather(self, message: bytes, sizes: list[int]) -> list[Any]:
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

    def follow(self, command: int = GO_ON) -> int:
        """Wait, however long it takes, for what rank 0 says; there it is ``command``."""
        said = torch.tensor(command)
        distributed.broadcast(said, src=0, group=self._patient_group)
        return int(said)

    def collect(self, state: Any) -> list[Any]:
        """Hand an object of each process to rank 0; elsewhere returns nothing."""
        states: list[Any] = [None] * self.world_size
        into = states if self.rank == 0 else None
        distributed.gather_object(state, into, dst=0, group=self._patient_group)
        return states if self.rank == 0 else []

    def share_state(self, agent: Any) -> None:
        """Let every process have the networks of rank 0, also those which are not trained.

        ``DistributedDataParallel`` sees to the trained ones, and target copies would differ.
        """
        state = [buffer_to_cpu(agent.state_dict()) if self.rank == 0 else None]
        distributed.broadcast_object_list(state, src=0, group=self._patient_group)
        if self.rank > 0:
            agent.load_state_dict(state[0])


def buffer_to_cpu(state: Any) -> Any:
    """A state dict with its tensors on the CPU."""
    if isinstance(state, dict):
        return {name: buffer_to_cpu(value) for name, value in state.items()}
    return buffer_to(state, device="cpu") if isinstance(state, torch.Tensor) else state
