"""Protocols of the roles: the attributes and methods that the other roles use.

The roles are duck-typed: nothing has to inherit from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from rlpyt.core.records import AgentStep, BatchSpec, EnvSpaces, EnvStep
from rlpyt.core.statistics import Statistics
from rlpyt.utils.types import BoolArray, Nested


@runtime_checkable
class Stateful(Protocol):
    """An object whose state can be saved and restored: arrays and plain values only."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, which may share arrays with the object: copy or save them at once."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``."""


class EnvLike(Protocol):
    """An environment: numpy in, numpy out."""

    @property
    def action_space(self) -> Any: ...

    @property
    def observation_space(self) -> Any: ...

    @property
    def spaces(self) -> EnvSpaces: ...

    def reset(self) -> Nested: ...

    def step(self, action: Nested) -> EnvStep: ...

    def close(self) -> None: ...


class VectorEnvLike(EnvLike, Protocol):
    """Several environments of one kind, stepped by one call; the spaces belong to one of them."""

    num_envs: int

    def step(self, action: Nested) -> Any: ...

    def reset_some(self, which: BoolArray, observation: Nested, seeded: bool = False) -> Nested: ...

    def sample_actions(self, which: BoolArray | None = None) -> Nested: ...

    def seed(self, seed: int | Sequence[int]) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class DeviceEnvLike(VectorEnvLike, Protocol):
    """A vector environment of tensors on one device."""

    device: torch.device


class AgentLike(Protocol):
    """An agent, as used by samplers, runners and algorithms: torch in, torch out."""

    recurrent: bool
    alternating: bool
    model: Any
    shared_model: Any
    distribution: Any
    device: Any
    cpu_outputs: bool
    sampler_device: Any
    env_spaces: EnvSpaces
    env_model_kwargs: dict[str, Any]

    @property
    def spans_episodes(self) -> bool: ...

    @property
    def q_kind(self) -> str | None: ...

    def parameters(self) -> Any: ...

    def data_parallel(self) -> Any: ...

    def async_cpu(self, share_memory: bool = True) -> None: ...

    def sync_shared_memory(self) -> None: ...

    def send_shared_memory(self) -> None: ...

    def recv_shared_memory(self) -> None: ...

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
    ) -> None: ...

    def collector_initialize(
        self, global_B: int = 1, env_ranks: Sequence[int] | None = None
    ) -> None: ...

    @property
    def acting_model(self) -> Any: ...

    @property
    def received_version(self) -> int: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep: ...

    def value(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Nested: ...

    def reset(self) -> None: ...

    def reset_one(self, idx: int) -> None: ...

    def toggle_alt(self) -> None: ...

    def to_device(self, cuda_idx: Any = None) -> None: ...

    def give_min_itr_learn(self, min_itr_learn: int) -> None: ...

    def update_obs_rms(self, observation: Nested) -> None: ...

    def train_mode(self, itr: int) -> None: ...

    def sample_mode(self, itr: int) -> None: ...

    def eval_mode(self, itr: int) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...

    def sample_state_dict(self) -> dict[str, Any]: ...

    def load_sample_state_dict(self, state: dict[str, Any]) -> None: ...


class AlgoLike(Protocol):
    """An algorithm, as used by runners."""

    agent: Any  # None before ``initialize``
    bootstrap_value: bool
    compile: Any
    only_async: bool
    update_counter: int
    min_itr_learn: int
    discount: float

    @property
    def opt_info_fields(self) -> tuple[str, ...]: ...

    @property
    def batch_size(self) -> int: ...

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
        rank: int = 0,
    ) -> None: ...

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any: ...

    def truncate_trajectories(self, B_idxs: Any) -> None: ...

    def optim_state_dict(self) -> Any: ...

    def load_optim_state_dict(self, state_dict: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class AsyncAlgoLike(AlgoLike, Protocol):
    """An algorithm that trains while another process samples, from a shared replay buffer.

    The buffer may be a queue of batches: it has ``append_samples(entries)``.
    """

    replay_buffer: Any
    replay_ratio: float  # Trained samples for each sampled one.
    updates_per_optimize: int

    def async_initialize(
        self,
        agent: AgentLike,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
    ) -> Any: ...

    def optim_initialize(self, rank: int = 0) -> None: ...

    def replay_entries(self, samples: Nested) -> Nested: ...


class SamplerLike(Protocol):
    """A sampler, as used by runners."""

    batch_spec: BatchSpec
    mid_batch_reset: bool
    alternating: bool
    samples_np: Nested

    @property
    def agent(self) -> AgentLike | None: ...  # None before ``initialize``

    @property
    def batch_size(self) -> int: ...

    def initialize(self, *args: Any, **kwargs: Any) -> Any: ...

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]: ...

    def take_restarted(self) -> list[int]: ...

    def evaluate_agent(self, itr: int) -> list[Any]: ...

    def stop_evaluation(self) -> None: ...

    def env_statistics(self) -> Statistics: ...

    def shutdown(self) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]: ...


class AsyncSamplerLike(Protocol):
    """A sampler that fills two batches in turn, in a separate process."""

    batch_spec: BatchSpec
    mid_batch_reset: bool
    samples_np: Nested
    start_method: str | None

    @property
    def agent(self) -> AgentLike | None: ...  # None before ``async_initialize``

    def async_initialize(
        self,
        agent: AgentLike,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> Any: ...

    def initialize(self, affinity: Any) -> Any: ...

    def shared_state_dict(self) -> dict[str, Any]: ...

    def load_shared_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def obtain_samples(self, itr: int, db_idx: int) -> list[Any]: ...

    def take_restarted(self) -> list[int]: ...

    def env_statistics(self) -> Statistics: ...

    def evaluate_agent(self, itr: int) -> list[Any]: ...

    def shutdown(self) -> None: ...


class RunnerLike(Protocol):
    """A runner, as used by callbacks."""

    n_itr: int
    seed: int | None
    world_size: int
    itr_batch_size: int
    checkpoints: Any

    @property
    def algo(self) -> AlgoLike: ...

    @property
    def agent(self) -> AgentLike: ...

    @property
    def sampler(self) -> SamplerLike | AsyncSamplerLike: ...

    @property
    def can_go_back(self) -> bool: ...

    def go_back(self, checkpoint: Path) -> None: ...

    def stop(self) -> None: ...

    def get_itr_snapshot(self, itr: int) -> dict[str, Any]: ...
