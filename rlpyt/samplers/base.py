"""Base class of all samplers: arguments and their checks, and the interface of the runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec, TrajInfo
from rlpyt.core.statistics import Statistics
from rlpyt.samplers._env_statistics import SharedStatistics
from rlpyt.utils.quick_args import ConstructorSignature, whole_number
from rlpyt.utils.types import Nested

# Descriptions of collectors of each ``kind``, for the error of a sampler that needs another.
_DESCRIPTIONS = {
    "local": "steps where the agent acts",
    "served": "steps where actions are served",
    "vector": "steps a vector environment",
    "device": "steps a vector environment of tensors",
    "local evaluation": "evaluates in the process of the sampler",
    "local evaluation in a worker": "evaluates in a worker, in which the agent acts",
    "served evaluation": "evaluates in a worker, to which actions are served",
    "vector evaluation": "evaluates in a vector environment",
    "device evaluation": "evaluates in a vector environment of tensors",
}

EnvKwargs = Union[
    Mapping[str, Any], Sequence[Mapping[str, Any]], Callable[[int], Mapping[str, Any]]
]


class BaseSampler:
    """Base class of samplers, which return batches [T,B] to the runner and evaluate the agent.

    Args:
        EnvCls: class of the environments, or function that makes one from ``env_kwargs``.
        env_kwargs: keyword arguments of every training environment; or a list with the arguments of
            each; or a function that returns them for an environment's index, counted over all
            processes.
        batch_T: number of time steps in a batch.
        batch_B: number of environments, stepped in parallel or in turn.
        CollectorCls: class that steps the environments; its ``mid_batch_reset`` is read here.
        max_decorrelation_steps: largest number of random steps in each environment at the start.
        TrajInfoCls: class of a trajectory's statistics.
        eval_n_envs: number of evaluation environments; 0 for none.
        eval_CollectorCls: class that steps the evaluation environments; None for the usual one.
        eval_env_kwargs: keyword arguments of the evaluation environments, in any form of
            ``env_kwargs``; None for ``env_kwargs`` itself. If that is a list, its first entries are
            used, and repeated if there are too few.
        eval_max_steps: number of environment steps in one evaluation, over all its environments.
        eval_max_trajectories: number of completed trajectories after which an evaluation ends,
            which favours short ones; None for no such limit.
        record_next_observation: whether to also record, as ``samples.env.next_observation``
            [T,B,...], the observation after each action, even where the environment was then reset.
        eval_n_episodes: exact number of trajectories in an evaluation, spread evenly over its
            environments before it starts, so that short ones are not favoured; then
            ``eval_max_steps`` may be None.

    Raises:
        TypeError: if no environment or collector can be made from the arguments.
        ValueError: if a size is below 1, or settings exclude each other.
    """

    __signature__ = ConstructorSignature()

    alternating = False
    samples_np: Nested = None

    # Collectors of the library that work in this sampler, for training and evaluation, if known.
    _fitting_collectors: tuple[Any, ...] = ()

    agent: AgentLike | None = None
    _statistics: SharedStatistics | None = None  # Of environments in other processes, if any.

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
        self.EnvCls = EnvCls
        self.env_kwargs = env_kwargs
        self.batch_T = whole_number("batch_T", batch_T, rounds_down=False)
        self.batch_B = whole_number("batch_B", batch_B, rounds_down=False)
        self.batch_spec = BatchSpec(self.batch_T, self.batch_B)
        self.CollectorCls = CollectorCls
        self.max_decorrelation_steps = max_decorrelation_steps
        self.TrajInfoCls = TrajInfoCls
        self.eval_n_envs = whole_number("eval_n_envs", eval_n_envs, at_least=0, rounds_down=False)
        self.eval_CollectorCls = eval_CollectorCls
        self.eval_env_kwargs = eval_env_kwargs
        self.eval_max_steps = _optional_int(eval_max_steps)
        self.eval_max_trajectories = _optional_int(eval_max_trajectories)
        self.record_next_observation = record_next_observation
        self.eval_n_episodes = _optional_int(eval_n_episodes)
        if not hasattr(CollectorCls, "mid_batch_reset"):
            raise TypeError(
                f"CollectorCls is {CollectorCls!r}: give a collector class, with "
                "mid_batch_reset True if finished environments are reset within a batch"
            )
        self.mid_batch_reset: bool = CollectorCls.mid_batch_reset
        if isinstance(env_kwargs, (list, tuple)) and len(env_kwargs) != self.batch_B:
            raise ValueError(
                f"env_kwargs is a list of {len(env_kwargs)} with batch_B {self.batch_B}: give one "
                "for each environment, or one dict for all"
            )

    def _check_settings(self) -> None:
        """Refuse settings of the library's samplers that would fail later, or in a worker."""
        if self.eval_CollectorCls is None and self._fitting_collectors:
            self.eval_CollectorCls = self._fitting_collectors[1]
        self._check_collectors()
        if self.max_decorrelation_steps < 0:
            raise ValueError(
                f"max_decorrelation_steps is {self.max_decorrelation_steps}: make it at least 0"
            )
        if not callable(self.EnvCls):
            raise TypeError(
                f"EnvCls is {self.EnvCls!r}: give the class of the environments, or a function "
                "that makes one from env_kwargs"
            )
        _check_env_kwargs("env_kwargs", self.env_kwargs)
        if self.eval_env_kwargs is not None:
            _check_env_kwargs("eval_env_kwargs", self.eval_env_kwargs)
        self._check_evaluation()

    def _check_collectors(self) -> None:
        """Refuse collectors of the library that are made for other samplers."""
        for name, fitting in zip(("CollectorCls", "eval_CollectorCls"), self._fitting_collectors):
            given = getattr(self, name)
            kind, needed = kind_of(given), fitting.kind
            is_used = name == "CollectorCls" or self.eval_n_envs > 0
            if is_used and kind is not None and kind != needed:
                raise ValueError(
                    f"{name} is {given.__name__}, which {_DESCRIPTIONS.get(kind, kind)}, but "
                    f"{type(self).__name__} needs one that {_DESCRIPTIONS[needed]}, such as "
                    f"{fitting.__name__}"
                )

    def _check_evaluation(self) -> None:
        """Refuse limits that leave an evaluation environment without a share."""
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
                "for no limit other than eval_max_steps"
            )
        if n_episodes is not None:
            if kind_of(self.eval_CollectorCls) is None:
                raise ValueError(
                    f"eval_n_episodes is {n_episodes}, but {self.eval_CollectorCls} cannot count "
                    "episodes: use an evaluation collector of the library, or "
                    "eval_max_trajectories"
                )
            if self.eval_max_steps is None:
                return
        if (self.eval_max_steps or 0) < self.eval_n_envs:
            raise ValueError(
                f"eval_max_steps is {self.eval_max_steps} with eval_n_envs {self.eval_n_envs}: it "
                "is the total over the evaluation environments, so give at least one step to each"
            )

    def _check_started(self, to_evaluate: bool = False) -> None:
        """Raise an error unless there is an agent, and an environment to evaluate it in."""
        if to_evaluate and self.eval_n_envs < 1:
            raise ValueError(
                f"eval_n_envs is {self.eval_n_envs}, so there is nothing to evaluate in: give the "
                "sampler eval_n_envs >= 1, eval_env_kwargs and eval_max_steps"
            )
        if self.agent is None:
            raise RuntimeError(
                f"{type(self).__name__} has neither environments nor an agent yet: call "
                "initialize(agent) first"
            )

    def _eval_quota(self) -> list[int] | None:
        """Return each evaluation environment's number of trajectories, if it is given."""
        if self.eval_n_episodes is None or self.eval_n_envs < 1:
            return None
        each, extra = divmod(self.eval_n_episodes, self.eval_n_envs)
        return [each + (b < extra) for b in range(self.eval_n_envs)]

    def _eval_time_limit(self) -> int | None:
        """Return the time steps of one evaluation in each environment; None for no limit."""
        return None if self.eval_max_steps is None else self.eval_max_steps // self.eval_n_envs

    def _example_env(self, first: int = 0) -> Any:
        """Make the environment with index ``first``, to find out what the batches hold."""
        return make_env(self.EnvCls, self.env_kwargs, 0, first)

    def initialize(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Make environments and buffers, and initialize the agent; return the examples."""
        raise NotImplementedError

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Return a batch and the trajectory infos completed in it.

        The batch is the same buffer each time: its contents are overwritten by the next call.
        """
        raise NotImplementedError

    def take_restarted(self) -> list[int]:
        """Return the columns of the last batch that do not continue the previous batch.

        Their workers were restarted. Every column is returned once.
        """
        return []

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Return the trajectory infos of one evaluation."""
        raise NotImplementedError

    def stop_evaluation(self) -> None:
        """End the running evaluation after its next step; a signal handler calls it."""

    def env_statistics(self) -> Statistics:
        """Return the running statistics of all training environments, merged by count, by name."""
        return {} if self._statistics is None else self._statistics.merged()

    def shutdown(self) -> None:
        """Close environments and end processes."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which :meth:`load_state_dict` continues."""
        raise NotImplementedError(f"{type(self).__name__} has no state_dict()")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``, after ``initialize``."""
        raise NotImplementedError(f"{type(self).__name__} has no load_state_dict()")

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        """Return the environments that begin a new episode when ``state`` is loaded.

        Args:
            state: result of :meth:`state_dict`.

        Returns:
            The reason why an environment has no state in ``state``, by its column in the batch.
        """
        return {}

    @property
    def batch_size(self) -> int:
        """Environment steps in one batch, T * B."""
        return self.batch_spec.size


def kind_of(CollectorCls: Any) -> str | None:
    """Return the kind of a collector class from the library; None for other classes."""
    return getattr(CollectorCls, "kind", None)


def make_env(EnvCls: Any, env_kwargs: EnvKwargs, index: int, global_index: int) -> Any:
    """Make one environment.

    Args:
        EnvCls: class of the environment, or function that makes it.
        env_kwargs: keyword arguments, in any form that samplers take.
        index: index of the environment in the batch.
        global_index: index of the environment over all processes.
    """
    if isinstance(env_kwargs, Mapping):
        kwargs = env_kwargs
    elif callable(env_kwargs):
        kwargs = env_kwargs(global_index)
    else:
        kwargs = env_kwargs[index % len(env_kwargs)]
    env = EnvCls(**kwargs)
    if not hasattr(env, "spaces"):
        raise TypeError(
            f"EnvCls is {EnvCls!r}, which makes {env}: give one that makes environments of this "
            "library, such as rlpyt.envs.gym.make, or wrap yours in rlpyt.envs.gym.GymEnvWrapper"
        )
    return env


def _optional_int(number: float | None) -> int | None:
    return None if number is None else int(number)


def configure_traj_infos(TrajInfoCls: Any, traj_info_kwargs: Mapping[str, Any] | None) -> None:
    """Set attributes ``_<name>`` of the trajectory info class, such as ``_discount``.

    Args:
        TrajInfoCls: class of the trajectory infos.
        traj_info_kwargs: values by name; None to set none.
    """
    for name, value in (traj_info_kwargs or {}).items():
        setattr(TrajInfoCls, "_" + name, value)


def set_alternation(sampler: BaseSampler, agent: AgentLike) -> None:
    """Set whether ``agent`` acts for two halves of the environments in turn.

    Raises:
        TypeError: if a recurrent agent keeps another number of states than it needs.
    """
    if not agent.recurrent:
        agent.alternating = sampler.alternating
    if agent.alternating == sampler.alternating:
        return
    if sampler.alternating:
        raise TypeError(
            f"{type(agent).__name__} keeps one recurrent state, but alternating sampling needs one "
            "for each half: use the agent of the same name with 'Alternating' in front, or "
            "GpuSampler"
        )
    raise TypeError(
        f"{type(agent).__name__} keeps one recurrent state for each half of the environments, but "
        f"{type(sampler).__name__} steps all together: use the agent of the same name without "
        "'Alternating', or an alternating sampler"
    )


def _check_env_kwargs(name: str, env_kwargs: Any) -> None:
    if isinstance(env_kwargs, Mapping) or callable(env_kwargs):
        return
    is_list = isinstance(env_kwargs, (list, tuple)) and len(env_kwargs) > 0
    if not is_list or not all(isinstance(kwargs, Mapping) for kwargs in env_kwargs):
        raise TypeError(
            f"{name} is {env_kwargs!r}: give a dict of keyword arguments ({{}} for none), a list "
            "with one dict for each environment, or a function of the environment's index"
        )
