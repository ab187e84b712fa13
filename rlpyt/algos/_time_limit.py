"""Transitions whose return was cut by a time limit: neither terminal nor followed by a value."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.core.records import extended
from rlpyt.utils.types import Nested


def with_timeout(entry: Nested, env_info: Nested) -> Nested:
    """The record ``entry`` of what is stored, with ``env_info.timeout`` as its last field.

    Raises:
        ValueError: if there is no such field.
    """
    timeout = getattr(env_info, "timeout", None)
    if timeout is None:
        raise ValueError(
            "bootstrap_timelimit is True, but the environment gives no env_info.timeout, only "
            f"{getattr(env_info, '_fields', env_info)}: make the environment with rlpyt.envs.gym, "
            "let it set timeout where a time limit ends an episode, or leave bootstrap_timelimit "
            "False"
        )
    cls: Any = type(entry)
    record: Nested = extended(cls, ("timeout",), "Tl")(*entry, timeout)
    return record


def not_timed_out(samples: Nested) -> torch.Tensor:
    """Mask [B] of the samples to train on: false where a time limit cut the return.

    Raises:
        ValueError: if the replay buffer does not tell.
    """
    if not hasattr(samples, "timeout_n"):
        raise ValueError(
            "bootstrap_timelimit needs samples with timeout_n, which the replay buffer does not "
            "give: pass a ReplayBufferCls such as TlUniformReplayBuffer or "
            "TlPrioritizedReplayBuffer, or bootstrap_timelimit=False"
        )
    timeout_n: torch.Tensor = samples.timeout_n
    return ~timeout_n.bool()


def masked_mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean of ``values`` [B] where ``mask`` [B] is true; 0 if it is so nowhere."""
    return (values * mask).sum() / mask.sum().clamp(min=1)
