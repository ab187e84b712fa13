"""What algorithms of the Q-value policy gradient family share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from rlpyt.algos._optim import load_optimizer_state
from rlpyt.algos._replay_classes import TRANSITIONS, select
from rlpyt.algos._settings import (
    METHODS_OF_THE_LOSS,
    METHODS_OF_THE_STORE,
    check_at_least_one,
    check_resets_at_once,
)
from rlpyt.algos._time_limit import masked_mean as masked_mean, not_timed_out, with_timeout
from rlpyt.algos.replay import ReplayAlgorithm
from rlpyt.core.records import SamplesToBuffer
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

SamplesToBufferTl = namedarraytuple("SamplesToBufferTl", (*SamplesToBuffer._fields, "timeout"))


@contextmanager
def frozen(
    *parameters: Iterable[torch.nn.Parameter], but: Iterable[torch.nn.Parameter] = ()
) -> Iterator[None]:
    """Within it, gradients flow through networks, but none are computed of ``parameters``.

    Args:
        *parameters: groups of them.
        but: of these, gradients are computed all the same: of an encoder, perhaps, which policy and
            critics share.
    """
    kept = {id(p) for p in but}
    trained = [p for group in parameters for p in group if p.requires_grad and id(p) not in kept]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_(True)


class ActorCriticAlgorithm(ReplayAlgorithm):
    """Trains a policy and critics by one optimizer each, on transitions from a replay buffer.

    A subclass makes its optimizers (:meth:`make_optimizers`), names them (:meth:`optimizers`), and
    says what one update is (:meth:`_apply_optimization`).

    With ``bootstrap_timelimit``, transitions whose return was cut by a time limit
    (``env_info.timeout``) are not trained on: the value which should follow is of an observation
    that the environment did not give, and 0 would be wrong. In environments without that field the
    end of an episode is always terminal.

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3.
    """

    bootstrap_timelimit: bool

    # --- Set-up ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        check_at_least_one(self, "policy_update_interval")
        if not overrides(self, *METHODS_OF_THE_STORE):
            check_resets_at_once(self)
        if self.agent.recurrent and not overrides(self, *METHODS_OF_THE_LOSS):
            raise ValueError(
                f"{type(self).__name__} trains on single transitions, but the agent "
                f"{type(self.agent).__name__} is recurrent: use an agent without state"
            )

    def _configure_agent(self) -> None:
        self.agent.give_min_itr_learn(self.min_itr_learn)

    def optim_initialize(self, rank: int = 0) -> None:
        """Make the optimizers, in the process which trains."""
        self.rank = rank
        self.make_optimizers()
        if self.initial_optim_state_dict is not None:
            self.load_optim_state_dict(self.initial_optim_state_dict)

    def make_optimizers(self) -> None:
        """Make one attribute for each optimizer, by :meth:`make_optimizer`."""
        raise NotImplementedError(f"{type(self).__name__} does not define make_optimizers()")

    def optimizers(self) -> dict[str, Any]:
        """The optimizers, by their names in :meth:`optim_state_dict`."""
        raise NotImplementedError(f"{type(self).__name__} does not define optimizers()")

    def examples_to_buffer(self, examples: Nested) -> Nested:
        entry = super().examples_to_buffer(examples)
        return self._with_timeout(entry, examples["env_info"])

    def samples_to_buffer(self, samples: Nested) -> Nested:
        entry = super().samples_to_buffer(samples)
        return self._with_timeout(entry, samples.env.env_info)

    def _with_timeout(self, entry: Nested, env_info: Nested) -> Nested:
        is_known = getattr(env_info, "timeout", None) is not None
        return with_timeout(entry, env_info) if is_known and self.bootstrap_timelimit else entry

    def _select_replay_class(self, example: Nested, async_: bool) -> Any:
        has_timeout = "timeout" in example._fields
        if self.bootstrap_timelimit and not has_timeout:
            logger.log(
                "WARNING: bootstrap_timelimit is set, but the environment gives no "
                "env_info.timeout: episodes which a time limit ends are taken as terminal."
            )
        return select(TRANSITIONS, async_, time_limits=has_timeout)

    # --- One update --------------------------------------------------------------------------

    def valid(self, samples: Nested) -> torch.Tensor:
        """Mask [B] float32 of the transitions to train on: 0 where a time limit cut the return.

        Raises:
            ValueError: if the replay buffer stores time limits but returns ignore them.
        """
        if not (self.bootstrap_timelimit and hasattr(samples, "timeout")):
            return torch.ones(samples.done.shape)
        return not_timed_out(samples).float()

    # --- State -------------------------------------------------------------------------------

    def optim_state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, optimizer in self.optimizers().items()}

    def load_optim_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state of :meth:`optim_state_dict`, of a run on any device.

        Raises:
            ValueError: if an entry is missing.
        """
        missing = sorted(self.optim_state_dict().keys() - state_dict.keys())
        if missing:
            raise ValueError(
                f"the state of the optimizers of {type(self).__name__} lacks the entries "
                f"{missing}, it has {sorted(state_dict)}: pass what optim_state_dict() of such an "
                "algorithm returned"
            )
        for name, optimizer in self.optimizers().items():
            load_optimizer_state(optimizer, state_dict[name])
