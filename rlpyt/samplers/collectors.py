"""What every collector is given, and how environments are started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._batch_writer import BatchSink
from rlpyt.samplers._step_loop import (
    HoldUntilBatchEnd,
    LocalActions,
    ResetNow,
    ServedActions,
    StepLoop,
    reset_all,
    signs_of,
)
from rlpyt.samplers.buffer import null_inputs
from rlpyt.samplers.eval_collectors import BaseEvalCollector as BaseEvalCollector
from rlpyt.utils.logging import logger
from rlpyt.utils.processes.child import Heartbeat
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import make_generator
from rlpyt.utils.types import Nested


class BaseCollector:
    """Steps its environments for a batch of training samples.

    Args:
        rank: of the process.
        envs: B environments.
        samples_np: numpy record [T,B,...] to write.
        batch_T: time steps of a batch.
        TrajInfoCls: of the trajectories.
        agent: if it acts in this process.
        sync: semaphores, flags and ``heartbeat`` of this worker, in parallel samplers.
        step_buffer_np: [B,...] shared with an action server.
        global_B: environments over all processes.
        env_ranks: of ``envs`` among them.
    """

    mid_batch_reset: bool

    rank: int
    envs: Sequence[Any]
    samples_np: Nested
    batch_T: int
    TrajInfoCls: Any
    agent: Any
    sync: Any
    step_buffer_np: Nested
    global_B: int
    env_ranks: Sequence[int] | None

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        samples_np: Nested,
        batch_T: int,
        TrajInfoCls: Any,
        agent: Any = None,
        sync: Any = None,
        step_buffer_np: Nested = None,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
    ) -> None:
        save__init__args(locals())

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
        """Fill the batch; return the next inputs, running and completed trajectory infos."""
        raise NotImplementedError

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was put off."""

    def state_dict(self) -> dict[str, Any]:
        """Return what the collector itself remembers between batches."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state``."""


class DecorrelatingStartCollector(BaseCollector):
    """Starts every environment at another point of its first episode."""

    # Set by the sampler. Together with each environment's rank it seeds the numbers of steps, which
    # therefore do not depend on how environments are spread over processes.
    start_seed: int | None = None

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[AgentInputs, list[Any]]:
        """Reset all environments, then take a random number of random steps in each.

        Args:
            max_decorrelation_steps: each environment takes 1 to this many steps; 0 for none.

        Returns:
            The agent's inputs as numpy buffers [B,...], and a list of B trajectory infos.
        """
        observations = reset_all(self.envs, signs_of(self.sync), self.env_ranks)
        env_samples = getattr(self.samples_np, "env", None)
        record = None if env_samples is None else env_samples.observation
        inputs = null_inputs(self.envs, observations, self.env_ranks, record)
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        if max_decorrelation_steps:
            if self.rank == 0:
                logger.log(f"Sampler decorrelating envs, max steps: {int(max_decorrelation_steps)}")
            for b in range(len(self.envs)):
                n_steps = 1 + int(self._start_rng(b).random() * max_decorrelation_steps)
                traj_infos[b] = self._random_steps(b, n_steps, inputs, traj_infos[b])
        if self.step_buffer_np is not None:
            self.step_buffer_np.observation[:] = inputs.observation
            self.step_buffer_np.action[:] = inputs.prev_action
            self.step_buffer_np.reward[:] = inputs.prev_reward
        return inputs, traj_infos

    def _start_rng(self, b: int) -> np.random.Generator:
        if self.start_seed is None:
            return make_generator()
        return np.random.default_rng([self.start_seed, self._env_rank(b)])

    def _env_rank(self, b: int) -> int:
        return b if self.env_ranks is None else self.env_ranks[b]

    def _random_steps(self, b: int, n_steps: int, inputs: AgentInputs, traj_info: Any) -> Any:
        env = self.envs[b]
        null_action = env.action_space.null_value()
        signs = signs_of(self.sync)
        Heartbeat.beat(signs, self._env_rank(b))
        for t in range(n_steps):
            signs[Heartbeat.STEPS] = t
            action = env.action_space.sample()
            observation, reward, done, env_info = env.step(action)
            traj_info.step(inputs.observation[b], action, reward, done, None, env_info)
            if getattr(env_info, "traj_done", done):
                Heartbeat.beat(signs, self._env_rank(b))
                observation = env.reset()
                traj_info = self.TrajInfoCls()
            inputs.observation[b] = observation
            inputs.prev_action[b] = null_action if done else action
            inputs.prev_reward[b] = 0 if done else reward
        return traj_info


class LoopCollector(DecorrelatingStartCollector):
    """Collects batches in the one step loop; subclasses name their choices."""

    actions: type[LocalActions] | type[ServedActions]
    on_done: type[ResetNow] | type[HoldUntilBatchEnd]

    _loop: StepLoop | None = None
    _loop_parts: tuple[Any, ...] = ()
    _sinks: tuple[tuple[Any, BatchSink], ...] = ()
    _put_off: dict[str, Any] = {}
    _completed: Sequence[tuple[Any, tuple[int, int]]] = ()

    def collect_batch(
        self, agent_inputs: AgentInputs, traj_infos: list[Any], itr: int
    ) -> tuple[AgentInputs, list[Any], list[Any]]:
        """Fill the batch.

        Args:
            agent_inputs: numpy buffers [B,...], written in place; unused if actions are served.
            traj_infos: of the B running trajectories, written in place.
            itr: the runner's iteration.

        Returns:
            The same two, and the list of completed trajectory infos.
        """
        if self.agent is not None:
            self.agent.sample_mode(itr)
        loop = self._loop_over(agent_inputs, traj_infos)
        completed = loop.run(self.batch_T, self._sink(loop.inputs))
        self._completed = list(zip(completed, loop.completed_at))
        return agent_inputs, traj_infos, completed

    def place_of(self, traj_info: Any) -> tuple[int, int] | None:
        """Time step and index of the environment where a trajectory of the last batch ended.

        Returns:
            None for trajectory infos which a subclass made by itself.
        """
        return next((place for info, place in self._completed if info is traj_info), None)

    def reset_if_needed(self, agent_inputs: AgentInputs) -> None:
        """Reset environments between batches, where that was put off."""
        if self._loop is not None:
            self._loop.reset_if_needed()

    def state_dict(self) -> dict[str, Any]:
        """Return what was put off to the next batch."""
        return self._put_off if self._loop is None else self._loop.on_done.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from ``state`` with the next batch."""
        self._loop, self._put_off = None, state

    def _loop_over(self, agent_inputs: AgentInputs, traj_infos: list[Any]) -> StepLoop:
        """The loop over these objects; made once, since its views of them serve every batch."""
        parts = (agent_inputs, traj_infos, self.envs, self.agent, self.TrajInfoCls)
        if self._loop is None or any(a is not b for a, b in zip(parts, self._loop_parts)):
            put_off = self.state_dict()
            self._loop_parts, self._sinks = parts, ()
            actions = self.actions.of(self, agent_inputs)
            self._loop = StepLoop(
                self.envs,
                traj_infos,
                self.TrajInfoCls,
                actions,
                self.on_done(self.envs, actions.inputs),
                signs_of(self.sync),
                self.env_ranks,
            )
            if put_off:
                self._loop.on_done.load_state_dict(put_off)
        return self._loop

    def _sink(self, inputs: AgentInputs) -> BatchSink:
        """For the buffer of the moment: there are two in asynchronous sampling."""
        for samples_np, sink in self._sinks:
            if samples_np is self.samples_np:
                return sink
        sink = BatchSink(self.samples_np, inputs)
        self._sinks = (*self._sinks[-1:], (self.samples_np, sink))
        return sink
