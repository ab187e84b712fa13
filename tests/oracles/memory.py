"""R2D1, which trains on sequences, and hindsight, which changes goals, beside their papers."""

import copy
from functools import partial

import numpy as np
import torch
from gymnasium.spaces import Box, Dict

from rlpyt.agents.dqn.mlp_agent import MlpDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.replays.non_sequence.hindsight import TlHindsightReplayBuffer
from rlpyt.replays.sequence.time_limit import TlPrioritizedSequenceReplayBuffer
from tests.algos.dqn.r2d1_parts import Run
from tests.oracles.comparing import Outcome, copies, oracle
from tests.oracles.q_learning import EVERY_SECOND, WIDTHS, naive, values
from tests.oracles.replayed import FixedDraws, Transition, Watching, importance_weights
from tests.oracles.worlds import Tides
from tests.reference.adam import NaiveAdam
from tests.reference.q_learning import td_loss
from tests.reference.recurrent_q_learning import sequence_loss


class WatchedSequences(Watching, TlPrioritizedSequenceReplayBuffer):
    pass


@oracle(
    "R2D1",
    "Kapturowski et al. 2019",
    "burn-in of 3 steps, 2-step returns, rescaled values, double, prioritized, 4 updates",
)
def r2d1():
    optimizer = {"learning_rate": 0.01, "optim_kwargs": {"eps": 1e-3}, "clip_grad_norm": 0.5}
    run = Run(
        **optimizer, recorded=True, bootstrap_timelimit=True, input_priorities=False, pri_alpha=0.6,
        pri_beta_init=0.9, pri_eta=0.9, target_update_interval=2, ReplayBufferCls=WatchedSequences,
    )  # fmt: skip
    run.store(9)
    assert {row.timeout for rows in run.rows for row in rows if row.done} == {True, False}
    run.disturb()
    algo, agent = run.algo, run.agent
    net, target = copy.deepcopy(agent.model), copy.deepcopy(agent.target_model)
    theirs = list(net.parameters())
    before = copies(theirs)
    infos = run.train(4)
    drawn = algo.replay_buffer.drawn
    assert len(drawn) == algo.update_counter == 4
    adam, found = NaiveAdam(theirs, 0.01, 1e-3), []
    priorities = {}
    for n, indexes in enumerate(drawn, 1):
        starts = list(zip(*(x.tolist() for x in indexes), strict=True))
        weights = importance_weights([priorities.get(place, 1.0) for place in starts], 0.6, 0.9)
        total = 0.0
        n_losses, updated = 0, []
        for weight, (t, b) in zip(weights.tolist(), starts, strict=True):
            state = tuple(part[:, None] for part in run.rows[b][t].rnn_state)
            one = sequence_loss(net, target, run.rows[b], t, state, run.naive_settings())
            total = total + weight * sum(one.losses)
            n_losses += len(one.losses)
            updated.append(one.priority)
        priorities.update(zip(starts, updated, strict=True))
        adam.minimize(total / n_losses, 0.5)
        found.append(total / n_losses)
        if n % 2 == 0:
            target.load_state_dict(net.state_dict())
    losses = {"loss": ([info.loss[0] for info in infos], [float(x.detach()) for x in found])}
    return Outcome(before, copies(list(agent.parameters())), copies(theirs), losses)


# --- Hindsight ------------------------------------------------------------------------------------


GOAL = np.array([0.3, -0.2], np.float32)


def goal_reward(achieved, desired, info):
    return -np.abs(achieved - desired).sum(-1)


def is_near(achieved, desired, info):
    return np.abs(achieved - desired).sum(-1) < 0.5


class GoalTides(Tides):
    """Asks for the first two numbers of the state to be ``GOAL``."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        parts = {"observation": 4, "achieved_goal": 2, "desired_goal": 2}
        self.observation_space = Dict(
            {name: Box(-np.inf, np.inf, (n,), np.float32) for name, n in parts.items()}
        )

    def shown(self, state):
        return {"observation": state, "achieved_goal": state[:2], "desired_goal": GOAL}

    def reset(self, **kwargs):
        state, info = super().reset(**kwargs)
        return self.shown(state), info

    def step(self, action):
        state, _, *ends = super().step(action)
        return self.shown(state), float(goal_reward(state[:2], GOAL, {})), *ends


def goal_env(**kwargs):
    return GymEnvWrapper(GoalTides(**kwargs))


class Relabeled(FixedDraws, TlHindsightReplayBuffer):
    """Keeps the goals [B,2] of every draw."""

    goals = ()

    def read_batch(self, *args):
        batch = super().read_batch(*args)
        self.goals += tuple(batch.agent_inputs.observation.desired_goal.clone())
        return batch


def relabeled(samples, t, goals):
    """A transition with the next of the goals that were drawn; only later ones may be."""
    env, goal = samples.env, next(goals)
    now, then = env.observation[t, 0], env.next_observation[t, 0]
    reward, done = env.reward[t, 0].item(), bool(env.done[t, 0])
    is_over = done and not bool(env.env_info.timeout[t, 0])
    if not torch.equal(goal, torch.from_numpy(GOAL)):
        achieved, row = [], t
        while not env.done[row, 0]:
            row += 1
            achieved.append(env.observation.achieved_goal[row, 0])
        assert any(torch.equal(goal, later) for later in achieved)
        reached = then.achieved_goal.double().numpy()
        reward = float(goal_reward(reached, goal.double().numpy(), {}))
        is_over = bool(is_near(reached, goal.double().numpy(), {}))
    before, after = (
        torch.cat([x.achieved_goal, goal, x.observation]).double() for x in (now, then)
    )
    return Transition(before, samples.agent.action[t, 0], reward, 1, is_over, after)


@oracle(
    "Hindsight, with DQN",
    "Andrychowicz et al. 2017",
    "four of five goals are later ones of the episode; rewards and ends by them",
)
def hindsight():
    def loss_of(net, target, step, k):
        q = values(net.model, step.observation)[step.action]
        judging = values(target.model, step.following).tolist()
        return td_loss(q, step.return_, step.is_over, judging, judging, 0.9, 1, 1.0)[0], 0.0

    functions = {"compute_reward": goal_reward, "compute_terminated": is_near}
    algo = DQN(**{**EVERY_SECOND, "ReplayBufferCls": partial(Relabeled, **functions)})
    agent = MlpDqnAgent(model_kwargs={"hidden_sizes": WIDTHS})

    def goals():
        yield from algo.replay_buffer.goals  # When they are drawn.

    return naive(algo, agent, loss_of, partial(relabeled, goals=goals()), EnvCls=goal_env)
