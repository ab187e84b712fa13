"""Checks of settings, of those which an algorithm has: constructors of subclasses may drop some."""

from __future__ import annotations

from typing import Any

from rlpyt.utils.logging import logger

# Who replaces one of them may train on what the library's own losses cannot.
METHODS_OF_THE_LOSS = (
    "loss",
    "q_loss",
    "_get_loss_values",
    "_apply_optimization",
    "optimize_agent",
)
# Likewise of batches which hold blank steps.
METHODS_OF_THE_STORE = ("initialize_replay_buffer", "optimize_agent")


def at_least_one(name: str, value: float) -> int:
    """``value`` as an integer.

    Raises:
        ValueError: if it is less than 1.
    """
    if value < 1:
        raise ValueError(f"{name} is {value}: make it at least 1")
    return int(value)


def check_at_least_one(algo: Any, *names: str) -> None:
    """Raise ``ValueError`` if a setting of ``algo`` is less than 1."""
    for name in names:
        at_least_one(name, getattr(algo, name, 1))


def check_positive(algo: Any, name: str, remedy: str = "make it positive") -> None:
    """Raise ``ValueError`` if the setting of ``algo`` is not positive; it may be None."""
    value = getattr(algo, name, None)
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}: {remedy}")


def check_fraction(algo: Any, name: str) -> None:
    """Raise ``ValueError`` if the setting of ``algo`` is outside [0, 1]."""
    value = getattr(algo, name, 1)
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}: choose a number in [0, 1]")


def check_resets_at_once(algo: Any) -> None:
    """Raise ``ValueError`` if batches hold steps after the end of an episode."""
    if not algo.mid_batch_reset:
        raise ValueError(
            f"mid_batch_reset is False, but {type(algo).__name__} trains on every step of a "
            "batch: use a sampler whose collector resets environments at once, such as "
            "CpuResetCollector"
        )


def check_range_of_returns(algo: Any) -> None:
    """Raise ``ValueError`` unless ``V_min`` is less than ``V_max``."""
    if not algo.V_min < algo.V_max:
        raise ValueError(f"V_min is {algo.V_min} and V_max is {algo.V_max}: make V_max the greater")


def check_gives_distributions(algo: Any, AgentCls: str, AlgoCls: str) -> None:
    """Raise ``ValueError`` unless the agent gives distributions of returns.

    Args:
        algo: the algorithm.
        AgentCls: an agent which does.
        AlgoCls: an algorithm which needs none.
    """
    if not hasattr(algo.agent, "give_V_min_max"):
        raise ValueError(
            f"{type(algo).__name__} needs an agent which gives distributions of returns and has "
            f"give_V_min_max(), but the agent is {type(algo.agent).__name__}: use one such as "
            f"{AgentCls}, or {AlgoCls}"
        )


def check_replay_size(algo: Any, n_samplers: int) -> None:
    """Compare the storage of a replay algorithm with what has to fit in.

    Raises:
        ValueError: if a batch of the sampler, or one to train on, does not.
    """
    if not hasattr(algo, "replay_size"):
        return
    for what, size in (
        ("one training batch", algo.batch_size),
        (f"one sampler batch {tuple(algo.batch_spec)}", algo.sampler_bs),
    ):
        if algo.replay_size < size:
            raise ValueError(
                f"replay_size is {algo.replay_size:g}, less than {what} ({size:g}): make it "
                "larger, or that smaller"
            )
    first_steps = algo.min_steps_learn / n_samplers
    if algo.replay_size < first_steps:
        logger.log(
            f"WARNING: replay_size is {algo.replay_size:g}, less than min_steps_learn of this "
            f"process ({first_steps:g}): the first steps are gone before training starts"
        )
