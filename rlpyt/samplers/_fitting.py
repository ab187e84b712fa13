"""Whether collectors and agent can work in a sampler; looked at before anything is started."""

from __future__ import annotations

from typing import Any

from rlpyt.samplers._actions import LocalActions
from rlpyt.samplers._loop_collectors import LoopCollector, LoopEvalCollector
from rlpyt.samplers.async_.collectors import DoubleBufferCollectorMixin
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector
from rlpyt.samplers.parallel.gpu.collectors import GpuEvalCollector
from rlpyt.samplers.serial.collectors import SerialEvalCollector
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.utils._subclassing import class_overrides

_EVALUATION = {
    SerialEvalCollector: "evaluates in the process of the sampler",
    CpuEvalCollector: "evaluates in a worker, in which the agent acts",
    GpuEvalCollector: "evaluates in a worker, to which actions are served",
    VectorEvalCollector: "evaluates in a vector environment",
}


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
