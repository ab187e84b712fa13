"""Base of the agents of the Q-value policy gradient family: several networks and target copies."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from rlpyt.agents.base import BaseAgent, without_ddp
from rlpyt.core.records import EnvSpaces
from rlpyt.models.utils import TargetNetwork, fitting_state_dict
from rlpyt.utils.logging import logger
from rlpyt.utils.types import NDArray, Nested


class ActionBounds(NamedTuple):
    """Least and greatest action, per dimension.

    Networks and noise know actions u in [-1, 1]; those of the environment are
    ``mid + half_range * u``.
    """

    low: NDArray  # [A] float32
    high: NDArray  # [A] float32

    @property
    def mid(self) -> NDArray:
        """[A] half way between the bounds."""
        return (self.low + self.high) / 2

    @property
    def half_range(self) -> NDArray:
        """[A] from ``mid`` to either bound; positive."""
        return (self.high - self.low) / 2

    @property
    def is_unit(self) -> bool:
        """Whether every dimension is [-1, 1]."""
        return bool(np.all(self.low == -1) and np.all(self.high == 1))

    def rows(self) -> NDArray:
        """[2,A] ``low`` and ``high``, as ``Gaussian`` takes ``clip`` and ``squash``."""
        return np.stack([self.low, self.high])


def check_noise(agent: Any, *names: str, may_be_none: bool = False) -> None:
    """Raise an error unless settings of ``agent`` are numbers, or arrays of numbers, from 0 on.

    Raises:
        ValueError: if one is something else.
    """
    for name in names:
        value = getattr(agent, name)
        if value is None and may_be_none:
            continue
        numbers = np.asarray(value)
        if not (np.issubdtype(numbers.dtype, np.number) and np.all(numbers >= 0)):
            remedy = "make it 0 or positive, or None" if may_be_none else "make it 0 or positive"
            raise ValueError(f"{name} is {value!r}: {remedy}")


def check_vector_action(agent_name: str, space: Any) -> None:
    """Raise an error unless actions are vectors of real numbers.

    Args:
        agent_name: for the error.
        space: of actions, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is another one.
    """
    shape = getattr(space, "shape", None)
    is_real = np.issubdtype(getattr(space, "dtype", np.float32), np.floating)
    if not (hasattr(space, "high") and is_real and shape is not None and len(shape) == 1):
        raise ValueError(
            f"{agent_name} needs actions which are a vector of real numbers, but the action space "
            f"is {space}: use an agent for such actions, or make them one vector in a wrapper"
        )


def continuous_action_bounds(agent_name: str, space: Any) -> ActionBounds:
    """Bounds of a space of actions which are vectors of real numbers.

    Args:
        agent_name: for the error.
        space: of actions, with ``shape``, ``low`` and ``high``.

    Raises:
        ValueError: if the space is another one, or a bound is infinite or equal to its opposite.
    """
    check_vector_action(agent_name, space)
    low, high = (
        np.array(np.broadcast_to(bound, space.shape), np.float32)
        for bound in (space.low, space.high)
    )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(
            f"{agent_name} scales its actions to the bounds of the action space, but these are "
            f"{low.tolist()} and {high.tolist()}: give finite and different ones in a wrapper"
        )
    return ActionBounds(low, high)


class ActorCriticAgent(BaseAgent):
    """A policy, ``model``, and critics beside it; some of them have slowly moving target copies.

    A subclass names its networks and says how each is made (:meth:`build_network`); an attribute of
    that name, or that name after "target_", holds each, and is also its key in :meth:`state_dict`.
    Only the policy is shared with other processes.

    Attributes:
        network_names: of what is trained, the policy first.
        target_names: those among them which have a target copy.
        action_bounds: of the actions; without another setting, those of the environment.
    """

    network_names: tuple[str, ...] = ("model",)
    target_names: tuple[str, ...] = ()

    action_bounds: ActionBounds

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The algorithm sets it after the workers of the sampler were started.
        self._min_itr_learn = mp.RawValue("l", 0)
        self._target_networks: dict[str, TargetNetwork] = {}

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
            ValueError: if actions are no vectors of real numbers within finite bounds.
        """
        self.action_bounds = self._make_action_bounds(env_spaces)
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self._make_distributions()

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        return {
            "observation_shape": env_spaces.observation.shape,
            "action_size": env_spaces.action.shape[0],
        }

    def _make_action_bounds(self, env_spaces: EnvSpaces) -> ActionBounds:
        return continuous_action_bounds(type(self).__name__, env_spaces.action)

    def build_network(self, name: str) -> Any:
        """Make the network ``name`` of ``network_names``; its target copy is made alike."""
        if name == "model":
            return self.build_model(self.ModelCls, self.model_kwargs)
        raise NotImplementedError(f"{type(self).__name__} does not say how to make its {name}")

    def _make_distributions(self) -> None:
        """Make ``distribution``, and others which the agent needs, from ``action_bounds``."""
        raise NotImplementedError(f"{type(self).__name__} does not define _make_distributions()")

    def _build_models(self) -> None:
        super()._build_models()
        for name in self.network_names[1:]:
            setattr(self, name, self.build_network(name))
        for name in self.target_names:
            target = self.build_network(name)
            target.load_state_dict(self._network(name).state_dict())
            setattr(self, "target_" + name, target)

    def _load_initial_state(self, state_dict: Any) -> None:
        self.load_state_dict(state_dict)

    def to_device(self, cuda_idx: int | None = None) -> None:
        super().to_device(cuda_idx)
        for name in self._state_names()[1:]:
            getattr(self, name).to(self.device)

    def data_parallel(self) -> int | None:
        device_id = super().data_parallel()
        for name in self.network_names[1:]:
            model = DistributedDataParallel(
                getattr(self, name),
                device_ids=None if device_id is None else [device_id],
                output_device=device_id,
            )
            setattr(self, name, model)
        logger.log(f"Initialized DistributedDataParallel also for {self.network_names[1:]}.")
        return device_id

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Learn which iteration is the first that trains, from the algorithm."""
        self.min_itr_learn = min_itr_learn

    @property
    def min_itr_learn(self) -> int:
        """First iteration which trains; until then the agent explores in another way."""
        return int(self._min_itr_learn.value)

    @min_itr_learn.setter
    def min_itr_learn(self, min_itr_learn: int) -> None:
        self._min_itr_learn.value = min_itr_learn

    # --- Forward passes ----------------------------------------------------------------------

    def forward_network(
        self, name: str, observation: Nested, prev_action: Nested, prev_reward: Nested, *args: Any
    ) -> Any:
        """Run the network called ``name``, an attribute, on its device; the output stays there.

        Args:
            name: of ``network_names``, or a target copy.
            observation: [B,...].
            prev_action: [B,A].
            prev_reward: [B].
            *args: further inputs, such as the action [B,A].
        """
        model = getattr(self, name)
        if isinstance(model, DistributedDataParallel) and not _will_be_trained(model):
            model = model.module  # The wrapper would await gradients which never come.
        return model(*self.to_model_device(observation, prev_action, prev_reward, *args))

    # --- Modes, parameters and state ---------------------------------------------------------

    def train_mode(self, itr: int) -> None:
        super().train_mode(itr)
        self._let_critics_train(True)

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        self._let_critics_train(False)

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        self._let_critics_train(False)

    def _let_critics_train(self, is_training: bool) -> None:
        for name in self.network_names[1:]:
            getattr(self, name).train(is_training)

    def update_target(self, tau: float = 1) -> None:
        """Move the target copies towards their originals.

            target = tau * model + (1 - tau) * target

        Args:
            tau: in (0, 1]; 1 copies.
        """
        for name in self.target_names:
            self._target_network(name).move(tau)

    def _target_network(self, name: str) -> TargetNetwork:
        """What moves the target copy of ``name``; made anew where a network is another one."""
        target, model = getattr(self, "target_" + name), self._network(name)
        known = self._target_networks.get(name)
        if known is None or known.target is not target or known.model is not model:
            known = self._target_networks[name] = TargetNetwork(target, model)
        return known

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers of every network, by the names of their attributes."""
        return {name: self._network(name).state_dict() for name in self._state_names()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the networks of :meth:`state_dict`; target copies left out equal their originals.

        Raises:
            ValueError: if another network is left out.
        """
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

    def _network(self, name: str) -> Any:
        return without_ddp(getattr(self, name))

    def _state_names(self) -> list[str]:
        return [*self.network_names, *("target_" + name for name in self.target_names)]


def _will_be_trained(model: DistributedDataParallel) -> bool:
    return torch.is_grad_enabled() and any(p.requires_grad for p in model.parameters())
