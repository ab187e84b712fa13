"""Checks of settings, made at set-up; each error names the setting, its value and the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import whole_number
from rlpyt.utils.types import Nested

if TYPE_CHECKING:
    from rlpyt.algos.base import RlAlgorithm
    from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
    from rlpyt.algos.qpg.d4pg import D4PG
    from rlpyt.algos.replay import ReplayAlgorithm
    from rlpyt.algos.sequences import SequenceReplay

# Training ends after this number of successive updates without a valid sample.
MAX_MASKED_UPDATES = 100
# The log warns if a larger fraction of an iteration's samples is masked.
MANY_MASKED = 0.4


# --- Numbers --------------------------------------------------------------------------------------


def make_whole(algo: RlAlgorithm, *names: str) -> None:
    """Make these settings of ``algo`` integers of at least 1; a JSON configuration has floats.

    Raises:
        ValueError: if a setting is less than 1.
    """
    for name in names:
        value = getattr(algo, name)
        number = whole_number(name, value)
        if number is not value:  # A subclass may compute it in a property.
            setattr(algo, name, number)


def check_positive(algo: RlAlgorithm, name: str, remedy: str = "make it positive") -> None:
    """Raise ``ValueError`` if the setting of ``algo`` is not positive; it may be None."""
    value = getattr(algo, name)
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}: {remedy}")


def check_fraction(algo: RlAlgorithm, *names: str) -> None:
    """Raise ``ValueError`` if one of these settings of ``algo`` is outside [0, 1]."""
    for name in names:
        value = getattr(algo, name)
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}: choose a number in [0, 1]")


def check_range_of_returns(algo: CategoricalDQN | D4PG) -> None:
    """Raise ``ValueError`` unless ``V_min`` is less than ``V_max``."""
    if not algo.V_min < algo.V_max:
        raise ValueError(f"V_min is {algo.V_min} and V_max is {algo.V_max}: make V_max the greater")


def warn_of_range(algo: CategoricalDQN | D4PG, opt_info: Any) -> None:
    """Warn once if more than a tenth of the target probability is on the outermost atoms.

    Args:
        algo: algorithm with ``V_min`` and ``V_max``; the function sets its ``warned_of_range``.
        opt_info: record of one iteration; ``edgeMass``, if present, is the probability of the
            outermost atoms in each update.
    """
    edge_mass = opt_info._asdict().get("edgeMass", ())
    if algo.warned_of_range or not edge_mass or sum(edge_mass) / len(edge_mass) <= 0.1:
        return
    algo.warned_of_range = True
    bounds = ""
    if algo.discount < 1 and isinstance(algo.replay_buffer, BaseNStepReturnBuffer):
        rewards = algo.replay_buffer.samples.reward
        low, high = min(0.0, float(rewards.min())), max(0.0, float(rewards.max()))
        low, high = low / (1 - algo.discount), high / (1 - algo.discount)
        bounds = f" By the rewards so far, no return is below {low:.4g} or above {high:.4g}."
    logger.log(
        f"WARNING: {sum(edge_mass) / len(edge_mass):.0%} of the targets' probability is on the two "
        f"outermost returns: unless returns end there, widen V_min, V_max, now {algo.V_min}, "
        f"{algo.V_max}; returns beyond are cut off (edgeMass in the log).{bounds}"
    )


# --- Agent and sampler ----------------------------------------------------------------------------


def check_agent_has(algo: RlAlgorithm, name: str, such_as: str) -> None:
    """Raise ``ValueError`` if the agent lacks a method that ``algo`` calls.

    Args:
        algo: algorithm with its agent.
        name: name of the method.
        such_as: name of an agent that has it, for the message.
    """
    if not hasattr(algo.agent, name):
        raise ValueError(
            f"the agent {type(algo.agent).__name__} has no {name}(): {type(algo).__name__} trains "
            f"agents such as {such_as}"
        )


def warn_without_timeout(algo: RlAlgorithm, record: Nested) -> None:
    """Warn if ``bootstrap_timelimit`` has no effect, so that time limits count as real ends.

    Args:
        algo: algorithm with this setting.
        record: example of the record that may have the field ``timeout``.
    """
    if algo.bootstrap_timelimit and "timeout" not in fields_of(record):
        logger.log(
            "WARNING: bootstrap_timelimit is True, but the environment gives no "
            "env_info.timeout: episodes that a time limit ends count as real ends. If there is "
            "such a limit, make the environment with rlpyt.envs.gym or let it set timeout; "
            "otherwise pass bootstrap_timelimit=False."
        )


# --- The store ------------------------------------------------------------------------------------


def check_replay_size(algo: ReplayAlgorithm, n_samplers: int) -> None:
    """Raise ``ValueError`` if a sampler batch or a training batch exceeds the storage.

    Args:
        algo: algorithm with a replay buffer.
        n_samplers: number of processes that share ``min_steps_learn``.
    """
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
            f"process ({first_steps:g}): the first steps are overwritten before training starts"
        )


def check_masks(algo: ReplayAlgorithm, fractions: Sequence[float]) -> None:
    """Warn if many samples in an iteration are masked.

    Args:
        algo: algorithm with a replay buffer, which keeps the warnings given and the number of
            successive updates without a valid sample.
        fractions: fraction of masked samples in each update.

    Raises:
        ValueError: if ``MAX_MASKED_UPDATES`` updates in a row had no valid sample.
    """
    remedy = (
        f"lower n_step_return={algo.n_step_return} below the length of episodes, or pass "
        "bootstrap_timelimit=False to count time limits as real ends, or (unless frames are stored "
        "once) give the sampler record_next_observation=True to learn from these samples"
    )
    for fraction in fractions:
        algo.n_masked_updates = algo.n_masked_updates + 1 if fraction == 1 else 0
        if algo.n_masked_updates == MAX_MASKED_UPDATES:
            raise ValueError(
                f"bootstrap_timelimit is True, and none of the samples of {MAX_MASKED_UPDATES} "
                "updates was trained on, because time limits truncated all returns: "
                f"{remedy}"
            )
    if not algo.warned_of_mask and sum(fractions) > MANY_MASKED * len(fractions):
        algo.warned_of_mask = True
        logger.log(
            f"WARNING: {sum(fractions) / len(fractions):.0%} of the samples in an iteration are "
            "not trained on, because time limits truncated their returns, though the values of "
            f"earlier steps are bootstrapped from theirs: {remedy}."
        )


# --- Sequences ------------------------------------------------------------------------------------


def check_sequences(algo: SequenceReplay) -> None:
    """Raise ``ValueError`` if sequences have an impossible length or exceed the storage.

    Warns if some steps are never trained on.
    """
    make_whole(algo, "batch_T", "batch_B")
    for name in ("warmup_T", "store_rnn_state_interval"):
        if getattr(algo, name) < 0:
            raise ValueError(f"{name} is {getattr(algo, name)}: make it 0 or more steps")
    B = algo.batch_spec.B
    n_rows = math.ceil(algo.replay_size / B)
    needed = algo.sequence_T + algo.n_step_return + 1
    if n_rows < needed:
        raise ValueError(
            f"replay_size {algo.replay_size:g} is {n_rows} steps of each of B={B} environments, "
            "but one sequence needs warmup_T + batch_T + n_step_return + 1 = "
            f"{needed}: make replay_size several times {needed * B}, or sequences shorter"
        )
    if algo.store_rnn_state_interval > algo.batch_T:
        logger.log(
            "WARNING: sequences begin every store_rnn_state_interval="
            f"{algo.store_rnn_state_interval} steps and train on batch_T={algo.batch_T} of them: "
            "the others are never trained on. Make the interval at most batch_T."
        )


def check_agent_info(algo: RlAlgorithm, agent_info: Nested, needed: set[str]) -> None:
    """Raise ``ValueError`` if ``agent_info`` lacks fields that are stored or give priorities."""
    missing = sorted(needed - set(fields_of(agent_info)))
    if missing:
        raise ValueError(
            f"agent_info of {type(algo.agent).__name__} has no {missing}: let its step() return "
            "them, or set store_rnn_state_interval=0 (prev_rnn_state) and input_priorities=False "
            "(q)"
        )
