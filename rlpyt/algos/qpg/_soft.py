"""What the two soft actor-critic algorithms share: one update, and priors of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rlpyt.algos._optim import optimized_parameters
from rlpyt.algos.losses import n_step_target
from rlpyt.algos.qpg._actor_critic import ActorCriticAlgorithm, frozen
from rlpyt.utils.types import NDArray, Nested

ACTION_PRIORS = ("uniform", "gaussian")


def range_of_actions(agent: Any) -> tuple[NDArray, NDArray]:
    """Middle and half range of the actions, [A] each; of [-1, 1] if the agent does not say."""
    bounds = getattr(agent, "action_bounds", None)
    if bounds is not None:
        return bounds.mid, bounds.half_range
    shape = agent.env_spaces.action.shape
    return np.zeros(shape, np.float32), np.ones(shape, np.float32)


def mean_weights(valid: torch.Tensor) -> torch.Tensor:
    """Weights [B] of a mean over the samples whose ``valid`` [B] is 1; all are 0 if there is none.

    The losses of one batch share them: ``torch.dot(losses, weights)``.
    """
    return valid / valid.sum().clamp(min=1)


def half_squared_error(
    value: torch.Tensor, target: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Mean of ``(target - value)^2 / 2`` with ``weights``, all [B]."""
    return 0.5 * torch.dot(F.mse_loss(value, target, reduction="none"), weights)


class SoftActorCriticAlgorithm(ActorCriticAlgorithm):
    """All losses are of the networks as they were before the update; then each optimizer steps.

    :meth:`loss` returns the losses and what is logged besides, :meth:`step_optimizers` minimises
    the losses, :meth:`append_opt_info_` logs; further entries of :meth:`_get_loss_values` are
    logged by their names, if these are among ``opt_info_fields``.
    """

    opt_info_stride = 10

    needed_agent: str
    needed_of_agent: tuple[str, ...]

    action_prior: str
    reward_scale: float
    reparameterize: bool
    pi_optimizer: Any
    q1_optimizer: Any
    q2_optimizer: Any

    def _check_settings(self) -> None:
        super()._check_settings()
        missing = [name for name in self.needed_of_agent if not hasattr(self.agent, name)]
        if missing:
            raise ValueError(
                f"the agent {type(self.agent).__module__}.{type(self.agent).__name__} has no "
                f"{missing}, which {type(self).__name__} needs: use an agent such as "
                f"{self.needed_agent}"
            )
        if self.action_prior not in ACTION_PRIORS:
            raise ValueError(f"action_prior is {self.action_prior!r}: choose of {ACTION_PRIORS}")

    def make_optimizers(self) -> None:
        self.pi_optimizer = self.make_optimizer(self.agent.pi_parameters())
        self.q1_optimizer = self.make_optimizer(self.agent.q1_parameters())
        self.q2_optimizer = self.make_optimizer(self.agent.q2_parameters())

    def optimizers(self) -> dict[str, Any]:
        return {
            "pi_optimizer": self.pi_optimizer,
            "q1_optimizer": self.q1_optimizer,
            "q2_optimizer": self.q2_optimizer,
        }

    # --- One update --------------------------------------------------------------------------

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch, and the values that are logged."""
        raise NotImplementedError(f"{type(self).__name__} does not define loss()")

    def step_optimizers(self, losses: Any) -> Any:
        """Take one step of every optimizer, and return the norms of the gradients."""
        raise NotImplementedError(f"{type(self).__name__} does not define step_optimizers()")

    def append_opt_info_(
        self, opt_info: Any, losses: Any, grad_norms: Sequence[Any], values: Any
    ) -> None:
        """Add one update to the lists of ``opt_info``."""
        raise NotImplementedError(f"{type(self).__name__} does not define append_opt_info_()")

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        """``losses`` and ``values`` of :meth:`loss`; further entries are logged by their names."""
        losses, values = self.loss(samples)
        return {"losses": losses, "values": values}

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        values = self._get_loss_values(samples_from_replay)
        grad_norms = self.step_optimizers(values["losses"])
        self.append_opt_info_(opt_info, values["losses"], grad_norms, values["values"])
        self.record_opt_info(opt_info, values)
        self.update_counter += 1
        self.update_target()

    def minimize_each(self, **losses: torch.Tensor) -> dict[str, torch.Tensor]:
        """Step the optimizer ``<name>_optimizer`` of each loss, in this order.

        Returns:
            The norm of the gradients, by the same names.
        """
        norms = {}
        for name, loss in losses.items():
            optimizer = getattr(self, f"{name}_optimizer")
            _, norms[name] = self.minimize(loss, optimizer)
        return norms

    def q_target_of(self, samples: Nested, next_value: torch.Tensor) -> torch.Tensor:
        """Targets [B] of both critics, from values [B] of the observations after n steps."""
        return n_step_target(
            self.reward_scale * samples.return_,
            samples.done_n,
            next_value,
            self.discount,
            self.n_step_return,
        )

    def min_q(self, inputs: Nested, action: torch.Tensor) -> torch.Tensor:
        """The lesser value [B] of both critics; gradients go through them, but not to them.

        Args:
            inputs: of the agent, [B,...].
            action: [B,A] from the policy, with gradient.
        """
        critics = [*map(optimized_parameters, (self.q1_optimizer, self.q2_optimizer))]
        with frozen(*critics, but=optimized_parameters(self.pi_optimizer)):
            q1, q2 = self.agent.q(*inputs, action)
        min_q: torch.Tensor = torch.min(q1, q2)
        return min_q

    def get_action_prior(self, action: torch.Tensor) -> Any:
        """Logarithm of the prior density of actions, but for a constant.

        Args:
            action: [B,A], from the policy.

        Returns:
            0 for the uniform prior. [B] for the Gaussian one, of which half the range of an action
            is the standard deviation: N(0, 1) for actions in [-1, 1].
        """
        if self.action_prior == "uniform":
            return 0.0
        mid, half_range = map(torch.from_numpy, range_of_actions(self.agent))
        prior = torch.distributions.Normal(mid.to(action), half_range.to(action))
        return prior.log_prob(action).sum(-1).to("cpu")
