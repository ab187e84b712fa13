"""A replay buffer that remembers everything and computes every transition from its definition."""

from collections import namedtuple

import numpy as np

Step = namedtuple("Step", "observation action reward done timeout note")


class Stream:
    """Environments whose observations are stacks of frames, zero before a reset."""

    def __init__(self, rng, B, n_frames, done_prob, image=(3, 2)):
        self.rng = rng
        self.B = B
        self.done_prob = done_prob
        self.stacks = np.zeros((B, n_frames, *image), np.uint8)
        self.count = 0
        for b in range(B):
            self._new_frame(b)

    def restart(self, b):
        """Begin a new episode, without a done in the one before."""
        self.stacks[b] = 0
        self._new_frame(b)

    def _new_frame(self, b):
        frame = self.rng.integers(1, 200, self.stacks.shape[2:])
        self.stacks[b] = np.concatenate((self.stacks[b, 1:], frame[None]))

    def steps(self, T):
        """The next T steps: a list over time of lists over environments."""
        return [[self._step(b) for b in range(self.B)] for _ in range(T)]

    def _step(self, b):
        observation = self.stacks[b].copy()
        done = bool(self.rng.random() < self.done_prob)
        timeout = done and bool(self.rng.random() < 0.5)
        if done:
            self.stacks[b] = 0
        self._new_frame(b)
        self.count += 1
        reward = float(self.rng.integers(-8, 9))
        return Step(observation, 1 + self.count % 97, reward, done, timeout, self.count)


class NaiveReplay:
    """Logs of all steps, of which the last T rows exist in a ring.

    Rows are numbered from the first one ever appended; row g is in the ring at g % T.
    """

    def __init__(self, T, B, n_step, discount, off_forward):
        self.T = T
        self.logs = [[] for _ in range(B)]
        self.n_step = n_step
        self.discount = discount
        self.off_forward = off_forward
        self.known = {}
        self.cuts = set()

    def append(self, steps):
        for row in steps:
            for log, step in zip(self.logs, row, strict=True):
                log.append(step)

    def truncate(self, b):
        """What comes next in environment b is of another episode, which no done says."""
        last = self.logs[b][-1]
        if not last.done:
            self.cuts.add((len(self.logs[b]) - 1, b))
            self.logs[b][-1] = last._replace(done=True)

    def has_bootstrap(self, g, b, T=1):
        """Whether the n-step returns of rows g to g + T - 1 go on, or end with their episode."""
        return not any(self._runs_into_cut(i, b) for i in range(g, g + T))

    def _runs_into_cut(self, g, b):
        end = self.first_done(self.logs[b], g, self.n_step)
        return end is not None and (end, b) in self.cuts

    def valid_rows(self):
        """Rows with their past still in the ring, and their n-step return and next observation."""
        n_rows = len(self.logs[0])
        return list(range(max(0, n_rows - self.T) + self.off_forward, n_rows - self.n_step))

    def transition(self, g, b):
        """Every field of the batch for row g of environment b."""
        if (g, b) not in self.known:
            self.known[g, b] = self._transition(self.logs[b], g)
        return self.known[g, b]

    def valid_starts(self, T, interval):
        """Rows where a sequence of ``T`` steps can begin: all it takes is in the ring.

        One row more must have come, as in the original; ``interval`` 0 is as 1.
        """
        n_rows = len(self.logs[0])
        oldest = max(0, n_rows - self.T) + self.off_forward
        starts = range(oldest, n_rows - self.n_step - T)
        return [g for g in starts if g % max(1, interval) == 0]

    def sequence(self, g, b, T):
        """Every field of the batch for the T steps from row g of environment b on."""
        log = self.logs[b]
        steps = log[g : g + T + self.n_step]
        before = log[g - 1 : g + T + self.n_step - 1]
        if before[0].done:
            before[0] = before[0]._replace(action=0, reward=0.0)
        own = [self.transition(i, b) for i in range(g, g + T)]
        names = ("return_", "done", "done_n", "timeout", "timeout_n", "note")
        return {
            "all_observation": [step.observation for step in steps],
            "all_action": [step.action for step in before],
            "all_reward": [step.reward for step in before],
            "init_rnn_state": log[g].note,
            **{name: [each[name] for each in own] for name in names},
        }

    def _transition(self, log, g):
        n, before = self.n_step, log[g - 1]
        end = self.first_done(log, g, n)
        return {
            "observation": log[g].observation,
            "prev_action": 0 if before.done else before.action,
            "prev_reward": 0.0 if before.done else before.reward,
            "action": log[g].action,
            "return_": self.n_step_return(log, g, n),
            "done": log[g].done,
            "done_n": end is not None,
            "target_observation": log[g + n].observation,
            "target_prev_action": log[g + n - 1].action,
            "target_prev_reward": log[g + n - 1].reward,
            "timeout": log[g].timeout,
            "timeout_n": end is not None and log[end].timeout,
            "note": log[g].note,
        }

    def n_step_return(self, log, g, n):
        if n == 0:
            return 0.0
        rest = 0.0 if log[g].done else self.n_step_return(log, g + 1, n - 1)
        return log[g].reward + self.discount * rest

    def first_done(self, log, g, n):
        if n == 0:
            return None
        return g if log[g].done else self.first_done(log, g + 1, n - 1)
