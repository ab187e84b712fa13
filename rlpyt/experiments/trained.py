"""Agents of finished runs, which act without a sampler or a runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import EnvSpaces
from rlpyt.core.statistics import Statistics
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.gym_state import layers_of
from rlpyt.experiments.acting import Normalization, greedy, step_from
from rlpyt.experiments.evaluation import (
    find_snapshot,
    load_agent,
    load_snapshot,
    load_state,
    with_statistics,
)
from rlpyt.experiments.export import export as export_policy
from rlpyt.experiments.program import Call, agent_call, environment_kwargs
from rlpyt.models.rnn import zeroed
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.buffer import (
    buffer_from_example,
    existing_device,
    leaves,
    map_buffer,
    numpify_buffer,
)
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested


class State(NamedTuple):
    """Memory of an agent between two steps, for B environments; B is 1 for one."""

    prev_action: Nested  # [B,...] last actions, in the form that networks receive
    rnn_state: Nested  # [N,B,H] recurrent state; None for agents without one


class TrainedAgent:
    """Agent that acts in your own loop, as it does in evaluation.

    ::

        agent = rlpyt.load("runs/cartpole/run_0")
        observation, _ = env.reset()
        action, state = agent.act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        action, state = agent.act(observation, state, reward)

    Random actions come from torch's global generator: ``torch.manual_seed`` makes them repeatable.

    Args:
        agent: initialized agent, in evaluation mode.
        spaces: spaces of the environment, in the form that agents receive.
        statistics: running statistics of the environment's wrappers in training, by name.

    Attributes:
        normalization: normalization that exported graphs do themselves; None if there is none, or
            if another wrapper follows it.
    """

    normalization: Normalization | None = None

    def __init__(
        self, agent: AgentLike, spaces: EnvSpaces, statistics: Statistics | None = None
    ) -> None:
        self.agent = agent
        self.spaces = spaces
        self.statistics: Statistics = statistics or {}

    def prepare(self, env: Any) -> Any:
        """Give the wrappers of ``env`` the statistics of training, frozen, and return ``env``.

        An agent that was trained behind ``NormalizeObservation``, or another wrapper with running
        statistics, needs its observations normalized as in training.

        Args:
            env: environment of gymnasium or of this library, with the wrappers of the run.
        """
        return with_statistics(env, self.statistics) if self.statistics else env

    def act(
        self,
        observation: Any,
        state: State | None = None,
        reward: npt.ArrayLike = 0.0,
        done: npt.ArrayLike = False,
        deterministic: bool = False,
    ) -> tuple[Any, State]:
        """Choose the action for an observation, or the actions for a batch of them.

        Args:
            observation: observation of the environment, as gymnasium returns it, or a batch [B,...]
                of observations, as its vector environments do.
            state: state that the last call returned; None at the start of an episode. Networks
                without memory need none.
            reward: reward of the last action, a number or [B]; only recurrent networks use it.
            done: whether the last action ended the episode, True or [B]. The agent's state is reset
                for these environments, whose observations begin a new episode.
            deterministic: whether to take the most likely action, or the one with the highest
                value. By default agents act as in evaluation: policy gradient agents draw their
                actions unless made with ``greedy_eval=True``, DQN agents take random ones with a
                small probability, and off-policy actor-critic agents add no noise.

        Returns:
            Action for the environment, or a batch of actions; and the state for the next call.

        Raises:
            ValueError: if the observation does not fit the space, or the state does not fit the
                observation.
        """
        inputs, rnn_state, is_batch = self._inputs(observation, state, reward, done)
        with greedy(self.agent, deterministic), torch.no_grad():
            step, rnn_state = step_from(self.agent, inputs, rnn_state)
        action = numpify_buffer(step.action)
        state = State(action, rnn_state)
        if not is_batch:
            action = map_buffer(lambda part: part[0], action)
        revert = getattr(self.spaces.action, "revert", None)
        return (action if revert is None else revert(action)), state

    export = export_policy

    def _inputs(
        self, observation: Any, state: State | None, reward: npt.ArrayLike, done: npt.ArrayLike
    ) -> tuple[tuple[Nested, Nested, torch.Tensor], Nested, bool]:
        """Return the agent's inputs [B,...], its recurrent state, and whether there was a batch."""
        space = self.spaces.observation
        convert = getattr(space, "convert", None)
        observation = map_buffer(np.array, observation if convert is None else convert(observation))
        is_batch = _is_batch(observation, space)
        if not is_batch:
            observation = map_buffer(lambda part: part[None], observation)
        B = len(leaves(observation)[0])
        null = self.spaces.action.null_value()
        prev_action = buffer_from_example(null, B)
        prev_action[:] = null
        prev_reward, rnn_state = np.zeros(B, np.float32), None
        if state is not None:
            if len(leaves(state.prev_action)[0]) != B:
                raise ValueError(
                    f"state has {len(leaves(state.prev_action)[0])} environments, but observation "
                    f"has {B}: pass state=None at the start of an episode"
                )
            over = np.broadcast_to(np.asarray(done, bool), B)
            prev_action[:], prev_reward[:] = state.prev_action, reward
            prev_action[over], prev_reward[over] = null, 0
            rnn_state = zeroed(state.rnn_state, torch.from_numpy(over.copy()))
        inputs = map_buffer(torch.from_numpy, (observation, prev_action, prev_reward))
        return inputs, rnn_state, is_batch


def _is_batch(observation: Nested, space: Any) -> bool:
    """Return whether there is a batch dimension; raise ValueError for any other shape."""
    shapes = [np.shape(part) for part in leaves(space.null_value())]
    given = [part.shape for part in leaves(observation)]
    if given == shapes:
        return False
    lengths = {shape[:1] for shape in given}
    if len(lengths) != 1 or () in lengths or [shape[1:] for shape in given] != shapes:
        raise ValueError(
            f"observation has the shapes {given}: pass one of {shapes}, or a batch with one "
            "dimension before these"
        )
    return True


def weights(path: str | Path) -> dict[str, Any]:
    """Return the trained weights of a run, for ``initial_model_state_dict`` of a new agent.

    Args:
        path: directory of a run, for its newest snapshot, file of a snapshot, or ``zoo:NAME``.

    Raises:
        FileNotFoundError: if there is no snapshot.
        ValueError: if the file is damaged.
    """
    state: dict[str, Any] = load_snapshot(find_snapshot(path))["agent_state_dict"]
    return state


def load(
    path: str | Path,
    agent: AgentLike | None = None,
    env: Any = None,
    device: int | str | torch.device | None = None,
) -> TrainedAgent:
    """Load the agent of a run, to act in your own program.

    Runs of the command ``rlpyt`` record their agent and environment, which are made again here. For
    a run of your own program, pass both.

    Args:
        path: directory of a run, for its newest snapshot, file of a snapshot, or ``zoo:NAME``.
        agent: new agent, made with the arguments of the run; None for the recorded one.
        env: gymnasium environment (single or vector) or rlpyt environment, with the run's spaces;
            its wrappers get the running statistics of training, as by
            :meth:`TrainedAgent.prepare`. None for the recorded one, which is made only for its
            spaces and then closed.
        device: device to act on, its name, or the index of a GPU; None for the CPU.

    Raises:
        FileNotFoundError: if there is no snapshot.
        ValueError: if there is no such device, or if the agent or the environment is neither
            recorded nor given.
    """
    if isinstance(agent, type):
        raise TypeError(f"agent={agent.__name__} is a class: pass an object, {agent.__name__}(...)")
    if device is not None:
        device = existing_device("device", device, "leave it out to act on the CPU")
    if agent is None or env is None:
        saved = load_agent(path)
        snapshot = saved.snapshot
        agent = agent_call(saved.config).make() if agent is None else agent
        source = env
        if source is None:  # Closed at once: only for its spaces and wrappers.
            kwargs = environment_kwargs(saved.config)
            in_vectors = saved.config["roles"]["sampler"] in ("vector", "device")
            number = {"num_envs": 1} if in_vectors else {}
            source = Call(kwargs["EnvCls"], {**kwargs["env_kwargs"], **number}).make()
            source.close()
    else:
        snapshot, source = load_snapshot(find_snapshot(path)), env
    spaces = _spaces_of(source)
    with logger.using(logger.Logger(sinks=[])):
        agent.initialize(spaces, share_memory=False, global_B=1, env_ranks=[0])
        load_state(agent, snapshot)
        agent.to_device(device)
        agent.eval_mode(max(1, snapshot["itr"]))  # At 0, agents may act at random.
    trained = TrainedAgent(agent, spaces, snapshot.get("env_statistics"))
    if trained.statistics:
        trained.normalization = _normalization(source, trained.statistics)
    if env is not None:
        trained.prepare(env)
    elif trained.statistics:
        logger.log(
            f"Wrappers of the environment had running statistics, {', '.join(trained.statistics)}: "
            "call prepare(env) of the agent, so that yours has the same."
        )
    return trained


# Layers that pass observations on.
_PASSING = (
    GymEnvWrapper,
    gymnasium.ActionWrapper,
    gymnasium.RewardWrapper,
    gymnasium.wrappers.NormalizeReward,
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
    gymnasium.wrappers.RecordEpisodeStatistics,
    gymnasium.wrappers.TimeLimit,
)


def _normalization(env: Any, statistics: Statistics) -> Normalization | None:
    """Return what ``NormalizeObservation`` does, if nothing else follows it."""
    last = next(layer for layer in layers_of(env) if not isinstance(layer, _PASSING))
    name = "NormalizeObservation.obs_rms"
    if not isinstance(last, gymnasium.wrappers.NormalizeObservation) or name not in statistics:
        return None
    mean, var = (torch.as_tensor(statistics[name][key]) for key in ("mean", "var"))
    space = GymSpaceWrapper(last.env.observation_space, name="obs")
    return Normalization(space, mean.float(), (var + last.epsilon).sqrt().float())


def _spaces_of(env: Any) -> EnvSpaces:
    of_one = ""
    if not isinstance(env, gymnasium.Wrapper):  # Old ones warn of attributes that they lack.
        if isinstance(getattr(env, "spaces", None), tuple):  # Of this library.
            return EnvSpaces(*env.spaces)
        of_one = "single_" if hasattr(env, "single_action_space") else ""
    kinds = {"obs": "observation_space", "act": "action_space"}
    return EnvSpaces(*(GymSpaceWrapper(getattr(env, of_one + x), name=n) for n, x in kinds.items()))
