"""Checks of settings which belong to learning from sequences."""

from __future__ import annotations

import math
from typing import Any

from rlpyt.algos._settings import check_at_least_one
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested


def check_lengths(algo: Any) -> None:
    """Raise ``ValueError`` if sequences of ``algo`` have an impossible number of steps."""
    check_at_least_one(algo, "batch_T", "batch_B")
    for name in ("warmup_T", "store_rnn_state_interval"):
        if getattr(algo, name) < 0:
            raise ValueError(f"{name} is {getattr(algo, name)}: make it 0 or more steps")


def check_sequences_fit(algo: Any) -> None:
    """Raise ``ValueError`` if the storage of ``algo`` cannot hold one sequence.

    Warns of steps which no sequence trains on.
    """
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


def check_first_sequences(algo: Any) -> None:
    """Raise ``ValueError`` if training would start before there is a sequence to train on."""
    interval = max(1, algo.store_rnn_state_interval)
    first = math.ceil(getattr(algo.replay_buffer, "off_forward", 1) / interval) * interval
    n_rows = algo.sequence_T + algo.n_step_return + 1
    if algo.prioritized_replay:  # Which counts in whole intervals.
        n_rows = math.ceil(n_rows / interval) * interval + 1
    needed = (first + n_rows) * algo.batch_spec.B * algo._n_samplers
    first_steps = (algo.min_itr_learn + 1) * algo.steps_per_itr
    if first_steps < needed:
        raise ValueError(
            f"min_steps_learn is {algo.min_steps_learn:g}, but the first sequence of warmup_T="
            f"{algo.warmup_T} and batch_T={algo.batch_T} steps is complete after {needed} steps "
            f"of all environments: make min_steps_learn at least {needed}, or sequences shorter"
        )


def check_agent_info(algo: Any, agent_info: Nested) -> None:
    """Raise ``ValueError`` if ``agent_info`` lacks what is stored, or needed for priorities."""
    needed = {"prev_rnn_state"} if algo.store_rnn_state_interval > 0 else set()
    if algo.input_priorities_are_used and not overrides(
        algo, "compute_input_priorities", "samples_to_buffer"
    ):
        needed.add("q")
    missing = sorted(needed - set(getattr(agent_info, "_fields", ())))
    if missing:
        raise ValueError(
            f"agent_info of {type(algo.agent).__name__} has no {missing}: let its step() return "
            "them, or set store_rnn_state_interval=0 (prev_rnn_state) and input_priorities=False "
            "(q)"
        )
