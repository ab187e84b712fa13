"""Deep Q-network agents: a value for every discrete action, and a target copy of the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rlpyt.agents.base import AgentStep, BaseAgent, without_ddp
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.models.noisy import draw_noise, is_noisy, remove_noise
from rlpyt.models.space_kinds import check_one_choice
from rlpyt.models.utils import fitting_state_dict, update_state_dict
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", "q")


class DqnAgent(EpsilonGreedyAgentMixin, BaseAgent):
    """Acts epsilon-greedily by the values of a Q-network.

    The model is called with observation, one-hot previous action and previous reward, and returns
    q [...,A]. Parameters are those of the two base classes, by keyword.

    A network with noisy layers (``model_kwargs={"noisy": True}``) explores by itself: its noise is
    drawn in :meth:`sample_mode`, once per batch of the sampler, and removed in :meth:`eval_mode`,
    and epsilon is 0 where its settings were left at their defaults.

    Attributes:
        q_kind: the kind of the model's outputs, "value", "categorical", "quantile" or "implicit
            quantile"; the algorithm compares it with what its loss expects.

    Source: Mnih et al. 2015, doi:10.1038/nature14236.
    """

    q_kind = "value"

    target_model: Any

    def __call__(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Values of all actions, with gradients.

        Args:
            observation: [B,...].
            prev_action: [B] indexes.
            prev_reward: [B].

        Returns:
            q [B,A], on the CPU.
        """
        return self._forward(self.model, observation, prev_action, prev_reward)

    @torch.no_grad()
    def target(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Values [B,A] of all actions by the target network, without gradients, on the CPU."""
        return self._forward(self.target_model, observation, prev_action, prev_reward)

    def _forward(
        self, model: Any, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> Any:
        prev_action = self.distribution.to_onehot(prev_action)
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        return self.to_cpu(model(*inputs))

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Build both networks, equal at the start, and the distribution.

        Raises:
            ValueError: if the action is not one of n, counted from 0.
        """
        cls = type(self)
        if cls.step is cls._step_of_one_choice and cls.initialize is DqnAgent.initialize:
            check_one_choice(cls.__name__, env_spaces.action)
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self.distribution = self._make_distribution(env_spaces)
        if is_noisy(self.model):
            self.set_default_epsilons_to_zero()
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def _build_models(self) -> None:
        super()._build_models()
        self.target_model = self.build_model(self.ModelCls, self.model_kwargs)
        self.target_model.load_state_dict(self.model.state_dict())

    def _load_initial_state(self, state_dict: Any) -> None:
        self.load_state_dict(state_dict)

    def _make_distribution(self, env_spaces: EnvSpaces) -> Any:
        return EpsilonGreedy(dim=env_spaces.action.n)

    def to_device(self, cuda_idx: int | None = None) -> None:
        super().to_device(cuda_idx)
        self.target_model.to(self.device)

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        draw_noise(self.model)

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        remove_noise(self.model)

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers of both networks: ``{"model": ..., "target": ...}``."""
        return {"model": super().state_dict(), "target": self.target_model.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the networks of :meth:`state_dict`; without a target, it starts as the model.

        Raises:
            ValueError: if there is no entry "model".
        """
        if "model" not in state_dict:
            raise ValueError(
                f"the state of {type(self).__name__} is {{'model': ..., 'target': ...}}, but has "
                f"the entries {sorted(state_dict)}: pass {{'model': state}} for one network"
            )
        super().load_state_dict(state_dict["model"])
        target = state_dict.get("target", state_dict["model"])
        self.target_model.load_state_dict(fitting_state_dict(self.target_model, target))

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        prev_action = self.distribution.to_onehot(prev_action)
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        return self.to_agent_step(self.acting_model(*inputs))

    # Subclasses with another step may have other actions.
    _step_of_one_choice: Any = step

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions from the model's output; override it for models which return more.

        Args:
            output: q [B,A], on the device of the model.
        """
        q = self.to_cpu(output)
        return AgentStep(action=self.distribution.sample(q), agent_info=AgentInfo(q=q))

    def update_target(self, tau: float = 1) -> None:
        """Move the target network towards the model.

            target = tau * model + (1 - tau) * target

        Args:
            tau: in (0, 1]; 1 copies.
        """
        state_dict = without_ddp(self.model).state_dict()
        update_state_dict(self.target_model, state_dict, tau, strip_ddp=False)
