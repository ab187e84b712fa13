"""R2D1: deep Q-learning of recurrent agents, from replayed sequences."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.algos._optim import with_defaults
from rlpyt.algos.checks import check_fraction
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.losses import (
    huber_td_loss,
    inv_value_scale,
    masked_mean,
    n_step_target,
    sequence_priorities,
    value_scale,
)
from rlpyt.algos.sequences import SequenceReplay
from rlpyt.core.records import BatchSpec, SamplesToBuffer, extended
from rlpyt.models.rnn import unroll
from rlpyt.returns.n_step import discount_return_n_step, timeout_n_step
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils.buffer import as_numpy
from rlpyt.utils.collections import fields_of, namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import NDArray, Nested

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr", "priority"])
SamplesToBufferRnn = extended(SamplesToBuffer, ("prev_rnn_state",), "Rnn")
PrioritiesSamplesToBuffer = namedarraytuple("PrioritiesSamplesToBuffer", ["priorities", "samples"])


class R2D1(SequenceReplay, DQN):
    """R2D1: minimizes the TD error of recurrent Q-values along replayed sequences.

        y_t  = h(R_t + (1 - done_n_t) * discount^n * h^-1(max_a Q_target(s_{t+n}, a)))
        loss = mean over t and sequences of weight * huber(y_t - Q(s_t, a_t))

    where h squashes values (:meth:`value_scale`); with ``double_dqn`` the action at s_{t+n} is the
    best one by Q. Both networks start from the recurrent state stored when acting. They run over
    ``warmup_T`` steps of burn-in without gradients, then over the ``batch_T`` steps of the loss and
    the n steps after them.

    Sequences may span several episodes. At the start of an episode the recurrent state, the
    previous action and the previous reward are zero, as when acting. All steps are trained on,
    except while an environment waits for the end of a sampler batch (``mid_batch_reset`` False).

    The priority of a sequence mixes its largest and its mean TD error
    (:func:`~rlpyt.algos.losses.sequence_priorities`): the errors of its last update or, for new
    sequences with ``input_priorities``, of the values recorded when acting.

    The log has the loss, the gradient norm, TD errors, priorities, and the mean (squashed) Q-value
    of the actions taken.

    Args:
        discount: discount factor per step, in [0, 1].
        batch_T: number of trained steps in a sequence.
        batch_B: number of sequences in one update.
        warmup_T: number of burn-in steps before the trained ones; may be 0.
        store_rnn_state_interval: number of steps between stored recurrent states, at which
            sequences begin; 1 stores every state. 0 stores none: sequences begin anywhere, from a
            zero state.
        min_steps_learn: number of environment steps, over all processes, before training starts.
        delta_clip: TD error above which the loss is linear; None for a quadratic loss everywhere.
        replay_size: number of environment steps stored in each process, divided equally among its
            environments.
        replay_ratio: number of samples drawn for training, burn-in included, per environment step.
        target_update_interval: number of gradient updates between target-network updates.
        n_step_return: number n of rewards in a return.
        learning_rate: learning rate of the optimizer.
        OptimCls: class of the optimizer.
        optim_kwargs: keyword arguments of ``OptimCls``; if it takes ``eps``, the default is 1e-3.
        initial_optim_state_dict: initial state of the optimizer, from :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient; None for no clipping.
        eps_steps: number of environment steps, over all processes, until epsilon reaches its final
            value.
        double_dqn: whether the online network chooses the action n steps later.
        prioritized_replay: whether to prioritize sequences by their last TD errors.
        pri_alpha: exponent of priorities, in [0, 1]; 0 for uniform sampling.
        pri_beta_init: exponent of importance weights when training starts.
        pri_beta_final: exponent of importance weights after ``pri_beta_steps``.
        pri_beta_steps: number of environment steps, over all processes, until ``pri_beta_final``.
        pri_eta: weight of the largest TD error in a priority; the mean has weight ``1 - pri_eta``.
        default_priority: priority of new sequences if ``input_priorities`` is False; None for
            ``delta_clip``, or 1 if that is None.
        input_priorities: whether :meth:`compute_input_priorities` sets the priorities of new
            sequences.
        input_priority_shift: number of stored states between the beginning of a sequence and the
            samples that its priority is computed from; None for the burn-in:
            ``warmup_T // store_rnn_state_interval``.
        value_scale_eps: epsilon of h, at least 0.
        ReplayBufferCls: replay buffer class to use instead of the default, called with the same
            keywords.
        updates_per_sync: number of updates between parameter transfers to the sampler, in
            asynchronous mode.
        target_update_tau: weight of the online parameters in a target-network update; 1 copies
            them.
        bootstrap_timelimit: whether to treat time limits (``env_info.timeout``) as truncations:
            returns are bootstrapped from the last observation if it is recorded, and left out of
            the loss if not; see :class:`~rlpyt.algos.replay.ReplayAlgorithm`. False treats a time
            limit as termination.
        replay_device: device that stores the replay buffer: "agent" for the agent's device, None
            for host memory.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR).
    """

    opt_info_fields = (*OptInfo._fields, "qMean")
    q_kind = DQN.q_kind
    agent_example = "R2d1Agent"

    pri_eta: float = 0.9
    input_priorities: bool = True
    input_priority_shift: int | None = None
    value_scale_eps: float = 1e-3

    def __init__(
        self,
        discount: float = 0.997,
        batch_T: int = 80,
        batch_B: int = 64,
        warmup_T: int = 40,
        store_rnn_state_interval: int = 40,
        min_steps_learn: float = int(1e5),
        delta_clip: float | None = None,
        replay_size: float = int(1e6),
        replay_ratio: float = 1,
        target_update_interval: int = 2500,
        n_step_return: int = 5,
        learning_rate: float = 1e-4,
        OptimCls: Any = torch.optim.Adam,
        optim_kwargs: dict[str, Any] | None = None,
        initial_optim_state_dict: Any = None,
        clip_grad_norm: float | None = 80.0,
        eps_steps: float = int(1e6),
        double_dqn: bool = True,
        prioritized_replay: bool = True,
        pri_alpha: float = 0.6,
        pri_beta_init: float = 0.9,
        pri_beta_final: float = 0.9,
        pri_beta_steps: float = int(50e6),
        pri_eta: float = 0.9,
        default_priority: float | None = None,
        input_priorities: bool = True,
        input_priority_shift: int | None = None,
        value_scale_eps: float = 1e-3,
        ReplayBufferCls: Any = None,
        updates_per_sync: int = 1,
        target_update_tau: float = 1,
        bootstrap_timelimit: bool = False,
        replay_device: Any = None,
    ) -> None:
        batch_T, batch_B, warmup_T = int(batch_T), int(batch_B), int(warmup_T)
        store_rnn_state_interval = int(store_rnn_state_interval)
        save__init__args(locals())
        self.optim_kwargs = with_defaults(self.OptimCls, self.optim_kwargs, eps=1e-3)
        if self.input_priority_shift is None:
            self.input_priority_shift = self.warmup_T // max(1, self.store_rnn_state_interval)
        super().__init__(batch_size=self.sequence_T * self.batch_B)  # All others are stored.

    # --- Set-up ------------------------------------------------------------------------------

    @property
    def input_priorities_are_used(self) -> bool:
        """Whether new samples come with priorities."""
        return bool(self.prioritized_replay and self.input_priorities)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_fraction(self, "pri_eta")
        if self.value_scale_eps < 0:
            raise ValueError(f"value_scale_eps is {self.value_scale_eps}: make it 0 or more")

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        kwargs = super()._replay_kwargs(example, batch_spec)
        if self.prioritized_replay:
            kwargs["input_priorities"] = self.input_priorities
            kwargs["input_priority_shift"] = self.input_priority_shift
        return kwargs

    # --- What is stored ----------------------------------------------------------------------

    def examples_to_buffer(self, examples: Nested) -> Nested:
        is_by_values = type(self).compute_input_priorities is R2D1.compute_input_priorities
        is_by_values &= type(self).samples_to_buffer is R2D1.samples_to_buffer
        if self.input_priorities_are_used and is_by_values:
            self._check_agent_info(examples["agent_info"], {"q"})
        return super().examples_to_buffer(examples)

    def samples_to_buffer(self, samples: Nested) -> Nested:
        """Return the part of a sampler batch [T,B] to store, with priorities [B] if used."""
        entry = super().samples_to_buffer(samples)
        if not self.input_priorities_are_used:
            return entry
        priorities = self.compute_input_priorities(samples)
        return PrioritiesSamplesToBuffer(priorities=priorities, samples=entry)

    def _with_valid(self, entry: Any, done: Any) -> Nested:
        if isinstance(entry, PrioritiesSamplesToBuffer):
            return entry._replace(samples=super()._with_valid(entry.samples, done))
        return super()._with_valid(entry, done)

    @torch.no_grad()
    def compute_input_priorities(self, samples: Nested) -> NDArray:
        """Return priorities of a new batch, from the values recorded when acting.

            y_t = h(R_t + (1 - done_n_t) * discount^n * h^-1(max_a q_{t+n}(a))),    t < T - n

        with n at most T - 1. An environment gets the default priority if no step of it has such a
        target: in a batch of one step, or if a time limit cuts all of them off.

        Args:
            samples: batch [T,B] of the sampler.

        Returns:
            [B] float32, one for all steps of an environment:
            :func:`~rlpyt.algos.losses.sequence_priorities` of the absolute TD errors.
        """
        q, action = map(torch.as_tensor, (samples.agent.agent_info.q, samples.agent.action))
        reward, done = map(torch.as_tensor, (samples.env.reward, samples.env.done))
        T, B = done.shape
        n = min(self.n_step_return, T - 1)
        if n == 0:
            return np.full(B, self.default_priority, np.float32)
        return_, done_n = discount_return_n_step(reward, done, n, self.discount)
        y = self.scaled_target(return_[:-1], done_n[:-1], q[n:].max(dim=-1).values, n)
        q_taken = self.select_at_indexes(action[:-n], q[:-n])
        _, td_abs_errors = huber_td_loss(q_taken, y, self.delta_clip)
        valid = torch.ones_like(reward) if self.mid_batch_reset else valid_from_done(done)
        valid = valid[:-n]
        if self.bootstrap_timelimit and "timeout" in fields_of(samples.env.env_info):
            timeout = torch.as_tensor(samples.env.env_info.timeout)
            valid = valid * ~timeout_n_step(done, timeout, n)[:-1].bool()
        priorities: NDArray = as_numpy(sequence_priorities(td_abs_errors, valid, self.pri_eta))
        has_targets = as_numpy(valid.any(0))
        return np.where(has_targets, priorities, np.float32(self.default_priority))

    # --- One update --------------------------------------------------------------------------

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        loss, td_abs_errors, priorities = self.loss(samples)
        values = {"loss": loss, "tdAbsErr": td_abs_errors, "priority": priorities}
        return {**values, **self.q_diagnostics()}

    def update_priorities(self, values: Mapping[str, Any]) -> None:
        if self.prioritized_replay:
            self.replay_buffer.update_batch_priorities(values["priority"])

    def loss(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the loss of one batch from the replay buffer.

        Args:
            samples: sequences of ``warmup_T`` + ``batch_T`` steps, with n more observations,
                previous actions and rewards, the state [B,N,H] before the first step (or None), and
                ``is_weights`` [B] if prioritized.

        Returns:
            The scalar loss; the absolute TD errors [batch_T,B], 0 at steps that do not count, and
            the priorities [B], both without gradient.
        """
        steps = slice(self.warmup_T, self.sequence_T)
        qs, next_value = self.sequence_values(samples)
        # all_action[t] is the action before step t.
        action = samples.all_action[steps.start + 1 : steps.stop + 1]
        q = self.select_at_indexes(action, qs)
        n_step = self.bootstrap_steps(samples)
        n_step = n_step[steps] if isinstance(n_step, torch.Tensor) else n_step
        y = self.scaled_target(samples.return_[steps], samples.done_n[steps], next_value, n_step)
        losses, td_abs_errors = huber_td_loss(q, y, self.delta_clip)
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        valid = self.valid_steps(samples)[steps].to(losses.dtype)
        priorities = sequence_priorities(td_abs_errors, valid, self.pri_eta)
        self._q_taken = q.detach()
        return masked_mean(losses, valid), td_abs_errors * valid, priorities

    def sequence_values(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values at the steps of the loss, and the bootstrap values of their targets.

        The online network runs once over the burn-in and the steps of the loss. With ``double_dqn``
        it also runs over the n steps after them, and its outputs choose actions. Where a time limit
        truncated an episode, both run once more over sequences with its last observation.

        Returns:
            Values [batch_T,B,A] of all actions, with gradients, and values [batch_T,B] n steps
            later by the target network, without gradients.
        """
        inputs, rnn_state, resets = self.sequence_inputs(samples)
        whole, warmup, steps, behind = zip(self._runs, resets)
        n = self.n_step_return
        longer = self.with_last_observations(samples, inputs)
        with torch.no_grad():
            if longer is None:
                target_qs, _ = self._run("target", inputs, rnn_state, *whole)
                target_qs = target_qs[self.warmup_T + n :]
            else:
                next_value = self._values_over_limits(rnn_state, *longer)
            if self.warmup_T > 0:
                _, rnn_state = self._run("__call__", inputs, rnn_state, *warmup)
        qs, rnn_state = self._run("__call__", inputs, rnn_state, *steps)
        if longer is not None:
            return qs, next_value
        if not self.double_dqn:
            return qs, target_qs.max(dim=-1).values
        with torch.no_grad():
            qs_behind, _ = self._run("__call__", inputs, rnn_state, *behind)
            next_action = torch.cat((qs, qs_behind))[n:].argmax(dim=-1)
            return qs, self.select_at_indexes(next_action, target_qs)

    def _values_over_limits(
        self,
        rnn_state: Nested,
        inputs: tuple[Nested, ...],
        reset: torch.Tensor | None,
        places: torch.Tensor,
    ) -> torch.Tensor:
        """Return values [batch_T,B] at ``places`` of sequences [L,B] with last observations."""
        qs, _ = self._run("target", inputs, rnn_state, slice(None), reset)
        choosing_qs = qs
        if self.double_dqn:
            choosing_qs, _ = self._run("__call__", inputs, rnn_state, slice(None), reset)
        values: torch.Tensor = self.select_at_indexes(choosing_qs.argmax(dim=-1), qs)
        return values.gather(0, places)

    @property
    def _runs(self) -> tuple[slice, slice, slice, slice]:
        """The steps of a sequence that networks run over: all, burn-in, loss, after the loss."""
        first, last = self.warmup_T, self.sequence_T
        return slice(None), slice(0, first), slice(first, last), slice(last, None)

    def _run(
        self,
        method: str,
        inputs: tuple[Nested, ...],
        rnn_state: Nested,
        steps: slice,
        reset: torch.Tensor | None,
    ) -> tuple[torch.Tensor, Nested]:
        """Run a network of the agent over some steps, in pieces if it does not take ``reset``."""
        rows = tuple(part[steps] for part in inputs)
        network = getattr(self.agent, method)
        return unroll(network, rows, rnn_state, reset, self.agent, method)

    def scaled_target(
        self,
        return_: torch.Tensor,
        done_n: torch.Tensor,
        next_value: torch.Tensor,
        n_step: int | torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the squashed targets y [T,B], given squashed values after ``n_step`` steps."""
        n_step = self.n_step_return if n_step is None else n_step
        bootstrap = self.inv_value_scale(next_value)
        return self.value_scale(n_step_target(return_, done_n, bootstrap, self.discount, n_step))

    # --- Scale of values ---------------------------------------------------------------------

    def value_scale(self, x: torch.Tensor) -> torch.Tensor:
        """Return h(x), see :func:`~rlpyt.algos.losses.value_scale`."""
        return value_scale(x, self.value_scale_eps)

    def inv_value_scale(self, z: torch.Tensor) -> torch.Tensor:
        """Return h^-1(z), see :func:`~rlpyt.algos.losses.inv_value_scale`."""
        return inv_value_scale(z, self.value_scale_eps)
