"""Actor-critic that learns while another process samples, corrected by V-trace."""

from __future__ import annotations

from typing import Any

import torch

from rlpyt.algos.checks import check_positive
from rlpyt.algos.losses import policy_gradient_loss, squared_value_loss
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.base import LossInputs
from rlpyt.algos.rollouts import inputs_when_acting
from rlpyt.algos.statistics import value_statistics
from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import BatchSpec
from rlpyt.replays.async_ import BatchQueue
from rlpyt.returns.advantages import vtrace
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import valid_mean
from rlpyt.utils.types import Nested

# Batches that the runner lets the sampler fill before the first of them is trained on.
QUEUE_CAPACITY = 4

ImpalaInputs = namedarraytuple("ImpalaInputs", [*LossInputs._fields, "samples"])
# Outputs of the network that trains, in place of those recorded by the one that acted.
Corrected = namedarraytuple("Corrected", ["value", "ratio"])


class IMPALA(A2C):
    """Importance-weighted actor-learner: A2C in asynchronous mode, with V-trace targets.

        ratio = pi(a|s) / mu(a|s)
        A, v  = advantages and targets by V-trace, of the ratios and of V(s)
        loss  = mean of -log pi(a|s) * A + value_loss_coeff * (V(s) - v)^2 / 2
                - entropy_loss_coeff * H(pi(s))

    mu is the policy that acted, at most three updates older than the present policy pi. While the
    sampler fills a batch, the algorithm trains on earlier batches, each once and in order, taken
    from a queue in shared memory. The present network computes V(s), except for the value after the
    last step of a batch, which the acting network recorded. ``gae_lambda`` is the lambda of
    V-trace, 1 in the paper.

    Agents (including recurrent ones), time limits and normalization work as in A2C. The runner is
    :class:`~rlpyt.runners.async_rl.AsyncRl` or ``AsyncRlEval``, with one optimizer. If it does not
    let the sampler wait (``throttle_sampler=False``), batches that come too fast are lost.

    Args:
        *args: arguments of A2C.
        rho_bar: largest importance weight of TD errors and of the policy gradient.
        c_bar: largest importance weight, per step, of later TD errors; at most ``rho_bar``.
        **kwargs: keywords of A2C.

    Source: Espeholt et al. 2018, arXiv:1802.01561, section 4.
    """

    only_async = True
    replay_ratio = 1  # Every sample is trained on once.
    updates_per_optimize = 1
    opt_info_fields = (*A2C.opt_info_fields, "rhoMean", "clipFraction")

    replay_buffer: BatchQueue

    def __init__(self, *args: Any, rho_bar: float = 1.0, c_bar: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rho_bar = rho_bar
        self.c_bar = c_bar

    # --- Set-up ------------------------------------------------------------------------------

    def async_initialize(
        self,
        agent: AgentLike,
        sampler_n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        examples: Nested,
        world_size: int = 1,
    ) -> BatchQueue:
        """Set up all but the optimizer, and return the queue of batches.

        Raises:
            ValueError: if a setting cannot work, or several optimizers would train.
        """
        if world_size > 1:
            raise ValueError(
                f"affinity['optimizer'] has {world_size} entries, but {type(self).__name__} trains "
                "in one process: give one"
            )
        self._set_up(agent, sampler_n_itr, batch_spec, mid_batch_reset, examples, world_size)
        self.replay_buffer = BatchQueue(examples["batch"], QUEUE_CAPACITY)
        self._n_counted = 0  # Batches that the runner knows of; the queue may hold more.
        return self.replay_buffer

    def _check_settings(self, examples: Nested) -> None:
        super()._check_settings(examples)
        check_positive(self, "rho_bar")
        check_positive(self, "c_bar")

    def samples_to_buffer(self, samples: Nested) -> Nested:
        """Return the whole batch [T,B] of the sampler."""
        return samples

    # --- One iteration -----------------------------------------------------------------------

    def optimize_agent(
        self, itr: int, samples: Nested = None, sampler_itr: int | None = None
    ) -> Any:
        """Train once on ``samples`` [T,B]; on the next batch of the queue if they are None."""
        if samples is None:
            assert sampler_itr is not None
            self._n_counted = sampler_itr + 1
            samples = self.replay_buffer.next_batch()
        if samples is None:  # The sampler went ahead, and has written over it.
            self.update_itr_hyperparams(itr)
            return self._get_empty_optim_info()
        return super().optimize_agent(itr, samples, sampler_itr)

    def loss_input_from_samples(self, samples: Nested) -> Nested:
        """Return the inputs of the loss, which computes targets of the values that it needs."""
        return ImpalaInputs(
            agent_inputs=inputs_when_acting(self.agent, samples),
            action=samples.agent.action,
            return_=None,
            advantage=None,
            valid=None,
            old_dist_info=samples.agent.agent_info.dist_info,
            samples=samples,
        )

    def batch_loss(self, batch: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        inputs = batch.agent_inputs, batch.init_rnn_state, batch.reset
        dist_info, value = self.agent_outputs(*inputs)
        distribution = self.agent.distribution
        logli = distribution.log_likelihood(batch.action, dist_info)
        old_logli = distribution.log_likelihood(batch.action, batch.old_dist_info)
        ratio = (logli - old_logli).exp().detach()
        corrected = Corrected(value.detach(), ratio)
        agent = batch.samples.agent._replace(agent_info=corrected)
        return_, advantage, valid = self.process_returns(batch.samples._replace(agent=agent))
        pi_loss = valid_mean(policy_gradient_loss(logli, advantage), valid)
        value_loss = valid_mean(squared_value_loss(value, return_), valid)
        self.next_diagnostics.update(
            value_statistics(corrected, return_, valid),
            rhoMean=valid_mean(ratio.clamp(max=self.rho_bar), valid),
            clipFraction=valid_mean((ratio > self.rho_bar).to(ratio), valid),
        )
        return self.combine_losses(pi_loss, value_loss, dist_info, valid)

    def _estimate(
        self,
        samples: Nested,
        reward: torch.Tensor,
        value: torch.Tensor,
        done: torch.Tensor,
        bootstrap_value: torch.Tensor,
        timeout: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        targets = (reward, value, done, bootstrap_value, self.discount, self.gae_lambda)
        bounds = (self.rho_bar, self.c_bar)
        ratio = samples.agent.agent_info.ratio
        advantage, return_ = vtrace(ratio, *targets, *bounds, timeout)
        return return_, advantage

    # --- State -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        queue = self.replay_buffer.state_dict()
        # The runner samples again what it has not counted.
        queue["n_written"] = max(queue["n_read"], min(queue["n_written"], self._n_counted))
        return {**super().state_dict(), "replay_buffer": queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.replay_buffer.load_state_dict(state["replay_buffer"])
        self._n_counted = state["replay_buffer"]["n_written"]
