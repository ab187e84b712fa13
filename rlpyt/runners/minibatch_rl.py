"""The synchronous loop: sample a batch, learn from it, again; log now and then.

The two runners differ in where performance is measured: online, over a window of the trajectories
which the training batches completed, or offline, in evaluation environments before each log row.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.runners._minibatch_log import MinibatchLog
from rlpyt.runners._process import prepare_process
from rlpyt.runners._roles import check_for_sync
from rlpyt.runners._settings import at_least_one, check_one_affinity, checked_callbacks
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import make_seed, set_seed


class MinibatchRlBase(MinibatchLog):
    """The loop, its start and its end.

    An iteration (itr) is one sampler batch and one call of ``algo.optimize_agent``; steps are
    environment steps over all processes.

    Args:
        algo: learns from batches.
        agent: acts and is trained.
        sampler: gives batches, and evaluates.
        n_steps: of the whole run, rounded up to whole log intervals.
        seed: of everything random; drawn from the clock if None.
        affinity: ``cuda_idx``, ``master_cpus``, ``master_torch_threads``, ``workers_cpus``, ...
        log_interval_steps: between log rows.
        callbacks: told what happens, see :class:`~rlpyt.runners.callbacks.Callback`.
    """

    affinity: Mapping[str, Any]
    rank = 0

    def __init__(
        self,
        algo: Any,
        agent: Any,
        sampler: Any,
        n_steps: float,
        seed: int | None = None,
        affinity: Mapping[str, Any] | None = None,
        log_interval_steps: float = 1e5,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        n_steps = at_least_one("n_steps", n_steps, "environment step")
        log_interval_steps = at_least_one(
            "log_interval_steps", log_interval_steps, "environment step"
        )
        affinity = {} if affinity is None else affinity
        save__init__args(locals())
        # Before ``algo.initialize`` this is 0 for the library's algorithms, so that every run is
        # evaluated and logged from its start; an algorithm which sets it earlier is respected.
        self.min_itr_learn = getattr(algo, "min_itr_learn", 0)
        self.callbacks = checked_callbacks(callbacks)

    def train(self) -> None:
        """Run until ``n_steps``, or until a callback stops it; shut down whatever happens."""
        self._stopping = False
        try:
            n_itr = self.startup()
            self._evaluate_before_training()
            for itr in range(self.start_itr, n_itr):
                if self._stopping:
                    break
                logger.set_iteration(itr)
                with logger.prefix(f"itr #{itr} "):
                    self._iterate(itr)
            logger.log("Training complete.")
        except BaseException:
            self._shutdown_after_failure()
            raise
        self.shutdown()

    def _iterate(self, itr: int) -> None:
        self.agent.sample_mode(itr)
        samples, traj_infos = self.sampler.obtain_samples(itr)
        self.agent.train_mode(itr)
        opt_info = self.algo.optimize_agent(itr, samples)
        self.store_diagnostics(itr, traj_infos, opt_info)
        if self._stopping or (itr + 1) % self.log_interval_itrs == 0:
            self._measure_and_log(itr)

    # --- Start and end ---------------------------------------------------------------------------

    def startup(self) -> int:
        """Prepare the process, initialize sampler (and agent), algorithm and log.

        Returns:
            The number of iterations.

        Raises:
            ValueError: if the sampler or the affinity is for another runner.
        """
        check_for_sync(self)
        check_one_affinity(self.affinity)
        prepare_process(self.affinity)
        if self.seed is None:
            self.seed = make_seed()
        set_seed(self.seed)
        examples = self.sampler.initialize(
            agent=self.agent,
            affinity=self.affinity,
            seed=self.seed + 1,
            bootstrap_value=getattr(self.algo, "bootstrap_value", False),
            traj_info_kwargs=self.get_traj_info_kwargs(),
            rank=self.rank,
            world_size=self.world_size,
        )
        self.itr_batch_size = self.sampler.batch_spec.size * self.world_size
        n_itr = self.get_n_itr()
        self.agent.to_device(self.affinity.get("cuda_idx", None))
        if self.world_size > 1:
            self._make_data_parallel()
        self.algo.initialize(
            agent=self.agent,
            n_itr=n_itr,
            batch_spec=self.sampler.batch_spec,
            mid_batch_reset=self.sampler.mid_batch_reset,
            examples=examples,
            world_size=self.world_size,
            rank=self.rank,
        )
        self.initialize_logging()
        if self._resume_state is not None:
            self._resume(self._resume_state)
        self._notify("on_start")
        return n_itr

    def _make_data_parallel(self) -> None:
        """Let the agent train together with those of other processes."""
        self.agent.data_parallel()

    def shutdown(self) -> None:
        """Close the progress bar and the sampler."""
        if self.pbar is not None:
            self.pbar.stop()
        try:
            self._notify("on_end")
        finally:
            self.sampler.shutdown()

    def get_n_itr(self) -> int:
        """Number of iterations: ``n_steps``, rounded up to whole log intervals, at least one."""
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        n_intervals = -(-(self.n_steps // self.itr_batch_size) // self.log_interval_itrs) or 1
        self._set_n_itr(n_intervals, self.itr_batch_size)
        logger.log(f"Running {self.n_itr} iterations of minibatch RL.")
        return self.n_itr

    # --- Where performance is measured ------------------------------------------------------------

    def _evaluate_before_training(self) -> None:
        """Log the untrained agent, where that can be done without training samples."""

    def _measure_and_log(self, itr: int) -> None:
        raise NotImplementedError


class MinibatchRl(MinibatchRlBase):
    """Measures performance online, on the last trajectories which training completed.

    Args:
        log_traj_window: number of trajectories.
        **kwargs: of :class:`MinibatchRlBase`.
    """

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = at_least_one("log_traj_window", log_traj_window, "trajectory")

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._traj_infos = deque(maxlen=self.log_traj_window)
        self._new_completed_trajs = 0
        super().initialize_logging()

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep what one iteration reports until the next log row."""
        self._new_completed_trajs += len(traj_infos)
        self._traj_infos.extend(traj_infos)
        super().store_diagnostics(itr, traj_infos, opt_info)

    def log_diagnostics(  # type: ignore[override]
        self, itr: int, prefix: str = "Diagnostics/"
    ) -> None:
        """Write one row, its performance measured on the window of trajectories."""
        with logger.tabular_prefix(prefix):
            logger.record_tabular("NewCompletedTrajs", self._new_completed_trajs)
            steps = sum(info["Length"] for info in self._traj_infos)
            logger.record_tabular("StepsInTrajWindow", steps)
        self._new_completed_trajs = 0
        super().log_diagnostics(itr, prefix=prefix)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the run needs to go on, the window of trajectories included."""
        return {
            **super().state_dict(),
            "traj_infos": [dict(info) for info in self._traj_infos],
            "new_completed_trajs": self._new_completed_trajs,
        }

    def _resume(self, state: dict[str, Any]) -> None:
        super()._resume(state)
        self._traj_infos.extend(AttrDict(info) for info in state["traj_infos"])
        self._new_completed_trajs = state["new_completed_trajs"]

    def _measure_and_log(self, itr: int) -> None:
        self.log_diagnostics(itr)


class MinibatchRlEval(MinibatchRlBase):
    """Measures performance offline: evaluates the agent at the start and before each log row."""

    _eval = True

    def evaluate_agent(self, itr: int) -> tuple[list[Any], float]:
        """Run one evaluation.

        Returns:
            The completed trajectory infos, and the time it took in seconds.
        """
        if itr < self.min_itr_learn - 1 and itr != 0:
            return [], 0.0
        logger.log("Evaluating agent...")
        self.agent.eval_mode(itr)
        start = time.time()
        traj_infos = self.sampler.evaluate_agent(itr)
        eval_time = time.time() - start
        logger.log("Evaluation runs complete.")
        self._notify("on_eval", itr, traj_infos)
        return traj_infos, eval_time

    def log_diagnostics(  # type: ignore[override]
        self,
        itr: int,
        eval_traj_infos: Sequence[Any],
        eval_time: float,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Write one row, its performance measured on the trajectories of an evaluation."""
        if not eval_traj_infos:
            logger.log("WARNING: no complete trajectories in the evaluation: raise eval_max_steps.")
        self._cum_eval_time += eval_time
        with logger.tabular_prefix(prefix):
            steps = sum(info["Length"] for info in eval_traj_infos)
            logger.record_tabular("StepsInEval", steps)
            logger.record_tabular("TrajsInEval", len(eval_traj_infos))
            logger.record_tabular("CumEvalTime", self._cum_eval_time)
        super().log_diagnostics(itr, eval_traj_infos, eval_time, prefix=prefix)

    def _evaluate_before_training(self) -> None:
        if self.start_itr == 0:
            with logger.prefix("itr #0 "):
                self._measure_and_log(0)

    def _measure_and_log(self, itr: int) -> None:
        self.log_diagnostics(itr, *self.evaluate_agent(itr))
