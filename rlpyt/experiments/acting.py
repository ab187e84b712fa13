"""Steps of an agent outside of a sampler: from a given recurrent state, greedy, normalized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch

from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.agents.pg.base import PolicyAgent
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import AgentStep
from rlpyt.utils.types import Nested


class Normalization(NamedTuple):
    """Last thing that the environment does to observations: ``(o - mean) / deviation``."""

    space: Any  # of o, in the form that agents receive
    mean: torch.Tensor
    deviation: torch.Tensor

    def __call__(self, observation: torch.Tensor) -> torch.Tensor:
        """Normalize observations [B,...]."""
        return (observation.float() - self.mean) / self.deviation


def step_from(agent: Any, inputs: Sequence[Nested], rnn_state: Nested) -> tuple[AgentStep, Nested]:
    """Let an agent step from a recurrent state [N,B,H]; return the next state, and keep none."""
    agent.reset()
    if rnn_state is not None:
        agent.advance_rnn_state(rnn_state)
        agent.toggle_alt()  # Back to the first half, in an agent that alternates.
    step: AgentStep = agent.step(*inputs)
    agent.toggle_alt()
    rnn_state = agent.prev_rnn_state if agent.recurrent else None
    agent.reset()
    return step, rnn_state


@contextmanager
def greedy(agent: AgentLike, deterministic: bool = True) -> Iterator[None]:
    """Let an agent of this library take its best actions."""
    with ExitStack() as stack:
        if deterministic and isinstance(agent, PolicyAgent):
            stack.callback(setattr, agent, "greedy_eval", agent.greedy_eval)
            agent.greedy_eval = True
        elif deterministic and isinstance(agent, EpsilonGreedyAgentMixin):
            stack.callback(agent.set_sample_epsilon_greedy, agent.distribution.epsilon)
            agent.set_sample_epsilon_greedy(0.0)
        yield
