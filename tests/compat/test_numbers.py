"""What ``docs/numbers.md`` promises: each argument exists, and gives the numbers of rlpyt 0.1.2."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import re
from pathlib import Path
from typing import Any

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
from rlpyt.core.records import AgentSamplesBsv, BatchSpec, EnvSamples, EnvSpaces, Samples
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.experiments.settings import checked, overridden
from rlpyt.experiments.train import starting_point
from rlpyt.models.mlp import MlpModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import namedarraytuple
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


def rows() -> list[list[str]]:
    """The rows of all tables on the page, headings left out."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != COLUMNS and set(row[0]) != {"-"}]


def remedies() -> list[str]:
    """The code in the last columns."""
    return [code for row in rows() for code in re.findall(r"`([^`]+)`", row[-1])]


def parameters(Cls: Any) -> set[str]:
    """Names of all parameters of the constructors of ``Cls`` and its bases."""
    return {name for base in Cls.__mro__ for name in inspect.signature(base.__init__).parameters}


# --- The page -----------------------------------------------------------------------------------


def test_every_row_is_complete() -> None:
    assert len(rows()) > 70
    for row in rows():
        assert len(row) == len(COLUMNS), row
        assert all(row), row
        has_remedy = "`" in row[-1] or row[-1].startswith(("none: ", "as above"))
        assert has_remedy, row


CALLS = [code for code in remedies() if re.match(r"[A-Z]\w*\(", code)]


@pytest.mark.parametrize("code", CALLS)
def test_arguments_that_are_promised_exist(code: str) -> None:
    call: Any = ast.parse(code, mode="eval").body
    name = call.func.id
    Cls: Any = CLASSES.get(name)
    if name == "AtariEnv":
        Cls = importlib.import_module(ATARI_ENV).AtariEnv
    assert Cls is not None, f"{name} is not among CLASSES of this test"
    assert {keyword.arg for keyword in call.keywords} <= parameters(Cls)


AGENT_ALONE = (
    "algo.clip_gradients = lambda ps: "
    "torch.nn.utils.clip_grad_norm_(algo.agent.parameters(), algo.clip_grad_norm)"
)


def test_other_remedies_are_known() -> None:
    others = set(remedies()) - set(CALLS)
    assert others == {
        "algo.clip_gradients = lambda ps: torch.nn.utils.clip_grad_norm_(ps, algo.clip_grad_norm)",
        AGENT_ALONE,
        "agent.give_min_itr_learn = lambda itr: None",
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
    def optim_initialize(self, rank: int = 0) -> None:
        super().optim_initialize(rank)
        self.further = torch.nn.Parameter(torch.zeros(1))
        self.optimizer.add_param_group({"params": [self.further]})

    def loss(self, samples: Any) -> Any:
        loss, *rest = super().loss(samples)
        return loss + 1000 * self.further.sum(), *rest


def test_clipped_parameters() -> None:
    assert Setup(WithFurtherModule()).train()[0].gradNorm > 1000
    old = Setup(WithFurtherModule())
    exec(AGENT_ALONE, {"algo": old.algo, "torch": torch})
    assert old.train()[0].gradNorm < 100


def test_gradient_clipping() -> None:
    algo = A2C(clip_grad_norm=1e-6)
    gradients = torch.tensor([3e-6, 4e-6])  # Near the constant, which is 1e-6.

    def clipped() -> torch.Tensor:
        parameter = torch.nn.Parameter(torch.zeros(2))
        parameter.grad = gradients.clone()
        algo.clip_gradients([parameter])
        return parameter.grad

    assert torch.allclose(clipped(), gradients / 5)
    code = next(code for code in remedies() if code.startswith("algo.clip_gradients"))
    exec(code, {"algo": algo, "torch": torch})
    assert torch.allclose(clipped(), gradients / 6)


def test_adam_in_one_loop() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    assert A2C().make_optimizer(parameters).param_groups[0]["fused"]
    group = A2C(optim_kwargs={"foreach": False}).make_optimizer(parameters).param_groups[0]
    assert not group["fused"]
    assert group["foreach"] is False


@pytest.mark.parametrize(
    ("AlgoCls", "default"), [(DQN, 0.01 / 32), (CategoricalDQN, 0.01 / 32), (R2D1, 1e-3)]
)
def test_epsilon_of_adam(AlgoCls: Any, default: float) -> None:
    assert AlgoCls(optim_kwargs={}).optim_kwargs["eps"] == pytest.approx(default)
    assert AlgoCls(optim_kwargs={"eps": 1e-8}).optim_kwargs["eps"] == 1e-8


# --- A2C and PPO --------------------------------------------------------------------------------


AgentInfo = namedarraytuple("AgentInfo", ["value"])
EnvInfo = namedarraytuple("EnvInfo", ["timeout"])


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
@pytest.mark.parametrize("gae_lambda", [1, 0.5])
def test_time_limits(AlgoCls: Any, gae_lambda: float) -> None:
    reward, value = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[4.0], [5.0], [6.0]])
    done = torch.tensor([[False], [True], [False]])
    samples = Samples(
        agent=AgentSamplesBsv(None, None, AgentInfo(value), torch.tensor([[8.0]])),
        env=EnvSamples(None, reward, None, done, EnvInfo(done)),
    )
    settings = {"discount": 0.5, "gae_lambda": gae_lambda}
    return_, _ = AlgoCls(**settings).compute_returns(samples, done.float())
    assert return_[1, 0] == value[1, 0]
    algo = AlgoCls(bootstrap_timelimit=False, **settings)
    return_, _ = algo.compute_returns(samples, done.float())
    assert return_[1, 0] == reward[1, 0]
    assert return_[2, 0] == 3 + 0.5 * 8


BOUND = 2.0
SPACES = EnvSpaces(FloatBox(-1, 1, (3,)), FloatBox(-BOUND, BOUND, (2,)))


def gaussian_agent(**kwargs: Any) -> Any:
    torch.manual_seed(0)
    agent = MujocoFfAgent(model_kwargs={"init_log_std": 0.5}, **kwargs)
    agent.initialize(SPACES)
    return agent


def test_gaussian_actions_are_neither_scaled_nor_clipped() -> None:
    inputs = torch.randn(500, 3), torch.zeros(500, 2), torch.zeros(500)
    new, old = gaussian_agent(), gaussian_agent(scale_actions=False, clip_actions=False)
    mu, log_std, _ = old.model(*inputs)
    dist_info, _ = old(*inputs)
    assert torch.equal(dist_info.mean, mu)
    assert torch.equal(dist_info.log_std, log_std)
    action = old.step(*inputs).action
    assert action.abs().max() > BOUND
    z = (action - mu) / log_std.exp()
    expected = -(log_std + z**2 / 2).sum(-1) - math.log(2 * math.pi)
    found = old.distribution.log_likelihood(action, dist_info)
    assert torch.allclose(found, expected, atol=1e-5)
    # By default both differ.
    assert torch.allclose(new(*inputs)[0].mean, BOUND * mu)
    assert new.step(*inputs).action.abs().max() == BOUND


# --- DQN ----------------------------------------------------------------------------------------


def test_target_network_of_an_initial_state() -> None:
    shapes = {"image_shape": (1, 20, 20), "output_size": 2}

    class SmallAgent(AtariDqnAgent):
        def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
            return shapes

    def made(**kwargs: Any) -> Any:
        agent = SmallAgent(**kwargs)
        agent.initialize(EnvSpaces(None, IntBox(0, 2)))
        return agent

    state = {name: made().state_dict()["model"] for name in ("model", "target")}
    bias = "head.model.0.bias"
    new = made(initial_model_state_dict=state).state_dict()
    assert torch.equal(new["target"][bias], state["target"][bias])
    old = made(initial_model_state_dict=dict(model=state["model"])).state_dict()
    assert torch.equal(old["target"][bias], state["model"][bias])


# --- DDPG, TD3, SAC -----------------------------------------------------------------------------

QPG_SPACES = EnvSpaces(FloatBox(-1, 1, (4,)), FloatBox(-BOUND, BOUND, (3,)))
OBSERVATION = torch.randn(400, 4)
QPG_INPUTS = OBSERVATION, torch.zeros(400, 3), torch.zeros(400)


def qpg_agent(AgentCls: Any, **kwargs: Any) -> Any:
    torch.manual_seed(0)
    agent = AgentCls(**kwargs)
    agent.initialize(QPG_SPACES)
    return agent


def test_outputs_and_noise_of_ddpg_in_units_of_the_environment() -> None:
    h = BOUND
    unit = {"model_kwargs": dict(hidden_sizes=[400, 300], output_max=1)}
    old = qpg_agent(DdpgAgent, action_std=0.1 / h, **unit)
    with torch.no_grad():
        mu = torch.tanh(old.model.mlp(OBSERVATION))
    assert torch.equal(old.model(*QPG_INPUTS), mu)
    assert torch.allclose(qpg_agent(DdpgAgent).model(*QPG_INPUTS), h * mu)
    old.sample_mode(0)
    assert float((old.step(*QPG_INPUTS).action - mu).std()) == pytest.approx(0.1, rel=0.1)


def test_noise_of_td3_in_units_of_the_environment() -> None:
    h = BOUND
    agent = qpg_agent(
        Td3Agent, pretrain_std=0.5 / h, target_noise_std=0.2 / h, target_noise_clip=0.5 / h
    )
    agent.give_min_itr_learn(10)
    agent.sample_mode(0)
    assert np.allclose(agent.distribution.std, 0.5)
    assert np.allclose(agent.target_distribution.std, 0.2)
    assert np.allclose(agent.target_distribution.noise_clip, 0.5)


def test_range_of_actions_of_sac() -> None:
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
def test_no_noise_before_training(AgentCls: Any) -> None:
    agent = qpg_agent(AgentCls)
    code = next(code for code in remedies() if code.startswith("agent.give_min_itr_learn"))
    exec(code, {"agent": agent})
    agent.give_min_itr_learn(10)
    agent.sample_mode(0)
    std = agent.distribution.std
    assert std is None if AgentCls is SacAgent else np.allclose(std, 0.1 * BOUND)


# --- The rest -----------------------------------------------------------------------------------


def test_hidden_sizes_of_models() -> None:
    def sizes(hidden_sizes: Any) -> list[int]:
        model = MujocoFfModel((3,), 2, hidden_sizes=hidden_sizes, mu_nonlinearity=None)
        assert isinstance(model.mu, MlpModel)
        return [layer.out_features for layer in model.mu.model if hasattr(layer, "out_features")]

    assert sizes([]) == [2]
    assert sizes(None) == [64, 64, 2]


def test_frame_buffer_for_float_images() -> None:
    observation = np.zeros((4, 5, 5), np.float32)
    spec = BatchSpec(T=4, B=2)
    examples = dict(observation=observation, action=np.int64(0), reward=np.float32(0), done=False)
    for given, off_forward in ((None, 1), (UniformReplayFrameBuffer, 3)):
        algo = DQN(replay_size=128, ReplayBufferCls=given)
        algo.initialize_replay_buffer(dict(examples, env_info=None), spec)
        assert algo.replay_buffer.off_forward == off_forward
