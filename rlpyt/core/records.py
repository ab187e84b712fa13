"""Records that the parts of the library exchange, with their shapes.

Dimensions: T time, B environments (or batch size). A record of arrays is indexed and assigned as
one array: ``samples[t] = step`` writes every field. ``None`` is an absent field. A record declared
with :func:`~rlpyt.utils.collections.record` is a namedarraytuple.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rlpyt.utils.collections import AttrDict, record, record_class
from rlpyt.utils.types import Array, NDArray, Nested


class NotFiniteError(ValueError, FloatingPointError):
    """Error for a reward, observation or probability that is not finite; it ends the run."""


# --- One step of an environment (numpy) ---------------------------------------------------------


class EnvStep(NamedTuple):
    """Result of one step of an environment."""

    observation: Nested  # element of the observation space
    reward: Any  # scalar
    done: bool  # the episode of the learner ends here
    env_info: Nested  # record with constant fields, shapes and dtypes, or None


class EnvSpaces(NamedTuple):
    """Spaces of an environment."""

    observation: Any
    action: Any


# Without fields, hence falsy: there is nothing to record.
EnvInfo = namedtuple("EnvInfo", [])


class TrajInfo(AttrDict):
    """Statistics of one trajectory; every entry that does not start with ``_`` is logged.

    Subclasses add entries in ``__init__`` and update them in ``step``. A trajectory ends when the
    environment is reset (``traj_done``), which may be later than ``done``.
    """

    _discount = 1.0  # Set on the class by the sampler, from ``traj_info_kwargs`` of the runner.

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.Length = 0
        # Sums of float32 rewards would lose digits over long episodes.
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
        """Count one step.

        Args:
            observation: numpy observation before the step.
            action: numpy action.
            reward: float reward for ``action``.
            done: bool end of the learner's episode.
            agent_info: info of the agent for this environment, or None during decorrelation.
            env_info: info of the environment.
        """
        self.Length += 1
        self.Return += reward
        self.NonzeroRewards += reward != 0
        self.DiscountedReturn += self._cur_discount * reward
        self._cur_discount *= self._discount

    def terminate(self, observation: Nested) -> TrajInfo:
        """Return the finished object to be logged, or None to leave it out of the log.

        Args:
            observation: last observation of the trajectory, on which the agent does not act.
        """
        return self


def record_success(traj_info: Any, env_info: Nested, b: Any = ()) -> None:
    """Keep ``is_success`` of the last step, whose mean over trajectories is logged as a rate.

    Args:
        traj_info: trajectory info, a dictionary.
        env_info: info of the last step, of one environment or of B.
        b: index of the environment, if there are B.
    """
    success = getattr(env_info, "is_success", None)
    if success is not None:
        traj_info["_is_success"] = float(np.mean(np.asarray(success)[b]))


# --- One step of an agent (torch) ---------------------------------------------------------------


@record
class AgentInputs(NamedTuple):
    """Inputs of an agent that acts."""

    observation: Nested  # [...]
    prev_action: Nested  # [...], the null action at the start of an episode
    prev_reward: Array  # [...] float32, 0 at the start of an episode


@record
class AgentInputsRnn(NamedTuple):
    """Inputs of a recurrent agent in training."""

    observation: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    prev_reward: Array  # [T,B]
    init_rnn_state: Nested  # [N,B,H] before the first step


@record
class AgentStep(NamedTuple):
    """Result of one step of an agent."""

    action: Nested  # [...]
    agent_info: Nested  # [...] values to record for the algorithm


# --- A batch from a sampler ---------------------------------------------------------------------


class BatchSpec(NamedTuple):
    """Time steps and environments of a sampler batch."""

    T: int
    B: int

    @property
    def size(self) -> int:
        """Number of environment steps in one batch."""
        return self.T * self.B


@record
class AgentSamples(NamedTuple):
    """Agent's half of a batch; ``prev_action`` and ``action`` view one array of T + 1 rows."""

    action: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    agent_info: Nested  # [T,B,...]


@record
class AgentSamplesBsv(NamedTuple):
    """Agent's half of a batch, with the value of the observation after the last step."""

    action: Nested  # [T,B,...]
    prev_action: Nested  # [T,B,...]
    agent_info: Nested  # [T,B,...]
    bootstrap_value: Array  # [1,B]


@record
class EnvSamples(NamedTuple):
    """Environments' half of a batch; both rewards are views of one array of T + 1 rows."""

    observation: Nested  # [T,B,...]
    reward: Array  # [T,B] float32
    prev_reward: Array  # [T,B] float32
    done: Array  # [T,B] bool
    env_info: Nested  # [T,B,...]


@record
class Samples(NamedTuple):
    """Batch of a sampler."""

    agent: Nested  # AgentSamples or AgentSamplesBsv
    env: Nested  # EnvSamples


# --- To and from a replay buffer ----------------------------------------------------------------


@record
class SamplesToBuffer(NamedTuple):
    """Entries of a replay buffer; fields that a user adds are stored and sampled too."""

    observation: Nested  # [T,B,...]
    action: Nested  # [T,B,...]
    reward: Array  # [T,B]
    done: Array  # [T,B]


@record
class SamplesFromReplay(NamedTuple):
    """Batch of n-step transitions; B is the replay batch."""

    agent_inputs: Nested  # AgentInputs [B,...] at t
    action: Nested  # [B,...] a_t
    return_: Array  # [B] discounted sum of the next n rewards, up to the first done
    done: Array  # [B] d_t
    done_n: Array  # [B] whether any of the n steps is done
    target_inputs: Nested  # AgentInputs [B,...] at t + n


# --- Optional fields -----------------------------------------------------------------------------


def trajectory_end(env_info: Nested, done: Any) -> Any:
    """Return whether the environment is reset: ``env_info.traj_done``, by default ``done``."""
    return getattr(env_info, "traj_done", done)


# --- Records with more fields ------------------------------------------------------------------

Function = TypeVar("Function", bound=Callable[..., Any])


def _remembered(function: Function) -> Function:
    """Remember the results of ``function``, whose arguments are hashable."""
    remembered: Any = cache(function)
    typed: Function = remembered
    return typed


@_remembered
def extended(cls: Any, names: tuple[str, ...], suffix: str = "") -> Any:
    """Return ``cls`` with more fields at the end; equal arguments give the same class.

    Args:
        cls: record class.
        names: names of the new fields.
        suffix: end of the name of the new class.

    Raises:
        ValueError: if a name is taken.
    """
    if not names:
        return cls
    taken = sorted(set(names) & set(cls._fields))
    if taken:
        raise ValueError(
            f"names={names}: {cls.__name__} already has fields {taken}: choose other names"
        )
    return record_class(cls.__name__ + suffix, cls._fields + names)


def with_fields(record: Any, **fields: Nested) -> Any:
    """Return ``record`` with more fields at the end."""
    return extended(type(record), tuple(fields))(*record, *fields.values())


# --- Images --------------------------------------------------------------------------------------


def is_stack(observation: Nested) -> bool:
    """Return whether an example is one array [C,H,W], of any type."""
    return not isinstance(observation, tuple) and np.ndim(observation) == 3


def is_image(observation: Nested) -> bool:
    """Return whether an example is one uint8 array [C,H,W], as frame buffers store it.

    Arrays [H,W,C], whose last dimension is the smallest, do not count.
    """
    if not is_stack(observation) or np.asarray(observation).dtype != np.uint8:
        return False
    C, H, W = np.shape(observation)
    return bool(min(C, H) <= W)


def stacking_of(episode: Sequence[NDArray], again: NDArray) -> str | None:
    """Return how images [C,H,W] are stacked from successive frames, oldest first.

    Args:
        episode: successive images from a reset on, at least two.
        again: image after another reset.

    Returns:
        ``"zeros"`` or ``"repeated"``, for what precedes the first frame of an episode; ``"none"``
        for images that are no such stacks; None if these do not show it.
    """
    pairs = list(zip(episode, episode[1:]))
    if not all(np.array_equal(before[1:], after[:-1]) for before, after in pairs):
        return "none"
    firsts = (episode[0], again)
    if all(np.array_equal(before[-1], after[-1]) for before, after in pairs):
        return None  # Nothing moved.
    if not any(first[:-1].any() for first in firsts):
        return "zeros"
    is_repeated = all((first[:-1] == first[-1:]).all() for first in firsts)
    return "repeated" if is_repeated else "none"
