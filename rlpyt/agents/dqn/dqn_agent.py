"""Deep Q-network agents: a value for every discrete action, and a target network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.core.masks import mask_values
from rlpyt.core.records import EnvSpaces
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.models.encoders import EncodedModel
from rlpyt.models.noisy import draw_noise, is_noisy, remove_noise
from rlpyt.models.space_kinds import check_one_choice
from rlpyt.models.utils import fitting_state_dict
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import Nested

AgentInfo = namedarraytuple("AgentInfo", "q")


class DqnAgent(EpsilonGreedyAgentMixin, BaseAgent):
    """Agent that acts epsilon-greedily by the values of a Q-network.

    The model is called with observation, one-hot previous action and previous reward, and returns
    q [...,A]. The constructor takes the parameters of both base classes, by keyword.

    A network with noisy layers (``model_kwargs={"noisy": True}``) explores without random actions:
    epsilon is 0 unless its settings differ from their defaults. The noise is drawn in
    :meth:`sample_mode`, once per batch of the sampler and equal in every process, and removed in
    :meth:`eval_mode`.

    Attributes:
        q_kind: kind of the model's outputs, "value", "categorical", "quantile" or "implicit
            quantile"; the algorithm compares it with the kind that its loss expects.
        has_target: whether the agent keeps a target network.

    Source: Mnih et al. 2015, doi:10.1038/nature14236.
    """

    q_kind = "value"
    has_target = True

    target_model: Any
    _is_noisy = False
    _noise_seed = 0
    _drawn: list[int] | None = None  # Seed and iteration of the present noise.

    def __call__(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Compute the values of all actions, with gradients.

        Args:
            observation: observations [B,...].
            prev_action: indexes [B] of previous actions.
            prev_reward: previous rewards [B].

        Returns:
            q [B,A].
        """
        prev_action = self.distribution.to_onehot(prev_action)
        return self.for_loss(self.run_model(self.model, observation, prev_action, prev_reward))

    @torch.no_grad()
    def target(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Compute the values [B,A] of all actions by the target network."""
        prev_action = self.distribution.to_onehot(prev_action)
        q = self.run_model(self.target_model, observation, prev_action, prev_reward)
        return self.for_loss(q)

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
            ValueError: if actions are not discrete.
        """
        check_one_choice(type(self).__name__, env_spaces.action)
        super().initialize(
            env_spaces, share_memory=share_memory, global_B=global_B, env_ranks=env_ranks, **kwargs
        )
        self.distribution = self._make_distribution(env_spaces)
        if self._mask_reader is not None:
            self.distribution.masked = True
        self._is_noisy = is_noisy(self.model)
        if self._is_noisy:
            self._noise_seed = int(torch.randint(2**62, ()))  # Workers inherit it.
            self._drawn = None
            self.set_default_epsilons_to_zero()
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def _build_models(self) -> None:
        super()._build_models()
        if self.has_target:
            self.target_model = self.build_network("model")
            self.target_model.load_state_dict(self.model.state_dict())

    def reset_layers(self, names: Sequence[str]) -> list[torch.nn.Parameter]:
        """Give layers new initial parameters, the same ones in both networks.

        Args:
            names: names of layers, see :meth:`find_layers`.

        Returns:
            Parameters of these layers in the model.
        """
        models = [self.model, self.target_model] if self.has_target else [self.model]
        new = self.find_layers(self.build_network("model"), names)
        layers = [self.find_layers(model, names) for model in models]
        for one, *others in zip(new, *layers):
            for layer in others:
                layer.load_state_dict(one.state_dict())
        return [parameter for layer in layers[0] for parameter in layer.parameters()]

    def find_layers(self, model: torch.nn.Module, names: Sequence[str]) -> list[torch.nn.Module]:
        """Return submodules of a model by their names, such as "head".

        Where the model has an encoder of observations, they are those of the model behind it.

        Raises:
            ValueError: if there is no such submodule.
        """
        behind: Any = model.model if isinstance(model, EncodedModel) else model
        known = dict(behind.named_modules())
        unknown = [name for name in names if name not in known]
        if unknown:
            children = ", ".join(name for name, _ in behind.named_children())
            raise ValueError(
                f"layers has {unknown}, but {type(behind).__name__} has {children} and their parts"
            )
        return [known[name] for name in names]

    def _load_initial_state(self, state_dict: Mapping[str, Any]) -> None:
        self.load_state_dict(state_dict)

    def _make_distribution(self, env_spaces: EnvSpaces) -> Any:
        return EpsilonGreedy(dim=env_spaces.action.n)

    def to_device(self, cuda_idx: int | str | torch.device | None = None) -> None:
        super().to_device(cuda_idx)
        if self.has_target:
            self.target_model.to(self.device)

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        wanted = [self._noise_seed, itr]
        if self._is_noisy and self._drawn != wanted:  # Runner and collector both set the mode.
            draw_noise(self.model, np.random.default_rng(wanted))
            self._drawn = wanted

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        if self._is_noisy:
            remove_noise(self.model)
            self._drawn = None

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both networks, ``{"model": ..., "target": ...}``.

        Without a target network, it is the state of the model alone.
        """
        model = super().state_dict()
        if not self.has_target:
            return model
        return {"model": model, "target": self.target_model.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load both networks from :meth:`state_dict`, or from the state of one model for both."""
        model = state_dict.get("model", state_dict)
        super().load_state_dict(model)
        if self.has_target:
            target = state_dict.get("target", model)
            self.target_model.load_state_dict(fitting_state_dict(self.target_model, target))

    def sample_state_dict(self) -> dict[str, Any]:
        state = super().sample_state_dict()
        return {**state, "noise_seed": self._noise_seed} if self._is_noisy else state

    def load_sample_state_dict(self, state: dict[str, Any]) -> None:
        super().load_sample_state_dict(state)
        self._noise_seed = state.get("noise_seed", self._noise_seed)

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        prev_action = self.distribution.to_onehot(prev_action)
        return self.to_agent_step(self.run_model(self.model, observation, prev_action, prev_reward))

    def to_agent_step(self, output: Any) -> AgentStep:
        """Choose actions; override it for models that return more.

        Args:
            output: values q [B,A], on the device of the model.
        """
        q = self.for_sampler(output)
        return AgentStep(action=self.distribution.sample(q), agent_info=AgentInfo(q=q))

    def mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        """Give forbidden actions the lowest value; override it for models that return more.

        Args:
            outputs: values [...,A], or quantiles [...,A,N].
            mask: mask [...,A] of the allowed actions.
        """
        return mask_values(outputs, mask)

    def update_target(self, tau: float = 1) -> None:
        """Move the target network towards the model.

            target = tau * model + (1 - tau) * target

        Args:
            tau: weight of the model, in (0, 1]; 1 copies it.
        """
        self._move_target("model", tau)
