"""Agent of deep deterministic policy gradient: policy, critic and target copies of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.agents.qpg.actor_critic import ActorCriticAgent, check_noise
from rlpyt.core.records import AgentStep
from rlpyt.distributions.gaussian import DistInfo, Gaussian
from rlpyt.models.encoders import EncodedModel
from rlpyt.models.qpg.mlp import MuMlpModel, QofMuMlpModel
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import NDArray, Nested

AgentInfo = namedarraytuple("AgentInfo", ["mu"])


class DdpgAgent(ActorCriticAgent):
    """Agent that adds noise to the action of a deterministic policy; none in evaluation.

        action = clamp(mu(s) + half_range * clamp(action_std * N(0, 1), +-action_noise_clip))

    All noise is given for actions in [-1, 1], and scaled by half the range of each dimension. A
    :class:`~rlpyt.models.qpg.mlp.MuMlpModel` gets the bounds of the action space, unless
    ``model_kwargs`` has ``output_max``; other policies return actions in the units of the
    environment.

    Args:
        ModelCls: class of the policy; returns actions mu [B,A].
        QModelCls: class of the critic; called with observation, previous action, previous reward
            and action, returns values [B].
        model_kwargs: keywords of ``ModelCls``; None for hidden layers of 400 and 300.
        q_model_kwargs: keywords of ``QModelCls``; None for hidden layers of 400 and 300.
        initial_model_state_dict: initial state of the policy, or of all networks in the form of
            :meth:`state_dict`.
        initial_q_model_state_dict: initial state of the critic. Target copies always start equal to
            their originals.
        action_std: standard deviation of the noise, a scalar or [A].
        action_noise_clip: bound of the noise, a scalar or [A]; None for no bound.

    Raises:
        ValueError: if ``action_std`` or ``action_noise_clip`` is negative or not a number.

    Source: Lillicrap et al. 2016, arXiv:1509.02971; there, the noise is correlated in time.
    """

    q_kind = "a critic of values"
    network_names: tuple[str, ...] = ("model", "q_model")
    target_names: tuple[str, ...] = ("model", "q_model")
    shared_mu_model: Any = None

    QModelCls: Any = QofMuMlpModel
    q_model_kwargs: Any = None
    initial_q_model_state_dict: Any = None
    action_std: Any = 0.1
    action_noise_clip: Any = None
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
            model_kwargs = {"hidden_sizes": [400, 300]}
        if q_model_kwargs is None:
            q_model_kwargs = {"hidden_sizes": [400, 300]}
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        save__init__args(locals())
        check_noise(self, "action_std")
        check_noise(self, "action_noise_clip", may_be_none=True)

    # --- Set-up ------------------------------------------------------------------------------

    def _new_model(self, ModelCls: Any, model_kwargs: Mapping[str, Any]) -> Any:
        model = super()._new_model(ModelCls, model_kwargs)
        policy = model.model if isinstance(model, EncodedModel) else model
        takes_bounds = isinstance(policy, MuMlpModel) and "output_max" not in model_kwargs
        if takes_bounds and not self.action_bounds.is_unit:
            policy.set_output_bounds(*self.action_bounds)
        return model

    def build_network(self, name: str) -> Any:
        if name == "q_model":
            return self._new_model(self.QModelCls, self.q_model_kwargs)
        return super().build_network(name)

    def _build_models(self) -> None:
        super()._build_models()
        for name, state_dict in self._initial_critic_states().items():
            try:
                self._load_with_target(name, state_dict)
            except (RuntimeError, KeyError) as error:
                raise ValueError(
                    f"initial_{name}_state_dict does not fit {type(self).__name__}: {error}"
                ) from error

    def _initial_critic_states(self) -> dict[str, Any]:
        """Return the initial states of critics that were given apart, by the critic's name."""
        names = self.network_names[1:]
        states = {name: getattr(self, f"initial_{name}_state_dict") for name in names}
        return {name: state for name, state in states.items() if state is not None}

    def _load_initial_state(self, state_dict: Mapping[str, Any]) -> None:
        if "model" not in state_dict:
            self._load_with_target("model", state_dict)
            return
        twice = [f"initial_{name}_state_dict" for name in self._initial_critic_states()]
        if twice:
            raise ValueError(
                f"initial_model_state_dict has the state of all networks, and {twice} the state of "
                "one again: leave the latter out"
            )
        self.load_state_dict(state_dict)

    def _make_distributions(self) -> None:
        bounds = self.action_bounds
        self._noise_scale = None if bounds.is_unit else bounds.half_range
        self.distribution = self._make_distribution(self.action_std, self.action_noise_clip)

    def _make_distribution(self, std: Any, noise_clip: Any) -> Gaussian:
        """Make the noise around actions, from settings for actions in [-1, 1]."""
        return Gaussian(
            dim=len(self.action_bounds.low),
            std=self._scaled(std),
            clip=1.0 if self.action_bounds.is_unit else self.action_bounds.rows(),
            noise_clip=self._scaled(noise_clip),
        )

    def _scaled(self, noise: Any) -> Any:
        """Convert noise for actions in [-1, 1], a scalar or [A], to units of the environment."""
        if noise is None or self._noise_scale is None:
            return noise
        A = self._noise_scale.size
        if np.asarray(noise).size not in (1, A):
            raise ValueError(
                f"the noise {noise} is not a scalar, and actions have {A} dimensions: give one "
                "number, or one for each dimension"
            )
        return noise * self._noise_scale

    # --- Acting and training -----------------------------------------------------------------

    @torch.no_grad()
    def step(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> AgentStep:
        mu = self.for_sampler(self.run_model(self.model, observation, prev_action, prev_reward))
        action = self.to_action(self.distribution.sample(DistInfo(mean=mu)))
        return AgentStep(action=action, agent_info=AgentInfo(mu=mu))

    def to_values(self, output: Any) -> torch.Tensor:
        """Return values [B], given the output of a critic; here the output itself."""
        values: torch.Tensor = output
        return values

    def q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> Any:
        """Compute the values [B] of actions [B,A], with gradients."""
        output = self.run_model(self.q_model, observation, prev_action, prev_reward, action)
        return self.for_loss(self.to_values(output))

    def q_at_mu(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> torch.Tensor:
        """Compute the values [B] of the policy's actions, with gradients through them."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        mu = self.run_model(self.model, *inputs)
        return self.for_loss(self.to_values(self.run_model(self.q_model, *inputs, mu)))

    @torch.no_grad()
    def target_q_at_mu(self, observation: Nested, prev_action: Nested, prev_reward: Nested) -> Any:
        """Compute the values [B] of the target policy's actions by the target critic."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        target_mu = self.run_model(self.target_model, *inputs)
        output = self.run_model(self.target_q_model, *inputs, target_mu)
        return self.for_loss(self.to_values(output))

    # --- Modes and parameters ----------------------------------------------------------------

    def sample_mode(self, itr: int) -> None:
        super().sample_mode(itr)
        self.distribution.set_std(self._scaled(self.sampling_std(itr)))

    def eval_mode(self, itr: int) -> None:
        super().eval_mode(itr)
        self.distribution.set_std(0.0)

    def sampling_std(self, itr: int) -> Any:
        """Return the standard deviation of the noise, for actions in [-1, 1]."""
        return self.action_std

    def mu_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters of the policy."""
        parameters: Iterator[torch.nn.Parameter] = self.model.parameters()
        return parameters

    def q_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters of all critics."""
        for name in self.network_names[1:]:
            yield from getattr(self, name).parameters()
