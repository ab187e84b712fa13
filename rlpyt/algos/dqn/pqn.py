"""Parallelised Q-network: Q-learning from sampler batches, without replay or target network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.checks import (
    check_agent,
    check_clip_grad_norm,
    check_fraction,
    check_minibatches,
    check_resets_at_once,
    make_whole,
    warn_without_timeout,
)
from rlpyt.algos.losses import huber_td_loss, masked_mean
from rlpyt.algos.pg._episode_ends import (
    episode_starts,
    inputs_when_acting,
    to_model_state,
    truncations,
    values_at_truncation,
)
from rlpyt.algos.pg._minibatches import (
    filled_parts,
    iterate_parts,
    iterate_sequences,
    shuffled_parts,
)
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec
from rlpyt.returns.advantages import q_lambda_return
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.seed import generator_state, make_generator, set_generator_state
from rlpyt.utils.tensor import select_at_indexes
from rlpyt.utils.types import Nested

LossInputs = namedarraytuple("LossInputs", ["agent_inputs", "action", "return_", "valid"])


class PQN(RlAlgorithm):
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

    bootstrap_value = True
    opt_info_fields = ("loss", "gradNorm", "tdAbsErr", "qMean")
    q_kind = "value alone"  # Kind of network output that the loss takes.

    minibatches: int
    epochs: int
    q_lambda: float
    eps_steps: float
    linear_lr_schedule: bool
    bootstrap_timelimit: bool

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

    def initialize(
        self,
        agent: AgentLike,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool = True,
        examples: Nested = None,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Set up the optimizer, and the schedule of the agent's random actions.

        Raises:
            ValueError: if a setting cannot work, alone or with this agent and sampler.
        """
        self._begin_run(agent)
        self.n_itr = n_itr
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.world_size = world_size
        self._check_settings(examples)
        self._minibatch_rng = make_generator()
        self._batch_size = batch_spec.size // self.minibatches
        self.agent.set_epsilon_itr_min_max(0, self.eps_steps // (batch_spec.size * world_size))
        self.optim_initialize(rank)

    def _check_settings(self, examples: Nested) -> None:
        check_agent(self, PQN, recurrent=None)
        if not hasattr(self.agent, "set_epsilon_itr_min_max"):
            raise ValueError(
                f"the agent is {type(self.agent).__name__}, but PQN trains agents that act "
                "epsilon-greedily: use one such as MlpPqnAgent"
            )
        check_fraction(self, "discount", "q_lambda")
        make_whole(self, "minibatches", "epochs")
        check_clip_grad_norm(self)
        check_resets_at_once(self)
        check_minibatches(self)
        if examples:
            warn_without_timeout(self, examples["env_info"])

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        self._itr = itr
        if self.linear_lr_schedule:
            for group in self.optimizer.param_groups:
                initial = group.setdefault("initial_lr", group["lr"])
                group["lr"] = initial * max(0.0, (self.n_itr - itr) / self.n_itr)
        opt_info = self._get_empty_optim_info()
        for minibatch in self.iterate_minibatches(samples):
            self.record_opt_info(opt_info, self.run_update(self.update_networks, *minibatch))
            self.update_counter += 1
        return self.fetch_opt_info(opt_info)

    def iterate_minibatches(self, samples: Nested) -> Iterator[tuple[Nested, ...]]:
        """Yield the arguments of :meth:`loss` for the minibatches of all epochs."""
        is_recurrent, (T, B) = self.agent.recurrent, self.batch_spec
        # The CPU cuts sequences where episodes begin.
        reset = episode_starts(samples).cpu() if is_recurrent else None
        samples = self.to_training_device(samples)
        inputs = self.loss_input_from_samples(samples)
        rows, device = np.arange(B if is_recurrent else T * B), self.training_device
        for _ in range(self.epochs):
            order, sizes = shuffled_parts(rows, self.minibatches, self._minibatch_rng)
            if is_recurrent:
                states = samples.agent.agent_info.prev_rnn_state
                yield from iterate_sequences(inputs, states, reset, order, sizes, device)
            elif self.compile and len(set(sizes)) > 1:
                order, sizes, masks = filled_parts(order, sizes, sizes[0], device)
                parts = iterate_parts(inputs, order, sizes, n_dims=2)
                yield from ((_masked(part, mask),) for part, mask in zip(parts, masks))
            else:
                yield from zip(iterate_parts(inputs, order, sizes, n_dims=2))

    def loss_input_from_samples(self, samples: Nested) -> Nested:
        """Return ``LossInputs`` [T,B,...] from a batch [T,B] of the sampler."""
        return_, valid = self.compute_returns(samples)
        agent_inputs = inputs_when_acting(self.agent, samples)
        return LossInputs(agent_inputs, samples.agent.action, return_, valid)

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
            reward = reward + self.discount * self._last_values(samples, timeout)
            timeout = None
        valid = None if timeout is None else ~timeout
        targets = (reward, agent.agent_info.value, env.done, agent.bootstrap_value)
        return q_lambda_return(*targets, self.discount, self.q_lambda, timeout), valid

    def _last_values(self, samples: Nested, timeout: torch.Tensor) -> torch.Tensor:
        """Return V [T,B] of the last observations of truncated episodes, zero elsewhere."""
        if self.agent.recurrent:
            all_processes = self.world_size > 1
            return values_at_truncation(self.agent, samples, timeout, all_processes, _values_of)
        env = samples.env
        q = self.agent(env.next_observation, samples.agent.action, env.reward)
        return torch.where(timeout, q.max(-1).values, 0)

    # --- One update --------------------------------------------------------------------------

    def update_networks(self, *minibatch: Nested) -> dict[str, Any]:
        """Take one step down the gradient of the loss; return values to log, by name."""
        loss, values = self.loss(*minibatch)
        loss, grad_norm = self.minimize(loss, self.optimizer)
        return {"loss": loss, "gradNorm": grad_norm, **values}

    def loss(
        self,
        loss_inputs: Nested,
        init_rnn_state: Nested = None,
        reset: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the loss of one minibatch.

        Args:
            loss_inputs: ``LossInputs`` [B,...]; for recurrent agents [T,B,...].
            init_rnn_state: recorded state [B,N,H] before the first step; None without recurrence.
            reset: mask [T,B] on the CPU, True where an episode begins within the batch; None
                without recurrence.

        Returns:
            The scalar loss, and values to log by name.
        """
        if init_rnn_state is None:
            q = self.agent(*loss_inputs.agent_inputs)
        else:
            state = to_model_state(init_rnn_state)
            q, _ = self.agent(*loss_inputs.agent_inputs, state, reset=reset)
        q = select_at_indexes(loss_inputs.action, q)
        losses, td_abs_errors = huber_td_loss(q, loss_inputs.return_, None)
        valid = loss_inputs.valid
        loss = losses.mean() if valid is None else masked_mean(losses, valid)
        return loss, {"tdAbsErr": td_abs_errors, "qMean": q.detach().mean()}

    # --- State -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "rng": generator_state(self._minibatch_rng)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        set_generator_state(self._minibatch_rng, state["rng"])


def _masked(minibatch: Nested, mask: torch.Tensor) -> Nested:
    """Return ``LossInputs`` [B,...] of which only the entries in ``mask`` [B] count."""
    valid = minibatch.valid
    return minibatch._replace(valid=mask if valid is None else valid * mask)


def _values_of(outputs: Any) -> torch.Tensor:
    """Return max_a Q(s, a) [...] from the outputs of a recurrent agent."""
    values: torch.Tensor = outputs[0].max(-1).values
    return values
