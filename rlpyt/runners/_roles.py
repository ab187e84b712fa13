"""Which algorithms and samplers each loop can do with: said before anything is started."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from rlpyt.utils.types import Nested


@runtime_checkable
class AsyncSampler(Protocol):
    """A sampler for a process of its own, with two batches."""

    def async_initialize(
        self,
        agent: Any,
        bootstrap_value: bool,
        traj_info_kwargs: dict[str, Any] | None,
        seed: int | None,
    ) -> tuple[Nested, dict[str, Any]]: ...


@runtime_checkable
class AsyncAlgo(Protocol):
    """An algorithm which trains from a replay buffer while another process samples."""

    replay_ratio: float

    def async_initialize(self, *args: Any, **kwargs: Any) -> Any: ...


def check_for_sync(runner: Any) -> None:
    """Raise ``ValueError`` if the sampler of ``runner`` needs another loop than the synchronous."""
    sampler, name = type(runner.sampler).__name__, type(runner).__name__
    if isinstance(runner.sampler, AsyncSampler):
        raise ValueError(
            f"the sampler is {sampler}, which works in a process of its own: use AsyncRl, "
            f"or give {name} one such as SerialSampler or CpuSampler"
        )


def check_for_async(runner: Any) -> None:
    """Raise ``ValueError`` if algorithm or sampler of ``runner`` need the synchronous loop."""
    sampler, algo, name = (type(part).__name__ for part in (runner.sampler, runner.algo, runner))
    if not isinstance(runner.sampler, AsyncSampler):
        raise ValueError(
            f"the sampler is {sampler}, which works in the process of the runner: give {name} an "
            "asynchronous one, such as AsyncSerialSampler or AsyncCpuSampler"
        )
    if not isinstance(runner.algo, AsyncAlgo):
        raise ValueError(
            f"the algorithm is {algo}, which has no replay buffer and so cannot train while "
            f"{name} samples: use MinibatchRl or SyncRl, or an algorithm such as DQN or SAC"
        )
