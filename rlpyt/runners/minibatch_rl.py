"""The synchronous loop: sample a batch, learn from it, again; log now and then.

The two runners differ in where performance is measured: online, over a window of the trajectories
which the training batches completed, or offline, in evaluation environments before each log row.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.runners._diagnostics import Interval, logged_fields, opt_values
from rlpyt.runners._process import prepare_process
from rlpyt.runners.base import BaseRunner
from rlpyt.runners.callbacks import Callback
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import make_seed, rng_state, set_rng_state, set_seed


class MinibatchRlBase(BaseRunner):
    """The loop, its start and end, its log and snapshots.

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

    _eval = False

    algo: Any
    agent: Any
    sampler: Any
    n_steps: int
    seed: int | None
    affinity: Mapping[str, Any]
    log_interval_steps: int
    rank = 0
    world_size = 1
    start_itr = 0
    callbacks: Sequence[Callback] = ()
    pbar: ProgBarCounter | None = None

    # Subclasses may replace ``__init__`` or ``initialize_logging``: every counter has a start here.
    _traj_infos: Any = ()
    _cum_eval_time = 0.0
    _cum_completed_trajs = 0
    _itr = -1  # the last one which was stored
    _n_itrs_logged = 0
    _stopping = False
    _resume_state: dict[str, Any] | None = None

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
        n_steps = int(n_steps)
        log_interval_steps = int(log_interval_steps)
        affinity = {} if affinity is None else affinity
        save__init__args(locals())
        for name, steps in (("n_steps", n_steps), ("log_interval_steps", log_interval_steps)):
            if steps < 1:
                raise ValueError(f"{name} is {steps}: give at least 1 environment step")
        # Before ``algo.initialize`` this is 0 for the library's algorithms, so that every run is
        # evaluated and logged from its start; an algorithm which sets it earlier is respected.
        self.min_itr_learn: int = getattr(algo, "min_itr_learn", 0)
        self.callbacks = tuple(callbacks or ())

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

    def stop(self) -> None:
        """End the run after the present iteration, with a last log row."""
        self._stopping = True

    # --- Start and end ---------------------------------------------------------------------------

    def startup(self) -> int:
        """Prepare the process, initialize sampler (and agent), algorithm and log.

        Returns:
            The number of iterations.
        """
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
        self.itr_batch_size: int = self.sampler.batch_spec.size * self.world_size
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

    def _shutdown_after_failure(self) -> None:
        """Shut down what was started; the error which is shown stays the one that came first."""
        try:
            self.shutdown()
        except Exception:
            logger.log(f"WARNING: shutdown failed as well:\n{traceback.format_exc()}")

    def get_traj_info_kwargs(self) -> dict[str, Any]:
        """Attributes for the trajectory info class."""
        return {"discount": getattr(self.algo, "discount", 1)}

    def get_n_itr(self) -> int:
        """Number of iterations: ``n_steps``, rounded up to whole log intervals, at least one."""
        self.log_interval_itrs = max(self.log_interval_steps // self.itr_batch_size, 1)
        n_intervals = -(-(self.n_steps // self.itr_batch_size) // self.log_interval_itrs) or 1
        self.n_itr: int = n_intervals * self.log_interval_itrs
        logger.log(f"Running {self.n_itr} iterations of minibatch RL.")
        return self.n_itr

    def initialize_logging(self) -> None:
        """Set all counters and clocks to their start."""
        self._opt_infos: dict[str, list[Any]] = {k: [] for k in self.algo.opt_info_fields}
        self._start_time = self._last_time = time.time()
        self._cum_time = 0.0
        self._cum_eval_time = 0.0
        self._cum_completed_trajs = 0
        self._last_update_counter = 0
        self._itr = -1
        self._n_itrs_logged = 0
        self.pbar = ProgBarCounter(self.log_interval_itrs)

    def _n_itrs_done(self, itr: int) -> int:
        """Iterations that are over when ``itr`` is logged: none, in an evaluation at the start."""
        return 0 if itr == 0 and self._itr < 0 else itr + 1

    # --- State -----------------------------------------------------------------------------------

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
        """What is saved at each log row, to use the trained agent: tensors and numbers only."""
        return {
            "itr": itr,
            "cum_steps": self._n_itrs_done(itr) * self.itr_batch_size,
            "agent_state_dict": self.agent.state_dict(),
            "optimizer_state_dict": self.algo.optim_state_dict(),
        }

    def save_itr_snapshot(self, itr: int) -> None:
        """Save the snapshot as the logger's snapshot mode says."""
        logger.log("saving snapshot...")
        logger.save_itr_params(itr, self.get_itr_snapshot(itr))
        logger.log("saved")

    def state_dict(self) -> dict[str, Any]:
        """Return all that the run needs to go on after the present iteration, replay included.

        Arrays in it are the live ones: save it before the next iteration.
        """
        return {
            "itr": self._itr,
            "seed": self.seed,
            "rng": rng_state(),
            "agent": self.agent.state_dict(),
            "algo": self.algo.state_dict(),
            "sampler": self.sampler.state_dict(),
            "cum_time": time.time() - self._start_time,
            "time_since_log": time.time() - self._last_time,
            "cum_eval_time": self._cum_eval_time,
            "cum_completed_trajs": self._cum_completed_trajs,
            "last_update_counter": self._last_update_counter,
            "n_itrs_logged": self._n_itrs_logged,
            "opt_infos": self._opt_infos,
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let :meth:`train` go on from ``state`` rather than from the start.

        Call it before ``train``, on a runner made from the same settings; ``n_steps`` may be
        larger. A subclass with a ``train`` of its own begins its loop at ``self.start_itr``, which
        ``startup`` has set by then.
        """
        self._resume_state = state

    def _resume(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.algo.load_state_dict(state["algo"])
        self.sampler.load_state_dict(state["sampler"])
        self._itr = state["itr"]
        self.start_itr = state["itr"] + 1
        now = time.time()
        self._last_time = now - state["time_since_log"]
        self._start_time = now - state["cum_time"]
        self._cum_eval_time = state["cum_eval_time"]
        self._cum_completed_trajs = state["cum_completed_trajs"]
        self._last_update_counter = state["last_update_counter"]
        self._n_itrs_logged = state["n_itrs_logged"]
        self._opt_infos = {name: list(values) for name, values in state["opt_infos"].items()}
        for callback, callback_state in zip(self.callbacks, state["callbacks"]):
            callback.load_state_dict(callback_state)
        # The log may be ahead of the state: those iterations are done again.
        logger.drop_tabular_after("Diagnostics/CumSteps", self.start_itr * self.itr_batch_size)
        # Last, since what was initialized above has drawn from the streams.
        set_rng_state(state["rng"])
        logger.log(f"Resuming after iteration {self._itr}.")

    # --- Diagnostics -----------------------------------------------------------------------------

    def store_diagnostics(self, itr: int, traj_infos: Sequence[Any], opt_info: Any) -> None:
        """Keep what one iteration reports until the next log row."""
        self._cum_completed_trajs += len(traj_infos)
        for name, values in self._opt_infos.items():
            values.extend(opt_values(getattr(opt_info, name, [])))
        self._itr = itr
        if self.pbar is not None:
            self.pbar.update((itr + 1) % self.log_interval_itrs)
        self._notify("on_itr", itr, traj_infos, opt_info)

    def log_diagnostics(
        self,
        itr: int,
        traj_infos: Sequence[Any] | None = None,
        eval_time: float = 0,
        prefix: str = "Diagnostics/",
    ) -> None:
        """Save a snapshot, and write one row of all that is known to the log.

        Args:
            itr: the present iteration.
            traj_infos: whose statistics are logged; None for those of the window.
            eval_time: s, spent in evaluation since the last row.
            prefix: of the keys about the run itself.
        """
        if self.pbar is not None:
            self.pbar.stop()
        if itr >= self.min_itr_learn - 1:
            self.save_itr_snapshot(itr)
        n_itrs_done = self._n_itrs_done(itr)
        cum_steps = n_itrs_done * self.itr_batch_size
        now = time.time()
        updates = self.algo.update_counter
        new_updates = updates - self._last_update_counter
        rates = Interval(
            steps=cum_steps - self._n_itrs_logged * self.itr_batch_size,
            updates=new_updates,
            train_time_s=now - self._last_time - eval_time,
            samples_used=new_updates * getattr(self.algo, "batch_size", 0) * self.world_size,
        ).rates()
        self._cum_time = now - self._start_time
        self._last_time = now
        self._last_update_counter = updates
        self._n_itrs_logged = n_itrs_done

        with logger.tabular_prefix(prefix):
            if self._eval:
                # Known only now that the total time is.
                logger.record_tabular("CumTrainTime", self._cum_time - self._cum_eval_time)
            logger.record_tabular("Iteration", itr)
            logger.record_tabular("CumTime (s)", self._cum_time)
            logger.record_tabular("CumSteps", cum_steps)
            logger.record_tabular("CumCompletedTrajs", self._cum_completed_trajs)
            logger.record_tabular("CumUpdates", updates)
            for name, value in rates.items():
                logger.record_tabular(name, value)
            samples_used = updates * getattr(self.algo, "batch_size", 0) * self.world_size
            logger.record_tabular("CumReplayRatio", samples_used / max(cum_steps, 1))
        infos = self._traj_infos if traj_infos is None else traj_infos
        self._log_infos(traj_infos)
        logger.dump_tabular(with_prefix=False)
        logger.log(f"Optimizing over {self.log_interval_itrs} iterations.")
        self.pbar = ProgBarCounter(self.log_interval_itrs)
        self._notify("on_log", itr, list(infos))

    def _log_infos(self, traj_infos: Sequence[Any] | None = None) -> None:
        """Record the statistics of trajectories, and of all since the last row that was learned."""
        infos = self._traj_infos if traj_infos is None else traj_infos
        for name, values in logged_fields(list(infos)).items():
            logger.record_tabular_misc_stat(name, values)
        for name, values in self._opt_infos.items():
            logger.record_tabular_misc_stat(name, values)
        self._opt_infos = {name: [] for name in self._opt_infos}

    # --- Where performance is measured ------------------------------------------------------------

    def _evaluate_before_training(self) -> None:
        """Log the untrained agent, where that can be done without training samples."""

    def _measure_and_log(self, itr: int) -> None:
        raise NotImplementedError

    def _notify(self, event: str, *args: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)


class MinibatchRl(MinibatchRlBase):
    """Measures performance online, on the last trajectories which training completed.

    Args:
        log_traj_window: number of trajectories.
        **kwargs: of :class:`MinibatchRlBase`.
    """

    def __init__(self, log_traj_window: int = 100, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_traj_window = int(log_traj_window)

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
