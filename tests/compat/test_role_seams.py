"""What research code overrides, reads and calls of samplers, runners, algorithms and agents.

Every test states one habit of programs written against rlpyt 0.1.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin
from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgentBase
from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.agents.qpg import sac_v_agent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.core.records import SamplesToBuffer
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import make as gym_make
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.atari_r2d1_model import AtariR2d1Model
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.qpg.mlp import MuMlpModel, PiMlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.collections import BatchSpec, TrajInfo
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.collections import AttrDict, namedarraytuple
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims
from tests.compat.corridor import Corridor, CorridorAgent, make_runner

# --- Samplers and trajectories ------------------------------------------------------------------


def test_base_sampler_takes_twelve_positional_arguments() -> None:
    class Dummy:
        mid_batch_reset = True

    sampler = BaseSampler(Corridor, {}, 3, 4, Dummy, 0, TrajInfo, 2, None, {}, 10, 5)
    assert sampler.batch_spec == BatchSpec(3, 4)
    assert sampler.batch_size == sampler.batch_spec.size == 12
    assert (sampler.eval_n_envs, sampler.eval_max_steps, sampler.eval_max_trajectories) == (
        2,
        10,
        5,
    )


def test_buffers_are_built_without_a_sampler() -> None:
    agent, env = CorridorAgent(), Corridor()
    agent.initialize(env.spaces)
    samples_pyt, samples_np, examples = build_samples_buffer(
        agent, env, BatchSpec(3, 2), agent_shared=False, env_shared=False, subprocess=False
    )
    keys = ("observation", "reward", "done", "env_info", "action", "agent_info")
    assert all(key in examples for key in keys)
    samples_np.env.done[:] = True
    assert samples_pyt.env.done.all(), "the two are views of the same memory"


def test_trajectory_infos_of_the_users_own() -> None:
    class Steps(AttrDict):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.Length = 0
            self._hidden = "not logged"

        def step(self, *args: Any) -> None:
            self.Length += 1

        def terminate(self, observation: Any) -> Steps:
            return self

    runner = make_runner()
    runner.agent = CorridorAgent(eps_final=1)  # Or else it may not reach the end.
    runner.sampler.TrajInfoCls = Steps
    runner.train()
    assert runner._cum_completed_trajs > 0
    assert all(info.Length >= 4 for info in runner._traj_infos)


def test_trajectory_infos_are_given_what_the_agent_returned() -> None:
    seen: list[Any] = []

    class Confidence(TrajInfo):
        def step(self, *args: Any) -> None:
            *_, agent_info, _ = args
            seen.append(agent_info.q.detach().max())
            super().step(*args)

    runner = make_runner()
    runner.sampler.TrajInfoCls = Confidence
    runner.train()
    assert len(seen) == 200


def test_steps_may_have_nothing_to_tell() -> None:
    class Silent(Corridor):
        def step(self, action: Any) -> Any:
            step = super().step(action)
            return step._replace(env_info=()) if self.cell == 2 else step

    runner = make_runner()
    runner.sampler.EnvCls = Silent
    runner.train()
    assert 2 not in runner.sampler.samples_np.env.env_info.position


def test_a_sampler_keeps_environments_under_its_own_names() -> None:
    class Sampler(SerialSampler):
        def initialize(self, *args: Any, **kwargs: Any) -> Any:
            self.envs = self.eval_envs = [Corridor()]
            return super().initialize(*args, **kwargs)

    sampler = Sampler(Corridor, {}, 2, 1)
    sampler.initialize(CorridorAgent(), seed=0)
    sampler.state_dict()
    sampler.shutdown()
    assert sampler.envs is sampler.eval_envs


def test_startup_written_by_hand() -> None:
    agent, sampler, algo = CorridorAgent(), make_runner().sampler, make_runner().algo
    examples = sampler.initialize(
        agent=agent,
        affinity={},
        seed=1,
        bootstrap_value=False,
        traj_info_kwargs={"discount": 0.9},
        rank=0,
        world_size=1,
    )
    algo.initialize(
        agent=agent,
        n_itr=10,
        batch_spec=sampler.batch_spec,
        mid_batch_reset=sampler.mid_batch_reset,
        examples=examples,
        world_size=1,
        rank=0,
    )
    samples, traj_infos = sampler.obtain_samples(0)
    assert samples.env.observation.shape == (2, 2, 5)
    assert isinstance(traj_infos, list)
    sampler.shutdown()


# --- Runner -------------------------------------------------------------------------------------


@pytest.mark.parametrize("RunnerCls", [MinibatchRl, MinibatchRlEval])
def test_runner_attributes_that_overriding_code_reads(RunnerCls: Any) -> None:
    seen: list[int] = []

    class Runner(RunnerCls):  # type: ignore[misc, valid-type]
        def store_diagnostics(self, itr: int, traj_infos: Any, opt_info: Any) -> None:
            super().store_diagnostics(itr, traj_infos, opt_info)
            assert {"loss", "gradNorm", "tdAbsErr"} <= self._opt_infos.keys()
            seen.append(itr)

        def get_itr_snapshot(self, itr: int) -> dict[str, Any]:
            return {**super().get_itr_snapshot(itr), "mine": 1}

        def get_traj_info_kwargs(self) -> dict[str, Any]:
            return {**super().get_traj_info_kwargs(), "more": 2}

    runner = make_runner(Runner)
    runner.train()
    assert seen == list(range(50))
    assert (runner.n_itr, runner.itr_batch_size, runner.log_interval_itrs) == (50, 4, 25)
    assert (runner.world_size, runner.rank, runner.seed, runner.min_itr_learn) == (1, 0, 0, 0)
    assert runner.affinity == {}
    assert runner._eval is (RunnerCls is MinibatchRlEval)
    assert runner._last_update_counter == runner.algo.update_counter == 45 * 2
    assert runner._cum_time >= runner._cum_eval_time
    assert runner._start_time <= runner._last_time
    assert runner.pbar is not None
    assert runner.get_itr_snapshot(49)["mine"] == 1
    assert runner.sampler.TrajInfoCls._more == 2


def test_snapshots_load_with_weights_only(tmp_path: Path) -> None:
    with logger_context(str(tmp_path), 0, "corridor", snapshot_mode="last", override_prefix=True):
        make_runner().train()
    snapshot = torch.load(tmp_path / "run_0" / "params.pkl", weights_only=True)
    keys = {"itr", "cum_steps", "agent_state_dict", "optimizer_state_dict"}
    assert keys <= snapshot.keys()
    assert (snapshot["itr"], snapshot["cum_steps"]) == (49, 200)
    assert snapshot["agent_state_dict"].keys() == {"model", "target"}


@pytest.mark.parametrize("name", ["group", "tags"])
def test_a_runner_keeps_the_arguments_of_a_program(name: str) -> None:
    class Runner(MinibatchRl):
        def __init__(self, group: Any = None, tags: Any = None, **kwargs: Any) -> None:
            save__init__args(locals())
            super().__init__(**kwargs)

    runner = make_runner(Runner, **{name: "ablation"})
    runner.train()
    assert getattr(runner, name) == "ablation"


# --- Algorithm and agent ------------------------------------------------------------------------


def test_an_algorithm_keeps_what_a_program_sets_before_it_starts() -> None:
    class Algo(PPO):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._rng = np.random.RandomState(1)

        def optimize_agent(self, itr: int, samples: Any) -> Any:
            assert self._rng.randint(5) < 5
            return super().optimize_agent(itr, samples)

    runner = make_runner()
    runner.algo = Algo(minibatches=2, epochs=1)
    runner.agent = GenericFfAgent()
    runner.algo.update_counter = 1000  # As in a run that continues from a snapshot.
    runner.train()
    assert runner.algo.update_counter == 1000 + 50 * 2


def test_processes_keep_the_rank_that_their_constructor_takes() -> None:
    # The library's defaults, as attributes of the classes, kept these from being stored.
    class Worker(MinibatchRl):
        def __init__(self, rank: int, world_size: int) -> None:
            save__init__args(locals())

    class Algo(RlAlgorithm):
        def __init__(self, rank: int, world_size: int, min_itr_learn: int) -> None:
            save__init__args(locals())

    worker, algo = Worker(1, 2), Algo(1, 2, min_itr_learn=7)
    assert (worker.rank, worker.world_size) == (algo.rank, algo.world_size) == (1, 2)
    assert algo.min_itr_learn == 7
    alone = make_runner()
    assert (alone.rank, alone.world_size) == (alone.algo.rank, alone.algo.world_size) == (0, 1)


class OfflineSampler(BaseSampler):
    """Samples nothing, and has a constructor of its own."""

    def __init__(self) -> None:
        self.batch_spec, self.mid_batch_reset = BatchSpec(2, 2), True

    def initialize(self, agent: Any, seed: int, **kwargs: Any) -> Any:
        env = Corridor()
        agent.initialize(env.spaces)
        _, _, examples = build_samples_buffer(
            agent, env, self.batch_spec, agent_shared=False, env_shared=False, subprocess=False
        )
        return examples

    def obtain_samples(self, itr: int) -> Any:
        return None, []

    def shutdown(self) -> None:
        pass


class OfflineDqn(DQN):
    """Learns from data that it has from the start."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        super().initialize(*args, **kwargs)
        rng = np.random.default_rng(0)
        data = SamplesToBuffer(
            observation=rng.random((25, 2, 5), dtype=np.float32),
            action=rng.integers(2, size=(25, 2)),
            reward=rng.random((25, 2), dtype=np.float32),
            done=np.zeros((25, 2), bool),
        )
        self.replay_buffer.append_samples(data)

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: Any = None) -> Any:
        return super().optimize_agent(itr, samples=None)


def test_a_sampler_may_sample_nothing() -> None:
    runner = make_runner(AlgoCls=OfflineDqn)
    runner.sampler = OfflineSampler()
    runner.train()
    assert runner.algo.update_counter > 0


class OwnDdpgAgent(BaseAgent):
    """Has the methods that DDPG of rlpyt 0.1.2 called, and no others."""

    def initialize(self, env_spaces: Any, *args: Any, **kwargs: Any) -> None:
        super().initialize(env_spaces, *args, **kwargs)
        self.q_model = torch.nn.Linear(3, 1)

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        return {}

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        return self.q_model(torch.cat([observation, action], -1)).squeeze(-1)

    def q_at_mu(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return self.q(observation, None, None, self.model(observation))

    target_q_at_mu = q_at_mu

    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> AgentStep:
        return AgentStep(self.model(observation).detach(), ())

    def mu_parameters(self) -> Any:
        return self.model.parameters()

    def q_parameters(self) -> Any:
        return self.q_model.parameters()

    def update_target(self, tau: float = 1) -> None:
        pass


class OwnSacVAgent(sac_v_agent.SacAgent):
    """Leaves it to the algorithm to compute targets without gradients."""

    def target_v(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        return self.target_v_model(observation, prev_action, prev_reward)


OWN_AGENTS = {
    "ddpg": (
        DDPG,
        lambda: OwnDdpgAgent(torch.nn.Linear, {"in_features": 2, "out_features": 1}),
    ),
    "sac_v": (SAC_V, OwnSacVAgent),
}


@pytest.mark.parametrize("name", OWN_AGENTS)
def test_actors_and_critics_of_ones_own(name: str) -> None:
    AlgoCls, make_agent = OWN_AGENTS[name]
    runner = make_runner()
    runner.algo = AlgoCls(batch_size=8, min_steps_learn=20, replay_size=100, replay_ratio=4)
    runner.agent = make_agent()
    env = {"EnvCls": gym_make, "env_kwargs": {"id": "MountainCarContinuous-v0"}}
    runner.sampler = SerialSampler(batch_T=2, batch_B=2, max_decorrelation_steps=0, **env)
    runner.train()
    assert runner.algo.update_counter > 0


def test_an_algorithm_has_its_own_number_of_critics() -> None:
    class Ensemble(SAC):
        def __init__(self, n_critics: int = 5, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            save__init__args(locals())

    algo = Ensemble()
    algo.agent = SacAgent()
    assert algo.n_critics == 5


class OwnUpdate(DQN):
    """An update that knows which steps count."""

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: Any = None) -> Any:
        return ()


def test_settings_are_left_to_an_update_of_a_program() -> None:
    algo, sampler, agent = OwnUpdate(), make_runner().sampler, CorridorAgent()
    examples = sampler.initialize(agent, seed=0)
    algo.initialize(agent, 10**6, sampler.batch_spec, False, examples)
    assert algo.optimize_agent(0) == ()
    with pytest.raises(ValueError, match="mid_batch_reset"):
        DQN().initialize(agent, 10**6, sampler.batch_spec, False, examples)


def test_the_first_iteration_that_trains_may_be_a_float() -> None:
    agent = SacAgent()
    agent.initialize(EnvSpaces(FloatBox(-1, 1, (3,)), FloatBox(-1, 1, (2,))))
    agent.give_min_itr_learn(1e2 // 1)
    assert agent.min_itr_learn == 100


class OwnMode(CorridorAgent):
    """Steps in known modes only; its first one is set by the constructor."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._mode = "train"

    def step(self, *inputs: Any) -> AgentStep:
        assert self._mode in ("train", "sample", "eval")
        return super().step(*inputs)


def test_an_agent_begins_in_a_mode_of_its_own() -> None:
    runner = make_runner()
    runner.agent = OwnMode()
    runner.train()


class OldMixin:
    """The recurrent state as the original kept it, copied into a program to change it."""

    _prev_rnn_state = None
    recurrent = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sample_rnn_state = None

    def reset(self) -> None:
        self._prev_rnn_state = None

    def reset_one(self, idx: int) -> None:
        self._prev_rnn_state[:, idx] = 0

    def advance_rnn_state(self, new_rnn_state: Any) -> None:
        self._prev_rnn_state = new_rnn_state

    @property
    def prev_rnn_state(self) -> Any:
        return self._prev_rnn_state

    def train_mode(self, itr: int) -> None:
        if self._mode == "sample":
            self._sample_rnn_state = self._prev_rnn_state
        self._prev_rnn_state = None
        super().train_mode(itr)

    def sample_mode(self, itr: int) -> None:
        if self._mode != "sample":
            self._prev_rnn_state = self._sample_rnn_state
        super().sample_mode(itr)


class RecurrentModel(torch.nn.Module):
    """Folds its inputs by ``view``, as most models of programs do."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(size, 4)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, observation: Any, action: Any, reward: Any, rnn_state: Any) -> Any:
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        folded = observation.view(T * B, -1), reward.view(T * B, -1), action.view(T * B, -1)
        out, rnn_state = self.gru(folded[0].view(T, B, -1), rnn_state)
        prob, v = self.head(out.view(T * B, -1)).split([2, 1], dim=-1)
        v, prob = restore_leading_dims((v[:, 0], prob.softmax(-1)), lead_dim, T, B)
        return prob, v, rnn_state


@pytest.mark.parametrize("bases", [(RecurrentAgentMixin,), (OldMixin,)])
def test_recurrent_agents_and_models_of_programs_train(bases: Any) -> None:
    class Agent(*bases, RecurrentCategoricalPgAgentBase):
        def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
            return {"size": env_spaces.observation.shape[0]}

    runner = make_runner()
    runner.algo = PPO(minibatches=2, epochs=2)
    runner.agent = Agent(ModelCls=RecurrentModel)
    runner.sampler.batch_spec = BatchSpec(2, 4)
    runner.train()
    assert runner.algo.update_counter == runner.n_itr * 4 > 0


def test_algorithm_attributes_that_overriding_code_reads() -> None:
    class Algo(DQN):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.opt_info_fields = tuple(f for f in self.opt_info_fields)

        def initialize_replay_buffer(self, examples: Any, batch_spec: Any, async_: bool = False):
            super().initialize_replay_buffer(examples, batch_spec, async_)
            self.buffer_was_made = True

    runner = make_runner(AlgoCls=Algo)
    runner.train()
    algo = runner.algo
    assert algo.buffer_was_made
    assert (algo.sampler_bs, algo.updates_per_optimize, algo.min_itr_learn) == (4, 2, 5)
    assert (algo._batch_size, algo.batch_size) == (8, 8)
    assert isinstance(algo.optimizer, torch.optim.Adam)
    assert algo.OptimCls is torch.optim.Adam
    for name in ("clip_grad_norm", "target_update_interval", "target_update_tau", "learning_rate"):
        assert getattr(algo, name) is not None
    for name in ("pri_alpha", "pri_beta_init", "pri_beta_final", "initial_optim_state_dict"):
        assert hasattr(algo, name)
    assert algo.replay_buffer.samples.observation.shape == (50, 2, 5)


@pytest.mark.parametrize("AgentCls", [SacAgent, DdpgAgent, Td3Agent])
def test_agents_set_their_first_iteration_that_trains(AgentCls: Any) -> None:
    class Agent(AgentCls):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.min_itr_learn = 0

    agent = Agent()
    agent.initialize(EnvSpaces(FloatBox(-1, 1, (2,)), FloatBox(-1, 1, (1,))))
    agent.give_min_itr_learn(3)
    assert agent.min_itr_learn == 3


def test_policies_with_a_forward_of_their_own() -> None:
    class Pi(PiMlpModel):
        def forward(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
            output = self.mlp(observation)
            return output[:, : self._action_size], output[:, self._action_size :]

    class Mu(MuMlpModel):
        def forward(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
            return self._output_max * torch.tanh(self.mlp(observation))

    observation = torch.zeros(4, 3)
    assert [x.shape for x in Pi((3,), [8], 2)(observation, None, None)] == [(4, 2)] * 2
    assert Mu((3,), [8], 2, output_max=2)(observation, None, None).shape == (4, 2)


@pytest.mark.parametrize("ModelCls", [AtariDqnModel, AtariR2d1Model, AtariFfModel])
def test_convolutions_put_into_a_model_get_scaled_images(ModelCls: Any) -> None:
    # They got bytes, from 0 to 255.
    model = ModelCls((4, 36, 36), 3)
    width = model.conv(torch.zeros(1, 4, 36, 36)).flatten(1).shape[1]
    seen = []

    class Conv(torch.nn.Module):
        def forward(self, images: Any) -> Any:
            seen.append(images)
            return torch.zeros(len(images), width)

    model.conv = Conv()
    images = torch.full((2, 1, 4, 36, 36), 255, dtype=torch.uint8)
    extra = (None,) if ModelCls is AtariR2d1Model else ()
    model(images, torch.zeros(2, 1, 3), torch.zeros(2, 1), *extra)
    assert torch.allclose(seen[0], torch.ones(2, 4, 36, 36))


def test_agent_modes_and_helpers() -> None:
    agent, env = CorridorAgent(), Corridor()
    agent.initialize(env.spaces)
    for mode in ("train", "sample", "eval"):
        getattr(agent, f"{mode}_mode")(itr=1)
        assert agent._mode == mode
    assert agent.device == torch.device("cpu")
    assert agent.env_model_kwargs == {"size": 5}
    assert agent.env_spaces.action.n == 2
    assert agent.model is not agent.target_model
    agent.distribution.set_epsilon(0.25)
    assert agent.distribution.epsilon == agent.distribution._epsilon == 0.25
    assert agent.distribution.to_onehot(torch.tensor([1])).tolist() == [[0, 1]]


def test_agent_with_records_of_the_users_own() -> None:
    MyInfo = namedarraytuple("MyInfo", ["noise"])

    class Agent(BaseAgent):
        def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> AgentStep:
            lead = observation.shape[:-1]
            action = torch.ones(lead, dtype=torch.int64)
            return AgentStep(action=action, agent_info=MyInfo(noise=torch.ones(lead)))

    agent, env = Agent(ModelCls=torch.nn.Identity), Corridor()
    agent.initialize(env.spaces)
    samples, _, _ = build_samples_buffer(
        agent, env, BatchSpec(3, 2), agent_shared=False, env_shared=False, subprocess=False
    )
    assert samples.agent.agent_info.noise.shape == (3, 2)


def test_distributions_accept_borderline_values() -> None:
    gaussian = Gaussian(dim=2, squash=1.0)
    info = DistInfoStd(mean=torch.zeros(3, 2), log_std=torch.full((3, 2), -20.0))
    gaussian.set_std(0.0)
    assert torch.equal(gaussian.sample(info), torch.zeros(3, 2))
    gaussian.set_std(None)
    action, log_likelihood = gaussian.sample_loglikelihood(info)
    assert action.shape == (3, 2)
    assert torch.isfinite(log_likelihood).all()
    greedy = EpsilonGreedy(epsilon=0, dim=2)
    assert greedy.sample(torch.tensor([[0.0, float("inf")]])).tolist() == [1]
