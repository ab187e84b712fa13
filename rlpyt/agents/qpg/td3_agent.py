"""Agent of twin delayed DDPG: two critics, and noise on the target policy."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.agents.qpg.actor_critic import check_noise
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.distributions.gaussian import DistInfo
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class Td3Agent(DdpgAgent):
    """DDPG agent with a second critic, a smoothed target policy and more noise before training.

        target action = clamp(mu_target(s')
                              + half_range * clamp(target_noise_std * N(0, 1), +-target_noise_clip))

    Args:
        pretrain_std: standard deviation of the noise until training starts, a scalar or [A], for
            actions in [-1, 1].
        target_noise_std: standard deviation of the noise on the target policy, in the same units.
        target_noise_clip: bound of the noise on the target policy; None for no bound.
        initial_q2_model_state_dict: initial state of the second critic.
        **kwargs: keywords of :class:`~rlpyt.agents.qpg.ddpg_agent.DdpgAgent`; keywords of the
            critic apply to both critics.

    Raises:
        ValueError: if ``pretrain_std``, ``target_noise_std`` or ``target_noise_clip`` is negative
            or not a number.

    Source: Fujimoto et al. 2018, arXiv:1802.09477.
    """

    q_kind = "two critics of values"
    network_names = ("model", "q_model", "q2_model")
    target_names = ("model", "q_model", "q2_model")

    pretrain_std: Any = 0.5
    target_noise_std: Any = 0.2
    target_noise_clip: Any = 0.5
    initial_q2_model_state_dict: Any = None
    q2_model: Any
    target_q2_model: Any
    target_distribution: Any

    def __init__(
        self,
        pretrain_std: Any = 0.5,
        target_noise_std: Any = 0.2,
        target_noise_clip: Any = 0.5,
        initial_q2_model_state_dict: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        save__init__args(locals())
        check_noise(self, "pretrain_std", "target_noise_std")
        check_noise(self, "target_noise_clip", may_be_none=True)

    def build_network(self, name: str) -> Any:
        return super().build_network("q_model" if name == "q2_model" else name)

    def _make_distributions(self) -> None:
        super()._make_distributions()
        self.target_distribution = self._make_distribution(
            self.target_noise_std, self.target_noise_clip
        )

    def q(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested, action: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute both critics' values [B] of actions [B,A], with gradients."""
        inputs = self.to_model_device(observation, prev_action, prev_reward, action)
        q1 = self.to_values(self.run_model(self.q_model, *inputs))
        q2 = self.to_values(self.run_model(self.q2_model, *inputs))
        return self.for_loss((q1, q2))

    @torch.no_grad()
    def target_q_at_mu(
        self, observation: Nested, prev_action: Nested, prev_reward: Nested
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the values [B] of the noisy target policy's actions by both target critics."""
        inputs = self.to_model_device(observation, prev_action, prev_reward)
        target_mu = self.run_model(self.target_model, *inputs)
        action = self.target_distribution.sample(DistInfo(mean=target_mu))
        q1 = self.to_values(self.run_model(self.target_q_model, *inputs, action))
        q2 = self.to_values(self.run_model(self.target_q2_model, *inputs, action))
        return self.for_loss((q1, q2))

    def sampling_std(self, itr: int) -> Any:
        return self.action_std if itr >= self.min_itr_learn else self.pretrain_std

    def set_target_noise(self, std: Any, noise_clip: Any = None) -> None:
        """Change the noise on the target policy.

        Args:
            std: standard deviation, a scalar or [A], for actions in [-1, 1].
            noise_clip: bound, a scalar or [A]; None for no bound.
        """
        self.target_distribution.set_std(self._scaled(std))
        self.target_distribution.set_noise_clip(self._scaled(noise_clip))
