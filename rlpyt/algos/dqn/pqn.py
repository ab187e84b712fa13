"""Parallelised Q-network: Q-learning from sampler batches, without replay or target network."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import check_fraction, check_positive
from rlpyt.algos.dqn.dqn import values_of_best
from rlpyt.algos.losses import huber_td_loss, masked_mean
from rlpyt.algos.on_policy import OnPolicyAlgorithm
from rlpyt.algos.rollouts import (
    inputs_when_acting,
    resets,
    to_model_state,
    truncations,
    values_at_truncation,
    with_resets,
)
from rlpyt.returns.advantages import q_lambda_return
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import select_at_indexes
from rlpyt.utils.types import Nested

LossInputs = namedarraytuple(
    "LossInputs", ["agent_inputs", "action", "return_", "valid", "init_rnn_state", "reset"]
)


class PQN(OnPolicyAlgorithm):
    """Parallelised Q-network: fits Q(s, a) to the lambda returns of the last batch.

        V_t  = max_a Q(s_t, a)
        G_t  = r_t + discount * (1 - d_t) * (q_lambda * G_{t+1} + (1 - q_lambda) * V_{t+1})
        G_T  = V_T
        loss = mean of (G_t - Q(s_t, a_t))^2 / 2

    V_t are the values with which the agent acted. In place of a target network, the layers of the
    network are normalized (``layer_norm`` of the model). In each epoch all samples of a batch are
    divided into new random minibatches. For recurrent agents, the minibatches consist of whole
    environments: T steps from the recorded state, which is zero again where an episode begins.

    Agents act epsilon-greedily, such as :class:`~rlpyt.agents.dqn.mlp_agent.MlpPqnAgent` and the
    recurrent :class:`~rlpyt.agents.dqn.mlp_agent.MlpPqnLstmAgent`.

    Args:
        discount: discount factor per step, in [0, 1].
        learning_rate: initial learning rate.
        q_lambda: lambda of the returns, in [0, 1]; 0 for one-step returns.
        minibatches: number of minibatches in one epoch; for recurrent agents, at most the number of
            environments.
        epochs: number of epochs in one iteration.
        OptimCls: class of the optimizer; the authors use ``torch.optim.RAdam``.
        optim_kwargs: keyword arguments of ``OptimCls``.
        initial_optim_state_dict: initial state of the optimizer, from :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient; None for no clipping.
        eps_steps: number of environment steps, over all processes, until epsilon reaches its final
            value.
        linear_lr_schedule: whether to anneal ``learning_rate`` linearly to zero over the run.
        bootstrap_timelimit: whether to treat time limits (``env_info.timeout``) as truncations:
            returns are bootstrapped from the last observation if the sampler records it, and left
            out of the loss if not. False treats a time limit as termination.

    Source: Gallici et al. 2024, arXiv:2407.04811, algorithm 1; time limits: Pardo et al. 2018,
    arXiv:1712.00378.
    """

    opt_info_fields = ("loss", "gradNorm", "tdAbsErr", "qMean")
    q_kind = "value alone"
    agent_example = "PqnAgent"

    q_lambda: float = 0.65
    eps_steps: float = int(1e6)
    linear_lr_schedule: bool = True

    def __init__(
        self,
        discount: float = 0.99,
        learning_rate: float = 5e-4,
        q_lambda: float = 0.65,
        minibatches: int = 4,
        epochs: int = 2,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        clip_grad_norm: float | None = 10.0,
        eps_steps: float = int(1e6),
        linear_lr_schedule: bool = True,
        bootstrap_timelimit: bool = False,
    ) -> None:
        save__init__args(locals())

    # --- Set-up ------------------------------------------------------------------------------

    def _set_up(self, *args: Any) -> None:
        super()._set_up(*args)
        steps_per_itr = self.batch_spec.size * self.world_size
        self.agent.set_epsilon_itr_min_max(0, self.eps_steps // steps_per_itr)

    def _check_settings(self, examples: Nested) -> None:
        self._check_agent_and_sampler(recurrent=None)
        self._check_agent_has("set_epsilon_itr_min_max", "MlpPqnAgent")
        check_fraction(self, "discount", "q_lambda")
        check_positive(self, "clip_grad_norm", "make it positive, or None")

    # --- The batch ---------------------------------------------------------------------------

    def to_training_device(self, samples: Nested) -> Nested:
        samples = with_resets(samples) if self.agent.recurrent else samples
        return super().to_training_device(samples)

    def prepare(self, samples: Nested) -> Nested:
        return_, valid = self.compute_returns(samples)
        states = samples.agent.agent_info.prev_rnn_state[0] if self.agent.recurrent else None
        return LossInputs(
            agent_inputs=inputs_when_acting(self.agent, samples),
            action=samples.agent.action,
            return_=return_,
            valid=valid,
            init_rnn_state=states,
            reset=resets(samples),
        )

    @torch.no_grad()
    def compute_returns(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Compute the targets of a batch.

        Args:
            samples: batch [T,B] of the sampler, with ``agent_info.value`` and ``bootstrap_value``.

        Returns:
            G [T,B], and a mask [T,B], False for truncated steps without a last observation; None
            if every step counts.
        """
        agent, env = samples.agent, samples.env
        reward = env.reward
        timeout = truncations(env) if self.bootstrap_timelimit else None
        if timeout is not None and "next_observation" in env._fields:
            all_processes = self.world_size > 1
            last = values_at_truncation(self.agent, samples, timeout, all_processes, _values_of)
            reward = reward + self.discount * last
            timeout = None
        valid = None if timeout is None else ~timeout
        targets = (reward, agent.agent_info.value, env.done, agent.bootstrap_value)
        return q_lambda_return(*targets, self.discount, self.q_lambda, timeout), valid

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, batch: Nested) -> dict[str, Any]:
        loss, values = self.loss(batch)
        return {"loss": loss, **values}

    def run_networks(self, batch: Nested) -> torch.Tensor | None:
        return values_of_best(self.agent, batch)

    def loss(self, batch: Nested) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the loss of one minibatch.

        Args:
            batch: ``LossInputs`` [B,...]; for recurrent agents [T,B,...].

        Returns:
            The scalar loss, and values to log by name.
        """
        if batch.init_rnn_state is None:
            q = self.agent(*batch.agent_inputs)
        else:
            state = to_model_state(batch.init_rnn_state)
            q, _ = self.agent(*batch.agent_inputs, state, reset=batch.reset)
        q = select_at_indexes(batch.action, q)
        losses, td_abs_errors = huber_td_loss(q, batch.return_, None)
        loss = losses.mean() if batch.valid is None else masked_mean(losses, batch.valid)
        return loss, {"tdAbsErr": td_abs_errors, "qMean": q.detach().mean()}

    @property
    def _takes_fillers(self) -> bool:
        return type(self).loss is PQN.loss

    # --- Schedule ----------------------------------------------------------------------------

    def update_itr_hyperparams(self, itr: int) -> None:
        """Set the learning rate of the iteration after ``itr``."""
        if self.linear_lr_schedule:
            for group in self.optimizer.param_groups:
                initial = group.setdefault("initial_lr", group["lr"])
                group["lr"] = initial * max(0.0, (self.n_itr - itr - 1) / self.n_itr)


def _values_of(outputs: Any) -> torch.Tensor:
    """Return max_a Q(s, a) [...] from the outputs of an agent; a recurrent one's have its state."""
    q = outputs[0] if isinstance(outputs, tuple) else outputs
    values: torch.Tensor = q.max(-1).values
    return values
