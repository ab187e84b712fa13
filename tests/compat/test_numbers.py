"""What ``docs/numbers.md`` promises: each argument exists.

That it gives the numbers of rlpyt 0.1.2 is tested here where no test of its class does that.
"""

import ast
import importlib
import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.core.records import EnvSpaces
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.experiments.settings import checked, overridden
from rlpyt.experiments.train import starting_point
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.spaces.float_box import FloatBox
from tests.algos.pg.parts import Setup
from tests.algos.qpg import sac_parts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "numbers.md"
COLUMNS = ["part", "0.1.2", "now", "why", "how to get the old numbers"]
CLASSES = {
    cls.__name__: cls
    for cls in (
        (
            A2C,
            AsyncRl,
            AtariDqnAgent,
            CatDqnAgent,
            CpuSampler,
            DQN,
            DdpgAgent,
            GymEnvWrapper,
            MujocoFfAgent,
        )
        + (MinibatchRl, MujocoFfModel, PPO, R2D1, SAC, SacAgent, TD3, Td3Agent)
    )
}
ATARI_ENV = "rlpyt.envs.atari.atari_env"  # Needs the package ale_py.


def rows():
    """The rows of all tables on the page, headings left out."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != COLUMNS and set(row[0]) != {"-"}]


def remedies():
    """The code in the last columns."""
    return [code for row in rows() for code in re.findall(r"`([^`]+)`", row[-1])]


def parameters(Cls):
    """Names of all parameters of the constructors of ``Cls`` and its bases."""
    return {name for base in Cls.__mro__ for name in inspect.signature(base.__init__).parameters}


# --- The page -----------------------------------------------------------------------------------


def test_every_row_is_complete():
    assert len(rows()) > 70
    for row in rows():
        assert len(row) == len(COLUMNS), row
        assert all(row), row
        has_remedy = "`" in row[-1] or row[-1].startswith(("none: ", "as above"))
        assert has_remedy, row


CALLS = [code for code in remedies() if re.match(r"[A-Z]\w*\(", code)]


@pytest.mark.parametrize("code", CALLS)
def test_arguments_that_are_promised_exist(code):
    call = ast.parse(code, mode="eval").body
    name = call.func.id
    Cls = CLASSES.get(name)
    if name == "AtariEnv":
        Cls = importlib.import_module(ATARI_ENV).AtariEnv
    assert Cls is not None, f"{name} is not among CLASSES of this test"
    assert {keyword.arg for keyword in call.keywords} <= parameters(Cls)


AGENT_ALONE = (
    "algo.clip_gradients = lambda ps: "
    "torch.nn.utils.clip_grad_norm_(algo.agent.parameters(), algo.clip_grad_norm)"
)


def test_other_remedies_are_known():
    others = set(remedies()) - set(CALLS)
    assert others == {
        "algo.clip_gradients = lambda ps: torch.nn.utils.clip_grad_norm_(ps, algo.clip_grad_norm)",
        AGENT_ALONE,
        "agent.give_min_itr_learn = lambda itr: None",
        "algo.load_optim_state_dict(state)",
        "initialize",
        'make(..., info_example={"x": 0})',
        "runner.itr_batch_size",
        "minibatches",
        "T * B",
        "B",
        "optim.eps=1e-8",
        "ppo_32ep_1mb",
    }
    config = checked(overridden(starting_point("atari_dqn/dqn"), ["optim.eps=1e-8"]))
    assert config["optim"] == {"eps": 1e-8}


# --- All algorithms -----------------------------------------------------------------------------


class WithFurtherModule(A2C):
    def optim_initialize(self, rank=0):
        super().optim_initialize(rank)
        self.further = torch.nn.Parameter(torch.zeros(1))
        self.optimizer.add_param_group({"params": [self.further]})

    def loss(self, samples):
        loss, *rest = super().loss(samples)
        return loss + 1000 * self.further.sum(), *rest


def test_clipped_parameters():
    assert Setup(WithFurtherModule()).train()[0].gradNorm > 1000
    old = Setup(WithFurtherModule())
    exec(AGENT_ALONE, {"algo": old.algo, "torch": torch})
    assert old.train()[0].gradNorm < 100


def test_gradient_clipping():
    algo = A2C(clip_grad_norm=1e-6)
    gradients = torch.tensor([3e-6, 4e-6])  # Near the constant, which is 1e-6.

    def clipped():
        parameter = torch.nn.Parameter(torch.zeros(2))
        parameter.grad = gradients.clone()
        algo.clip_gradients([parameter])
        return parameter.grad

    assert torch.allclose(clipped(), gradients / 5)
    code = next(code for code in remedies() if code.startswith("algo.clip_gradients"))
    exec(code, {"algo": algo, "torch": torch})
    assert torch.allclose(clipped(), gradients / 6)


@pytest.mark.parametrize(
    ("AlgoCls", "default"), [(DQN, 0.01 / 32), (CategoricalDQN, 0.01 / 32), (R2D1, 1e-3)]
)
def test_epsilon_of_adam(AlgoCls, default):
    assert AlgoCls(optim_kwargs={}).optim_kwargs["eps"] == pytest.approx(default)
    assert AlgoCls(optim_kwargs={"eps": 1e-8}).optim_kwargs["eps"] == 1e-8


BOUND = 2.0


# --- DDPG, TD3, SAC -----------------------------------------------------------------------------

QPG_SPACES = EnvSpaces(FloatBox(-1, 1, (4,)), FloatBox(-BOUND, BOUND, (3,)))
OBSERVATION = torch.randn(400, 4)
QPG_INPUTS = OBSERVATION, torch.zeros(400, 3), torch.zeros(400)


def qpg_agent(AgentCls, **kwargs):
    torch.manual_seed(0)
    agent = AgentCls(**kwargs)
    agent.initialize(QPG_SPACES)
    return agent


def test_range_of_actions_of_sac():
    new, old = qpg_agent(SacAgent), qpg_agent(SacAgent, action_squash=[1.0])
    for agent, bound in ((new, BOUND), (old, 1.0)):
        agent.eval_mode(1)
        mean, _ = agent.model(*QPG_INPUTS)
        action = agent.step(*QPG_INPUTS).action
        assert torch.allclose(action, bound * torch.tanh(mean), atol=1e-6)
    # The temperature aims at -A, and the prior has deviation 1.
    algo = sac_parts.make_algo(agent=old)
    assert algo.target_entropy == -3
    algo.action_prior = "gaussian"
    found = algo.get_action_prior(torch.zeros(1, 3))
    assert found == pytest.approx(-1.5 * math.log(2 * math.pi))
    assert sac_parts.make_algo(agent=new).target_entropy == pytest.approx(-3 + 3 * math.log(BOUND))


@pytest.mark.parametrize("AgentCls", [SacAgent, Td3Agent])
def test_no_noise_before_training(AgentCls):
    agent = qpg_agent(AgentCls)
    code = next(code for code in remedies() if code.startswith("agent.give_min_itr_learn"))
    exec(code, {"agent": agent})
    agent.give_min_itr_learn(10)
    agent.sample_mode(0)
    std = agent.distribution.std
    assert std is None if AgentCls is SacAgent else np.allclose(std, 0.1 * BOUND)
