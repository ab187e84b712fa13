"""Settings, agents and collectors that algorithms refuse, by the name in the error."""

from functools import partial

import pytest

from rlpyt.agents.dqn.mlp_agent import (
    MlpDqnAgent,
    MlpIqnAgent,
    MlpPqnAgent,
    MlpPqnLstmAgent,
    MlpQrDqnAgent,
    MlpR2d1Agent,
)
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.agents.qpg.sac_lstm_agent import SacLstmAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.munchausen import MunchausenDQN, MunchausenIQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.rnd import RandomNetworkDistillation, RndPPO
from rlpyt.algos.qpg.d4pg import D4PG
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.algos.qpg.sac_ensembles import REDQ, TQC, CrossQ
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs import gym
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from tests.agents.parts import VectorCatDqnAgent, VectorDqnAgent, made
from tests.agents.qpg.ddpg_parts import made as made_continuous
from tests.agents.qpg.sac_parts import BOX, CROSSQ, SMALL, make_agent
from tests.algos import parts, test_augmentation
from tests.algos.dqn import r2d1_parts, test_r2d1
from tests.algos.pg.parts import Setup, lstm_agent
from tests.algos.qpg import ddpg_parts, sac_parts, test_sac_lstm
from tests.refused import assert_refused

AGENTS = {
    DQN: VectorDqnAgent,
    CategoricalDQN: VectorCatDqnAgent,
    QRDQN: MlpQrDqnAgent,
    IQN: MlpIqnAgent,
    MunchausenDQN: VectorDqnAgent,
    MunchausenIQN: MlpIqnAgent,
    R2D1: MlpR2d1Agent,
    PQN: MlpPqnAgent,
    **ddpg_parts.AGENTS,
    SAC: sac_agent.SacAgent,
    REDQ: sac_agent.SacAgent,
    SAC_V: sac_v_agent.SacAgent,
}


class RecurrentSacAgent(sac_agent.SacAgent):
    recurrent = True


def set_up(AlgoCls, AgentCls=None, mid_batch_reset=True, **settings):
    """Initialize an algorithm as a runner does."""
    if AlgoCls is PPO:
        Setup(PPO(**settings), AgentCls and AgentCls())
        return
    AgentCls = AgentCls or AGENTS[AlgoCls]
    if AlgoCls is PQN:
        collector = CpuResetCollector if mid_batch_reset else CpuWaitResetCollector
        Setup(PQN(**settings), AgentCls(), T=4, B=2, CollectorCls=collector)
        return
    if AlgoCls in ddpg_parts.AGENTS:
        there, agent = ddpg_parts, made_continuous(AgentCls)
    elif AlgoCls in (SAC, REDQ, SAC_V):
        there, agent = sac_parts, make_agent(AgentCls)
    else:
        there, agent = r2d1_parts if AlgoCls is R2D1 else parts, made(AgentCls())
    examples = test_r2d1.EXAMPLES if AlgoCls is R2D1 else there.examples()
    ranges = ddpg_parts.RANGE if AlgoCls is D4PG else {}
    algo = AlgoCls(**{**there.SETTINGS, **ranges, **settings})
    algo.initialize(agent, 100, there.SPEC, mid_batch_reset, examples)


PRIORITIZED = {"prioritized_replay": True}
OF_VALUES = (DQN, DDPG, TD3)
OF_ALL = (DQN, DDPG, TD3, SAC, SAC_V, PPO)
SETTINGS = [
    *[(cls, {"discount": value}, "discount") for cls in OF_ALL for value in (1.5, -0.1)],
    *[(cls, {"clip_grad_norm": value}, "clip_grad_norm") for cls in OF_ALL for value in (0, -1)],
    *[(cls, {"target_update_tau": 1.5}, "target_update_tau") for cls in OF_ALL[:-1]],
    *[(cls, {"target_update_interval": 0}, "target_update_interval") for cls in OF_VALUES],
    *[(cls, {"replay_ratio": 0}, "replay_ratio") for cls in OF_VALUES],
    *[(cls, {"n_step_return": 0}, "n_step_return") for cls in OF_VALUES],
    *[(cls, {"policy_update_interval": 0}, "policy_update_interval") for cls in (DDPG, TD3, SAC)],
    *[(cls, {"q_target_clip": 0}, "q_target_clip") for cls in (DDPG, TD3)],
    (DQN, {"batch_size": 0}, "batch_size"),
    (DQN, {"replay_size": 4}, "replay_size is 4 training batch"),
    (DQN, {"replay_size": 4, "batch_size": 2}, "replay_size is 4 sampler batch"),
    (DQN, {"delta_clip": 0}, "delta_clip"),
    *[(DQN, {**PRIORITIZED, "pri_alpha": value}, "pri_alpha") for value in (1.1, -1)],
    (DQN, {**PRIORITIZED, "pri_beta_init": -0.4}, "pri_beta_init"),
    (DQN, {**PRIORITIZED, "pri_beta_final": 4}, "pri_beta_final"),
    (DQN, {**PRIORITIZED, "default_priority": 0}, "default_priority"),
    *[(cls, {"V_min": 2, "V_max": 2}, "V_min is 2 and V_max") for cls in (CategoricalDQN, D4PG)],
    (D4PG, {"pri_alpha": 2}, "pri_alpha"),
    (D4PG, {"pri_beta": -1}, "pri_beta"),
    (D4PG, {"q_target_clip": 5}, "q_target_clip"),
    *[(cls, {"delta_clip": value}, "delta_clip") for cls in (QRDQN, IQN) for value in (None, 0.0)],
    *[(IQN, {name: 0}, name) for name in ("n_tau", "n_target_tau")],
    *[
        (MunchausenDQN, {name: value}, name)
        for name, value in {
            "munchausen_alpha": 1.1,
            "entropy_tau": 0,
            "munchausen_clip": 1,
            "n_step_return": 3,
        }.items()
    ],
    (MunchausenIQN, {"double_dqn": True}, "double_dqn"),
    *[(R2D1, {name: 0}, name) for name in ("batch_T", "batch_B", "delta_clip")],
    *[(R2D1, {name: -1}, name) for name in ("warmup_T", "store_rnn_state_interval")],
    *[(R2D1, {name: -1}, name) for name in ("value_scale_eps", "input_priority_shift")],
    (R2D1, {"pri_eta": 1.2}, "pri_eta"),
    (R2D1, {"batch_T": 90, "batch_B": 1, "warmup_T": 9}, "replay_size"),
    *[(cls, {"action_prior": "normal"}, "action_prior") for cls in (SAC, SAC_V)],
    (SAC, {"fixed_alpha": 0}, "fixed_alpha"),
    *[(REDQ, {"target_subset": value}, "target_subset") for value in (0, 3)],
    (PPO, {"minibatches": 4, "AgentCls": lstm_agent}, "minibatches is 4 batch_B"),
    *[(PPO, {"minibatches": value}, "minibatches") for value in (0, 16)],
    *[(PPO, {name: 0}, name) for name in ("epochs", "ratio_clip")],
    *[(PPO, {name: -1.0}, name) for name in ("value_clip", "target_kl", "desired_kl")],
    (PPO, {"desired_kl": 0.01}, "linear_lr_schedule=False"),
    *[(PQN, {name: 0}, name) for name in ("minibatches", "epochs", "clip_grad_norm")],
    *[(PQN, {name: 2}, name) for name in ("discount", "q_lambda")],
    (PQN, {"minibatches": 9}, "minibatches"),
    (PQN, {"minibatches": 3, "AgentCls": MlpPqnLstmAgent}, "minibatches is 3 batch_B"),
    (PPO, {"gae_lambda": 95}, "gae_lambda"),
]


# Most of them were errors of shapes, or lacking attributes, at the first update.
OF_OTHERS = [
    (DQN, VectorCatDqnAgent, "categorical DqnAgent"),
    (DQN, MlpQrDqnAgent, "quantile"),
    (DQN, MlpIqnAgent, "implicit quantile"),
    (DQN, MlpR2d1Agent, "recurrent"),
    (DQN, MlpPqnAgent, "value alone"),
    (PQN, MlpDqnAgent, "value"),
    (PQN, GenericFfAgent, "MlpPqnAgent"),
    (PQN, lstm_agent, "MlpPqnAgent"),
    (PQN, MlpR2d1Agent, "value"),
    (CategoricalDQN, VectorDqnAgent, "CatDqnAgent"),
    (CategoricalDQN, MlpQrDqnAgent, "categorical"),
    (CategoricalDQN, MlpIqnAgent, "categorical"),
    (CategoricalDQN, MlpR2d1Agent, "recurrent"),
    *[
        (cls, other, "quantile")
        for cls in (QRDQN, IQN)
        for other in (AGENTS[DQN], VectorCatDqnAgent)
    ],
    (R2D1, MlpDqnAgent, "R2d1Agent"),
    (R2D1, MlpPqnLstmAgent, "value alone"),
    (DDPG, Td3Agent, "DdpgAgent"),
    (DDPG, D4pgAgent, "DdpgAgent"),
    (TD3, DdpgAgent, "Td3Agent"),
    (TD3, D4pgAgent, "Td3Agent"),
    (D4PG, DdpgAgent, "D4pgAgent"),
    (SAC, RecurrentSacAgent, "recurrent"),
    (SAC_V, RecurrentSacAgent, "recurrent"),
    (DQN, GenericFfAgent, "set_epsilon_itr_min_max MlpDqnAgent"),
]

DISCRETE = {"EnvCls": gym.make, "env_kwargs": {"id": "CartPole-v1"}}
CONTINUOUS = {"EnvCls": gym.make, "env_kwargs": {"id": "Pendulum-v1"}}
OF_QUANTILES = {"q_model_kwargs": {**SMALL, "n_quantiles": 3}}


class RndImpala(RandomNetworkDistillation, IMPALA):
    pass


def discrete_sac(**settings):
    return Setup(DiscreteSAC(**settings), DiscreteSacAgent(), **DISCRETE)


def soft(AlgoCls, **kwargs):
    return sac_parts.make_algo(AlgoCls, agent=make_agent(spaces=BOX, **kwargs))


def with_policy_gradient(AlgoCls, there):
    algo = AlgoCls(**there.SETTINGS)
    algo.initialize(made(GenericFfAgent()), 100, there.SPEC, True, there.examples())


def with_memory():
    run = test_sac_lstm.Run()
    examples = run.sampler.initialize(run.agent, seed=3)
    SAC().initialize(run.agent, 100, test_sac_lstm.SPEC, True, examples)


recurrent_sac = test_sac_lstm.Run
FROM_PIXELS = {"augmentation": {"pad": 1}}
REFUSED = [
    *[(partial(set_up, cls, **settings), words) for cls, settings, words in SETTINGS],
    *[(partial(set_up, cls, agent), words) for cls, agent, words in OF_OTHERS],
    # This was an error of the first update, after min_steps_learn steps.
    *[
        (partial(set_up, cls, mid_batch_reset=False), f"mid_batch_reset is False {cls.__name__}")
        for cls in (DQN, CategoricalDQN, QRDQN, IQN, PQN, DDPG, SAC, SAC_V)
    ],
    *[
        (partial(set_up, cls, agent, mid_batch_reset=False), agent.__name__)
        for cls, agent in ((R2D1, MlpDqnAgent), (DQN, MlpR2d1Agent))
    ],
    (partial(with_policy_gradient, SAC, sac_parts), "GenericFfAgent pi_parameters SacAgent"),
    (partial(with_policy_gradient, DDPG, ddpg_parts), "GenericFfAgent mu_parameters DdpgAgent"),
    (partial(soft, SAC, **CROSSQ), "without target networks"),
    (partial(soft, SAC, **OF_QUANTILES), "of quantiles"),
    (partial(soft, TQC), "n_quantiles"),
    (partial(soft, CrossQ), "target_networks=False"),
    (partial(set_up, SAC, reparameterize=False), "SAC_V", NotImplementedError),
    *[
        (partial(discrete_sac, **{name: value}), name)
        for name, value in (
            ("action_prior", "gaussian"),
            ("reparameterize", False),
            ("target_entropy_fraction", 1.5),
        )
    ],
    (lambda: Setup(DiscreteSAC(), sac_agent.SacAgent(), **CONTINUOUS), "DiscreteSacAgent"),
    (lambda: Setup(SAC(), DiscreteSacAgent(), **DISCRETE), "SacAgent"),
    *[
        (partial(recurrent_sac, **{name: 0}), name)
        for name in ("batch_T", "batch_B", "n_step_return")
    ],
    *[
        (partial(recurrent_sac, **{name: -1}), name)
        for name in ("warmup_T", "store_rnn_state_interval")
    ],
    (lambda: recurrent_sac(batch_size=32), "batch_size is 32 batch_B"),
    (lambda: recurrent_sac(batch_T=99, batch_B=1), "replay_size"),
    (lambda: recurrent_sac(agent=sac_agent.SacAgent()), "SacAgent is not: SacLstmAgent"),
    (lambda: recurrent_sac(agent=SacLstmAgent(target_networks=False)), "without target networks"),
    (lambda: recurrent_sac(agent=lstm_agent()), "GenericLstmAgent has no pi_parameters"),
    (with_memory, "SacLstmAgent is recurrent"),
    *[
        (lambda name=name: Setup(IMPALA(**{name: 0})), f"{name} is 0")
        for name in ("rho_bar", "c_bar")
    ],
    (
        lambda: IMPALA().async_initialize(None, 10, None, True, {}, world_size=2),
        "affinity['optimizer'] has 2 entries",
    ),
    (lambda: RndPPO().initialize(None, 1, None, world_size=2), "world_size"),
    (
        lambda: RndImpala().async_initialize(None, 1, None, True, None),
        "RndImpala has a bonus synchronous",
    ),
    (partial(parts.make_algo, **FROM_PIXELS), "augmentation is {'pad': 1}, observations are not"),
    (lambda: R2D1(**FROM_PIXELS), "R2D1 has no argument 'augmentation'", TypeError),
    (
        lambda: test_augmentation.trained(augmentation={"pad": -1}),
        "make pad and intensity at least 0",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_refused(case):
    assert_refused(*case)
