"""``bootstrap_timelimit`` in every family: messages where it does nothing, or too much."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import (
    MlpCatDqnAgent,
    MlpDqnAgent,
    MlpIqnAgent,
    MlpQrDqnAgent,
    MlpR2d1Agent,
)
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_lstm_agent import SacLstmAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.losses import n_step_target
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_lstm import RecurrentSAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.toy import Counter, EnvInfo
from rlpyt.models.rnn import RnnState
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from tests.selection import FULL, selected

SMALL: dict[str, Any] = {"model_kwargs": {"hidden_sizes": [8]}}
SMALL_Q: dict[str, Any] = {**SMALL, "q_model_kwargs": {"hidden_sizes": [8]}}
REPLAY = {"batch_size": 8, "min_steps_learn": 16, "replay_size": 256, "replay_ratio": 2}
SEQUENCES = {
    "batch_T": 4,
    "batch_B": 4,
    "warmup_T": 2,
    "store_rnn_state_interval": 2,
    "n_step_return": 1,
    "min_steps_learn": 64,
    "replay_size": 256,
    "replay_ratio": 4,
}
RANGE = {"V_min": -10, "V_max": 10, "n_step_return": 1}
CRITICS: list[tuple[Any, Any, dict[str, Any]]] = [
    (DDPG, DdpgAgent, REPLAY),
    (TD3, Td3Agent, REPLAY),
    (D4PG, D4pgAgent, {**REPLAY, **RANGE}),
    (SAC, sac_agent.SacAgent, REPLAY),
    (SAC_V, sac_v_agent.SacAgent, REPLAY),
]
REPLAYING: list[tuple[Any, Any, dict[str, Any]]] = [
    *CRITICS,
    (DQN, MlpDqnAgent, REPLAY),
    (DQN, MlpDqnAgent, {**REPLAY, "prioritized_replay": True}),
    (CategoricalDQN, MlpCatDqnAgent, REPLAY),
    (QRDQN, MlpQrDqnAgent, REPLAY),
    (IQN, MlpIqnAgent, REPLAY),
    (R2D1, MlpR2d1Agent, SEQUENCES),
]
FAMILIES = REPLAYING if FULL else [REPLAYING[i] for i in (0, 5, 10)]
ALL = [*REPLAYING, (A2C, GenericFfAgent, {}), (PPO, GenericFfAgent, {})]


class Limited(Env):
    """Episodes of 4 steps that a time limit ends, of which the environment may keep silent."""

    def __init__(self, tells: bool, continuous: bool) -> None:
        self._env = Counter(length=4, time_limit=True)
        self._tells = tells
        self._action_space = FloatBox(-1, 1, shape=2) if continuous else self._env.action_space
        self._observation_space = self._env.observation_space

    def reset(self) -> Any:
        return self._env.reset()

    def step(self, action: Any) -> EnvStep:
        step = self._env.step(0)
        return step if self._tells else step._replace(env_info=None)

    @property
    def horizon(self) -> int:
        return self._env.horizon


def train(
    algo: Any, AgentCls: Any, tells: bool, n_itr: int = 5, record_next_observation: bool = False
) -> list[Any]:
    """Iterations of 16 steps, and what they report."""
    is_critic = type(algo) in [AlgoCls for AlgoCls, _, _ in CRITICS]
    agent = AgentCls(**(SMALL_Q if is_critic else SMALL))
    env_kwargs = {"tells": tells, "continuous": is_critic}
    sampling = {"env_kwargs": env_kwargs, "record_next_observation": record_next_observation}
    return run(algo, agent, n_itr, EnvCls=Limited, **sampling)


def run(algo: Any, agent: Any, n_itr: int, **sampling: Any) -> list[Any]:
    """Iterations of 16 steps, and what they report."""
    sampler = SerialSampler(batch_T=8, batch_B=2, max_decorrelation_steps=0, **sampling)
    examples = sampler.initialize(agent, seed=0, bootstrap_value=algo.bootstrap_value)
    algo.initialize(agent, n_itr, sampler.batch_spec, sampler.mid_batch_reset, examples)
    infos = []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        infos.append(algo.optimize_agent(itr, samples))
    return infos


@pytest.mark.parametrize(("AlgoCls", "AgentCls", "settings"), ALL)
def test_mask_and_warning(
    AlgoCls: Any, AgentCls: Any, settings: dict[str, Any], capsys: Any
) -> None:
    # Where the environment keeps silent, DQN raised, SAC warned, PPO did nothing.
    for is_on, tells in ((True, True), (True, False), (False, True)):
        algo = AlgoCls(**settings, bootstrap_timelimit=is_on)
        info = train(algo, AgentCls, tells, n_itr=5)[-1]
        assert any(info)
        assert algo.bootstrap_timelimit is is_on
        text = capsys.readouterr().out
        is_told = is_on and not tells
        assert text.count("count as real ends") == is_told
        assert not is_told or "rlpyt.envs.gym" in text
        if AlgoCls in (A2C, PPO):
            continue
        masked = ("maskedFraction",) * (is_on and tells)
        assert info._fields == algo.opt_info_fields == (*AlgoCls.opt_info_fields, *masked)
        if masked:
            assert len(info.maskedFraction) == algo.updates_per_optimize
            assert all(isinstance(fraction, float) for fraction in info.maskedFraction)
            # One step of four is the last one; by priority it is hardly drawn.
            assert 0 <= sum(info.maskedFraction) < 0.5 * algo.updates_per_optimize
            assert "are not trained on" not in text


@pytest.mark.parametrize(("AlgoCls", "AgentCls", "settings"), FAMILIES)
def test_error_if_nothing_is_trained_on(
    AlgoCls: Any, AgentCls: Any, settings: dict[str, Any]
) -> None:
    # Training went on, with a loss of 0.
    settings = {**settings, "n_step_return": 4, "replay_ratio": 40}
    algo = AlgoCls(**settings, bootstrap_timelimit=True)
    with pytest.raises(ValueError, match="n_step_return=4"):
        train(algo, AgentCls, tells=True, n_itr=20)
    assert 100 <= algo.update_counter < 100 + algo.updates_per_optimize


@pytest.mark.parametrize(("AlgoCls", "AgentCls", "settings"), FAMILIES)
def test_warning_of_returns_almost_as_long_as_episodes(
    AlgoCls: Any, AgentCls: Any, settings: dict[str, Any], capsys: Any
) -> None:
    algo = AlgoCls(**{**settings, "n_step_return": 3}, bootstrap_timelimit=True)
    train(algo, AgentCls, tells=True)
    text = capsys.readouterr().out
    assert text.count("are not trained on") == 1
    assert "n_step_return=3" in text


CELLS = list(itertools.product(range(10), (1, 4, 6)))  # Without R2D1.


@pytest.mark.parametrize(("case", "n"), selected(CELLS, lambda cell: set(enumerate(cell))))
def test_recorded_last_observations_leave_no_mask(case: int, n: int) -> None:
    # Returns as long as episodes masked every sample: nothing was learned.
    AlgoCls, AgentCls, settings = REPLAYING[case]
    algo = AlgoCls(**{**settings, "n_step_return": n, "bootstrap_timelimit": True})
    infos = train(algo, AgentCls, tells=True, record_next_observation=True)
    assert infos[-1].maskedFraction
    assert not any(any(info.maskedFraction) for info in infos)


@pytest.mark.parametrize("n", [1, 3])
def test_target_before_a_limit(n: int) -> None:
    # Observation t of an episode is t, its reward t + 1, and the last observation 4: let V(s) = s.
    seen: list[tuple[float, float]] = []

    class Watched(DQN):
        def next_value(self, target_inputs: Any) -> Any:
            return target_inputs.observation.sum(-1)

        def loss(self, samples: Any) -> Any:
            y = n_step_target(
                samples.return_,
                samples.done_n,
                self.next_value(samples.target_inputs),
                self.discount,
                self.bootstrap_steps(samples),
            )
            seen.extend(zip(samples.agent_inputs.observation[:, 0].tolist(), y.tolist()))
            return super().loss(samples)

    algo = Watched(**{**REPLAY, "n_step_return": n}, bootstrap_timelimit=True)
    train(algo, MlpDqnAgent, tells=True, record_next_observation=True)
    assert {t for t, _ in seen} == {0, 1, 2, 3}
    for t, y in seen:
        k = int(min(n, 4 - t))
        target = sum(0.99**j * (t + j + 1) for j in range(k)) + 0.99**k * (t + k)
        assert y == pytest.approx(target)


# --- Sequences ------------------------------------------------------------------------------------


class Ring(Env):
    """Three places in a circle: every step goes to the next one, and its reward is the place left.

    A time limit truncates every episode; the next one begins one place after the last beginning.
    """

    def __init__(self, limit: int, continuous: bool) -> None:
        self._limit, self._first = limit, -1
        self._action_space = FloatBox(-1, 1, shape=1) if continuous else IntBox(0, 2)
        self._observation_space = FloatBox(0, 1, shape=3)

    def reset(self) -> Any:
        self._n_steps, self._first = 0, self._first + 1
        return self._observe()

    def step(self, action: Any) -> EnvStep:
        reward = np.float32((self._first + self._n_steps) % 3)
        self._n_steps += 1
        is_over = self._n_steps == self._limit
        return EnvStep(self._observe(), reward, is_over, EnvInfo(is_over, is_over))

    def _observe(self) -> Any:
        return np.eye(3, dtype=np.float32)[(self._first + self._n_steps) % 3]

    @property
    def horizon(self) -> int:
        return self._limit


def values_on_the_ring(discount: float) -> list[float]:
    """V(s) = s + discount V(s + 1), without any limit."""
    ahead = np.roll(np.eye(3), 1, axis=1)
    values: list[float] = np.linalg.solve(np.eye(3) - discount * ahead, np.arange(3.0)).tolist()
    return values


class Table(torch.nn.Module):
    """Outputs by observation alone; a recurrent state without effect."""

    def __init__(self, observation_shape: Any, output_size: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, output_size, bias=False)
        torch.nn.init.zeros_(self.linear.weight)

    def forward(self, observation: Any, *others: Any, reset: Any = None) -> Any:
        lead = observation.shape[-2:-1] or (1,)
        state = observation.new_zeros(1, *lead, 1)
        return self.linear(observation), RnnState(state, state)


class Policy(Table):
    def __init__(self, observation_shape: Any, action_size: int) -> None:
        super().__init__(observation_shape, action_size)

    def forward(self, observation: Any, *others: Any, reset: Any = None) -> Any:
        mean, state = super().forward(observation)
        return mean, mean - 1, state


class Critic(Table):
    def __init__(self, observation_shape: Any, action_size: int) -> None:
        super().__init__(observation_shape, 1)

    def forward(self, observation: Any, *others: Any, reset: Any = None) -> Any:
        q, state = super().forward(observation)
        return q.squeeze(-1), state


EXACT: dict[str, Any] = {
    **SEQUENCES,
    "replay_ratio": 6,
    "discount": 0.7,
    "bootstrap_timelimit": True,
    "target_update_tau": 1,
    "target_update_interval": 1,
    "OptimCls": torch.optim.SGD,
}


ON_Q: dict[str, Any] = {"learning_rate": 3, "delta_clip": None, "prioritized_replay": False}
BY_PRIORITY = {**ON_Q, "prioritized_replay": True, "pri_alpha": 0.1, "pri_beta_init": 1}
ON_CRITICS = {"learning_rate": 1, "fixed_alpha": 1e-9}


@pytest.mark.parametrize(
    ("AlgoCls", "settings", "limit", "n", "mid_batch_reset"),
    [
        (R2D1, {**ON_Q, "double_dqn": False, "warmup_T": 0}, 3, 2, True),
        (R2D1, BY_PRIORITY, 3, 4, False),
        (RecurrentSAC, ON_CRITICS, 3, 4, False),
        *[
            (R2D1, ON_Q, 2, 1, True),
            (RecurrentSAC, ON_CRITICS, 2, 1, True),
            (RecurrentSAC, {**ON_CRITICS, "warmup_T": 0}, 3, 2, True),
        ]
        * FULL,
    ],
)
def test_values_of_recurrent_agents_are_exact(
    AlgoCls: Any, settings: dict[str, Any], limit: int, n: int, mid_batch_reset: bool
) -> None:
    # The last step before a limit was left out, but the step before it bootstraps from its value.
    is_critic = AlgoCls is RecurrentSAC
    algo: Any = AlgoCls(**{**EXACT, "n_step_return": n, **settings})
    agent: Any = MlpR2d1Agent(ModelCls=Table)
    if is_critic:
        agent = SacLstmAgent(ModelCls=Policy, QModelCls=Critic)
    infos = run(
        algo,
        agent,
        60,
        EnvCls=Ring,
        env_kwargs={"limit": limit, "continuous": is_critic},
        CollectorCls=CpuResetCollector if mid_batch_reset else CpuWaitResetCollector,
        record_next_observation=True,
    )
    assert not any(any(info.maskedFraction) for info in infos)
    if is_critic:
        found = agent.q1_model.linear.weight[0]
    else:
        found = algo.inv_value_scale(agent.model.linear.weight).max(0).values
    assert found.tolist() == pytest.approx(values_on_the_ring(0.7), abs=1e-2)
