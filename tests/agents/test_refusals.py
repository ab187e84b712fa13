"""Settings, spaces and states that agents refuse: one table of calls and what their errors name."""

from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.iqn_agent import IqnAgent
from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpQrDqnAgent, MlpR2d1Agent
from rlpyt.agents.dqn.qrdqn_agent import QrDqnAgent
from rlpyt.agents.dqn.r2d1_agent import R2d1AgentBase
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.gaussian import GaussianPgAgent, RecurrentGaussianPgAgent
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.agents.qpg.d4pg_agent import D4pgAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_discrete_agent import DiscreteSacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.core.records import EnvSpaces
from rlpyt.models.dqn.mlp_dqn_model import MlpCatDqnModel, MlpDqnModel
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from tests.agents.parts import SPACES, VectorCatDqnAgent, VectorDqnAgent, inputs, made
from tests.agents.pg.parts import IMAGE, RECORD, VECTOR
from tests.agents.qpg import sac_parts
from tests.agents.qpg.ddpg_parts import SPACES as BOUNDED, small
from tests.agents.qpg.sac_parts import make_agent
from tests.agents.test_action_masks import Plain, inputs as masked_inputs, spaces as masked
from tests.agents.test_base import LinearAgent, linear
from tests.refused import assert_refused

BOX = FloatBox(-1, 1, (2,))


def with_action(action, env_spaces=SPACES):
    return env_spaces._replace(action=action)


def unscalable(high):
    action = FloatBox(-1, 1, (3,))
    action.high = np.array([1, 1, high], np.float32)
    return with_action(action, BOUNDED)


class WithoutMixin(MlpR2d1Agent):
    prev_rnn_state = R2d1AgentBase.prev_rnn_state


class WithoutSizes(torch.nn.Module):
    def __init__(self, observation_shape, action_size):
        super().__init__()


class Alternating(VectorDqnAgent):
    alternating = True


def unmasked():
    agent = BaseAgent(ModelCls=Plain)
    agent.initialize(masked())
    return agent.run_model(agent.model, *masked_inputs(3))


def without_a_critic(AgentCls):
    state = make_agent(AgentCls).state_dict()
    del state["q2_model"]
    make_agent(AgentCls).load_state_dict(state)


EPSILONS = [
    ({"eps_init": 1.5}, "eps_init 1.5"),
    ({"eps_final": -0.1}, "eps_final -0.1"),
    ({"eps_eval": 2}, "eps_eval 2"),
    ({"eps_final_min": 1.1}, "eps_final_min 1.1"),
    ({"eps_final_min": 0}, "eps_final_min eps_final 0.01 positive"),
    ({"eps_final_min": 0.1, "eps_final": 0}, "eps_final 0 positive"),
]
OUTPUTS = [
    (MlpCatDqnAgent, "n_atoms", "model_kwargs"),
    (MlpQrDqnAgent, "n_quantiles", "model_kwargs"),
    (D4pgAgent, "n_atoms", "q_model_kwargs"),
]
KINDS = [
    (DqnAgent, with_action(BOX), "DqnAgent FloatBox wrapper"),
    (CatDqnAgent, with_action(BOX), "CatDqnAgent FloatBox wrapper"),
    (AtariFfAgent, VECTOR, "AtariFfAgent discrete FloatBox"),
    (AtariLstmAgent, VECTOR, "AtariLstmAgent discrete FloatBox"),
    (CategoricalPgAgent, RECORD, "CategoricalPgAgent discrete"),
    (MujocoFfAgent, IMAGE, "MujocoFfAgent continuous IntBox"),
    (GaussianPgAgent, RECORD, "GaussianPgAgent continuous GenericFfAgent"),
    (RecurrentGaussianPgAgent, IMAGE, "RecurrentGaussianPgAgent continuous"),
    (GenericFfAgent, EnvSpaces(IMAGE.observation, object()), "space"),
    (MujocoFfAgent, EnvSpaces(RECORD.observation, VECTOR.action), "place=(2,) GenericFfAgent"),
    (MujocoFfAgent, masked(BOX), "action"),
    (SacAgent, masked(BOX), "action"),
    (GenericFfAgent, masked(IntBox(0, 4, (2,))), "action"),
    (GenericFfAgent, masked(mask=5), "action_mask shape"),
    (MlpDqnAgent, masked(mask=3), "action_mask shape"),
    *[
        (AgentCls, with_action(action, BOUNDED), AgentCls.__name__)
        for AgentCls in (DdpgAgent, Td3Agent, D4pgAgent)
        for action in (IntBox(0, 4), IntBox(0, 4, (3,)))
    ],
    *[
        (AgentCls, EnvSpaces(BOX, action), f"{AgentCls.__name__} wrapper")
        for AgentCls in (sac_agent.SacAgent, sac_v_agent.SacAgent)
        for action in (
            IntBox(0, 4),
            FloatBox(0, np.inf, (2,)),
            FloatBox(np.array([0.0, 0.0]), np.array([1.0, 0.0])),
        )
    ],
]
NOISE = [
    (DdpgAgent, "action_std"),
    (DdpgAgent, "action_noise_clip"),
    (Td3Agent, "pretrain_std"),
    (Td3Agent, "target_noise_std"),
    (Td3Agent, "target_noise_clip"),
    (SacAgent, "pretrain_std"),
]
REFUSED = [
    *[(lambda s=s: VectorDqnAgent(**s), words) for s, words in EPSILONS],
    *[
        (lambda Cls=Cls, n=n, k=k: Cls(**{n: 12, k: {n: 11}}), f"{n} 12 {n}=11")
        for Cls, n, k in OUTPUTS
    ],
    *[(lambda Cls=Cls, n=n, k=k: Cls(**{k: {n: 0}}), f"{n} 0") for Cls, n, k in OUTPUTS],
    *[(lambda Cls=Cls, s=s: Cls().initialize(s), words) for Cls, s, words in KINDS],
    *[(lambda Cls=Cls, n=n: Cls(**{n: -0.1}), f"{n} -0.1") for Cls, n in NOISE],
    *[(lambda h=h: small().initialize(unscalable(h)), "finite bounds") for h in (np.inf, -1.0)],
    (lambda: VectorCatDqnAgent(n_atoms=1), "n_atoms 1 2"),
    (lambda: D4pgAgent(n_atoms=1), "n_atoms 1"),
    (lambda: QrDqnAgent(n_quantiles=0), "n_quantiles 0 1"),
    (lambda: IqnAgent(n_tau=0), "n_tau 0 1"),
    *[
        (lambda Cls=Cls: Cls(observation_shape=RECORD, output_size=4), "observation_shape ModelCls")
        for Cls in (MlpDqnModel, MlpCatDqnModel)
    ],
    (lambda: made(VectorDqnAgent()).load_state_dict({"weight": torch.zeros(3)}), "", RuntimeError),
    (
        lambda: made(Alternating(eps_final_min=0.01), global_B=8, env_ranks=range(8)).make_vec_eps(
            3, range(3)
        ),
        "global_B 3",
    ),
    (lambda: made(WithoutMixin()).step(*inputs(2)), "WithoutMixin Recurrent", NotImplementedError),
    (unmasked, "mask_outputs", NotImplementedError),
    (lambda: BaseAgent().initialize(SPACES), "BaseAgent ModelCls=MyModel"),
    (
        lambda: LinearAgent(model_kwargs={"in_features": 7, "out_features": 2}).initialize(SPACES),
        "in_features make_env_to_model_kwargs",
    ),
    *[
        (lambda m=m: getattr(linear(), m)(None, None, None), "LinearAgent", NotImplementedError)
        for m in ("__call__", "step", "value")
    ],
    (lambda: linear().to_device(99), "cuda_idx cuda:99"),
    (lambda: linear().async_cpu(), "share_memory=True"),
    (
        lambda: SacAgent(ModelCls=WithoutSizes).initialize(EnvSpaces(BOX, BOX)),
        "hidden_sizes SacAgent model_kwargs",
        TypeError,
    ),
    (lambda: make_agent(pretrain_std=-1), "pretrain_std -1"),
    *[(partial(without_a_critic, Cls), "q2_model") for Cls in sac_parts.AGENTS],
    (lambda: DiscreteSacAgent().initialize(sac_parts.UNIT), "DiscreteSacAgent discrete action"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_refused(case):
    assert_refused(*case)
