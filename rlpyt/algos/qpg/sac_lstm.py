"""Soft actor-critic of recurrent agents, from replayed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.sequences import SequenceReplay
from rlpyt.models.rnn import Memory
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.types import Nested


class Steps(NamedTuple):
    """The trained steps of B sequences; all but the inputs of networks are flattened to [T*B]."""

    agent_inputs: Nested  # observation, previous action, previous reward [T,B,...], and Memory
    target_inputs: Nested  # the same after n more steps, or of sequences with last observations
    action: torch.Tensor  # [T*B,A]
    return_: torch.Tensor  # [T*B] sum of n rewards, discounted, up to the first done
    done_n: torch.Tensor  # [T*B] any done within n steps
    is_valid: torch.Tensor  # [T*B] the step counts
    bootstrap_steps: int | torch.Tensor  # number of rewards, [T*B] if it differs
    bootstrap_places: torch.Tensor | None  # [T,B] of values in target_inputs; None for all


class RecurrentSAC(SequenceReplay, SAC):
    """Soft actor-critic with memory: trains a recurrent policy and critics on replayed sequences.

        V(h)     = min_i Q_target_i(h, a') - alpha log pi(a'|h)
        y_t      = reward_scale * R_t + (1 - done_n_t) discount^n V(h_{t+n})
        loss_Qi  = mean over t and sequences of (y_t - Q_i(h_t, a_t))^2 / 2

    where h_t stands for the observations, actions and rewards of the episode up to observation t.
    The other losses are as in :class:`~rlpyt.algos.qpg.sac.SAC`. The policy and each critic have a
    recurrent network of their own. The policy starts from the state that was stored when acting;
    critics and their target copies, which do not act, start from zero. All run over ``warmup_T``
    steps of burn-in without gradient, then over the ``batch_T`` steps of the loss; the networks in
    y_t run over n further steps.

    Sequences may span several episodes. At the start of an episode the recurrent states, the
    previous action and the previous reward are zero, as when acting. All steps are trained on,
    except while an environment waits for the end of a sampler batch (``mid_batch_reset`` False).

    Args:
        batch_T: number of trained steps in a sequence.
        batch_B: number of sequences in one update.
        warmup_T: number of burn-in steps before the trained ones; may be 0.
        store_rnn_state_interval: number of steps between stored recurrent states, at which
            sequences begin; 1 stores every state. 0 stores none: sequences begin anywhere, from a
            zero state.
        replay_ratio: number of samples drawn for training, burn-in included, per environment step.
        bootstrap_timelimit: whether to treat time limits (``env_info.timeout``) as truncations:
            returns are bootstrapped from the last observation if it is recorded, and left out of
            the loss if not; see :class:`~rlpyt.algos.replay.ReplayAlgorithm`. False treats a time
            limit as termination.
        **kwargs: further settings of :class:`~rlpyt.algos.qpg.sac.SAC`, but not ``batch_size``.

    Source: Ni et al. 2022, arXiv:2110.05038, section 4 (separate recurrent networks of actor and
    critics); Heess et al. 2015, arXiv:1512.04455 (recurrent actor-critic from replay); Kapturowski
    et al. 2019, Recurrent experience replay in distributed RL (ICLR; stored states and burn-in).
    """

    q_kind = SAC.q_kind
    agent_example = "rlpyt.agents.qpg.sac_lstm_agent.SacLstmAgent"

    def __init__(
        self,
        batch_T: int = 32,
        batch_B: int = 32,
        warmup_T: int = 16,
        store_rnn_state_interval: int = 16,
        replay_ratio: float = 32,
        bootstrap_timelimit: bool = True,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("batch_size", 256) != 256:  # The default of SAC, which the signature shows.
            raise ValueError(
                f"batch_size is {kwargs['batch_size']}, but {type(self).__name__} trains on "
                "sequences: set batch_B, their number, and batch_T, their steps"
            )
        batch_T, batch_B, warmup_T = int(batch_T), int(batch_B), int(warmup_T)
        store_rnn_state_interval = int(store_rnn_state_interval)
        vars(self).setdefault("_batch_size", (warmup_T + batch_T) * batch_B)
        super().__init__(
            replay_ratio=replay_ratio, bootstrap_timelimit=bootstrap_timelimit, **kwargs
        )
        save__init__args(locals())

    # --- Losses ------------------------------------------------------------------------------

    def _apply_optimization(self, samples_from_replay: Nested, opt_info: Any) -> None:
        super()._apply_optimization(self.loss_steps(samples_from_replay), opt_info)

    def loss_steps(self, samples: Nested) -> Steps:
        """Return the steps of the loss, with the states of the networks before them.

        Args:
            samples: sequences of ``warmup_T`` + ``batch_T`` steps, with n more observations,
                previous actions and rewards, and the policy's state [B,N,H] before the first step
                (or None).
        """
        inputs, rnn_state, resets = self.sequence_inputs(samples)
        sequence = (*inputs, samples.all_action[1:])  # all_action[t] is the action before step t.
        burn_in, steps, target_burn_in, target_steps = zip(self._runs, resets)
        critics = self.agent.critic_names
        targets = ["target_" + name for name in critics]
        rows = slice(self.warmup_T, self.sequence_T)
        action, return_, done_n, is_valid = (
            part[rows].flatten(0, 1)
            for part in (sequence[-1], samples.return_, samples.done_n, self.valid_steps(samples))
        )
        longer = self.with_last_observations(samples, inputs)
        if longer is None:
            places = None
            target = self._after(target_burn_in, target_steps, targets, sequence, rnn_state)
        else:
            inputs, reset, places = longer
            target = (*inputs, Memory({"model": rnn_state}, reset))
        n_step = self.bootstrap_steps(samples)
        return Steps(
            agent_inputs=self._after(burn_in, steps, critics, sequence, rnn_state),
            target_inputs=target,
            action=action,
            return_=return_,
            done_n=done_n,
            is_valid=is_valid,
            bootstrap_steps=n_step if isinstance(n_step, int) else n_step[rows].flatten(0, 1),
            bootstrap_places=places,
        )

    @property
    def _runs(self) -> tuple[slice, ...]:
        """The steps of a sequence that networks run over: burn-in, loss, and both for targets."""
        first, last, n = self.warmup_T, self.sequence_T, self.n_step_return
        of_targets = slice(0, first + n), slice(first + n, last + n)
        return slice(0, first), slice(first, last), *of_targets

    def _after(
        self,
        burn_in: tuple[slice, torch.Tensor | None],
        steps: tuple[slice, torch.Tensor | None],
        critics: Sequence[str],
        sequence: tuple[Nested, ...],
        rnn_state: Nested,
    ) -> tuple[Nested, ...]:
        """Return the inputs in ``steps``, with the states of policy and critics after burn-in."""
        (before, reset_before), (now, reset) = burn_in, steps
        states = {"model": rnn_state}
        if before.stop > 0:
            past = (part[before] for part in sequence)
            states = self.agent.burn_in(critics, *past, Memory(states, reset_before))
        *inputs, _ = sequence
        return *(part[now] for part in inputs), Memory(states, reset)

    def q_target_of(self, samples: Nested, next_value: torch.Tensor) -> torch.Tensor:
        places = samples.bootstrap_places
        if places is not None:
            next_value = next_value.reshape(-1, places.shape[1]).gather(0, places).flatten()
        return super().q_target_of(samples, next_value)

    def valid(self, samples: Nested) -> torch.Tensor:
        return samples.is_valid.float()  # type: ignore[no-any-return]

    def model_inputs(self, inputs: Nested) -> Nested:
        return inputs  # Already on the device; the places of resets stay on the CPU.
