"""Transitions that a sampler gave, and batches of them that two implementations draw alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger

from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer, TlUniformReplayBuffer
from tests.algos.pg.parts import Setup
from tests.oracles.worlds import check_ends, wrapped

T, BATCH, N_UPDATES = 48, 16, 4
DRAWS = np.random.default_rng(0).integers(T - 3, size=(N_UPDATES, BATCH))


# --- The same transitions, and the same batches ---------------------------------------------------


class FixedDraws:
    """Mixin of replay buffers that draw the rows of ``DRAWS``."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.draws = iter(DRAWS)

    def sample_idxs(self, batch_B):
        return next(self.draws), np.zeros(batch_B, np.int64)


class Drawn(FixedDraws, TlUniformReplayBuffer):
    pass


class Watching:
    """Mixin of replay buffers that keep the rows and environments of every draw."""

    def read_batch(self, T_idxs, B_idxs, *args):
        self.drawn = [*getattr(self, "drawn", []), (T_idxs.copy(), B_idxs.copy())]
        return super().read_batch(T_idxs, B_idxs, *args)


class Watched(Watching, TlPrioritizedReplayBuffer):
    pass


def importance_weights(priorities, alpha, beta):
    """Of entries that were drawn; the greatest is 1."""
    weights = (1 / np.asarray(priorities) ** alpha) ** beta
    return weights / weights.max()


class TheirDrawn(ReplayBuffer):
    """Draws the same."""

    def sample(self, batch_size, env=None):
        return self._get_samples(next(self.draws), env)


SHARED = {
    "discount": 0.9,
    "batch_size": BATCH,
    "min_steps_learn": 1,
    "replay_size": 100,
    "replay_ratio": N_UPDATES * BATCH / T,
    "target_update_tau": 0.1,
    "clip_grad_norm": None,
    "bootstrap_timelimit": True,
    "ReplayBufferCls": Drawn,
}
THEIR_SHARED = {
    "gamma": 0.9,
    "tau": 0.1,
    "buffer_size": 100,
    "replay_buffer_class": TheirDrawn,
    "device": "cpu",
    "seed": 0,
}


def ours(algo, agent, bound=None, EnvCls=wrapped):
    """Our side, and a batch of its sampler; actions are real if they have a bound."""
    env = {"EnvCls": EnvCls, "env_kwargs": {"bound": bound, "is_varied": True}}
    setup = Setup(algo, agent, **env, T=T, B=1, record_next_observation=True)
    samples = setup.sample()
    check_ends(samples.env[np.unique(DRAWS)])
    return setup, samples


def fill(theirs, samples):
    """Store our transitions in their replay buffer."""
    env = samples.env
    for t in range(T):
        timeout = bool(env.env_info.timeout[t, 0])
        following = env.next_observation[t]
        if env.done[t, 0] and not timeout and t < T - 1:
            # Here the next episode begins; it counts in nothing but statistics of batches.
            following = env.observation[t + 1]
        theirs.replay_buffer.add(
            *(env.observation[t].numpy(), following.numpy()),
            *(x[t].numpy() for x in (samples.agent.action, env.reward, env.done)),
            [{"TimeLimit.truncated": timeout}],
        )
    theirs.replay_buffer.draws = iter(DRAWS)
    theirs.set_logger(Logger(None, []))


# --- The same transitions, from their definition --------------------------------------------------


class Transition(NamedTuple):
    """From one state to the one after n steps, or to the end of an episode before."""

    observation: torch.Tensor
    action: Any
    return_: float
    n_steps: int  # rewards in the return
    is_over: bool  # nothing follows
    following: torch.Tensor


def transition(samples, t, n, discount):
    """The one from row ``t`` of a batch of one environment."""
    env, return_ = samples.env, 0.0
    for k in range(n):
        row = t + k
        return_ += discount**k * float(env.reward[row, 0])
        if env.done[row, 0]:
            break
    is_over = bool(env.done[row, 0]) and not bool(env.env_info.timeout[row, 0])
    return Transition(
        env.observation[t, 0].double(),
        samples.agent.action[t, 0],
        return_,
        k + 1,
        is_over,
        env.next_observation[row, 0].double(),
    )
