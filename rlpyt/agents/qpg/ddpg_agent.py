"""The agent of deep deterministic policy gradient: a policy, a critic and target copies of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.agents.qpg.actor_critic import ActorCriticAgent, check_noise
from rlpyt.core.records import AgentStep
from rlpyt.distributions.gaussian import DistInfo, Gaussian
from rlpyt.models.qpg.mlp import MuMlpModel, QofMuMlpModel
from rlpyt.models.utils import fitting_state_dict
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import NDArray, Nested

AgentInfo = namedarraytuple("AgentInfo", ["mu"])


def default_hidden_sizes() -> dict[str, Any]:
    """Keywords of a model, if the user gave none."""
    return {"hidden_sizes": [400, 300]}


class DdpgAgent(ActorCriticAgent):
    """Adds noise to the action of a deterministic policy; none in evaluation.

        action = clamp(mu(s) + half_range * clamp(action_std * N(0, 1), +-action_noise_clip))

    All noise is given for actions in [-1, 1], and grows with half the range of each dimension. A
    policy which is a :class:`~rlpyt.models.qpg.mlp.MuMlpModel` is told the bounds of the action
    space, unless ``model_kwargs`` has ``output_max``; others give actions in the units of the
    environment.

    Args:
        ModelCls: of the policy; returns actions mu [B,A].
        QModelCls: of the critic; called with observation, previous action, previous reward and
            action, returns values [B].
        model_kwargs: of ``ModelCls``; None for hidden layers of 400 and 300.
        q_model_kwargs: of ``QModelCls``; None for the same.
        initial_model_state_dict: of the policy, or of all networks in the form of
            :meth:`state_dict`.
        initial_q_model_state_dict: of the critic. Target copies equal their originals also where
            these are given.
        action_std: standard deviation of the noise, a scalar or [A].
        action_noise_clip: bound of the noise, a scalar or [A]; None for no bound.

    Raises:
        ValueError: if ``action_std`` or ``action_noise_clip`` is negative or no number.

    Source: Lillicrap et al. 2016, arXiv:1509.02971; there, the noise is correlated in time.
    """

    q_kind = "a critic of values"
    network_names: tuple[str, ...] = ("model", "q_model")
    target_names: tuple[str, ...] = ("model", "q_model")
    shared_mu_model: Any = None

    QModelCls: Any
    q_model_kwargs: dict[str, Any]
    initial_q_model_state_dict: Any
    action_std: Any
    action_noise_clip: Any
    _noise_scale: NDArray | None
    q_model: Any
    target_model: Any
    target_q_model: Any

    def __init__(
        self,
        ModelCls: Any = MuMlpModel,
        QModelCls: Any = QofMuMlpModel,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: Any = None,
        initial_q_model_state_dict: Any = None,
        action_std: Any = 0.1,
        action_noise_clip: Any = None,
    ) -> None:
        if model_kwargs is None:
            model_kwargs = default_hidden_sizes()
        if q_model_kwargs is None:
            q_model_kwargs = default_hidden_sizes()
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        save__init__args(locals())
        check_noise(self, "action_std")
        check_noise(self, "action_noise_clip", may_be_none=True)

    # --- Set-up ------------------------------------------------------------------------------

    def build_model(self, ModelCls: Any, model_kwargs: Mapping[str, Any]) -> Any:
        model = super().build_model(ModelCls, model_kwargs)
        is_told = isinstance(model, MuMlpModel) and "output_max" not in model_kwargs
        if is_told and not self.action_bounds.is_unit:
            model.set_output_bounds(*self.action_bounds)
        return model

    def build_network(self, name: str) -> Any:
        if name == "q_model":
            return self.build_model(self.QModelCls, self.q_model_kwargs)
        return super().build_network(name)

    def _build_models(self) -> None:
        super()._build_models()
        for name in self.network_names[1:]:
            state_dict = getattr(self, f"initial_{name}_state_dict")
            if state_dict is not None:
                self._load_with_target(name, state_dict)

    def _load_initial_state(self, state_dict: Any) -> None:
        if "model" not in state_dict:
            self._load_with_target("model", state_dict)
            return
        twice = [
            argument
            for name in self.network_names[1:]
            if getattr(self, argument := f"initial_{name}_state_dict") is not None
        ]
        if twice:
            raise ValueError(
                f"initial_model_state_dict holds the state of all networks, and {twice} again "
                "that of one: leave that out"
            )
        self.load_state_dict(state_dict)

    def _load_with_target(self, name: str, state_dict: Any) -> None:
        network = self._network(name)
        network.load_state_dict(fitting_state_dict(network, state_dict))
        getattr(self, "target_" + name).load_state_dict(network.state_dict())

    def _make_distributions(self) -> None:
        bounds = self.action_bounds
        self._noise_scale = None if bounds.is_unit else bounds.half_range
        self.distribution = self._make_distribution(self.action_std, self.action_noise_clip)

    def _make_distribution(self, std: Any, noise_clip: Any) -> Gaussian:
        """Noise around actions, both for actions in [-1, 1], within the action bounds."""
        return Gaussian(
            dim=len(self.action_bounds.low),
            std=self._scaled(std),
            clip=1.0 if self.action_bounds.is_unit else self.action_bounds.rows(),
            noise_clip=self._scaled(noise_clip),
        )

    def _scaled(self, noise: Any) -> Any:
        """Noise for actions in [-1, 1], a scalar or [A], in the units of the environment."""
        if noise is None or self._noise_scale is None:
            return noise
        A = self._noise_scale.size
        if np.asarray(noise).size not in (1, A):
            raise ValueError(
                f"the noise {noise} is no scalar, and the actions have {A} dimensions: give one "
                "number, or one for each of them"
            )
        return noise * self._noise_scale

    # --- Acting and training -----------------------------------------------------------------

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        mu = self.acting_model(*inputs)
        action, mu = self.to_cpu((self.distribution.sample(DistInfo(mean=mu)), mu))
        return AgentStep(action=action, agent_info=AgentInfo(mu=mu))

    def to_values(self, output: Any) -> torch.Tensor:
        """Values [B] from the output of a critic, which here it is itself."""
        values: torch.Tensor = output
        return values

    def q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> Any:
        """Values [B] of the actions [B,A], with gradients, on the CPU."""
        output = self.forward_network("q_model", observation, prev_action, prev_reward, action)
        return self.to_cpu(self.to_values(output))

    def q_at_mu(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Values [B] of the actions of the policy, with gradients through them, on the CPU."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        mu = self.forward_network("model", *inputs)
        q: torch.Tensor = self.to_cpu(self.to_values(self.forward_network("q_model", *inputs, mu)))
        return q

    @torch.no_grad()
    def target_q_at_mu(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Values [B] of the target policy's actions by the target critic, without gradients."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        target_mu = self.target_model(*inputs)
        return self.to_cpu(self.to_values(self.target_q_model(*inputs, target_mu)))

    # --- Modes and parameters ----------------------------------------------------------------

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        self.distribution.set_std(self._scaled(self.sampling_std(itr)))

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        self.distribution.set_std(0.0)

    def sampling_std(self, itr: int) -> Any:
        """Standard deviation of the noise in iteration ``itr``, for actions in [-1, 1]."""
        return self.action_std

    def mu_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Of the policy."""
        parameters: Iterator[torch.nn.Parameter] = self.model.parameters()
        return parameters

    def q_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Of all critics."""
        for name in self.network_names[1:]:
            yield from getattr(self, name).parameters()
