"""Base classes of the Q-value policy gradient family: a policy and critics, one optimizer each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from rlpyt.algos._optim import load_optimizer_state
from rlpyt.algos.losses import n_step_target
from rlpyt.algos.replay import ReplayAlgorithm, not_timed_out
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import SamplesToBuffer
from rlpyt.models.batch_renorm import BatchRenorm, renorm_layers, running_statistics
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.types import NDArray, Nested

SamplesToBufferTl = namedarraytuple("SamplesToBufferTl", (*SamplesToBuffer._fields, "timeout"))
ACTION_PRIORS = ("uniform", "gaussian")


@contextmanager
def frozen(
    parameters: Iterable[torch.nn.Parameter], but: Iterable[torch.nn.Parameter] = ()
) -> Iterator[None]:
    """Freeze ``parameters``, while gradients flow through their networks.

    Args:
        parameters: parameters to freeze.
        but: parameters to leave out, such as an encoder that policy and critics share.
    """
    if torch.compiler.is_compiling():  # Gradients are taken only of what is trained.
        yield
        return
    kept = {id(p) for p in but}
    trained = [p for p in parameters if p.requires_grad and id(p) not in kept]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_(True)


class ActorCriticAlgorithm(ReplayAlgorithm):
    """Base class of algorithms that train a policy and critics on transitions from replay.

    A subclass makes its optimizers (:meth:`make_optimizers`), names them
    (:meth:`named_optimizers`), and defines one update (:meth:`_apply_optimization`).

    Source: Pardo et al. 2018, arXiv:1712.00378, section 3.
    """

    # --- Set-up ------------------------------------------------------------------------------

    def _configure_agent(self) -> None:
        self.agent.give_min_itr_learn(self.min_itr_learn)

    def make_optimizers(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define make_optimizers()")

    def named_optimizers(self) -> dict[str, Any]:
        """Return a dictionary of the optimizers, with the keys of :meth:`optim_state_dict`."""
        raise NotImplementedError(f"{type(self).__name__} does not define named_optimizers()")

    def run_networks(self, batch: Nested) -> torch.Tensor | None:
        if self.agent.recurrent:  # Sequences are not run again.
            return None
        self.agent.run_model(self.agent.model, *batch.agent_inputs)
        return self.run_critics(batch)

    def run_critics(self, batch: Nested) -> torch.Tensor:
        """Run all critics on a minibatch, and return the first one's values."""
        qs = self.agent.q(*batch.agent_inputs, batch.action)
        first: torch.Tensor = qs[0] if isinstance(qs, tuple) else qs
        return first

    # --- One update --------------------------------------------------------------------------

    def valid(self, samples: Nested) -> torch.Tensor:
        """Return the mask [B] float32 of transitions to train on: 0 for truncated returns.

        Raises:
            ValueError: if the replay buffer stores time limits but returns ignore them.
        """
        if not self.bootstrap_timelimit:
            return torch.ones_like(samples.done, dtype=torch.float)
        return not_timed_out(samples).float()

    # --- State -------------------------------------------------------------------------------

    def optim_state_dict(self) -> dict[str, Any]:
        return {name: optimizer.state_dict() for name, optimizer in self.named_optimizers().items()}

    def load_optim_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state from :meth:`optim_state_dict`, on whichever device it was made.

        Raises:
            ValueError: if an entry is missing.
        """
        missing = sorted(self.optim_state_dict().keys() - state_dict.keys())
        if missing:
            raise ValueError(
                f"the state of the optimizers of {type(self).__name__} lacks the entries "
                f"{missing}, it has {sorted(state_dict)}: pass what optim_state_dict() of such an "
                "algorithm returned"
            )
        for name, optimizer in self.named_optimizers().items():
            load_optimizer_state(optimizer, state_dict[name])
        self.recompile()


class SoftActorCriticAlgorithm(ActorCriticAlgorithm):
    """Base class of soft actor-critics: two or more critics, and a policy with a prior.

    All losses use the networks before the update; then each optimizer steps.
    """

    opt_info_stride = 10

    action_prior: str = "uniform"
    reward_scale: float = 1
    reparameterize: bool = True
    pi_optimizer: Any
    q1_optimizer: Any
    q2_optimizer: Any
    _further_q_optimizers: Sequence[Any] = ()
    _renorm_layers: Sequence[BatchRenorm] = ()

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.action_prior not in ACTION_PRIORS:
            raise ValueError(f"action_prior is {self.action_prior!r}: choose of {ACTION_PRIORS}")

    def make_optimizers(self) -> None:
        self._check_agent_has("pi_parameters", "SacAgent")
        vars(self).pop("_action_range", None)  # Of an earlier run.
        self._action_range  # noqa: B018  (A graph of torch.compile cannot make it.)
        # An agent with another base class may not name its critics.
        critics = [getattr(self.agent, name) for name in getattr(self.agent, "critic_names", ())]
        self._renorm_layers = renorm_layers(*critics)
        self.pi_optimizer = self.make_optimizer(self.agent.pi_parameters())
        self.q1_optimizer = self.make_optimizer(self.agent.q1_parameters())
        self.q2_optimizer = self.make_optimizer(self.agent.q2_parameters())

    @property
    def _q_optimizers(self) -> list[Any]:
        """The optimizers of all critics, in order."""
        return [self.q1_optimizer, self.q2_optimizer, *self._further_q_optimizers]

    def named_optimizers(self) -> dict[str, Any]:
        return {
            "pi_optimizer": self.pi_optimizer,
            "q1_optimizer": self.q1_optimizer,
            "q2_optimizer": self.q2_optimizer,
        }

    def loss(self, samples: Nested) -> tuple[Any, Any]:
        """Compute all losses of one batch, and the values that are logged."""
        raise NotImplementedError(f"{type(self).__name__} does not define loss()")

    def named_values(self, losses: Any, grad_norms: Any, values: Any) -> dict[str, Any]:
        """Return the values of one update to log, by name.

        Args:
            losses: losses that :meth:`loss` returned.
            grad_norms: gradient norms, in the order of the losses.
            values: values that :meth:`loss` returned.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define named_values()")

    def append_opt_info_(
        self, opt_info: Any, losses: Any, grad_norms: Sequence[Any], values: Any
    ) -> None:
        """Append the :meth:`named_values` of one update to the lists of ``opt_info``."""
        self.record_opt_info(opt_info, self.named_values(losses, grad_norms, values))

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        """Return ``losses`` and ``values`` of :meth:`loss`; further entries are logged by name."""
        losses, values = self.loss(samples)
        return {"losses": losses, "values": values}

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        values = self.run_update(self.next_update(), samples_from_replay)
        losses, grad_norms = values["losses"], values["grad_norms"]
        self.append_opt_info_(opt_info, losses, grad_norms, values["values"])
        self._finish_update(values, opt_info)

    def next_update(self) -> Callable[..., Any]:
        """Return the method that takes the next step on a batch."""
        return self.update_networks

    def q_target_of(self, samples: Nested, next_value: torch.Tensor) -> torch.Tensor:
        """Return the targets of all critics, from values of the next observations, [B,...] each."""
        shape = (-1,) + (1,) * (next_value.dim() - 1)
        return n_step_target(
            self.reward_scale * samples.return_.reshape(shape),
            samples.done_n.reshape(shape),
            next_value,
            self.discount,
            self.bootstrap_steps(samples),
        )

    def q_of_policy(self, inputs: Nested, action: torch.Tensor) -> torch.Tensor:
        """Return what the policy maximizes: the smallest value [B] of all critics.

        Args:
            inputs: model inputs [B,...] of the agent.
            action: actions [B,A] from the policy, with gradient.
        """
        least: torch.Tensor = reduce(torch.min, self.qs_of_policy(inputs, action))
        return least

    def qs_of_policy(self, inputs: Nested, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs of each critic, with gradients in the action only.

        Statistics of batch renormalization stay unchanged.

        Args:
            inputs: model inputs [B,...] of the agent.
            action: actions [B,A] from the policy, with gradient.
        """
        parameters = [p for o in self._q_optimizers for p in self.parameters_of(o)]
        trained = self.parameters_of(self.pi_optimizer)
        with frozen(parameters, but=trained), running_statistics(self._renorm_layers):
            qs: tuple[torch.Tensor, ...] = self.agent.q(*inputs, action)
        return qs

    @cached_property
    def _action_range(self) -> list[torch.Tensor]:
        return [torch.as_tensor(x).to(self.agent.device) for x in range_of_actions(self.agent)]

    def get_action_prior(self, action: torch.Tensor) -> Any:
        """Return the log prior density of actions, up to a constant.

        Args:
            action: actions [B,A] from the policy.

        Returns:
            0 for the uniform prior, [B] for the Gaussian prior. Its standard deviation is half the
            range of an action: N(0, 1) for actions in [-1, 1].
        """
        if self.action_prior == "uniform":
            return 0.0
        mid, half_range = (x.to(action) for x in self._action_range)
        # Its checks would wait for the device.
        prior = torch.distributions.Normal(mid, half_range, validate_args=False)
        vectors = action.reshape(len(action), -1)
        return self.agent.for_loss(prior.log_prob(vectors).sum(-1))


def range_of_actions(agent: AgentLike) -> tuple[NDArray, NDArray]:
    """Return middle and half range [A] of the actions; without ``action_bounds``, of [-1, 1]."""
    bounds = getattr(agent, "action_bounds", None)
    if bounds is not None:
        return bounds.mid, bounds.half_range
    A = math.prod(agent.env_spaces.action.shape)
    return np.zeros(A, np.float32), np.ones(A, np.float32)


def mean_weights(valid: torch.Tensor) -> torch.Tensor:
    """Return weights [B] that average over the samples whose ``valid`` is 1; zeros without any.

    All losses of a batch share the weights: ``torch.dot(losses, weights)``.
    """
    weights = valid.to(torch.get_default_dtype())
    return weights / weights.sum().clamp(min=1)


def half_squared_error(
    value: torch.Tensor, target: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Return the weighted mean of ``(target - value)^2 / 2``; all arguments are [B]."""
    return 0.5 * torch.dot(F.mse_loss(value, target, reduction="none"), weights)
