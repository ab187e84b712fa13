"""Base class of Q-value policy gradient agents: several networks and target copies."""

from __future__ import annotations

import math
import multiprocessing as mp
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent, with_ddp, without_ddp
from rlpyt.core.bounds import NO_BOUND, policy_bounds
from rlpyt.core.records import EnvSpaces
from rlpyt.models.qpg.mlp import CatQofMuMlpModel, MuMlpModel, PiMlpModel, QofMuMlpModel, VMlpModel
from rlpyt.models.utils import fitting_state_dict
from rlpyt.utils.logging import logger
from rlpyt.utils.types import NDArray


class ActionBounds(NamedTuple):
    """Lowest and highest action, [A] each, where A is the number of entries of an action.

    Policies and noise use actions u in [-1, 1]; environment and critics get
    ``mid + half_range * u``.
    """

    low: NDArray  # [A] float32
    high: NDArray  # [A] float32

    @property
    def mid(self) -> NDArray:
        """Middle [A] between the bounds."""
        return (self.low + self.high) / 2

    @property
    def half_range(self) -> NDArray:
        """Distance [A] from ``mid`` to either bound; positive."""
        return (self.high - self.low) / 2

    @property
    def is_unit(self) -> bool:
        """Whether every dimension is [-1, 1]."""
        return bool(np.all(self.low == -1) and np.all(self.high == 1))

    def rows(self) -> NDArray:
        """Return ``low`` and ``high`` as one array [2,A], a bound of ``Gaussian``."""
        return np.stack([self.low, self.high])


def check_noise(agent: BaseAgent, *names: str, may_be_none: bool = False) -> None:
    """Check that the settings ``names`` of an agent are numbers or arrays, and at least 0.

    Raises:
        ValueError: if a setting is negative or not a number.
    """
    for name in names:
        value = getattr(agent, name)
        if value is None and may_be_none:
            continue
        numbers = np.asarray(value)
        if not (np.issubdtype(numbers.dtype, np.number) and np.all(numbers >= 0)):
            remedy = "make it 0 or positive, or None" if may_be_none else "make it 0 or positive"
            raise ValueError(f"{name} is {value!r}: {remedy}")


def check_real_action(agent_name: str, space: Any) -> None:
    """Raise an error unless an action is one array of real numbers.

    Args:
        agent_name: class of the agent, for the error.
        space: action space, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is of any other kind.
    """
    is_real = np.issubdtype(getattr(space, "dtype", None) or np.float32, np.floating)
    if not (hasattr(space, "high") and is_real):
        raise ValueError(
            f"{agent_name} needs actions that are an array of real numbers, but the action space "
            f"is {space}: use an agent for such actions, or make them one array in a wrapper"
        )


def continuous_action_bounds(agent_name: str, space: Any) -> ActionBounds:
    """Return the bounds of an action space whose elements are arrays of real numbers.

    Args:
        agent_name: class of the agent, for the error.
        space: action space, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is of any other kind, or a range is half infinite or empty.
    """
    check_real_action(agent_name, space)
    bounds = (np.broadcast_to(bound, space.shape).reshape(-1) for bound in (space.low, space.high))
    low, high = policy_bounds(*bounds)
    is_free = np.isinf(low) & np.isinf(high)
    if is_free.any():
        logger.log(
            f"WARNING: {agent_name} acts within [-1, 1] where the action space has no bounds, or "
            f"bounds beyond {NO_BOUND:g}: if actions have another range, give it in a wrapper"
        )
        low, high = np.where(is_free, -1, low), np.where(is_free, 1, high)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(
            f"{agent_name} scales its actions to the bounds of the action space, but these are "
            f"{low.tolist()} and {high.tolist()}, infinite beyond {NO_BOUND:g}: give finite "
            "bounds, low < high, in a wrapper"
        )
    return ActionBounds(low, high)


class ActorCriticAgent(BaseAgent):
    """Base class of agents with a policy, ``model``, and critics; some have target copies.

    A subclass lists the names of its networks, and builds the critics in ``build_network``. The
    attribute ``<name>`` holds the network and ``target_<name>`` its target copy; :meth:`state_dict`
    has the same keys. Only the policy is shared with other processes.

    Attributes:
        network_names: names of the networks to train, the policy first.
        target_names: names of the networks that have a target copy.
        action_bounds: bounds of the policy's actions; by default, of the environment's action
            space.
    """

    network_names: tuple[str, ...] = ("model",)
    target_names: tuple[str, ...] = ()
    vector_models = (MuMlpModel, PiMlpModel, QofMuMlpModel, CatQofMuMlpModel, VMlpModel)

    action_bounds: ActionBounds

    # --- Set-up ------------------------------------------------------------------------------

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Build all networks, target copies equal to their originals, and the distributions.

        Raises:
            ValueError: if actions are not arrays of real numbers within finite bounds.
        """
        self.action_bounds = self._make_action_bounds(env_spaces)
        self.min_itr_learn = 0  # Shared with the workers, which the sampler starts later.
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self._make_distributions()

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        return {
            "observation_shape": env_spaces.observation.shape,
            "action_size": math.prod(env_spaces.action.shape),
        }

    def _make_action_bounds(self, env_spaces: EnvSpaces) -> ActionBounds:
        return continuous_action_bounds(type(self).__name__, env_spaces.action)

    def to_action(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors [...,A] in the shape of actions, [...,*shape]."""
        shape = self.env_spaces.action.shape
        return x if len(shape) == 1 else x.reshape(x.shape[:-1] + shape)

    def _make_distributions(self) -> None:
        """Make ``distribution``, and any others that the agent needs, from ``action_bounds``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _make_distributions()")

    def _build_models(self) -> None:
        super()._build_models()
        for name in self.network_names[1:]:
            setattr(self, name, self.build_network(name))
        for name in self.target_names:
            target = self.build_network(name)
            target.load_state_dict(self._network(name).state_dict())
            setattr(self, "target_" + name, target)

    def _load_initial_state(self, state_dict: Mapping[str, Any]) -> None:
        self.load_state_dict(state_dict)

    def to_device(self, cuda_idx: int | str | torch.device | None = None) -> None:
        super().to_device(cuda_idx)
        for name in self._state_names()[1:]:
            getattr(self, name).to(self.device)

    def data_parallel(self) -> int | None:
        device_id = super().data_parallel()
        for name in self.network_names[1:]:
            setattr(self, name, with_ddp(getattr(self, name), device_id))
        logger.log(f"Initialized DistributedDataParallel also for {self.network_names[1:]}.")
        return device_id

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Set the first iteration that trains; called by the algorithm."""
        self.min_itr_learn = min_itr_learn

    @cached_property
    def _min_itr_learn(self) -> Any:
        # In shared memory: the algorithm sets it after the workers have started.
        return mp.RawValue("l", 0)

    @property
    def min_itr_learn(self) -> int:
        """First iteration that trains; until then the agent explores in another way."""
        return int(self._min_itr_learn.value)

    @min_itr_learn.setter
    def min_itr_learn(self, min_itr_learn: int) -> None:
        self._min_itr_learn.value = int(min_itr_learn)

    # --- Modes, parameters and state ---------------------------------------------------------

    def _trained_networks(self) -> list[Any]:
        return [getattr(self, name) for name in self.network_names]

    def update_target(self, tau: float = 1) -> None:
        """Move the target copies towards their originals.

            target = tau * model + (1 - tau) * target

        Args:
            tau: weight of the new parameters in (0, 1]; 1 copies.
        """
        for name in self.target_names:
            self._move_target(name, tau)

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and buffers of every network, by attribute name."""
        return {name: self._network(name).state_dict() for name in self._state_names()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the networks of :meth:`state_dict`, or the policy alone from the policy's state.

        Target copies that the state lacks are set equal to their originals.

        Raises:
            ValueError: if the state lacks any other network.
        """
        if _is_state_of(self._network("model"), state_dict):
            self._load_with_target("model", state_dict)
            return
        missing = [name for name in self.network_names if name not in state_dict]
        if missing:
            raise ValueError(
                f"the state of {type(self).__name__} has the entries {self._state_names()}, but "
                f"{missing} are not among {sorted(state_dict)}: pass the state of every network "
                "by its name"
            )
        for name in self._state_names():
            state = state_dict[name if name in state_dict else name.removeprefix("target_")]
            network = self._network(name)
            network.load_state_dict(fitting_state_dict(network, state))

    def _load_with_target(self, name: str, state_dict: Mapping[str, Any]) -> None:
        network = self._network(name)
        network.load_state_dict(fitting_state_dict(network, state_dict))
        if name in self.target_names:
            getattr(self, "target_" + name).load_state_dict(network.state_dict())

    def _network(self, name: str) -> Any:
        return without_ddp(getattr(self, name))

    def _state_names(self) -> list[str]:
        return [*self.network_names, *("target_" + name for name in self.target_names)]


def _is_state_of(network: torch.nn.Module, state_dict: Mapping[str, Any]) -> bool:
    return fitting_state_dict(network, state_dict).keys() == network.state_dict().keys()
