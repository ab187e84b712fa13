"""What every sampler is told, and what it does for the runner."""

from __future__ import annotations

from typing import Any

from rlpyt.core.records import BatchSpec, TrajInfo
from rlpyt.utils.quick_args import save__init__args


class BaseSampler:
    """Gives the runner batches of samples [T,B], and evaluates the agent.

    Args:
        EnvCls: makes an environment from ``env_kwargs``: a class or a function.
        env_kwargs: of every training environment.
        batch_T: time steps of a batch.
        batch_B: environments, stepped in parallel or in turn.
        CollectorCls: steps the environments; its ``mid_batch_reset`` is read here.
        max_decorrelation_steps: random steps at the start, at most so many in each environment.
        TrajInfoCls: statistics of a trajectory.
        eval_n_envs: evaluation environments; 0 for none.
        eval_CollectorCls: steps the evaluation environments.
        eval_env_kwargs: of every evaluation environment; those of training if None.
        eval_max_steps: environment steps of one evaluation, over all its environments.
        eval_max_trajectories: of one evaluation; None for no such limit.
        record_next_observation: also record what the environment returned for each action, as
            ``samples.env.next_observation`` [T,B,...], even where it was reset afterwards.

    Raises:
        ValueError: for sizes below 1.
    """

    alternating = False

    EnvCls: Any
    env_kwargs: dict[str, Any]
    CollectorCls: Any
    max_decorrelation_steps: int
    TrajInfoCls: Any
    eval_n_envs: int
    eval_CollectorCls: Any
    eval_env_kwargs: dict[str, Any] | None
    eval_max_steps: int
    eval_max_trajectories: int | None
    record_next_observation = False

    def __init__(
        self,
        EnvCls: Any,
        env_kwargs: dict[str, Any],
        batch_T: int,
        batch_B: int,
        CollectorCls: Any,
        max_decorrelation_steps: int = 100,
        TrajInfoCls: Any = TrajInfo,
        eval_n_envs: int = 0,
        eval_CollectorCls: Any = None,
        eval_env_kwargs: dict[str, Any] | None = None,
        eval_max_steps: float | None = None,
        eval_max_trajectories: float | None = None,
        *,
        record_next_observation: bool = False,
    ) -> None:
        eval_max_steps = None if eval_max_steps is None else int(eval_max_steps)
        eval_max_trajectories = (
            None if eval_max_trajectories is None else int(eval_max_trajectories)
        )
        save__init__args(locals())
        self.record_next_observation = record_next_observation
        self.batch_spec = BatchSpec(batch_T, batch_B)
        self.mid_batch_reset: bool = CollectorCls.mid_batch_reset
        for name, size in (("batch_T", batch_T), ("batch_B", batch_B)):
            if size < 1:
                raise ValueError(f"{name} is {size}: a sampler batch needs at least 1")

    def _check_eval_max_steps(self) -> None:
        """For samplers which give every evaluation environment its share of ``eval_max_steps``."""
        if self.eval_n_envs > 0 and (self.eval_max_steps or 0) < self.eval_n_envs:
            raise ValueError(
                f"eval_max_steps is {self.eval_max_steps} with eval_n_envs {self.eval_n_envs}: it "
                "is the total over the evaluation environments, so give at least one step to each"
            )

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
