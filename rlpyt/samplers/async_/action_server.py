"""Who chooses actions in asynchronous sampling: as in the same process, but told when to stop."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers.parallel.gpu.action_server import (
    ActionServer,
    AlternatingActionServer,
    NoOverlapAlternatingActionServer,
    _ServerBase,
)


class _ToldToStop(_ServerBase):
    """The sampler counts the trajectories of all servers, and says when there are enough."""

    ctrl: Any

    def _limit_is_reached(self) -> Any:
        if super()._limit_is_reached() is None:
            return None
        stop_eval = self.ctrl.stop_eval
        return lambda: bool(stop_eval.value)


class AsyncActionServer(_ToldToStop, ActionServer):
    """All environments step, then actions are chosen for all of them."""


class AsyncAlternatingActionServer(_ToldToStop, AlternatingActionServer):
    """Actions are chosen for one half of the environments while the other half steps."""


class AsyncNoOverlapAlternatingActionServer(_ToldToStop, NoOverlapAlternatingActionServer):
    """The same, but a half begins to step only after the other half has finished."""
