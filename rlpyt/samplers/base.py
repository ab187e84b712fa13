"""What every sampler is told, and what it does for the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from rlpyt.core.records import BatchSpec, TrajInfo
from rlpyt.samplers._step_loop import LocalActions
from rlpyt.samplers.async_.collectors import DoubleBufferCollectorMixin
from rlpyt.samplers.collectors import LoopCollector
from rlpyt.samplers.eval_collectors import LoopEvalCollector
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.utils._subclassing import class_overrides
from rlpyt.utils.quick_args import save__init__args

# Evaluation environments draw from other random streams than those trained in.
EVAL_SEED_OFFSET = 1_000_000

EnvKwargs = Union[
    Mapping[str, Any], Sequence[Mapping[str, Any]], Callable[[int], Mapping[str, Any]]
]


_EVALUATION = {
    SerialEvalCollector: "evaluates in the process of the sampler",
    CpuEvalCollector: "evaluates in a worker, in which the agent acts",
    GpuEvalCollector: "evaluates in a worker, to which actions are served",
    VectorEvalCollector: "evaluates in a vector environment",
}


class BaseSampler:
    """Gives the runner batches of samples [T,B], and evaluates the agent.

    Args:
        EnvCls: makes an environment from ``env_kwargs``: a class or a function.
        env_kwargs: of every training environment; or a list of such, one for each of the batch; or
            a function which returns them for the index of an environment over all processes.
        batch_T: time steps of a batch.
        batch_B: environments, stepped in parallel or in turn.
        CollectorCls: steps the environments; its ``mid_batch_reset`` is read here.
        max_decorrelation_steps: random steps at the start, at most so many in each environment.
        TrajInfoCls: statistics of a trajectory.
        eval_n_envs: evaluation environments; 0 for none.
        eval_CollectorCls: steps the evaluation environments; None for the usual one.
        eval_env_kwargs: of every evaluation environment, likewise; ``env_kwargs`` if None, and if
            these are a list, the first ones of it, again from the start if they are too few.
        eval_max_steps: environment steps of one evaluation, over all its environments.
        eval_max_trajectories: an evaluation ends after the time step at which so many were
            completed, which favours short ones; None for no such limit.
        record_next_observation: also record what the environment returned for each action, as
            ``samples.env.next_observation`` [T,B,...], even where it was reset afterwards.
        eval_n_episodes: an evaluation is exactly so many trajectories, spread evenly over its
            environments before it starts, so that short ones are not favoured; then
            ``eval_max_steps`` may be None.

    Raises:
        ValueError: for sizes below 1, or settings which exclude each other.
    """

    alternating = False

    EnvCls: Any
    env_kwargs: EnvKwargs
    CollectorCls: Any
    max_decorrelation_steps: int
    TrajInfoCls: Any
    eval_n_envs: int
    eval_CollectorCls: Any
    eval_env_kwargs: EnvKwargs | None
    eval_max_steps: int | None
    eval_max_trajectories: int | None

    # Those of the library which can work in this sampler, for training and evaluation.
    _fitting_collectors: tuple[Any, Any]

    # Subclasses may call this constructor with the positional arguments only, or not at all.
    record_next_observation = False
    eval_n_episodes: int | None = None

    def __init__(
        self,
        EnvCls: Any,
        env_kwargs: EnvKwargs,
        batch_T: int,
        batch_B: int,
        CollectorCls: Any,
        max_decorrelation_steps: int = 100,
        TrajInfoCls: Any = TrajInfo,
        eval_n_envs: int = 0,
        eval_CollectorCls: Any = None,
        eval_env_kwargs: EnvKwargs | None = None,
        eval_max_steps: float | None = None,
        eval_max_trajectories: float | None = None,
        *,
        record_next_observation: bool = False,
        eval_n_episodes: float | None = None,
    ) -> None:
        batch_T, batch_B = whole("batch_T", batch_T), whole("batch_B", batch_B)
        eval_n_envs = whole("eval_n_envs", eval_n_envs)
        eval_max_steps = None if eval_max_steps is None else int(eval_max_steps)
        eval_max_trajectories = (
            None if eval_max_trajectories is None else int(eval_max_trajectories)
        )
        save__init__args(locals())
        self.record_next_observation = record_next_observation
        self.eval_n_episodes = None if eval_n_episodes is None else int(eval_n_episodes)
        self.batch_spec = BatchSpec(batch_T, batch_B)
        if not hasattr(CollectorCls, "mid_batch_reset"):
            raise TypeError(
                f"CollectorCls is {CollectorCls!r}: give a collector class, which says in its "
                "attribute mid_batch_reset whether finished environments are reset within a batch"
            )
        self.mid_batch_reset: bool = CollectorCls.mid_batch_reset
        for name, size in (("batch_T", batch_T), ("batch_B", batch_B)):
            if size < 1:
                raise ValueError(f"{name} is {size}: a sampler batch needs at least 1")
        if isinstance(env_kwargs, (list, tuple)) and len(env_kwargs) != batch_B:
            raise ValueError(
                f"env_kwargs is a list of {len(env_kwargs)} with batch_B {batch_B}: give one for "
                "each environment, or one dict for all"
            )

    def _check_settings(self) -> None:
        """For the samplers of the library: refuse now what would fail later, or in a worker."""
        CollectorCls, eval_CollectorCls = self._fitting_collectors
        if self.eval_CollectorCls is None:
            self.eval_CollectorCls = eval_CollectorCls
        check_collectors(self, CollectorCls, eval_CollectorCls)
        for name in ("max_decorrelation_steps", "eval_n_envs"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 for none, or more")
        check_env_arguments(self.EnvCls, self.env_kwargs, self.eval_env_kwargs)
        self._check_evaluation()

    def _check_evaluation(self) -> None:
        """Every evaluation environment is to get a share of the limits."""
        n_episodes = self.eval_n_episodes
        if n_episodes is not None and (n_episodes < 1 or self.eval_max_trajectories is not None):
            raise ValueError(
                f"eval_n_episodes is {n_episodes} and eval_max_trajectories is "
                f"{self.eval_max_trajectories}: give one of them, and at least 1"
            )
        if self.eval_n_envs < 1:
            return
        if self.eval_max_trajectories is not None and self.eval_max_trajectories < 1:
            raise ValueError(
                f"eval_max_trajectories is {self.eval_max_trajectories}: give at least 1, or None "
                "for no limit but that of eval_max_steps"
            )
        if n_episodes is not None:
            check_counts_episodes(self.eval_CollectorCls, n_episodes)
            if self.eval_max_steps is None:
                return
        if (self.eval_max_steps or 0) < self.eval_n_envs:
            raise ValueError(
                f"eval_max_steps is {self.eval_max_steps} with eval_n_envs {self.eval_n_envs}: it "
                "is the total over the evaluation environments, so give at least one step to each"
            )

    def _check_started(self, to_evaluate: bool = False) -> None:
        """Raise an error unless there is an agent, and something to evaluate it in."""
        if to_evaluate and self.eval_n_envs < 1:
            raise ValueError(
                f"eval_n_envs is {self.eval_n_envs}, so there is nothing to evaluate in: give the "
                "sampler eval_n_envs >= 1, eval_env_kwargs and eval_max_steps"
            )
        if not hasattr(self, "agent"):
            raise RuntimeError(
                f"{type(self).__name__} has neither environments nor an agent yet: call "
                "initialize(agent) first"
            )

    def _eval_quota(self) -> list[int] | None:
        """Trajectories of each evaluation environment, if their number is given."""
        if self.eval_n_episodes is None:
            return None
        each, extra = divmod(self.eval_n_episodes, self.eval_n_envs)
        return [each + (b < extra) for b in range(self.eval_n_envs)]

    def _eval_time_limit(self) -> int | None:
        """Time steps of one evaluation in each of its environments; None for no limit."""
        return None if self.eval_max_steps is None else self.eval_max_steps // self.eval_n_envs

    def initialize(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Make environments and buffers, and initialize the agent; return the examples."""
        raise NotImplementedError

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Return a batch and the trajectory infos completed in it.

        The batch is the same buffer each time: its contents are overwritten by the next call.
        """
        raise NotImplementedError

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Return the trajectory infos of one evaluation."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Let go of environments and processes."""

    def state_dict(self) -> dict[str, Any]:
        """Return all the sampler would need to go on."""
        raise NotImplementedError(f"{type(self).__name__} cannot hand out its state")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``, after ``initialize``."""
        raise NotImplementedError(f"{type(self).__name__} cannot take its state back")

    @property
    def batch_size(self) -> int:
        """Environment steps in one batch, T * B."""
        return self.batch_spec.size


def make_env(EnvCls: Any, env_kwargs: EnvKwargs, index: int, global_index: int) -> Any:
    """Make one environment.

    Args:
        EnvCls: class or function.
        env_kwargs: keyword arguments, in any of the three ways to give them.
        index: in the batch.
        global_index: over all processes.
    """
    if isinstance(env_kwargs, Mapping):
        kwargs = env_kwargs
    elif callable(env_kwargs):
        kwargs = env_kwargs(global_index)
    else:
        kwargs = env_kwargs[index % len(env_kwargs)]
    return EnvCls(**kwargs)


def configure_traj_infos(TrajInfoCls: Any, traj_info_kwargs: Mapping[str, Any] | None) -> None:
    """Set attributes ``_<name>`` of the class of trajectory infos, such as ``_discount``.

    Args:
        TrajInfoCls: class of the trajectory infos.
        traj_info_kwargs: values by name; None for none.
    """
    for name, value in (traj_info_kwargs or {}).items():
        setattr(TrajInfoCls, "_" + name, value)


def whole(name: str, number: Any) -> int:
    """``number`` as an integer; scripts give floats as well.

    Raises:
        ValueError: if it is none; ``name`` is that of the argument.
    """
    if int(number) != number:
        raise ValueError(f"{name} is {number}: give a whole number")
    return int(number)


def check_env_arguments(EnvCls: Any, env_kwargs: Any, eval_env_kwargs: Any) -> None:
    """Raise ``TypeError`` if no environment could be made from these arguments of a sampler."""
    if not callable(EnvCls):
        raise TypeError(
            f"EnvCls is {EnvCls!r}: give the class of the environments, or a function which makes "
            "one from env_kwargs"
        )
    _check_env_kwargs("env_kwargs", env_kwargs)
    if eval_env_kwargs is not None:
        _check_env_kwargs("eval_env_kwargs", eval_env_kwargs)


def _check_env_kwargs(name: str, env_kwargs: Any) -> None:
    if isinstance(env_kwargs, Mapping) or callable(env_kwargs):
        return
    is_list = isinstance(env_kwargs, (list, tuple)) and len(env_kwargs) > 0
    if not is_list or not all(isinstance(kwargs, Mapping) for kwargs in env_kwargs):
        raise TypeError(
            f"{name} is {env_kwargs!r}: give a dict of keyword arguments ({{}} for none), a list "
            "of such with one for each environment, or a function of the environment's index"
        )


def check_collectors(sampler: Any, CollectorCls: Any, eval_CollectorCls: Any) -> None:
    """Raise ``ValueError`` if the sampler's collectors are of a kind for other samplers.

    Those which are no variants of the library's are taken as they are.

    Args:
        sampler: has its settings.
        CollectorCls: one of the library which fits.
        eval_CollectorCls: likewise, of evaluation.
    """
    _check("CollectorCls", sampler, CollectorCls, _batch_kind)
    _check("eval_CollectorCls", sampler, eval_CollectorCls, _evaluation_kind)


def _check(name: str, sampler: Any, fitting: Any, kind_of: Any) -> None:
    given = getattr(sampler, name)
    kind = kind_of(given) if isinstance(given, type) else None
    if kind is not None and not kind_of(fitting).startswith(kind):
        raise ValueError(
            f"{name} is {given.__name__}, which {kind}, but in {type(sampler).__name__} it has to "
            f"be one which {kind_of(fitting)}, such as {fitting.__name__}"
        )


def _batch_kind(CollectorCls: type) -> str | None:
    """What a collector of training does, as far as is known; None if it is no variant of ours."""
    if issubclass(CollectorCls, VectorResetCollector):
        return "steps a vector environment"
    if not issubclass(CollectorCls, LoopCollector):
        return None
    is_local = issubclass(CollectorCls.actions, LocalActions)
    actions = "steps where the agent acts" if is_local else "steps where actions are served"
    if class_overrides(CollectorCls, "collect_batch"):
        return actions  # It may choose the batch by itself.
    is_double = issubclass(CollectorCls, DoubleBufferCollectorMixin)
    return f"{actions}, and writes into {'two batches in turn' if is_double else 'one batch'}"


def _evaluation_kind(CollectorCls: type) -> str | None:
    return next((kind for Cls, kind in _EVALUATION.items() if issubclass(CollectorCls, Cls)), None)


def check_recurrence(sampler: Any, agent: Any) -> None:
    """Raise ``TypeError`` if a recurrent agent keeps another number of states than it needs."""
    name = type(agent).__name__
    if not agent.recurrent or agent.alternating == sampler.alternating:
        return
    if sampler.alternating:
        raise TypeError(
            f"{name} keeps one recurrent state, but alternating sampling needs one for each half: "
            "use the agent of the same name with 'Alternating' in front, or GpuSampler"
        )
    raise TypeError(
        f"{name} keeps one recurrent state for each half of the environments, but "
        f"{type(sampler).__name__} steps all together: use the agent of the same name without "
        "'Alternating', or an alternating sampler"
    )


def check_counts_episodes(eval_CollectorCls: Any, eval_n_episodes: int) -> None:
    """Raise ``ValueError`` if a collector cannot run exactly ``eval_n_episodes``."""
    counting = (LoopEvalCollector, VectorEvalCollector)
    is_class = isinstance(eval_CollectorCls, type)
    if not is_class or not issubclass(eval_CollectorCls, counting):
        raise ValueError(
            f"eval_n_episodes is {eval_n_episodes}, but {eval_CollectorCls} does not know how to "
            "count episodes: use an evaluation collector of the library, or eval_max_trajectories"
        )
