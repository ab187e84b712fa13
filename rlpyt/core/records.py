"""Every record that the parts of the library exchange, with its shapes.

Dimensions: T time, B environments (or batch size). A record of arrays is indexed and assigned as
one array: ``samples[t] = step`` writes every field. ``None`` is an absent field. A record declared
with :func:`~rlpyt.utils.collections.record` is a namedarraytuple.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from rlpyt.utils.collections import AttrDict, record, record_class
from rlpyt.utils.types import Array, Nested

# --- One step of an environment (numpy) ---------------------------------------------------------


class EnvStep(NamedTuple):
    """What an environment returns for one action."""

    observation: Nested  # of the observation space
    reward: Any  # scalar
    done: bool  # the episode of the learner ends here
    env_info: Nested  # the same fields, shapes and dtypes at every step; may be None


class EnvSpaces(NamedTuple):
    """The two spaces of an environment."""

    observation: Any
    action: Any


# A namedtuple without fields: falsy, so that there is nothing to record.
EnvInfo = namedtuple("EnvInfo", [])


class TrajInfo(AttrDict):
    """Statistics of one trajectory; every entry that does not start with ``_`` is logged.

    Subclass it to log more: add entries in ``__init__`` and update them in ``step``. A trajectory
    ends where the environment is reset (``traj_done``), which may be later than ``done``.
    """

    _discount = 1.0  # Set on the class by the sampler, from ``traj_info_kwargs`` of the runner.

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.Length = 0
        # Environments give float32, whose sums would lose digits over long episodes.
        self.Return = np.float64(0)
        self.NonzeroRewards = 0
        self.DiscountedReturn = np.float64(0)
        self._cur_discount = 1.0

    def step(
        self,
        observation: Nested,
        action: Nested,
        reward: Any,
        done: Any,
        agent_info: Nested,
        env_info: Nested,
    ) -> None:
        """Count one step, given the observation before it and all that followed from it.

        Args:
            observation: numpy, what the agent saw.
            action: numpy, what it did.
            reward: float, received for ``action``.
            done: bool.
            agent_info: the agent's info of this environment, or None during decorrelation.
            env_info: the environment's info of this step.
        """
        self.Length += 1
        self.Return += reward
        self.NonzeroRewards += reward != 0
        self.DiscountedReturn += self._cur_discount * reward
        self._cur_discount *= self._discount

    def terminate(self, observation: Nested) -> TrajInfo:
        """Return the finished object to be logged.

        Args:
            observation: the last one, on which the agent will not act.
        """
        return self


# --- One step of an agent (torch) ---------------------------------------------------------------


@record
class AgentInputs(NamedTuple):
    """What an agent acts on."""

    observation: Nested  # [...]
    prev_action: Nested  # [...], the null action at the start of an episode
    prev_reward: Array  # [...] float32, 0 at the start of an episode


@record
class AgentInputsRnn(NamedTuple):
    """What a recurrent agent is trained on."""

    observation: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    prev_reward: Array  # [T,B]
    init_rnn_state: Nested  # [N,B,H], before the first step


@record
class AgentStep(NamedTuple):
    """What an agent returns."""

    action: Nested  # [...]
    agent_info: Nested  # [...], whatever the algorithm wants recorded


# --- A batch from a sampler ---------------------------------------------------------------------


class BatchSpec(NamedTuple):
    """Time steps and environments of a sampler batch."""

    T: int
    B: int

    @property
    def size(self) -> int:
        """Environment steps in one batch."""
        return self.T * self.B


@record
class AgentSamples(NamedTuple):
    """The agent's half; ``prev_action`` and ``action`` are views of one array of T + 1 rows."""

    action: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    agent_info: Nested  # [T,B,...]


@record
class AgentSamplesBsv(NamedTuple):
    """The agent's half with the value of the observation after the last step."""

    action: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    agent_info: Nested  # [T,B,...]
    bootstrap_value: Array  # [1,B]


@record
class EnvSamples(NamedTuple):
    """The environments' half; ``prev_reward`` and ``reward`` view one array of T + 1 rows."""

    observation: Nested  # [T,B,...]
    reward: Array  # [T,B] float32
    prev_reward: Array  # [T,B] float32
    done: Array  # [T,B] bool
    env_info: Nested  # [T,B,...]


@record
class Samples(NamedTuple):
    """One batch of a sampler."""

    agent: Nested  # AgentSamples or AgentSamplesBsv
    env: Nested  # EnvSamples


# --- To and from a replay buffer ----------------------------------------------------------------


@record
class SamplesToBuffer(NamedTuple):
    """What a replay buffer stores; fields that a user adds are stored and sampled as well."""

    observation: Nested  # [T,B,...]
    action: Nested  # [T,B,...]
    reward: Array  # [T,B]
    done: Array  # [T,B]


@record
class SamplesFromReplay(NamedTuple):
    """Transitions of n steps; B is the replay batch."""

    agent_inputs: Nested  # AgentInputs [B,...] at t
    action: Nested  # [B,...] a_t
    return_: Array  # [B] sum of the next n rewards, discounted, up to the first done
    done: Array  # [B] d_t
    done_n: Array  # [B] any done within the n steps
    target_inputs: Nested  # AgentInputs [B,...] at t + n


# --- Records with more fields ------------------------------------------------------------------


def extended(cls: Any, names: tuple[str, ...], suffix: str = "") -> Any:
    """The record class ``cls`` with more fields, which come last; the same class for every call.

    Args:
        cls: a record class.
        names: of the fields.
        suffix: of the name of the class.

    Raises:
        ValueError: if a name is taken.
    """
    if not names:
        return cls
    taken = sorted(set(names) & set(cls._fields))
    if taken:
        raise ValueError(
            f"the names {taken} are those of fields that {cls.__name__} has already, "
            f"{cls._fields}: give the new fields other names"
        )
    return record_class(cls.__name__ + suffix, cls._fields + names)
