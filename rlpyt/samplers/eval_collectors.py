"""Evaluation in one process: collectors that record only trajectories, and when they end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._step_loop import Actions, ResetNow, StepLoop, heartbeat_of
from rlpyt.samplers.buffer import first_inputs
from rlpyt.utils.types import Nested


class BaseEvalCollector:
    """Base class of evaluation collectors, which record only trajectories.

    Args:
        rank: index of the process.
        envs: evaluation environments.
        TrajInfoCls: class of the trajectory infos.
        traj_infos_queue: queue that completed trajectory infos are sent to.
        max_T: number of time steps in one evaluation; None for no limit.
        agent: agent that acts in this process; None if actions are served.
        sync: semaphores and flags.
        step_buffer_np: numpy record [B,...] shared with an action server.
    """

    # Key of ``_DESCRIPTIONS`` in ``base``; samplers refuse collectors of another kind, if not None.
    kind: str | None = None

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        TrajInfoCls: Any,
        traj_infos_queue: Any,
        max_T: int | None,
        agent: AgentLike | None = None,
        sync: Any = None,
        step_buffer_np: Nested = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.TrajInfoCls = TrajInfoCls
        self.traj_infos_queue = traj_infos_queue
        self.max_T = max_T
        self.agent = agent
        self.sync = sync
        self.step_buffer_np = step_buffer_np

    def collect_evaluation(self, itr: int) -> Any:
        """Run one evaluation."""
        raise NotImplementedError


class LoopEvalCollector(BaseEvalCollector):
    """Evaluation collector that runs the library's step loop, after a reset of all environments.

    Attributes:
        actions: class of the actions: chosen by the agent in this process, or served.
        quota: number of trajectories that each environment completes; None to count all
            trajectories that are complete after ``max_T`` steps.
        env_ranks: indexes of the environments among all evaluation environments.
        acting_noise: random numbers for acting in training, whose seed also serves evaluation;
            None where actions are served, or for torch's global generator.
        has_to_end: whether the evaluation ends after its next step.
    """

    actions: type[Actions]

    quota: Sequence[int] | None = None
    env_ranks: Sequence[int] | None = None
    acting_noise: ActingNoise | None = None
    has_to_end = False

    def collect_evaluation(self, itr: int) -> Any:
        """Run one evaluation in a worker; the queue gets None after its trajectory infos."""
        self.run_evaluation(itr)
        self.traj_infos_queue.put(None)

    def run_evaluation(self, itr: int) -> list[Any]:
        """Reset everything, then step until the end; return the completed trajectory infos."""
        heartbeat = heartbeat_of(self.sync)
        inputs = first_inputs(self.envs, heartbeat, self.env_ranks)
        null_action = self.envs[0].action_space.null_value()
        actions = self.actions(self, inputs, null_action, self._begin(itr), may_stop=True)
        if actions.inputs is not inputs:
            for buffer, start in zip(actions.inputs, inputs):
                buffer[:] = start
        actions.done[:] = False
        if self.quota is None:
            on_done = ResetNow(self.envs, inputs)
        else:
            on_done = ResetUntilQuota(self.envs, inputs, self.quota)
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        loop = StepLoop(
            self.envs, traj_infos, self.TrajInfoCls, actions, on_done, heartbeat, self.env_ranks
        )

        def stop() -> bool:
            return self.has_to_end or self.is_enough(loop)

        return loop.run(self.n_steps, stop=stop, report=self.report)

    def _begin(self, itr: int) -> ActingNoise | None:
        """Prepare the agent for an evaluation; return the random numbers for its actions."""
        if self.agent is not None:
            # The mode first: leaving sample mode, a recurrent agent puts its state aside.
            self.agent.eval_mode(itr)
            self.agent.reset()
        if self.acting_noise is None:
            return None
        env_ranks = range(len(self.envs)) if self.env_ranks is None else self.env_ranks
        return self.acting_noise.for_evaluation(env_ranks, itr)

    @property
    def n_steps(self) -> int:
        """Largest number of time steps in one evaluation."""
        return sys.maxsize if self.max_T is None else self.max_T

    def is_enough(self, loop: StepLoop) -> bool:
        """Return whether to stop before ``max_T``; called after every step."""
        return bool(loop.on_done.waiting.all())

    def report(self, place: tuple[int, int], traj_info: Any) -> None:
        """Pass on a trajectory info as soon as it is complete: to the queue, if there is one.

        Args:
            place: last time step, and index of the environment in the evaluation.
            traj_info: trajectory info; None for a trajectory that ``TrajInfoCls`` left out, which
                counts only towards a quota.
        """
        counts = traj_info is not None or self.quota is not None
        if counts and self.traj_infos_queue is not None:
            self.traj_infos_queue.put(traj_info, place)


class ResetUntilQuota(ResetNow):
    """Rule that lets every environment complete its number of trajectories, then wait for good.

    Which trajectories count is settled before the first step, so short ones are not favoured.

    Args:
        envs: B environments.
        inputs: inputs of the agent.
        quota: number of trajectories in each environment.
    """

    def __init__(self, envs: Sequence[Any], inputs: AgentInputs, quota: Sequence[int]) -> None:
        super().__init__(envs, inputs)
        self._left = list(quota)
        self.waiting[:] = [n == 0 for n in quota]

    def next_observation(self, b: int, observation: Nested, traj_done: bool) -> Nested:
        if traj_done:
            self._left[b] -= 1
            if self._left[b] == 0:
                self.waiting[b] = True
                return self._inputs.observation[b]  # The last one may be anything.
        return super().next_observation(b, observation, traj_done)
