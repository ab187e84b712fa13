"""``bootstrap_timelimit`` in every family: messages where it does nothing, or too much."""

import pytest

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
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.base import Env
from rlpyt.envs.toy import Counter
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from tests.selection import FULL, each_once

SMALL = {"model_kwargs": {"hidden_sizes": [8]}}
SMALL_Q = {**SMALL, "q_model_kwargs": {"hidden_sizes": [8]}}
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
CRITICS = [
    (DDPG, DdpgAgent, REPLAY),
    (TD3, Td3Agent, REPLAY),
    (D4PG, D4pgAgent, {**REPLAY, **RANGE}),
    (SAC, sac_agent.SacAgent, REPLAY),
    (SAC_V, sac_v_agent.SacAgent, REPLAY),
]
REPLAYING = [
    *CRITICS,
    (DQN, MlpDqnAgent, REPLAY),
    (DQN, MlpDqnAgent, {**REPLAY, "prioritized_replay": True}),
    (CategoricalDQN, MlpCatDqnAgent, REPLAY),
    (QRDQN, MlpQrDqnAgent, REPLAY),
    (IQN, MlpIqnAgent, REPLAY),
    (R2D1, MlpR2d1Agent, SEQUENCES),
]
FAMILIES = REPLAYING if FULL else [REPLAYING[i] for i in (0, 5, 10)]
ALL = REPLAYING if FULL else [*FAMILIES, REPLAYING[3]]
ALL = [*ALL, (A2C, GenericFfAgent, {}), (PPO, GenericFfAgent, {})]


class Limited(Env):
    """Episodes of 4 steps that a time limit ends, of which the environment may keep silent."""

    def __init__(self, tells, continuous):
        self._env = Counter(length=4, time_limit=True)
        self._tells = tells
        self._action_space = FloatBox(-1, 1, shape=2) if continuous else self._env.action_space
        self._observation_space = self._env.observation_space

    def reset(self):
        return self._env.reset()

    def step(self, action):
        step = self._env.step(0)
        return step if self._tells else step._replace(env_info=None)

    @property
    def horizon(self):
        return self._env.horizon


def train(algo, AgentCls, tells, n_itr=5, record_next_observation=False):
    """Iterations of 16 steps, and what they report."""
    is_critic = type(algo) in [AlgoCls for AlgoCls, _, _ in CRITICS]
    agent = AgentCls(**(SMALL_Q if is_critic else SMALL))
    env_kwargs = {"tells": tells, "continuous": is_critic}
    sampling = {"env_kwargs": env_kwargs, "record_next_observation": record_next_observation}
    return run(algo, agent, n_itr, EnvCls=Limited, **sampling)


def run(algo, agent, n_itr, **sampling):
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
def test_mask_and_warning(AlgoCls, AgentCls, settings, capsys):
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
def test_error_if_nothing_is_trained_on(AlgoCls, AgentCls, settings):
    # Training went on, with a loss of 0.
    settings = {**settings, "n_step_return": 4, "replay_ratio": 40}
    algo = AlgoCls(**settings, bootstrap_timelimit=True)
    with pytest.raises(ValueError, match="n_step_return=4"):
        train(algo, AgentCls, tells=True, n_itr=20)
    assert 100 <= algo.update_counter < 100 + algo.updates_per_optimize


@pytest.mark.parametrize(("AlgoCls", "AgentCls", "settings"), FAMILIES)
def test_warning_of_returns_almost_as_long_as_episodes(AlgoCls, AgentCls, settings, capsys):
    algo = AlgoCls(**{**settings, "n_step_return": 3}, bootstrap_timelimit=True)
    train(algo, AgentCls, tells=True)
    text = capsys.readouterr().out
    assert text.count("are not trained on") == 1
    assert "n_step_return=3" in text


@pytest.mark.parametrize(("case", "n"), each_once(range(10), (1, 4, 6)))  # Without R2D1.
def test_recorded_last_observations_leave_no_mask(case, n):
    # Returns as long as episodes masked every sample: nothing was learned.
    AlgoCls, AgentCls, settings = REPLAYING[case]
    algo = AlgoCls(**{**settings, "n_step_return": n, "bootstrap_timelimit": True})
    infos = train(algo, AgentCls, tells=True, record_next_observation=True)
    assert infos[-1].maskedFraction
    assert not any(any(info.maskedFraction) for info in infos)
