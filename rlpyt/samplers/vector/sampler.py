"""A sampler with one batched step of a vector environment and of the agent per time step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlpyt.core.protocols import AgentLike, VectorEnvLike
from rlpyt.core.records import AgentInputs, EnvStep
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._env_states import (
    env_state,
    envs_without_state,
    load_env_states,
    load_rows,
)
from rlpyt.samplers.base import (
    BaseSampler,
    EnvKwargs,
    check_recurrence,
    configure_traj_infos,
)
from rlpyt.samplers.buffer import build_samples_buffer, get_example_outputs
from rlpyt.samplers.vector._loop import Trajectories
from rlpyt.samplers.vector.collectors import VectorEvalCollector, VectorResetCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.seed import Purpose, env_seeds
from rlpyt.utils.types import Nested


class VectorSampler(BaseSampler):
    """Steps all environments by one call, in the process of the runner.

    Its batches are those of any other sampler: a row for every action, none for a reset.

    Args as of :class:`~rlpyt.samplers.base.BaseSampler`, but ``EnvCls`` makes the vector
    environment: it is called with ``num_envs`` and ``env_kwargs``, which is one mapping for all,
    and returns a :class:`~rlpyt.envs.vector.VectorEnvWrapper`, or an object with its methods:
    ``rlpyt.envs.vector.make`` by the id of gymnasium, ``rlpyt.envs.atari.vector.AtariVector`` for
    games. A finished episode is always followed by the next one; ``mid_batch_reset`` is True.

    Raises:
        TypeError: if ``env_kwargs`` or ``eval_env_kwargs`` is no mapping.
    """

    agent: AgentLike
    env: Any = None
    eval_env: Any = None
    agent_inputs: AgentInputs
    trajectories: Trajectories
    collector: Any = None
    eval_collector: Any = None

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
        self._check_settings()
        for name in ("env_kwargs", "eval_env_kwargs"):
            value = getattr(self, name)
            if not isinstance(value, Mapping) and not (name[:4] == "eval" and value is None):
                raise TypeError(
                    f"{name} is {value!r}: one vector environment takes one mapping for all of its "
                    "parts; use another sampler for environments that differ"
                )

    def initialize(
        self,
        agent: AgentLike,
        affinity: Any = None,
        seed: int | None = None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> dict[str, Any]:
        """Make environments and buffers, initialize the agent, and start both.

        Args:
            agent: agent, which is initialized with the spaces of one environment.
            affinity: unused; the runner sets that of its process.
            seed: seed from which those of all environments are derived, by their indexes over all
                processes; None to leave environments as they were made.
            bootstrap_value: whether to record the agent's value after the last step of a batch.
            traj_info_kwargs: values of attributes ``_<name>`` of ``TrajInfoCls``.
            rank: index of this process among ``world_size``.
            world_size: number of processes that sample the same way.

        Returns:
            Examples of the entries of the buffers, see
            :func:`~rlpyt.samplers.buffer.build_samples_buffer`.
        """
        check_recurrence(self, agent)
        B = self.batch_spec.B
        global_B, env_ranks = B * world_size, list(range(rank * B, (rank + 1) * B))
        self.agent = agent
        self.env = self._make_env(self.env_kwargs, B)
        agent.initialize(
            self.env.spaces, share_memory=False, global_B=global_B, env_ranks=env_ranks
        )
        examples: dict[str, Any] = {}
        get_example_outputs(agent, FirstOf(self.env), examples)
        self.samples_pyt, self.samples_np, examples = build_samples_buffer(
            agent,
            self.env,
            self.batch_spec,
            bootstrap_value,
            agent_shared=False,
            env_shared=False,
            subprocess=False,
            examples=examples,
            next_observation=self.record_next_observation,
        )
        configure_traj_infos(self.TrajInfoCls, traj_info_kwargs)
        seeds = env_seeds(seed, env_ranks)
        if seeds is not None:  # After the example step, which leaves no trace then.
            self.env.seed(seeds)
        self.collector = self.CollectorCls(
            rank=0,
            envs=self.env,
            samples_np=self.samples_np,
            batch_T=self.batch_spec.T,
            TrajInfoCls=self.TrajInfoCls,
            agent=agent,
            global_B=global_B,
            env_ranks=env_ranks,
        )
        self.collector.start_seed = seed
        self.collector.acting_noise = ActingNoise(seed, env_ranks)
        if self.eval_n_envs > 0:
            self._make_evaluation(seed, rank)
        self.agent_inputs, self.trajectories = self.collector.start_envs(
            self.max_decorrelation_steps
        )
        self.collector.start_agent()
        logger.log("Vector Sampler initialized.")
        return examples

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch; see :meth:`BaseSampler.obtain_samples`."""
        self._check_started()
        _, _, completed = self.collector.collect_batch(self.agent_inputs, self.trajectories, itr)
        return self.samples_pyt, completed

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run one evaluation and return its completed trajectory infos.

        Raises:
            ValueError: if the sampler has no evaluation environments.
        """
        self._check_started(to_evaluate=True)
        infos: list[Any] = self.eval_collector.collect_evaluation(itr)
        return infos

    def shutdown(self) -> None:
        """Close all environments."""
        for env in (self.env, self.eval_env):
            if env is not None:
                env.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, trajectories and acting agent."""
        return {
            "env": env_state(self.env),
            "eval_env": None if self.eval_env is None else env_state(self.eval_env),
            "agent_inputs": self.agent_inputs._asdict(),
            "trajectories": self.trajectories.state_dict(),
            "collector": self.collector.state_dict(),
            "agent": self.agent.sample_state_dict(),
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
            for buffer, saved in zip(self.agent_inputs, state["agent_inputs"].values()):
                load_rows(buffer, saved, range(self.batch_spec.B))
            self.trajectories.load_state_dict(state["trajectories"])
        self.collector.load_state_dict(state["collector"])
        self.agent.load_sample_state_dict(state["agent"])
        for b in lost:
            self.agent.reset_one(b)

    def envs_without_state(self, state: dict[str, Any]) -> dict[int, str]:
        return {
            b: reason
            for reason in envs_without_state([state["env"]]).values()
            for b in range(self.batch_spec.B)
        }

    def _make_env(self, env_kwargs: EnvKwargs, n: int) -> Any:
        assert isinstance(env_kwargs, Mapping), "checked by the constructor"
        env = self.EnvCls(**{"num_envs": n, **env_kwargs})
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

    def _make_evaluation(self, seed: int | None, rank: int) -> None:
        n = self.eval_n_envs
        kwargs = self.env_kwargs if self.eval_env_kwargs is None else self.eval_env_kwargs
        self.eval_env = self._make_env(kwargs, n)
        env_ranks = range(rank * n, (rank + 1) * n)
        seeds = env_seeds(seed, env_ranks, Purpose.EVAL_ENVIRONMENT)
        if seeds is not None:
            self.eval_env.seed(seeds)
        CollectorCls = self.eval_CollectorCls or VectorEvalCollector
        self.eval_collector = CollectorCls(
            envs=self.eval_env,
            agent=self.agent,
            TrajInfoCls=self.TrajInfoCls,
            max_T=self._eval_time_limit(),
            max_trajectories=self.eval_max_trajectories,
            quota=self._eval_quota(),
        )
        self.eval_collector.env_ranks = env_ranks
        self.eval_collector.acting_noise = self.collector.acting_noise


class FirstOf:
    """The first part of a vector environment, for one example step."""

    def __init__(self, env: VectorEnvLike) -> None:
        self._env = env
        self.spaces = env.spaces
        self.observation_space, self.action_space = env.spaces
        self.close = env.close

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step(self, action: Nested) -> EnvStep:
        actions: Any = self._env.sample_actions()
        actions[0] = action
        step = self._env.step(actions)
        env_info = step.env_info[0] if step.env_info else step.env_info
        return EnvStep(step.observation[0], step.reward[0], bool(step.done[0]), env_info)
