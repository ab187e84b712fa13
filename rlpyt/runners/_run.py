"""What the runners of both loops have: settings, callbacks, statistics, an end after a failure."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from rlpyt.runners._diagnostics import logged_fields, opt_values
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter


class Run(BaseRunner):
    """One training run of an algorithm, an agent and a sampler.

    Subclasses of runners may replace ``__init__`` or ``initialize_logging``, so everything which is
    read before it is written has its start here.
    """

    _eval = False

    algo: Any
    agent: Any
    sampler: Any
    n_steps: int
    seed: int | None
    log_interval_steps: int
    world_size = 1
    callbacks: Sequence[Callback] = ()
    pbar: ProgBarCounter | None = None

    log_interval_itrs: int
    n_itr: int

    _traj_infos: Any = ()
    _opt_infos: dict[str, list[Any]]
    _stopping = False

    def shutdown(self) -> None:
        """Let go of what :meth:`train` has started."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        self._stopping = True

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Attributes for the trajectory info class."""
        return {"discount": getattr(self.algo, "discount", 1)}

    def _set_n_itr(self, n_intervals: int, batch_size: int) -> None:
        """Fix the length of the run, where an iteration takes ``batch_size`` steps."""
        self.n_itr = n_intervals * self.log_interval_itrs
        interval_steps = self.log_interval_itrs * batch_size
        if interval_steps > self.n_steps:
            logger.log(
                f"WARNING: n_steps {self.n_steps} is less than one log interval, so that the run "
                f"takes {interval_steps} steps; log_interval_steps is {self.log_interval_steps}, "
                f"an iteration takes {batch_size}: make both smaller for a shorter run."
            )

    def _store_opt_info(self, opt_info: Any) -> None:
        for name, values in self._opt_infos.items():
            values.extend(opt_values(getattr(opt_info, name, [])))

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all since the last row that was learned."""
        infos = self._traj_infos if traj_infos is None else traj_infos
        for name, values in logged_fields(list(infos)).items():
            logger.record_tabular_misc_stat(name, values)
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def _shutdown_after_failure(self) -> None:
        """Shut down what was started; the error which is shown stays the one that came first."""
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")
