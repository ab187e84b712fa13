"""R2D1: deep Q-learning of recurrent agents, from replayed sequences."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rlpyt.algos._optim import accepts
from rlpyt.algos._replay_classes import SEQUENCES
from rlpyt.algos._settings import check_fraction
from rlpyt.algos._time_limit import masked_mean, not_timed_out
from rlpyt.algos.dqn._sequence_settings import (
    check_agent_info,
    check_first_sequences,
    check_lengths,
    check_sequences_fit,
)
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.losses import (
    huber_td_loss,
    inv_value_scale,
    n_step_target,
    sequence_priorities,
    value_scale,
)
from rlpyt.core.records import BatchSpec, SamplesToBuffer, extended
from rlpyt.returns.n_step import discount_return_n_step, timeout_n_step
from rlpyt.returns.valid import valid_from_done
from rlpyt.utils._subclassing import overrides
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import NDArray, Nested
from rlpyt.utils.unroll import masked_rows, takes, unroll

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr", "priority"])
SamplesToBufferRnn = extended(SamplesToBuffer, ("prev_rnn_state",), "Rnn")
PrioritiesSamplesToBuffer = namedarraytuple("PrioritiesSamplesToBuffer", ["priorities", "samples"])


class R2D1(DQN):
    """Minimises the temporal difference of recurrent Q-values along replayed sequences.

        y_t  = h(R_t + (1 - done_n_t) * discount^n * h^-1(max_a Q_target(s_{t+n}, a)))
        loss = mean over t and sequences of weight * huber(y_t - Q(s_t, a_t))

    where h squashes values (:meth:`value_scale`); with ``double_dqn`` the action at s_{t+n} is the
    one which Q prefers. Both networks run over ``warmup_T`` steps from the state which was stored
    when acting, without gradients, then over the ``batch_T`` steps of the loss, and on to the n
    steps behind them.

    Sequences may hold several episodes. Where one ended, the next step starts from zeros, as when
    acting: the recurrent state, the previous action and the previous reward. All steps are trained
    on, except those at which an environment waited for the end of a sampler batch
    (``mid_batch_reset`` False).

    The priority of a sequence mixes its largest and its mean temporal difference
    (:func:`~rlpyt.algos.losses.sequence_priorities`): those of its last update or,
    with ``input_priorities``, before its first those by the values recorded when acting.

    Args:
        discount: per step, in [0, 1].
        batch_T: steps of a sequence which are trained on.
        batch_B: sequences in one update.
        warmup_T: steps before those, which only make the recurrent state; may be 0.
        store_rnn_state_interval: steps between stored recurrent states, at which sequences begin; 1
            stores all, 0 none: sequences then begin anywhere, from zeros.
        min_steps_learn: environment steps, over all processes, before training starts.
        delta_clip: where the loss turns linear; None for the square everywhere.
        replay_size: environment steps stored in each process; each environment has an equal share.
        replay_ratio: trained samples per sampled one, those of warm-up included.
        target_update_interval: updates between those of the target network.
        n_step_return: n.
        learning_rate: of the optimizer.
        OptimCls: class of the optimizer.
        optim_kwargs: of ``OptimCls``; where it takes ``eps``, the default is 1e-3.
        initial_optim_state_dict: to start from, of :meth:`optim_state_dict`.
        clip_grad_norm: largest norm of the gradient; None does not clip.
        eps_steps: environment steps, over all processes, until the agent's epsilon is final.
        double_dqn: choose the action n steps on by the online network.
        prioritized_replay: draw sequences by their last temporal differences.
        pri_alpha: exponent of priorities, in [0, 1]; 0 is uniform.
        pri_beta_init: exponent of importance weights when training starts.
        pri_beta_final: the same after ``pri_beta_steps``.
        pri_beta_steps: environment steps, over all processes.
        pri_eta: weight of the largest difference in a priority; the rest is of the mean.
        default_priority: of sequences without one; None for ``delta_clip``, or 1 without it.
        input_priorities: give new sequences the priorities of :meth:`compute_input_priorities`.
        input_priority_shift: stored states between the beginning of a sequence and the samples
            whose priority it gets; None for the warm-up: ``warmup_T // store_rnn_state_interval``.
        value_scale_eps: epsilon of h, at least 0.
        ReplayBufferCls: replaces the class of replay buffer; called with the same keywords.
        updates_per_sync: updates between two publications of parameters, in asynchronous mode.
        target_update_tau: fraction of the way which the target network moves; 1 copies.
        bootstrap_timelimit: do not train on steps whose return was cut by a time limit
            (``env_info.timeout``), see :class:`~rlpyt.algos.dqn.dqn.DQN`.

    Source: Kapturowski et al. 2019, Recurrent experience replay in distributed RL (ICLR).
    """

    opt_info_fields = tuple(OptInfo._fields)
    replay_classes = SEQUENCES

    batch_T: int
    batch_B: int
    warmup_T: int
    store_rnn_state_interval: int
    pri_eta: float
    input_priorities: bool
    input_priority_shift: int
    value_scale_eps: float

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
    ) -> None:
        save__init__args(locals())
        self._fill_in_defaults()

    # --- Set-up ------------------------------------------------------------------------------

    def _fill_in_defaults(self) -> None:
        for name in ("batch_T", "batch_B", "warmup_T", "store_rnn_state_interval"):
            setattr(self, name, int(getattr(self, name)))
        check_lengths(self)
        vars(self).setdefault("_batch_size", int((self.warmup_T + self.batch_T) * self.batch_B))
        super()._fill_in_defaults()
        if self.input_priority_shift is None:
            self.input_priority_shift = self.warmup_T // max(1, self.store_rnn_state_interval)

    def _default_optim_kwargs(self) -> dict[str, Any]:
        return {"eps": 1e-3} if accepts(self.OptimCls, "eps") else {}

    @property
    def sequence_T(self) -> int:
        """Steps of a sequence, those of warm-up included."""
        return self.warmup_T + self.batch_T

    def _check_settings(self) -> None:
        super()._check_settings()
        check_fraction(self, "pri_eta")
        if self.value_scale_eps < 0:
            raise ValueError(f"value_scale_eps is {self.value_scale_eps}: make it 0 or more")
        check_sequences_fit(self)

    def _check_agent(self) -> None:
        if not self.agent.recurrent:
            raise ValueError(
                f"{type(self).__name__} trains recurrent agents, and {type(self.agent).__name__} "
                "is none: use an agent such as R2d1Agent, or the algorithm DQN"
            )

    @property
    def input_priorities_are_used(self) -> bool:
        """Whether new samples come with priorities."""
        return bool(self.prioritized_replay and self.input_priorities)

    def _replay_kwargs(self, example: Nested, batch_spec: BatchSpec) -> dict[str, Any]:
        kwargs = super()._replay_kwargs(example, batch_spec)
        kwargs["rnn_state_interval"] = self.store_rnn_state_interval
        kwargs["batch_T"] = self.sequence_T
        if self.prioritized_replay:
            kwargs["input_priorities"] = self.input_priorities
            kwargs["input_priority_shift"] = self.input_priority_shift
        return kwargs

    def initialize_replay_buffer(
        self, examples: Nested, batch_spec: BatchSpec, async_: bool = False
    ) -> None:
        super().initialize_replay_buffer(examples, batch_spec, async_)
        check_first_sequences(self)

    # --- What is stored ----------------------------------------------------------------------

    def examples_to_buffer(self, examples: Nested) -> Nested:
        agent_info = examples["agent_info"]
        check_agent_info(self, agent_info)
        return self._to_entry(super().examples_to_buffer(examples), agent_info, valid=True)

    @property
    def _stores_valid(self) -> bool:
        """Whether entries say which steps are blank: where nobody else decides on their fields."""
        decisions = (
            "initialize_replay_buffer",
            "examples_to_buffer",
            "samples_to_buffer",
            "add_samples_to_buffer",
            "optimize_agent",
        )
        return not (self.mid_batch_reset or overrides(self, *decisions))

    def samples_to_buffer(self, samples: Nested) -> Nested:
        """What of a sampler's batch [T,B] is stored, with priorities [B] if those are used.

        Where environments wait for the end of a batch, ``valid`` [T,B] is False at the steps after
        the end of their episode; unless a subclass stores something else, and then only the steps
        of a sequence up to the first end count.
        """
        valid = valid_from_done(samples.env.done) > 0 if self._stores_valid else None
        entry = super().samples_to_buffer(samples)
        entry = self._to_entry(entry, samples.agent.agent_info, valid)
        if not self.input_priorities_are_used:
            return entry
        priorities = self.compute_input_priorities(samples)
        return PrioritiesSamplesToBuffer(priorities=priorities, samples=entry)

    def _to_entry(self, entry: Any, agent_info: Nested, valid: Any) -> Any:
        """``entry`` with the recurrent state, and with ``valid`` where steps may be blank."""
        if self.store_rnn_state_interval > 0:
            RecordCls = extended(type(entry), ("prev_rnn_state",), "Rnn")
            entry = RecordCls(*entry, agent_info.prev_rnn_state)
        if not self._stores_valid:
            return entry
        return extended(type(entry), ("valid",), "Valid")(*entry, valid)

    @torch.no_grad()
    def compute_input_priorities(self, samples: Nested) -> NDArray:
        """Priorities of a new batch, by the values which were recorded when acting.

            y_t = h(R_t + (1 - done_n_t) * discount^n * h^-1(max_a q_{t+n}(a))),    t < T - n

        with n at most T - 1. A batch of one step has the default priority.

        Args:
            samples: [T,B] batch of the sampler.

        Returns:
            [B] float32, one for all steps of an environment, as in
            :func:`~rlpyt.algos.losses.sequence_priorities` of the absolute errors.
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
        if self._leaves_out_timeouts:
            timeout = torch.as_tensor(samples.env.env_info.timeout)
            valid = valid * ~timeout_n_step(done, timeout, n)[:-1].bool()
        priorities: NDArray = sequence_priorities(td_abs_errors, valid, self.pri_eta).numpy()
        return priorities

    # --- One update --------------------------------------------------------------------------

    def sample_from_replay(self) -> Nested:
        return self.replay_buffer.sample_batch(self.batch_B)

    def _get_loss_values(self, samples: Nested) -> dict[str, Any]:
        loss, td_abs_errors, priorities = self.loss(samples)
        return {"loss": loss, "tdAbsErr": td_abs_errors, "priority": priorities}

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
            The scalar loss; the absolute temporal differences [batch_T,B], 0 at steps which do not
            count, and the priorities [B], both without gradient.
        """
        steps = slice(self.warmup_T, self.sequence_T)
        qs, next_value = self.sequence_values(samples)
        # all_action[t] is the action before step t.
        action = samples.all_action[steps.start + 1 : steps.stop + 1]
        q = self.select_at_indexes(action, qs)
        y = self.scaled_target(samples.return_[steps], samples.done_n[steps], next_value)
        losses, td_abs_errors = huber_td_loss(q, y, self.delta_clip)
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        valid = self.valid_steps(samples)[steps].to(losses.dtype)
        priorities = sequence_priorities(td_abs_errors, valid, self.pri_eta)
        return masked_mean(losses, valid), td_abs_errors * valid, priorities

    def valid_steps(self, samples: Nested) -> torch.Tensor:
        """Which steps [warmup_T+batch_T,B] of the sequences count."""
        valid: torch.Tensor = torch.ones_like(samples.done, dtype=torch.bool)
        if not self.mid_batch_reset:
            is_stored = "valid" in samples._fields
            valid = samples.valid.bool() if is_stored else valid_from_done(samples.done) > 0
        return valid & not_timed_out(samples) if self._leaves_out_timeouts else valid

    def scaled_target(
        self,
        return_: torch.Tensor,
        done_n: torch.Tensor,
        next_value: torch.Tensor,
        n_step: int | None = None,
    ) -> torch.Tensor:
        """The squashed targets y [T,B], given squashed values after ``n_step`` steps."""
        n_step = self.n_step_return if n_step is None else n_step
        bootstrap = self.inv_value_scale(next_value)
        return self.value_scale(n_step_target(return_, done_n, bootstrap, self.discount, n_step))

    def sequence_values(self, samples: Nested) -> tuple[torch.Tensor, torch.Tensor]:
        """Values along the steps of the loss, and what their targets bootstrap from.

        The online network runs once over every step: for ``double_dqn`` its outputs of the loss
        also choose actions, and only the n steps behind them are added.

        Returns:
            [batch_T,B,A] values of all actions, with gradients, and [batch_T,B] values n steps on
            by the target network, without.
        """
        first, last, n = self.warmup_T, self.sequence_T, self.n_step_return
        inputs, rnn_state, reset = self.sequence_inputs(samples)
        end = len(reset)
        with torch.no_grad():
            target_qs, _ = self._run("target", inputs, rnn_state, reset, 0, end)
            if first > 0:
                _, rnn_state = self._run("__call__", inputs, rnn_state, reset, 0, first)
        qs, rnn_state = self._run("__call__", inputs, rnn_state, reset, first, last)
        with torch.no_grad():
            target_qs = target_qs[first + n :]
            if not self.double_dqn:
                return qs, target_qs.max(dim=-1).values
            qs_behind, _ = self._run("__call__", inputs, rnn_state, reset, last, end)
            next_action = torch.cat((qs, qs_behind))[n:].argmax(dim=-1)
            return qs, self.select_at_indexes(next_action, target_qs)

    def sequence_inputs(self, samples: Nested) -> tuple[tuple[Nested, ...], Nested, torch.Tensor]:
        """What the networks run on, with zeros at the start of every episode.

        Returns:
            Observation, previous action and previous reward [T,B,...] with
            T = warmup_T + batch_T + n, the state [N,B,H] before the first step (or None), and
            where [T,B] an episode begins behind that, whose inputs are such as they were when
            acting. What ends behind the steps of the loss is not known and does not matter: no
            bootstrap value crosses it.
        """
        done = samples.done.bool()
        reset = torch.zeros(samples.all_reward.shape, dtype=torch.bool)
        reset[1 : len(done) + 1] = done
        prev_action = masked_rows(samples.all_action, reset)
        prev_reward = masked_rows(samples.all_reward, reset)
        inputs = self._moved_once((samples.all_observation, prev_action, prev_reward))
        state = samples.init_rnn_state
        if state is not None:
            # [B,N,H] is the order of all that is sampled, [N,B,H] that of models.
            state = buffer_func(state, lambda part: part.transpose(0, 1).contiguous())
        return inputs, state, reset

    def _run(
        self,
        method: str,
        inputs: tuple[Nested, ...],
        rnn_state: Nested,
        reset: torch.Tensor,
        start: int,
        stop: int,
    ) -> tuple[torch.Tensor, Nested]:
        """Run a network of the agent over the steps from ``start`` to ``stop``."""
        rows = tuple(part[start:stop] for part in inputs)
        network = getattr(self.agent, method)
        takes_reset = takes(self.agent, method, "reset")
        return unroll(network, rows, rnn_state, reset[start:stop], takes_reset)

    # --- Scale of values ---------------------------------------------------------------------

    def value_scale(self, x: torch.Tensor) -> torch.Tensor:
        """h(x), see :func:`~rlpyt.algos.losses.value_scale`."""
        return value_scale(x, self.value_scale_eps)

    def inv_value_scale(self, z: torch.Tensor) -> torch.Tensor:
        """h^-1(z), see :func:`~rlpyt.algos.losses.inv_value_scale`."""
        return inv_value_scale(z, self.value_scale_eps)
