"""A sampler that steps a vector environment and the agent once per time step, batched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rlpyt.core.masks import redrawn
from rlpyt.core.protocols import VectorEnvLike
from rlpyt.core.records import EnvStep
from rlpyt.core.rows import fitted, returned_by
from rlpyt.core.statistics import HasStatistics
from rlpyt.samplers._env_states import (
    env_state,
    envs_without_state,
    load_agent_state,
    load_env_states,
    load_rows,
)
from rlpyt.samplers.base import EnvKwargs
from rlpyt.samplers.buffer import get_example_outputs
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.utils.buffer import leaves, numpify_buffer
from rlpyt.utils.types import Nested


class VectorSampler(SerialSampler):
    """Sampler that steps all environments in one call, in the runner's process.

    Its batches equal those of any other sampler: a row for every action, none for a reset.

    Arguments as for :class:`~rlpyt.samplers.base.BaseSampler`, but ``EnvCls`` makes the vector
    environment. It is called with ``num_envs`` and ``env_kwargs`` (one mapping for all), and
    returns a :class:`~rlpyt.envs.vector.VectorEnvWrapper` or an object with the same methods. Use
    ``rlpyt.envs.vector.make`` for gymnasium ids, and ``rlpyt.envs.atari.vector.AtariVector`` for
    Atari games. A finished episode is always followed by the next one; ``mid_batch_reset`` is True.

    Raises:
        TypeError: if ``env_kwargs`` or ``eval_env_kwargs`` is not a mapping.
    """

    env: Any = None
    eval_env: Any = None
    traj_infos: Any  # Trajectories.

    _fitting_collectors = (VectorResetCollector, VectorEvalCollector)

    def __init__(
        self,
        *args: Any,
        CollectorCls: Any = VectorResetCollector,
        eval_CollectorCls: Any = VectorEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
        for name in ("env_kwargs", "eval_env_kwargs"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) and not (name[:4] == "eval" and value is None):
                raise TypeError(
                    f"{name} is {value!r}: one vector environment takes one mapping for all of its "
                    "parts; use another sampler for environments that differ"
                )

    @property
    def _all_envs(self) -> tuple[list[Any], list[Any]]:
        training, evaluation = ([] if env is None else [env] for env in (self.env, self.eval_env))
        return training, evaluation

    def _make_envs(self, seed: int | None, env_ranks: Sequence[int]) -> list[Any]:
        """Make the vector environment; it is seeded after its example step."""
        self.env = self._make_env(self.env_kwargs, len(env_ranks))
        return [self.env]

    def _make_eval_envs(self, env_ranks: Sequence[int]) -> list[Any]:
        kwargs = self.env_kwargs if self.eval_env_kwargs is None else self.eval_env_kwargs
        self.eval_env = self._make_env(kwargs, len(env_ranks))
        return [self.eval_env]

    def _seed_envs(self, envs: Sequence[Any], seeds: list[int] | None) -> None:
        if seeds is not None:
            envs[0].seed(seeds)

    def _example_env(self, first: int = 0) -> Any:
        kwargs: Any = self.env_kwargs
        return FirstEnv(self.EnvCls(**{"num_envs": 1, **kwargs}))

    def _example_outputs(self) -> dict[str, Any]:
        examples: dict[str, Any] = {}
        get_example_outputs(self.agent, FirstEnv(self.env), examples)
        return examples

    def _collected(self, envs: Sequence[Any]) -> Any:
        return envs[0]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, trajectories and acting agent."""
        return {
            "env": env_state(self.env),
            "eval_env": None if self.eval_env is None else env_state(self.eval_env),
            "agent_inputs": self.agent_inputs._asdict(),
            "trajectories": self.traj_infos.state_dict(),
            "collector": self.collector.state_dict(),
            "agent": self.agent.sample_state_dict(),
            "streams": self._streams.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state``; the sampler must be initialized with the same sizes."""
        if (state["eval_env"] is None) != (self.eval_env is None):
            raise ValueError(
                f"eval_n_envs is {self.eval_n_envs}, and the saved sampler had "
                f"{'none' if state['eval_env'] is None else 'some'}: resume with the same number"
            )
        load_env_states([self.env], [state["env"]])
        if self.eval_env is not None:
            load_env_states([self.eval_env], [state["eval_env"]])
        lost = self.envs_without_state(state)
        if not lost:
            self._load_inputs(state["agent_inputs"])
            self.traj_infos.load_state_dict(state["trajectories"])
        self.collector.load_state_dict(state["collector"])
        load_agent_state(self.agent, state["agent"], lost)
        self._load_streams(state)

    def _load_inputs(self, saved: dict[str, Any]) -> None:
        for buffer, saved_buffer in zip(self.agent_inputs, saved.values()):
            load_rows(buffer, saved_buffer, range(self.batch_spec.B))

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        return {
            b: reason
            for reason in envs_without_state([state["env"]]).values()
            for b in range(self.batch_spec.B)
        }

    def _make_env(self, env_kwargs: EnvKwargs, n: int) -> Any:
        assert isinstance(env_kwargs, Mapping), "checked by the constructor"
        env = self.EnvCls(**{"num_envs": n, **env_kwargs})
        self._open_envs = [*self._open_envs, env]
        if not hasattr(env, "sample_actions"):
            raise TypeError(
                f"EnvCls made {env!r}, not a vector environment of this library: use "
                "rlpyt.envs.vector.make or AtariVector, or wrap it in VectorEnvWrapper"
            )
        if env.num_envs != n:
            raise ValueError(
                f"the vector environment has num_envs {env.num_envs}, but the sampler needs {n} "
                "(batch_B, or eval_n_envs): leave num_envs out of env_kwargs"
            )
        return env


class FirstEnv:
    """The first part of a vector environment, for one example step."""

    def __init__(self, env: VectorEnvLike) -> None:
        self._env = env
        self.spaces = env.spaces
        self.observation_space, self.action_space = env.spaces
        self.close = env.close
        if isinstance(env, HasStatistics):
            self.statistics, self.use_statistics = env.statistics, env.use_statistics

    def reset(self) -> Any:
        self._observation = self._env.reset()
        return numpify_buffer(self._observation[0])

    def step(self, action: Nested) -> EnvStep:
        draw = self._env.sample_actions
        actions: Any = redrawn(draw(), self._observation, self.action_space, draw)
        for rows, part in zip(leaves(actions), leaves(action)):
            rows[0] = torch.from_numpy(part) if isinstance(rows, torch.Tensor) else part
        step = self._env.step(actions)
        self._observation = step.next_inputs
        env_info = step.env_info[0] if step.env_info else step.env_info
        with returned_by(self._env):
            reward = fitted(step.reward, (self._env.num_envs,), "reward")
        observation, reward = numpify_buffer(step.observation[0]), numpify_buffer(reward[0])
        return EnvStep(observation, reward, bool(step.done[0]), numpify_buffer(env_info))
