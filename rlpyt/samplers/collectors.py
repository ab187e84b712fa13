"""Collectors, which step the environments of one process for a batch of training samples.

A collector of your own overrides :meth:`BaseCollector.collect_batch`, usually on top of
:class:`DecorrelatingStartCollector`; the library's own collectors derive from
:class:`LoopCollector`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.masks import random_action
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs, NotFiniteError, trajectory_end
from rlpyt.core.rows import NUMBERS, as_number, is_finite, observation_rows, returned_by
from rlpyt.distributions.noise import ActingNoise
from rlpyt.processes.child import Heartbeat
from rlpyt.samplers._batch_writer import BatchRows
from rlpyt.samplers._step_loop import Actions, EndRule, StepLoop, heartbeat_of
from rlpyt.samplers.buffer import first_inputs
from rlpyt.samplers.eval_collectors import BaseEvalCollector as BaseEvalCollector
from rlpyt.utils.collections import fields_of
from rlpyt.utils.logging import logger
from rlpyt.utils.quick_args import ConstructorSignature
from rlpyt.utils.seed import Purpose, derived_seed, make_generator
from rlpyt.utils.types import Nested


class BaseCollector:
    """Base class of collectors, which step environments for a batch of training samples.

    Args:
        rank: index of the process.
        envs: B environments.
        samples_np: numpy record [T,B,...] to write.
        batch_T: number of time steps in a batch.
        TrajInfoCls: class of the trajectory infos.
        agent: agent that acts in this process; None if actions are served.
        sync: AttrDict of semaphores, flags and ``heartbeat`` of this worker, in parallel samplers.
        step_buffer_np: numpy record [B,...] shared with an action server.
        global_B: number of environments over all processes.
        env_ranks: indexes of ``envs`` over all processes.
    """

    __signature__ = ConstructorSignature()

    # Key of ``_DESCRIPTIONS`` in ``base``; samplers refuse collectors of another kind, if not None.
    kind: str | None = None

    mid_batch_reset: bool

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        samples_np: Nested,
        batch_T: int,
        TrajInfoCls: Any,
        agent: AgentLike | None = None,
        sync: Any = None,
        step_buffer_np: Nested = None,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.samples_np = samples_np
        self.batch_T = batch_T
        self.TrajInfoCls = TrajInfoCls
        self.agent = agent
        self.sync = sync
        self.step_buffer_np = step_buffer_np
        self.global_B = global_B
        self.env_ranks = env_ranks

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[AgentInputs, list[Any]]:
        """Reset all environments and return the agent's first inputs and the trajectory infos."""
        raise NotImplementedError

    def start_agent(self) -> None:
        """Make the agent ready to act on the environments of this collector."""
        if self.agent is not None:
            self.agent.collector_initialize(global_B=self.global_B, env_ranks=self.env_ranks)
            self.agent.reset()
            self.agent.sample_mode(itr=0)

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: list[Any], itr: int
    ) -> tuple[AgentInputs, list[Any], list[Any]]:
        """Fill the batch.

        Args:
            agent_inputs: numpy buffers [B,...], written in place; unused if actions are served.
            traj_infos: trajectory infos of the B running trajectories, written in place.
            itr: iteration of the runner.

        Returns:
            The next inputs, the running and the completed trajectory infos.
        """
        raise NotImplementedError

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was postponed."""

    def state_dict(self) -> dict[str, Any]:
        """Return the collector's own state between batches."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""

    def release(self, columns: Sequence[int]) -> None:
        """Let environments without a loaded state continue.

        Args:
            columns: indexes among the environments of this collector.
        """


class DecorrelatingStartCollector(BaseCollector):
    """Collector that starts every environment at a different point of its first episode."""

    # Set by the sampler. Together with each environment's rank it seeds the numbers of steps, which
    # therefore do not depend on how environments are spread over processes.
    start_seed: int | None = None
    # Set by the sampler too, unless actions are served.
    acting_noise: ActingNoise | None = None
    _is_finite = True  # All observations up to now.

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[AgentInputs, list[Any]]:
        """Reset all environments, then take a random number of random steps in each.

        Args:
            max_decorrelation_steps: largest number of steps; each environment takes 1 or more.
                0 for no steps.

        Returns:
            The agent's inputs as numpy buffers [B,...], and a list of B trajectory infos.
        """
        record = self.samples_np.env.observation if "env" in fields_of(self.samples_np) else None
        inputs = first_inputs(self.envs, heartbeat_of(self.sync), self.env_ranks, record)
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        if max_decorrelation_steps:
            n_steps = self._decorrelation_steps(len(self.envs), max_decorrelation_steps)
            for b, n in enumerate(n_steps):
                traj_infos[b] = self._random_steps(b, n, inputs, traj_infos[b])
        if self.step_buffer_np is not None:
            self.step_buffer_np.observation[:] = inputs.observation
            self.step_buffer_np.action[:] = inputs.prev_action
            self.step_buffer_np.reward[:] = inputs.prev_reward
            # At the start of an episode the server resets the agent's state, which may be that of
            # a worker before this one.
            self.step_buffer_np.done[:] = not max_decorrelation_steps
        return inputs, traj_infos

    def state_dict(self) -> dict[str, Any]:
        noise = self.acting_noise
        return {} if noise is None else {"acting_noise": noise.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.acting_noise is not None:
            self.acting_noise.load_state_dict(state["acting_noise"])

    def _decorrelation_steps(self, B: int, max_steps: int) -> list[int]:
        """Draw each environment's number of random steps, 1 to ``max_steps``."""
        if self.rank == 0:
            logger.log(f"Sampler decorrelating envs, max steps: {int(max_steps)}")
        n_steps = []
        for b in range(B):
            if self.start_seed is None:
                rng = make_generator()
            else:
                rng = np.random.default_rng(
                    derived_seed(self.start_seed, Purpose.DECORRELATION, self._env_rank(b))
                )
            n_steps.append(1 + int(rng.random() * max_steps))
        return n_steps

    def _look_at(self, samples: Nested) -> None:
        """Log the first observation of a batch that is not finite, once."""
        for name in ("observation", "next_observation"):
            if self._is_finite and name in samples.env._fields:
                self._is_finite = is_finite(getattr(samples.env, name), self._env_rank)

    def _env_rank(self, b: int) -> int:
        return b if self.env_ranks is None else self.env_ranks[b]

    def _random_steps(self, b: int, n_steps: int, inputs: AgentInputs, traj_info: Any) -> Any:
        """Take random steps in environment ``b``; return its running trajectory info."""
        env = self.envs[b]
        null_action = env.action_space.null_value()
        rows = observation_rows(inputs.observation, 1)
        heartbeat = heartbeat_of(self.sync)
        Heartbeat.beat(heartbeat, self._env_rank(b))
        for t in range(n_steps):
            heartbeat[Heartbeat.STEPS] = t
            action = random_action(env.action_space, inputs.observation[b])
            inputs.prev_action[b] = action  # Before environments may write into it.
            with returned_by(env, self._env_rank(b)):
                observation, reward, done, env_info = env.step(action)
                if type(reward) not in NUMBERS or reward != reward:
                    reward = as_number(reward, action)
                traj_info.step(inputs.observation[b], action, reward, done, None, env_info)
                if trajectory_end(env_info, done):
                    Heartbeat.beat(heartbeat, self._env_rank(b))
                    observation = env.reset()
                    traj_info = self.TrajInfoCls()
                rows[b] = observation
            if done:
                inputs.prev_action[b] = null_action
            inputs.prev_reward[b] = 0 if done else reward
        return traj_info


class LoopCollector(DecorrelatingStartCollector):
    """Collector that runs the library's step loop; subclasses name its two choices.

    Attributes:
        actions: class of the actions: chosen by the agent in this process, or served.
        on_done: class of the rule for the end of an episode.
    """

    actions: type[Actions]
    on_done: type[EndRule]

    _loop: StepLoop | None = None
    _batches: tuple[BatchRows, ...] = ()
    _put_off: dict[str, Any] = {}

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: list[Any], itr: int
    ) -> tuple[AgentInputs, list[Any], list[Any]]:
        if self.agent is not None:
            self.agent.sample_mode(itr)
        if self._loop is None:
            self._loop = self._make_loop(agent_inputs, traj_infos)
        try:
            completed = self._loop.run(self.batch_T, self._batch_rows())
        except NotFiniteError:  # Of the agent, perhaps because of what it observed.
            self._look_at(self.samples_np)
            raise
        self._look_at(self.samples_np)
        return agent_inputs, traj_infos, completed

    def place_of(self, traj_info: Any) -> tuple[int, int] | None:
        """Return time step and environment where a trajectory of the last batch was completed.

        Args:
            traj_info: trajectory info; for one that a subclass made by itself, None is returned.
        """
        if self._loop is None:
            return None
        places = zip(self._loop.completed, self._loop.completed_at)
        return next((place for info, place in places if info is traj_info), None)

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        if self._loop is not None and self._loop.on_done.need_reset.any():
            self._loop.reset_waiting()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "put_off": self._state_put_off()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self._loop is not None:
            self._loop.on_done.begin_batch()
        self._loop, self._put_off = None, state.get("put_off", state)

    def _state_put_off(self) -> dict[str, Any]:
        return self._put_off if self._loop is None else self._loop.on_done.state_dict()

    def release(self, columns: Sequence[int]) -> None:
        self._put_off = copy.deepcopy(self._put_off)
        for name in ("waiting", "need_reset"):
            if name in self._put_off:
                self._put_off[name][columns] = False

    def _make_loop(self, agent_inputs: AgentInputs, traj_infos: list[Any]) -> StepLoop:
        """Make the loop over these objects; its views of them serve every batch."""
        null_action = self.envs[0].action_space.null_value()
        actions = self.actions(self, agent_inputs, null_action, self.acting_noise)
        loop = StepLoop(
            self.envs,
            traj_infos,
            self.TrajInfoCls,
            actions,
            self.on_done(self.envs, actions.inputs),
            heartbeat_of(self.sync),
            self.env_ranks,
        )
        if self._put_off:
            loop.on_done.load_state_dict(self._put_off)
        return loop

    def _batch_rows(self) -> BatchRows:
        """Return the rows of the current batch; asynchronous sampling has two in turn."""
        for batch in self._batches:
            if batch.samples_np is self.samples_np:
                return batch
        batch = BatchRows(self.samples_np)
        self._batches = (*self._batches[-1:], batch)
        return batch
