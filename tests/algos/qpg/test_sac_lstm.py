"""Recurrent SAC: losses and states of memory against one step at a time, settings."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rlpyt.agents.qpg.sac_lstm_agent import SacLstmAgent
from rlpyt.algos.qpg.sac_ensembles import REDQ
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.envs.gym import GymEnvWrapper
from tests.algos.dqn import r2d1_parts
from tests.algos.dqn.r2d1_parts import LSTM, SPEC
from tests.algos.qpg.sac_parts import certain
from tests.learning.aiming import Aiming
from tests.selection import FULL

SETTINGS = {**r2d1_parts.SETTINGS, "replay_ratio": 10, "fixed_alpha": 0.3, "reward_scale": 2.0}
del SETTINGS["eps_steps"], SETTINGS["target_update_interval"]


class Row(NamedTuple):
    """One step of one environment, as it was sampled."""

    observation: torch.Tensor
    prev_action: torch.Tensor
    prev_reward: torch.Tensor
    action: torch.Tensor
    reward: float
    done: bool
    timeout: bool
    waits: bool
    mean: torch.Tensor
    state: tuple[torch.Tensor, torch.Tensor]  # [1,1,H] each, of the policy before the step
    last: torch.Tensor | None  # observation that the action led to, if it is recorded


class Run(r2d1_parts.Run):
    """Keeps rows of its own, and sets the modes of the agent."""

    settings = SETTINGS
    env = {
        "EnvCls": lambda: GymEnvWrapper(Aiming()),
        "env_kwargs": {},
        "max_decorrelation_steps": 20,
    }
    make_agent = partial(SacLstmAgent, model_kwargs=LSTM, q_model_kwargs=LSTM)

    def __init__(self, AlgoCls=RecurrentSAC, **kwargs):
        super().__init__(AlgoCls, **kwargs)

    def collect(self):
        """One batch of the sampler, in which ends in every third step are those of a time limit."""
        self.agent.sample_mode(self.itr)
        samples, _ = self.sampler.obtain_samples(self.itr)
        self.agent.train_mode(self.itr)
        env, info = samples.env, samples.agent.agent_info
        env.env_info.timeout[:] = env.done & (torch.arange(SPEC.T)[:, None] % 3 == 0)
        is_recorded = "next_observation" in env._fields
        for b, rows in enumerate(self.rows):
            waits = False
            for t in range(SPEC.T):
                state = tuple(part[t, b][:, None].clone() for part in info.prev_rnn_state)
                begins = bool(rows) and rows[-1].done  # Then the agent sees zeros.
                row = Row(
                    env.observation[t, b].clone(),
                    samples.agent.prev_action[t, b] * (not begins),
                    env.prev_reward[t, b] * (not begins),
                    samples.agent.action[t, b].clone(),
                    env.reward[t, b].item(),
                    bool(env.done[t, b]),
                    bool(env.env_info.timeout[t, b]),
                    waits,
                    info.dist_info.mean[t, b].clone(),
                    state,
                    env.next_observation[t, b].clone() if is_recorded else None,
                )
                rows.append(row)
                waits = waits or (row.done and not self.algo.mid_batch_reset)
        return samples

    def starts(self):
        """Some places at which whole sequences begin, the first row of all excepted."""
        stride = max(1, self.algo.store_rnn_state_interval)
        step = 2 * stride if stride > 1 else 5
        last = len(self.rows[0]) - self.algo.sequence_T - self.algo.n_step_return
        return [(i, b) for b in range(SPEC.B) for i in range(stride, last, step)]

    def sequences(self):
        """The sequences there from the replay buffer."""
        T_idxs, B_idxs = map(np.array, zip(*self.starts()))
        return self.algo.replay_buffer.read_batch(T_idxs, B_idxs, self.algo.sequence_T)


# --- Against one step at a time -------------------------------------------------------------------


class Past:
    """A network that goes along the rows of one environment, from a state or from zeros."""

    def __init__(self, model, state):
        self.model, self.state = model, state

    def look(self, row, *action):
        """The outputs for a row, and the state after it."""
        inputs = (row.observation, row.prev_action, row.prev_reward, *action)
        *outputs, state = self.model(*(x[None] for x in inputs), self.state)
        return outputs, state

    def advance(self, row):
        action = () if type(self.model).__name__ == "PiLstmModel" else (row.action,)
        _, self.state = self.look(row, *action)
        if row.done or row.waits:
            self.state = None


def after(model, rows, state):
    """A network after these rows, even if the last one ends an episode."""
    past = Past(model, state)
    for row in rows[:-1]:
        past.advance(row)
    past.advance(rows[-1]._replace(done=False, waits=False))
    return past


def policy(past, row):
    (mean, log_std), _ = past.look(row)
    return torch.tanh(mean)[0], log_std.sum()


def naive_losses(run):
    """The losses of both critics and of the policy over all sequences."""
    algo, agent = run.algo, run.agent
    n, gamma, alpha = algo.n_step_return, algo.discount, algo.fixed_alpha
    critics = (agent.q1_model, agent.q2_model)
    targets = (agent.target_q1_model, agent.target_q2_model)
    losses = []
    for i, b in run.starts():
        rows = run.rows[b]
        state = rows[i].state if algo.store_rnn_state_interval else None
        pi, pi_later = Past(agent.model, state), Past(agent.model, state)
        qs, qs_later = [Past(q, None) for q in critics], [Past(q, None) for q in targets]
        for row in rows[i : i + n]:
            for past in (pi_later, *qs_later):
                past.advance(row)
        for t in range(algo.sequence_T):
            row, later = rows[i + t], rows[i + t + n]
            ends = [k for k in range(n) if rows[i + t + k].done]
            end = rows[i + t + (ends or [n - 1])[0]]
            counts = t >= algo.warmup_T and not row.waits
            counts = counts and not (ends and end.timeout and end.last is None)
            if counts:
                rewards = [rows[i + t + k].reward for k in range((ends or [n - 1])[0] + 1)]
                y = algo.reward_scale * sum(gamma**k * r for k, r in enumerate(rewards))
                past_pi, past_qs, next_row = pi_later, qs_later, later
                if end.timeout:
                    known = rows[i : i + t + len(rewards)]
                    past_pi = after(agent.model, known, state)
                    past_qs = [after(q, known, None) for q in targets]
                    reward = torch.tensor(end.reward)
                    next_row = end._replace(
                        observation=end.last, prev_action=end.action, prev_reward=reward
                    )
                if not ends or end.timeout:
                    a, log_pi = policy(past_pi, next_row)
                    q = min(past.look(next_row, a)[0][0][0] for past in past_qs)
                    y = y + gamma ** len(rewards) * (q - alpha * log_pi).detach()
                q_losses = [(y - past.look(row, row.action)[0][0][0]) ** 2 / 2 for past in qs]
                u, log_pi = policy(pi, row)
                q = min(past.look(row, u)[0][0][0] for past in qs)
                losses.append((*q_losses, alpha * log_pi - q))
            for past in (pi, *qs):
                past.advance(row)
                if t < algo.warmup_T and past.state is not None:
                    past.state = tuple(part.detach() for part in past.state)
            for past in (pi_later, *qs_later):
                past.advance(later)
    q1, q2, pi_loss = (torch.stack(part).mean() for part in zip(*losses))
    return q1, q2, pi_loss


CASES = [
    {"store_rnn_state_interval": 0, "warmup_T": 0},
    {"mid_batch_reset": False, "store_rnn_state_interval": 3},
    {"recorded": True, "n_step_return": 4},  # Whose numbers of steps begin after the burn-in.
]
if FULL:
    CASES += [
        {},
        {"warmup_T": 0, "n_step_return": 1},
        {"store_rnn_state_interval": 1, "n_step_return": 3, "batch_T": 1},
        {"recorded": True},
        {"recorded": True, "n_step_return": 4, "warmup_T": 0},
        {"store_rnn_state_interval": 0},
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses_like_their_naive_twin(case, monkeypatch):
    run = Run(**case)
    run.store(8)
    monkeypatch.setattr(run.agent, "draw", certain)
    networks = [run.agent.q1_model, run.agent.q2_model, run.agent.model]
    with torch.no_grad():  # Networks differ from those that acted, and from each other.
        for model in (*networks, run.agent.target_q1_model, run.agent.target_q2_model):
            for p in model.parameters():
                p += 0.3 * torch.randn_like(p)
    samples = run.sequences()
    assert samples.done[: run.algo.warmup_T].any() or not run.algo.warmup_T
    assert (samples.at_limit if case.get("recorded") else samples.timeout_n).any()
    losses, _ = run.algo.loss(run.algo.loss_steps(samples))
    for found, expected, model in zip(losses, naive_losses(run), networks):
        assert found.item() == pytest.approx(expected.item(), rel=1e-4)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(found, parameters, retain_graph=True)
        naive = torch.autograd.grad(expected, parameters, retain_graph=True)
        for a, b in zip(gradients, naive):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("warmup_T", [0, 3])
def test_policy_and_state_are_those_of_acting(warmup_T):
    run = Run(warmup_T=warmup_T)
    run.store(8)
    steps = run.algo.loss_steps(run.sequences())
    for inputs, shift in ((steps.agent_inputs, 0), (steps.target_inputs, 2)):
        memory = inputs[-1]
        _, _, dist_info = run.agent.pi(*inputs)
        means = dist_info.mean.reshape(run.algo.batch_T, -1, 2)
        for k, (i, b) in enumerate(run.starts()):
            rows = run.rows[b][i + warmup_T + shift :]
            if not run.rows[b][i + warmup_T + shift - 1].done:  # Else it is reset.
                for part, acted in zip(memory.rnn_states["model"], rows[0].state):
                    torch.testing.assert_close(part[:, k], acted[:, 0], rtol=0, atol=1e-5)
            for t in range(run.algo.batch_T - shift):  # After these, ends need no reset.
                torch.testing.assert_close(means[t, k].detach(), rows[t].mean, rtol=0, atol=1e-5)


# --- Settings -------------------------------------------------------------------------------------


def test_defaults():
    algo = RecurrentSAC()
    assert algo.batch_size == (32 + 16) * 32
    assert (algo.discount, algo.bootstrap_timelimit, algo.replay_ratio) == (0.99, True, 32)


def test_numbers_may_be_floats():
    assert Run(**{name: float(value) for name, value in SETTINGS.items()}).train(7)[-1].q1Loss


class RecurrentREDQ(RecurrentSAC, REDQ):
    """REDQ with memory."""


def test_ensembles_and_delayed_policies():
    agent = SacLstmAgent(model_kwargs=LSTM, q_model_kwargs=LSTM, n_critics=3)
    settings = {"target_subset": 2, "policy_update_interval": 2, "fixed_alpha": None}
    run = Run(RecurrentREDQ, agent=agent, **settings)
    run.store(6)
    before = {name: part.copy() for name, part in snapshots(run.agent).items()}
    (info,) = run.train(1)
    assert len(info.q1Loss) == 3
    assert len(info.piLoss) == 1
    after = snapshots(run.agent)
    assert all((before[name] != after[name]).any() for name in before)


def snapshots(agent):
    names = ("model", "q1_model", "q2_model", "q3_model", "target_q3_model")
    return {name: agent.state_dict()[name]["lstm.weight_hh_l0"].numpy() for name in names}
