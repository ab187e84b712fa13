"""Action servers: choose actions in one process for the environments of many workers.

In each batch a worker releases ``obs_ready`` T + 1 times (when its observations are in the step
buffer) and acquires ``act_ready`` T times (before it steps). Groups of workers are served in turn.
With overlap, a group steps as soon as its actions are chosen, even while another group's are being
chosen; without overlap, it waits until the other group has stepped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentInputs
from rlpyt.core.rows import rows_of
from rlpyt.distributions.noise import ActingNoise
from rlpyt.samplers._batch_writer import plain
from rlpyt.samplers.parallel._channels import TrajInfoQueue
from rlpyt.samplers.parallel._division import WorkerSpec
from rlpyt.utils.buffer import leaves, map_buffer
from rlpyt.utils.seed import rng_state, set_rng_state
from rlpyt.utils.types import Nested

EVAL_TRAJ_CHECK = 20  # Unused: the number of trajectories is checked in every step.


class Group:
    """Workers whose actions are chosen together.

    Args:
        agent: agent that chooses the actions.
        obs_ready: semaphore of each worker, released when its observations are written.
        act_ready: semaphore of each worker, released when its actions are.
        columns: slice of the batch dimension with the environments of the group.
        step_buffer_np: step buffer [B,...] of these environments.
        agent_inputs: inputs of the agent in the step buffer, as torch tensors.
        null_action: previous action at the start of an episode.
        noise: random numbers for acting.
        waits: whether finished environments wait for the end of the batch.
    """

    def __init__(
        self,
        agent: AgentLike,
        obs_ready: Sequence[Any],
        act_ready: Sequence[Any],
        columns: slice,
        step_buffer_np: Nested,
        agent_inputs: AgentInputs,
        null_action: Nested,
        noise: ActingNoise,
        waits: bool = False,
    ) -> None:
        step = plain(step_buffer_np)
        self.agent = agent
        self.obs_ready, self.act_ready, self.columns = obs_ready, act_ready, columns
        self.agent_inputs, self.noise = agent_inputs, noise
        self._prev_action, self._prev_reward, self._done = step.action, step.reward, step.done
        self._null_action = null_action
        self._action, self._agent_info = rows_of(step.action), rows_of(step.agent_info)
        self._waits, self._is_first_step = waits, True
        self._is_stepping = True  # Workers begin by themselves.

    def await_observations(self) -> None:
        """Wait until all workers have stepped, unless they were awaited before."""
        if self._is_stepping:
            for semaphore in self.obs_ready:
                semaphore.acquire()
            self._is_stepping = False

    def choose_actions(self) -> None:
        """Write the agent's next actions into the step buffer."""
        self._begin_episodes(resets_agent=self._is_first_step or not self._waits)
        self._is_first_step = False
        with self.noise:
            action, agent_info = self.agent.step(*self.agent_inputs)
        # Before the action, which overwrites the inputs that an agent may report.
        if self._agent_info is not None:
            self._agent_info[:] = agent_info
        self._action[:] = action

    def release_actions(self) -> None:
        """Let the workers step."""
        self._is_stepping = True
        for semaphore in self.act_ready:
            semaphore.release()

    def finish(self, agent_samples: Nested = None) -> None:
        """After the last step, reset the agent where episodes ended, and record its value.

        Args:
            agent_samples: agent's half of the batch [T,B,...]; None in an evaluation.
        """
        self._begin_episodes(resets_agent=True)
        self._done[:] = False  # The first step of the next batch does not begin them again.
        self._is_first_step = True
        if agent_samples is not None and "bootstrap_value" in agent_samples:
            value = self.agent.value(*self.agent_inputs)
            agent_samples.bootstrap_value[0, self.columns] = value
        self._is_stepping = True

    def reset_agent(self, columns: Iterable[int]) -> None:
        """Reset the agent's state for those environments in the batch that are in this group."""
        for column in columns:
            if column in self:
                self.agent.reset_one(column - self.columns.start)

    def __contains__(self, column: int) -> bool:
        """Return whether a column of the batch is in this group."""
        return bool(self.columns.start <= column < self.columns.stop)

    def require_drained(self) -> None:
        """Raise ``RuntimeError`` if a semaphore has a count left between batches."""
        for semaphore in (*self.obs_ready, *self.act_ready):
            if semaphore.acquire(block=False):
                raise RuntimeError(
                    "a worker and the action server have lost step: a semaphore is still released. "
                    "If the collector or the server is your own, let a worker release obs_ready "
                    "T + 1 times and acquire act_ready T times in a batch"
                )

    def _begin_episodes(self, resets_agent: bool) -> None:
        for b in np.flatnonzero(self._done).tolist():
            self._prev_action[b] = self._null_action
            self._prev_reward[b] = 0
            if resets_agent:
                self.agent.reset_one(b)


def serve(
    groups: Sequence[Group],
    n_steps: int,
    overlap: bool,
    stop: Callable[[], bool] | None = None,
    has_to_end: Callable[[], bool] = lambda: False,
) -> bool:
    """Choose actions for ``n_steps`` steps of every group.

    Args:
        groups: groups of workers, served in turn.
        n_steps: number of time steps.
        overlap: whether a group may step while actions for another one are chosen. True if there
            is one group only.
        stop: condition for ending early; it is checked only when all groups have taken equally many
            steps, so groups cannot overlap. None to take all steps.
        has_to_end: further condition, without this cost.

    Returns:
        Whether it stopped early. In both cases all workers have taken their last step, and none was
        released after it.
    """
    held: Group | None = None
    for _ in range(n_steps):
        is_last = has_to_end()
        if is_last or stop is not None:
            if held is not None:
                held.release_actions()
                held = None
            for group in groups:
                group.await_observations()
            if is_last or (stop is not None and stop()):
                return True
        for group in groups:
            group.await_observations()
            if held is not None:
                held.release_actions()
            group.choose_actions()
            if overlap:
                group.release_actions()
            else:
                held = group
    for group in groups:
        group.await_observations()
        if held is not None:
            held.release_actions()
            held = None
    return False


class Served(Protocol):
    """Attributes of a sampler that an action server uses.

    Attributes:
        sync: semaphores ``obs_ready`` and ``act_ready`` of each worker, and the flag ``stop_eval``.
        step_buffer_np: arrays exchanged with the workers in a step, [B,...].
        step_buffer_pyt: torch tensors in the memory of ``step_buffer_np``.
        agent_inputs: inputs of the agent among these tensors.
        groups: groups of workers, made by :func:`connect_workers`.
        null_action: previous action at the start of an episode.
        mid_batch_reset: whether finished environments are reset within a batch.
    """

    agent: AgentLike
    batch_spec: Any
    mid_batch_reset: bool
    samples_np: Nested
    sync: Any
    ctrl: Any
    null_action: Nested
    step_buffer_np: Nested
    step_buffer_pyt: Nested
    agent_inputs: Nested
    groups: list[Group]
    eval_n_envs: int
    eval_specs: Sequence[WorkerSpec]
    eval_step_buffer_np: Nested
    eval_step_buffer_pyt: Nested
    eval_agent_inputs: Nested
    eval_groups: list[Group]
    eval_max_T: int | None
    eval_max_trajectories: int | None
    eval_n_episodes: int | None
    eval_traj_infos_queue: TrajInfoQueue
    _stops_evaluation: bool


def connect_workers(
    sampler: Served, workers_kwargs: Sequence[dict[str, Any]], specs: Sequence[WorkerSpec]
) -> None:
    """Give workers their semaphores and parts of the step buffers, and make the groups.

    Args:
        sampler: sampler whose groups are made.
        workers_kwargs: arguments of each worker, extended in place.
        specs: share of each worker.
    """
    sync = sampler.sync
    for worker_kwargs, spec in zip(workers_kwargs, specs):
        worker_kwargs["sync"].obs_ready = sync.obs_ready[spec.rank]
        worker_kwargs["sync"].act_ready = sync.act_ready[spec.rank]
        worker_kwargs["step_buffer_np"] = sampler.step_buffer_np[spec.columns]
    seed = workers_kwargs[0]["envs_seed"]
    env_ranks = [worker_kwargs["env_ranks"] for worker_kwargs in workers_kwargs]
    step_np, inputs = sampler.step_buffer_np, sampler.agent_inputs
    waits = not sampler.mid_batch_reset
    sampler.groups = _groups(sampler, specs, step_np, inputs, seed, env_ranks, waits)
    if sampler.eval_n_envs > 0:
        step_np, inputs = sampler.eval_step_buffer_np, sampler.eval_agent_inputs
        for worker_kwargs, spec in zip(workers_kwargs, sampler.eval_specs):
            worker_kwargs["eval_step_buffer_np"] = step_np[spec.columns]
        env_ranks = [worker_kwargs["eval_env_ranks"] for worker_kwargs in workers_kwargs]
        sampler.eval_groups = _groups(sampler, sampler.eval_specs, step_np, inputs, seed, env_ranks)


def _groups(
    sampler: Served,
    specs: Sequence[WorkerSpec],
    step_buffer_np: Nested,
    agent_inputs: Nested,
    seed: int,
    env_ranks: Sequence[Sequence[int]],
    waits: bool = False,
) -> list[Group]:
    groups = []
    for number in range(specs[-1].group + 1):
        members = [spec for spec in specs if spec.group == number]
        ranks = [spec.rank for spec in members if spec.n_envs]
        columns = slice(members[0].start, members[-1].stop)
        own_ranks = [rank for spec in members for rank in env_ranks[spec.rank]]
        groups.append(
            Group(
                sampler.agent,
                [sampler.sync.obs_ready[rank] for rank in ranks],
                [sampler.sync.act_ready[rank] for rank in ranks],
                columns,
                step_buffer_np[columns],
                agent_inputs[columns],
                sampler.null_action,
                ActingNoise(seed, own_ranks),
                waits,
            )
        )
    return groups


def serve_batch(sampler: Served, overlap: bool) -> None:
    """Choose the actions of one batch, and record the agent's value after it."""
    serve(sampler.groups, sampler.batch_spec.T, overlap)
    for group in sampler.groups:
        group.finish(sampler.samples_np.agent)
        if len(sampler.groups) > 1:
            sampler.agent.toggle_alt()


def serve_again(sampler: Served, columns: Sequence[int], serve_actions: Callable[[], None]) -> None:
    """Choose the actions of the current batch again, for environments of restarted workers.

    Args:
        sampler: sampler whose other workers are absent; their data stay unchanged.
        columns: columns of these environments in the step buffer.
        serve_actions: function that chooses the actions of one batch, for all environments.
    """
    groups, step = sampler.groups, sampler.step_buffer_np
    others = np.setdiff1d(np.arange(len(step.done)), columns)
    buffers = leaves(step)
    if "bootstrap_value" in sampler.samples_np.agent:
        buffers.append(sampler.samples_np.agent.bootstrap_value[0])
    kept = [buffer[others] for buffer in buffers]
    rnn_states = [map_buffer(torch.clone, state) for state in _rnn_states(sampler, groups)]
    noises, random_numbers = [group.noise.state_dict() for group in groups], rng_state()
    for group, noise in zip(groups, noises):
        group.noise.load_state_dict({**noise, "step": noise["step"] - sampler.batch_spec.T})
    step.done[columns] = True  # So that the agent's inputs and state are reset.
    serve_actions()
    # A new worker may have first recorded the last action that was served to the old one.
    sampler.samples_np.agent.prev_action[0, columns] = sampler.null_action
    for buffer, values in zip(buffers, kept):
        buffer[others] = values
    for group, new, old in zip(groups, _rnn_states(sampler, groups), rnn_states):
        own = [column - group.columns.start for column in others if column in group]
        new[:, own] = old[:, own]
    for group, noise in zip(groups, noises):
        group.noise.load_state_dict(noise)
    set_rng_state(random_numbers)


def _rnn_states(sampler: Served, groups: Sequence[Group]) -> list[Nested]:
    """Return the recurrent state [N,B,H] for each group; an empty list if there is none."""
    agent: Any = sampler.agent
    if not agent.recurrent:
        return []
    states = []
    for _ in groups:
        states.append(agent.prev_rnn_state)
        if len(groups) > 1:
            agent.toggle_alt()
    return states


def serve_evaluation(sampler: Served, itr: int, overlap: bool) -> list[Any]:
    """Choose the actions of one evaluation.

    Args:
        sampler: sampler with the groups of workers.
        itr: iteration of the evaluation.
        overlap: whether a group may step while actions for another one are chosen.

    Returns:
        An empty list: all trajectory infos are in the queue.
    """
    limit, to_stop = sampler.eval_max_trajectories or sampler.eval_n_episodes, None
    if limit is not None:  # The check costs the overlap.
        reached = sampler.eval_traj_infos_queue.has_reached(limit)
        again = sampler.ctrl.eval_again

        def to_stop() -> bool:
            return reached() or bool(again.value)

    sampler.agent.reset()
    training_noise = sampler.groups[0].noise
    for group in sampler.eval_groups:
        group.noise = training_noise.for_evaluation(group.noise.env_ranks, itr)
    n_steps = sys.maxsize if sampler.eval_max_T is None else sampler.eval_max_T
    if serve(sampler.eval_groups, n_steps, overlap, to_stop, lambda: sampler._stops_evaluation):
        sampler.sync.stop_eval.value = True
        for group in sampler.eval_groups:
            group.release_actions()
    for group in sampler.eval_groups:
        group.await_observations()
        group.finish()
    return []


class ActionServer:
    """Action server whose groups of workers step as soon as their actions are chosen."""

    def serve_actions(self: Served, itr: int) -> None:
        """Choose the actions of one batch."""
        serve_batch(self, overlap=True)

    def serve_actions_evaluation(self: Served, itr: int) -> list[Any]:
        """Choose the actions of one evaluation, until its limit of steps or trajectories."""
        return serve_evaluation(self, itr, overlap=True)


# With two groups, it chooses actions for one half of the environments while the other half steps.
AlternatingActionServer = ActionServer


class NoOverlapAlternatingActionServer:
    """Action server whose halves step only after the other half has finished."""

    def serve_actions(self: Served, itr: int) -> None:
        """Choose the actions of one batch."""
        serve_batch(self, overlap=False)

    def serve_actions_evaluation(self: Served, itr: int) -> list[Any]:
        """Choose the actions of one evaluation, until its limit of steps or trajectories."""
        return serve_evaluation(self, itr, overlap=False)
