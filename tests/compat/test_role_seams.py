"""What research code overrides, reads and calls of samplers, runners, algorithms and agents.

Every test states one habit of programs written against rlpyt 0.1.2.
"""

import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin
from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgentBase
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.core.records import SamplesToBuffer
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.models.qpg.mlp import MuMlpModel, PiMlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.samplers.collections import BatchSpec, TrajInfo
from rlpyt.utils.collections import AttrDict, namedarraytuple
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims
from tests.compat.corridor import Corridor, CorridorAgent, make_runner

# --- Samplers and trajectories ------------------------------------------------------------------


def test_base_sampler_takes_twelve_positional_arguments():
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


def test_buffers_are_built_without_a_sampler():
    agent, env = CorridorAgent(), Corridor()
    agent.initialize(env.spaces)
    samples_pyt, samples_np, examples = build_samples_buffer(
        agent, env, BatchSpec(3, 2), agent_shared=False, env_shared=False, subprocess=False
    )
    keys = ("observation", "reward", "done", "env_info", "action", "agent_info")
    assert all(key in examples for key in keys)
    samples_np.env.done[:] = True
    assert samples_pyt.env.done.all(), "the two are views of the same memory"


def test_trajectory_infos_of_the_users_own():
    class Steps(AttrDict):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.Length = 0
            self._hidden = "not logged"

        def step(self, *args):
            self.Length += 1

        def terminate(self, observation):
            return self

    runner = make_runner()
    runner.agent = CorridorAgent(eps_final=1)  # Or else it may not reach the end.
    runner.sampler.TrajInfoCls = Steps
    runner.train()
    assert runner._cum_completed_trajs > 0
    assert all(info.Length >= 4 for info in runner._traj_infos)


def test_trajectory_infos_are_given_what_the_agent_returned():
    seen = []

    class Confidence(TrajInfo):
        def step(self, *args):
            *_, agent_info, _ = args
            seen.append(agent_info.q.detach().max())
            super().step(*args)

    runner = make_runner()
    runner.sampler.TrajInfoCls = Confidence
    runner.train()
    assert len(seen) == 200


def test_startup_written_by_hand():
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
def test_runner_attributes_that_overriding_code_reads(RunnerCls):
    seen = []

    class Runner(RunnerCls):
        def __init__(self, group=None, **kwargs):
            save__init__args(locals())
            super().__init__(**kwargs)

        def store_diagnostics(self, itr, traj_infos, opt_info):
            super().store_diagnostics(itr, traj_infos, opt_info)
            assert {"loss", "gradNorm", "tdAbsErr"} <= self._opt_infos.keys()
            seen.append(itr)

        def get_itr_snapshot(self, itr):
            return {**super().get_itr_snapshot(itr), "mine": 1}

        def get_traj_info_kwargs(self):
            return {**super().get_traj_info_kwargs(), "more": 2}

    runner = make_runner(Runner, group="ablation")
    runner.train()
    assert runner.group == "ablation"
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


def test_snapshots_load_with_weights_only(tmp_path):
    with logger_context(str(tmp_path), 0, "corridor", snapshot_mode="last", override_prefix=True):
        make_runner().train()
    snapshot = torch.load(tmp_path / "run_0" / "params.pkl", weights_only=True)
    keys = {"itr", "cum_steps", "agent_state_dict", "optimizer_state_dict"}
    assert keys <= snapshot.keys()
    assert (snapshot["itr"], snapshot["cum_steps"]) == (49, 200)
    assert snapshot["agent_state_dict"].keys() == {"model", "target"}


# --- Algorithm and agent ------------------------------------------------------------------------


def test_processes_keep_the_rank_that_their_constructor_takes():
    # The library's defaults, as attributes of the classes, kept these from being stored.
    class Worker(MinibatchRl):
        def __init__(self, rank, world_size):
            save__init__args(locals())

    class Algo(RlAlgorithm):
        def __init__(self, rank, world_size, min_itr_learn):
            save__init__args(locals())

    worker, algo = Worker(1, 2), Algo(1, 2, min_itr_learn=7)
    assert (worker.rank, worker.world_size) == (algo.rank, algo.world_size) == (1, 2)
    assert algo.min_itr_learn == 7
    alone = make_runner()
    assert (alone.rank, alone.world_size) == (alone.algo.rank, alone.algo.world_size) == (0, 1)


class OwnMode(CorridorAgent):
    """Steps in known modes only; its first one is set by the constructor."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._mode = "train"

    def step(self, *inputs):
        assert self._mode in ("train", "sample", "eval")
        return super().step(*inputs)


def test_an_agent_begins_in_a_mode_of_its_own():
    runner = make_runner()
    runner.agent = OwnMode()
    runner.train()


class RecurrentModel(torch.nn.Module):
    """Folds its inputs by ``view``, as most models of programs do."""

    def __init__(self, size):
        super().__init__()
        self.gru = torch.nn.GRU(size, 4)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, observation, action, reward, rnn_state):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        folded = observation.view(T * B, -1), reward.view(T * B, -1), action.view(T * B, -1)
        out, rnn_state = self.gru(folded[0].view(T, B, -1), rnn_state)
        prob, v = self.head(out.view(T * B, -1)).split([2, 1], dim=-1)
        v, prob = restore_leading_dims((v[:, 0], prob.softmax(-1)), lead_dim, T, B)
        return prob, v, rnn_state


def test_recurrent_agents_and_models_of_programs_train():
    class Agent(RecurrentAgentMixin, RecurrentCategoricalPgAgentBase):
        def make_env_to_model_kwargs(self, env_spaces):
            return {"size": env_spaces.observation.shape[0]}

    runner = make_runner()
    runner.algo = PPO(minibatches=2, epochs=2)
    runner.agent = Agent(ModelCls=RecurrentModel)
    runner.sampler.batch_spec = BatchSpec(2, 4)
    runner.train()
    assert runner.algo.update_counter == runner.n_itr * 4 > 0


def test_algorithm_attributes_that_overriding_code_reads():
    class Algo(DQN):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.opt_info_fields = tuple(f for f in self.opt_info_fields)

        def initialize_replay_buffer(self, examples, batch_spec, async_=False):
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


def test_policies_with_a_forward_of_their_own():
    class Pi(PiMlpModel):
        def forward(self, observation, prev_action, prev_reward):
            output = self.mlp(observation)
            return output[:, : self._action_size], output[:, self._action_size :]

    class Mu(MuMlpModel):
        def forward(self, observation, prev_action, prev_reward):
            return self._output_max * torch.tanh(self.mlp(observation))

    observation = torch.zeros(4, 3)
    assert [x.shape for x in Pi((3,), [8], 2)(observation, None, None)] == [(4, 2)] * 2
    assert Mu((3,), [8], 2, output_max=2)(observation, None, None).shape == (4, 2)


def test_agent_modes_and_helpers():
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


def test_agent_with_records_of_the_users_own():
    MyInfo = namedarraytuple("MyInfo", ["noise"])

    class Agent(BaseAgent):
        def step(self, observation, prev_action, prev_reward):
            lead = observation.shape[:-1]
            action = torch.ones(lead, dtype=torch.int64)
            return AgentStep(action=action, agent_info=MyInfo(noise=torch.ones(lead)))

    agent, env = Agent(ModelCls=torch.nn.Identity), Corridor()
    agent.initialize(env.spaces)
    samples, _, _ = build_samples_buffer(
        agent, env, BatchSpec(3, 2), agent_shared=False, env_shared=False, subprocess=False
    )
    assert samples.agent.agent_info.noise.shape == (3, 2)


def test_distributions_accept_borderline_values():
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


class OfflineSampler:
    """Samples nothing, and has only the methods of rlpyt 0.1.2."""

    def __init__(self):
        self.batch_spec, self.mid_batch_reset = BatchSpec(2, 2), True

    def initialize(self, agent, seed, **kwargs):
        env = Corridor()
        agent.initialize(env.spaces)
        _, _, examples = build_samples_buffer(
            agent, env, self.batch_spec, agent_shared=False, env_shared=False, subprocess=False
        )
        return examples

    def obtain_samples(self, itr):
        return None, []

    def shutdown(self):
        pass


class OfflineDqn(DQN):
    """Learns from data that it has from the start."""

    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        rng = np.random.default_rng(0)
        data = SamplesToBuffer(
            observation=rng.random((25, 2, 5), dtype=np.float32),
            action=rng.integers(2, size=(25, 2)),
            reward=rng.random((25, 2), dtype=np.float32),
            done=np.zeros((25, 2), bool),
        )
        self.replay_buffer.append_samples(data)

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        return super().optimize_agent(itr, samples=None)


def test_a_sampler_may_sample_nothing():
    runner = make_runner(AlgoCls=OfflineDqn)
    runner.sampler = OfflineSampler()
    runner.train()
    assert runner.algo.update_counter > 0
