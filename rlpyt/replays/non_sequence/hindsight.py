"""Single transitions of tasks with goals, many of them with a goal that was reached later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, NStepTimeLimitBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.utils.collections import fields_of
from rlpyt.utils.types import IntArray, NDArray, Nested

GOALS = ("achieved_goal", "desired_goal")


class HindsightReplayBuffer(UniformReplay, NStepReturnBuffer):
    """Replay buffer that replaces the goal in a fraction of the drawn transitions.

    Observations are as in gymnasium-robotics' goal environments: dictionaries with
    ``achieved_goal`` and ``desired_goal``. The new goal of a transition is an ``achieved_goal``
    from the next rows of its episode (the strategy "future" in the paper); its reward is
    recomputed. The last transition of an episode keeps its goal, and stored rows never change.

    Pass the functions of the environment with :func:`functools.partial`::

        env = gymnasium.make("gymnasium_robotics:FetchReach-v4").unwrapped
        SAC(ReplayBufferCls=partial(TlHindsightReplayBuffer, compute_reward=env.compute_reward))

    Args:
        example: one step of the stored record; this and all further arguments are as in
            ``BaseNStepReturnBuffer``.
        compute_reward: function of achieved goals [m,...], desired goals [m,...] and an empty dict
            (in place of infos) that returns rewards [m], all numpy.
        compute_terminated: function of the same arguments that returns whether each transition
            terminates the episode [m]; None if reaching a goal does not end episodes.
        relabeled_fraction: probability that a transition gets another goal. The paper relabels 4
            transitions for each one that keeps its goal.
        horizon: number of following steps from which the new goal is drawn.

    Raises:
        ValueError: if the example has no goals, ``n_step_return`` is not 1, the storage is on a
            device, or an argument is out of range.

    Source: Andrychowicz et al. 2017, arXiv:1707.01495, section 3.3 and algorithm 1.
    """

    def __init__(
        self,
        example: Nested,
        *args: Any,
        compute_reward: Callable[..., Any],
        compute_terminated: Callable[..., Any] | None = None,
        relabeled_fraction: float = 0.8,
        horizon: int = 100,
        **kwargs: Any,
    ) -> None:
        fields = fields_of(example.observation)
        if not set(GOALS) <= set(fields):
            raise ValueError(
                f"observations have the fields {fields}, but hindsight needs {GOALS}: use an "
                "environment with goals, or another replay buffer"
            )
        if not 0 <= relabeled_fraction <= 1:
            raise ValueError(f"relabeled_fraction is {relabeled_fraction}: pass a number in [0, 1]")
        if horizon < 1:
            raise ValueError(f"horizon is {horizon}: pass at least 1 row")
        super().__init__(example, *args, **kwargs)
        if self.n_step_return != 1:
            raise ValueError(
                f"n_step_return is {self.n_step_return}, but hindsight computes the reward of a "
                "single step: set it to 1"
            )
        if self.store.device is not None:
            raise ValueError(
                f"device is {self.store.device}, but compute_reward runs on the host: leave it "
                "out (replay_device=None)"
            )
        self.compute_reward, self.compute_terminated = compute_reward, compute_terminated
        self.relabeled_fraction = relabeled_fraction
        self._ahead = np.arange(min(int(horizon), self.T))[:, None]

    def read_batch(self, T_idxs: IntArray, B_idxs: IntArray, *T: int) -> Any:
        """Return the batch, with new goals and rewards in the transitions drawn for relabeling."""
        batch = super().read_batch(T_idxs, B_idxs, *T)
        n_later = self._count_later(T_idxs, B_idxs)
        is_chosen = self.rng.random(len(T_idxs)) < self.relabeled_fraction
        chosen = np.flatnonzero(is_chosen & (n_later > 0))
        if len(chosen) == 0:
            return batch
        rows = T_idxs[chosen] + self.rng.integers(1, n_later[chosen] + 1)
        goal = self.samples.observation.achieved_goal[rows % self.T, B_idxs[chosen]]
        target = batch.target_inputs.observation
        for observation in (batch.agent_inputs.observation, target):
            observation.desired_goal[chosen] = torch.from_numpy(goal)
        reached = target.achieved_goal[chosen].numpy()
        batch.return_[chosen] = self._computed("compute_reward", reached, goal).to(batch.return_)
        if self.compute_terminated is not None:
            is_end = self._computed("compute_terminated", reached, goal)
            batch.done_n[chosen] = is_end.to(batch.done_n)
        return batch

    def _computed(self, name: str, reached: NDArray, goal: NDArray) -> torch.Tensor:
        """Return what a function of the task gives for transitions: one number for each, [m]."""
        numbers = np.asarray(getattr(self, name)(reached, goal, {}))
        if numbers.shape != (len(goal),):
            raise ValueError(
                f"{name} returned the shape {numbers.shape} for {len(goal)} transitions with goals "
                f"{goal.shape}: return one number for each of them, [m]"
            )
        return torch.as_tensor(numbers)

    def _count_later(self, T_idxs: IntArray, B_idxs: IntArray) -> IntArray:
        """Return how many stored rows of its episode follow each row [m], up to the horizon."""
        done = self.samples.done[(T_idxs + self._ahead) % self.T, B_idxs]
        goes_on = np.logical_and.accumulate(done == 0, axis=0)
        is_written = self._ahead < (self.t - 1 - T_idxs) % self.T
        n_later: IntArray = (goes_on & is_written).sum(axis=0)
        return n_later


class TlHindsightReplayBuffer(HindsightReplayBuffer, NStepTimeLimitBuffer):
    """Single transitions with goals that were reached later, and with time limits."""
