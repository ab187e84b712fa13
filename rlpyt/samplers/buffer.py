"""Batches and inputs of the agent, allocated by example: one real step shows every entry."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import psutil
import torch

from rlpyt.core.masks import random_action
from rlpyt.core.protocols import AgentLike, EnvLike
from rlpyt.core.records import (
    AgentInputs,
    AgentSamples,
    AgentSamplesBsv,
    BatchSpec,
    EnvSamples,
    Samples,
    is_image,
    stacking_of,
    trajectory_end,
)
from rlpyt.core.rows import (
    as_element,
    as_number,
    observation_rows,
    returned_by,
    warn_of_unscaled_images,
)
from rlpyt.processes.child import Heartbeat, at_exit
from rlpyt.processes.primitives import Semaphore
from rlpyt.processes.supervisor import Supervisor
from rlpyt.utils.buffer import (
    buffer_from_example,
    buffer_to,
    map_buffer,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import fields_of, record_class
from rlpyt.utils.types import NDArray, Nested

EXAMPLE_TIMEOUT_S = 300.0


def build_samples_buffer(
    agent: AgentLike,
    env: EnvLike,
    batch_spec: BatchSpec,
    bootstrap_value: bool = False,
    agent_shared: bool = True,
    env_shared: bool = True,
    subprocess: bool = True,
    examples: dict[str, Any] | None = None,
    next_observation: bool = False,
    device: torch.device | None = None,
) -> tuple[Nested, Nested, dict[str, Any]]:
    """Allocate the batch that collectors write and algorithms read.

    Action and reward are arrays of T + 1 rows, of which ``prev_action`` and ``prev_reward`` view
    the first T and ``action`` and ``reward`` the last T: writing ``action[t]`` writes
    ``prev_action[t + 1]``.

    Args:
        agent: initialized agent.
        env: environment, which is reset and stepped once.
        batch_spec: numbers T of time steps and B of environments.
        bootstrap_value: whether to allocate the agent's value after the last step, [1,B].
        agent_shared: whether child processes share the memory of the agent's half.
        env_shared: whether child processes share the memory of the environments' half.
        subprocess: whether to make the example step in a temporary process, so that this process
            has no thread pools before it forks.
        examples: dict, filled in place with an example (without leading dimensions) of observation,
            reward, done, env_info, action and agent_info; used unchanged if already filled.
        next_observation: whether to allocate ``env.next_observation`` [T,B,...], the observation
            that the environment returned for each action, even where it was then reset; if so,
            the examples contain one.
        device: device of the batch; None for the CPU, where it is numpy arrays as well.

    Returns:
        The batch as torch tensors, the same memory as numpy arrays (with a ``device``, the tensors
        again), and the examples.
    """
    if not examples:
        examples = {} if examples is None else examples
        get_example_outputs(agent, env, examples, subprocess=subprocess)
    T, B = batch_spec

    if env is not None:
        _check_action_fields(examples["action"], env)
        warn_of_unscaled_images(examples["observation"], env.spaces.observation)

    def allocate(name: str, rows: int, shared: bool) -> Nested:
        try:
            buffer = buffer_from_example(examples[name], (rows, B), share_memory=shared)
            return buffer if device is None else buffer_to(torchify_buffer(buffer), device)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} of {type(env).__name__} with {type(agent).__name__} cannot be buffered "
                f"({error}): it was {examples[name]!r}, but has to be an array of numbers, None, "
                "or a (nested) namedtuple of these"
            ) from error

    all_action = allocate("action", T + 1, agent_shared)
    all_reward = allocate("reward", T + 1, env_shared)
    agent_parts = [all_action[1:], all_action[:-1], allocate("agent_info", T, agent_shared)]
    if bootstrap_value:
        if "value" not in fields_of(examples["agent_info"]):
            raise ValueError(
                f"the algorithm needs bootstrap values, but agent_info of {type(agent).__name__} "
                "has no field 'value': use an agent with a value function"
            )
        value = buffer_from_example(examples["agent_info"].value, (1, B), share_memory=agent_shared)
        if device is not None:
            value = buffer_to(torchify_buffer(value), device)
        agent_half: Nested = AgentSamplesBsv._make([*agent_parts, value])
    else:
        agent_half = AgentSamples._make(agent_parts)
    env_half: Nested = EnvSamples(
        observation=allocate("observation", T, env_shared),
        reward=all_reward[1:],
        prev_reward=all_reward[:-1],
        done=allocate("done", T, env_shared),
        env_info=allocate("env_info", T, env_shared),
    )
    if next_observation:
        extended = record_class("EnvSamples", (*EnvSamples._fields, "next_observation"))
        env_half = extended(*env_half, allocate("observation", T, env_shared))
        examples["next_observation"] = examples["observation"]
    samples_np = Samples(agent=agent_half, env=env_half)
    return torchify_buffer(samples_np), samples_np, examples


def get_example_outputs(
    agent: AgentLike, env: EnvLike, examples: dict[str, Any], subprocess: bool = False
) -> None:
    """Reset and step ``env`` once, step ``agent`` once, and store what they return.

    Args:
        agent: initialized agent, which is reset before its step.
        env: environment.
        examples: dict to write, see :func:`build_samples_buffer`.
        subprocess: whether to step in a temporary process, with one torch thread.

    Raises:
        WorkerError: if the temporary process fails; shows its traceback.
    """
    if subprocess:
        examples.update(_in_child(agent, env))
        return
    first = env.reset()
    action = random_action(env.action_space, first)
    last, reward, done, env_info = env.step(action)
    observation = as_element(first if last is None else last, env.spaces.observation)
    with returned_by(env):
        observation_rows(buffer_from_example(observation, 1), 1)[0] = first
        reward = np.asarray(as_number(reward, action), dtype="float32")
    if is_image(observation):
        examples["stacking"] = _stacking(env, first, observation, bool(done))
    agent.reset()
    inputs = torchify_buffer(AgentInputs(observation, action, reward))
    action, agent_info = agent.step(*inputs)
    if "prev_rnn_state" in fields_of(agent_info):
        # The agent's state always has a batch dimension, [B,N,H]; examples have none.
        agent_info = agent_info._replace(prev_rnn_state=agent_info.prev_rnn_state[0])
    examples.update(
        observation=observation,
        reward=reward,
        done=done,
        # Without an is_success beside its fields, which only the ends of episodes may have.
        env_info=env_info._make(env_info) if fields_of(env_info) else env_info,
        action=action,
        agent_info=agent_info,
    )


def _stacking(env: EnvLike, first: NDArray, second: NDArray, is_over: bool) -> str | None:
    """Find out by a few steps and a second reset whether images [C,H,W] are stacks of frames.

    Args:
        env: environment.
        first: observation after a reset.
        second: observation after the first step.
        is_over: whether the episode has ended there.

    Returns:
        Result of :func:`~rlpyt.core.records.stacking_of`.
    """
    space = env.spaces.observation
    seen = [np.array(as_element(first, space)), np.array(second)]
    while not is_over and len(seen) < len(second) + 2:
        observation, _, done, env_info = env.step(random_action(env.action_space, seen[-1]))
        if observation is None:
            break
        seen.append(np.array(as_element(observation, space)))
        is_over = trajectory_end(env_info, done)
    return stacking_of(seen, np.array(as_element(env.reset(), space)))


def null_inputs(observation: Nested, B: int, action_space: Any) -> AgentInputs:
    """Allocate the agent's inputs at the start of an episode, as numpy buffers [B,...].

    Args:
        observation: example of an observation, without leading dimensions.
        B: number of environments.
        action_space: action space of an environment.

    Returns:
        AgentInputs [B,...]: observations yet to be written, null actions and zero rewards.
    """
    null_action = action_space.null_value()
    action = buffer_from_example(null_action, B)
    action[:] = null_action
    reward = np.zeros(B, dtype="float32")
    return AgentInputs(buffer_from_example(observation, B), action, reward)


def first_inputs(
    envs: Sequence[EnvLike],
    heartbeat: Any,
    env_ranks: Sequence[int] | None = None,
    record: Nested = None,
) -> AgentInputs:
    """Reset all environments, and return the agent's first inputs as numpy buffers [B,...].

    Args:
        envs: B environments.
        heartbeat: values of this process's heartbeat.
        env_ranks: indexes of ``envs`` over all processes; 0 to B - 1 if None.
        record: buffer [T,B,...] that observations will be recorded in; None if there is none.

    Raises:
        MisfitError: if an observation has another shape.
    """
    ranks = range(len(envs)) if env_ranks is None else env_ranks
    observations = []
    for env, rank in zip(envs, ranks):
        Heartbeat.beat(heartbeat, rank)
        observations.append(env.reset())
    Heartbeat.beat(heartbeat, -1)
    if record is None:
        example = as_element(observations[0], envs[0].spaces.observation)
    else:
        example = map_buffer(lambda array: array[0, 0], record)
    inputs = null_inputs(example, len(envs), envs[0].action_space)
    rows = observation_rows(inputs.observation, 1)
    for b, observation in enumerate(observations):
        with returned_by(envs[b], ranks[b]):
            rows[b] = observation
    return inputs


def _check_action_fields(action: Nested, env: EnvLike) -> None:
    """Raise ``ValueError`` if agent and environment name the parts of an action differently."""
    fields = fields_of(action)
    expected = fields_of(env.action_space.null_value())
    if fields != expected:
        raise ValueError(
            f"the agent's action has the fields {fields}, the action space of {type(env).__name__} "
            f"has {expected}: let the agent return a namedarraytuple of these names in this order "
            "(gymnasium sorts those of a Dict space)"
        )


def _in_child(agent: AgentLike, env: EnvLike) -> dict[str, Any]:
    pool = Supervisor("fork")  # Environment and agent need not pickle.
    receiver, sender = map(pool.files.enter_context, pool.context.Pipe(duplex=False))
    deadline = time.monotonic() + EXAMPLE_TIMEOUT_S

    def is_there(block: bool, timeout: float | None) -> bool:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"the example step took over {EXAMPLE_TIMEOUT_S:.0f} s: find what blocks the "
                "environment or agent, with example_subprocess=False"
            )
        return bool(receiver.poll(timeout))

    try:
        kwargs = dict(sender=sender, agent=agent, env=env, end=Semaphore(pool))
        pool.start(_send_examples, kwargs, "the example step, in a temporary process")
        sender.close()
        pool.wait_for(is_there)
        try:
            examples: dict[str, Any] = receiver.recv()
        except EOFError:
            raise pool.children[0].error() from None
    finally:
        pool.terminate()
    for name in ("action", "agent_info"):
        examples[name] = torchify_buffer(examples[name])
    return examples


def _end_children() -> None:
    """End what the example step has started; the environment is the parent's to close."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.terminate()


def _send_examples(sender: Any, agent: AgentLike, env: EnvLike, end: Semaphore) -> None:
    torch.set_num_threads(1)
    at_exit(_end_children)
    examples: dict[str, Any] = {}
    get_example_outputs(agent, env, examples)
    for name in ("action", "agent_info"):
        examples[name] = numpify_buffer(examples[name])
    sender.send(examples)
    end.acquire()  # Never released: the parent ends this process once it has the examples.
