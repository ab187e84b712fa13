"""Base class of all runners, and the preparation of their processes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlpyt.core.protocols import AgentLike, AlgoLike
from rlpyt.runners._checks import check_cpus_in
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.allocator import tune_allocator
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.launch import can_be_pinned, pin_process
from rlpyt.utils.prog_bar import ProgBarCounter


class BaseRunner:
    """Base class of all runners: one training run, with its callbacks and statistics.

    Subclasses may replace ``__init__`` or ``initialize_logging``, so attributes that could be read
    before they are written have a default here.

    Attributes:
        log_interval_itrs: iterations from one log row to the next.
        n_itr: iterations of the whole run.
    """

    _eval = False

    algo: AlgoLike
    agent: AgentLike
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
    _start_time: float
    _last_time: float
    _last_update_counter: int
    _stopping = False

    def train(self) -> None:
        """Run the whole training."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """End everything that :meth:`train` has started."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        self._stopping = True

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Return attributes for the trajectory info class."""
        return {"discount": self.algo.discount}

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

    # --- The log ---------------------------------------------------------------------------------

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos = {name: [] for name in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._last_update_counter = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def _store_opt_info(self, opt_info: Any) -> None:
        """Keep the fields of ``opt_info``, lists or single values, until the next log row."""
        for name, values in self._opt_infos.items():
            new = getattr(opt_info, name, [])
            values.extend(new if isinstance(new, (list, tuple)) else [new])

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all opt infos since the last row."""
        infos = list(self._traj_infos if traj_infos is None else traj_infos)
        for name in infos[0] if infos else ():
            if not name.startswith("_"):
                logger.record_tabular_misc_stat(name, [info[name] for info in infos])
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}

    def _write_row(self, itr: int, traj_infos: Sequence[Any] | None = None) -> None:
        """Complete the log row, whose performance was measured on ``traj_infos``, and write it."""
        infos = list(self._traj_infos if traj_infos is None else traj_infos)
        self._log_infos(traj_infos)
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} sampler batches.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, infos)

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def _shutdown_after_failure(self) -> None:
        """Shut down what was started; the error that is shown stays the first one."""
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")


def prepare_process(affinity: Mapping[str, Any]) -> None:
    """Set CPU affinity and torch threads as ``affinity`` says, and tune the memory allocator.

    Args:
        affinity: ``master_cpus`` (used unless ``set_affinity`` is False) and
            ``master_torch_threads``, each optional. Without the latter torch gets no more threads
            than there are ``master_cpus``.

    Raises:
        ValueError: if a CPU does not exist or may not be used.
    """
    check_cpus_in(affinity)
    cpus = affinity.get("master_cpus")
    threads = affinity.get("master_torch_threads")
    if cpus and affinity.get("set_affinity", True):
        if can_be_pinned():
            pin_process(cpus)
            logger.log(f"Runner master CPU affinity: {sorted(cpus)}.")
        else:
            logger.log("Runner master CPU affinity: not available on this system.")
        threads = min(torch.get_num_threads(), len(set(cpus))) if threads is None else threads
    if threads is not None:
        torch.set_num_threads(int(threads))
    logger.log(f"Runner master Torch threads: {torch.get_num_threads()}.")
    tune_allocator()
