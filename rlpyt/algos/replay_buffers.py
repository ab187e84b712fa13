"""Replay buffers of algorithms: the class by its features, the device, and errors that help."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def replay_buffer_class(
    *,
    async_: bool,
    sequences: bool = False,
    time_limits: bool = False,
    frames: bool = False,
    prioritized: bool = False,
) -> Any:
    """Return the library's replay buffer class with these features.

    Args:
        async_: whether several processes share the buffer.
        sequences: whether batches are of sequences instead of transitions.
        time_limits: whether ``timeout`` is stored.
        frames: whether stacks of frames are stored as single frames.
        prioritized: whether entries are drawn by priority.
    """
    draw = "Prioritized" if prioritized else "Uniform"
    name = "Async" * async_ + "Tl" * time_limits + draw + "Sequence" * sequences
    name += "ReplayFrameBuffer" if frames else "ReplayBuffer"
    module = "time_limit" if time_limits else "frame" if frames else draw.lower()
    package = "sequence" if sequences else "non_sequence"
    return getattr(import_module(f"rlpyt.replays.{package}.{module}"), name)


def replay_buffer_named(name: str) -> Any:
    """Return the library's replay buffer class of this name; None if there is none."""
    cls = replay_buffer_class(
        async_=name.startswith("Async"),
        sequences="Sequence" in name,
        time_limits="Tl" in name,
        frames="Frame" in name,
        prioritized="Prioritized" in name,
    )
    return cls if cls.__name__ == name else None


def storage_device(replay_device: Any, agent_device: torch.device) -> torch.device | None:
    """Return the device that stores the buffer; None for host memory.

    Args:
        replay_device: the algorithm's setting: "agent", a device, or its name.
        agent_device: device of the agent.

    Raises:
        ValueError: if the buffer would be on a device and the agent on the CPU.
    """
    device = agent_device if replay_device == "agent" else torch.device(replay_device)
    if device.type == "cpu":
        return None
    if agent_device.type == "cpu":
        raise ValueError(
            f"replay_device is {replay_device!r}, but the agent is on the CPU: move it to "
            "that device (cuda_idx of the affinity), or leave replay_device None"
        )
    return device


def make_replay_buffer(cls: Any, kwargs: dict[str, Any], is_given: bool, async_: bool) -> Any:
    """Make a replay buffer.

    Args:
        cls: class, or function that returns a buffer.
        kwargs: its keywords.
        is_given: whether the user passed it as ``ReplayBufferCls``.
        async_: whether several processes use the buffer.

    Raises:
        TypeError: if the user's class does not take the keywords.
        ValueError: if the buffer does not fit in memory, or is for a single process.
    """
    try:
        buffer = cls(**kwargs)
    except MemoryError as error:
        raise ValueError(
            f"replay_size is {kwargs['size']}, which does not fit in memory: make it smaller "
            f"({error})"
        ) from error
    except TypeError as error:
        if not is_given:
            raise
        raise TypeError(
            f"ReplayBufferCls={cls} cannot be made from the arguments {sorted(kwargs)} "
            f"({error}): pass a class that takes them, for prioritized_replay=True one such "
            "as PrioritizedReplayBuffer (device is from replay_device)"
        ) from error
    # A user's class may lack ``async_``.
    if async_ and not getattr(buffer, "async_", True):
        raise ValueError(
            f"ReplayBufferCls={cls} makes a buffer for one process, and no other process "
            "can write to it: in asynchronous mode pass one such as AsyncUniformReplayBuffer, "
            "which has AsyncReplayBufferMixin first among its bases"
        )
    return buffer
