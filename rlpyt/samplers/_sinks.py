"""Where a step loop records: in a sampler batch, or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlpyt.core.records import AgentInputs
from rlpyt.samplers._rows import RowCopy, Rows, plain
from rlpyt.utils.types import BoolArray, NDArray, Nested


class BatchSink:
    """Records steps in a sampler batch [T,B,...].

    Args:
        samples_np: the batch.
        inputs: of the agent, which are recorded before each step.
    """

    def __init__(self, samples_np: Nested, inputs: AgentInputs) -> None:
        samples_np = plain(samples_np)
        agent, env = samples_np.agent, samples_np.env
        self._first = RowCopy(
            (agent.prev_action, env.prev_reward), (inputs.prev_action, inputs.prev_reward)
        )
        self._observation = RowCopy(env.observation, inputs.observation)
        self._action, self._agent_info = Rows(agent.action), Rows(agent.agent_info)
        self._reward, self._done = env.reward, env.done
        self._env_info = Rows(env.env_info)
        self._next_observation = Rows(getattr(env, "next_observation", None))
        self._value = getattr(agent, "bootstrap_value", None)

    def begin(self) -> None:
        """Record what precedes the first row; later rows follow from the overlapping views."""
        self._first.to(0)

    def observe(self, t: int) -> None:
        """Record what the agent sees."""
        self._observation.to(t)

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None:
        """Record what one environment returned."""
        if self._env_info:
            try:
                self._env_info.write((t, b), env_info)
            except Exception as error:
                raise ValueError(
                    f"env_info of environment {b} does not fit its buffer ({error}): it was "
                    f"{env_info!r}; every step must return the fields, shapes and dtypes of the "
                    "first one (for a gym environment, declare them with info_example)"
                ) from error
        if self._next_observation:
            self._next_observation.write((t, b), observation)

    def acted(self, t: int, action: Nested, agent_info: Nested) -> None:
        """Record what the agent does; before stepping, which changes inputs it may report."""
        self._action.write(t, action)
        if self._agent_info:
            self._agent_info.write(t, agent_info)

    def rewarded(self, t: int, reward: NDArray, done: BoolArray) -> None:
        """Record what follows from that in all environments."""
        self._reward[t] = reward
        self._done[t] = done

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None:
        """Record both."""
        self.acted(t, action, agent_info)
        self.rewarded(t, reward, done)

    def blank(self, t: int, waiting: Sequence[int]) -> None:
        """Make the row of waiting environments zeros; reward and done are recorded apart."""
        for rows in (self._action, self._agent_info, self._env_info, self._next_observation):
            rows.fill((t, waiting), 0)

    def bootstrap(self, value: Callable[[], NDArray]) -> None:
        """Record the value after the last row, if the batch has room for it."""
        if self._value is not None:
            self._value[:] = value()


class NoSink:
    """Records nothing: an evaluation keeps trajectories only."""

    def begin(self) -> None: ...

    def observe(self, t: int) -> None: ...

    def stepped(self, t: int, b: int, observation: Nested, env_info: Nested) -> None: ...

    def acted(self, t: int, action: Nested, agent_info: Nested) -> None: ...

    def rewarded(self, t: int, reward: NDArray, done: BoolArray) -> None: ...

    def record(
        self, t: int, action: Nested, agent_info: Nested, reward: NDArray, done: BoolArray
    ) -> None: ...

    def blank(self, t: int, waiting: Sequence[int]) -> None: ...

    def bootstrap(self, value: Callable[[], NDArray]) -> None: ...
