"""Action servers of asynchronous sampling, which the sampler tells when an evaluation ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
    Served,
    serve_evaluation,
)


class ServedApart(Served, Protocol):
    """A sampler with several servers, whose ``ctrl.stop_eval`` counts for all of them."""

    ctrl: Any

    def hand_on_evaluation(self) -> None: ...


def told_to_stop(sampler: ServedApart) -> Callable[[], bool]:
    """Return a function that tells whether all servers together reached the limit."""
    stop_eval = sampler.ctrl.stop_eval

    def is_told() -> bool:
        sampler.hand_on_evaluation()
        return bool(stop_eval.value)

    return is_told


class AsyncActionServer(ActionServer):
    """All environments step, then actions are chosen for all of them."""

    def serve_actions_evaluation(self: ServedApart, itr: int) -> list[Any]:
        """Choose the actions of one evaluation, until the sampler or the limit of steps ends it."""
        return serve_evaluation(self, itr, self.overlap, stop=told_to_stop(self))


class AsyncAlternatingActionServer(AsyncActionServer, AlternatingActionServer):
    """Actions are chosen for one half of the environments while the other half steps."""


class AsyncNoOverlapAlternatingActionServer(AsyncActionServer, NoOverlapAlternatingActionServer):
    """Actions are chosen for one half; it begins to step after the other half has finished."""
