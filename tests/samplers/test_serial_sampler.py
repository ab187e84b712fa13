"""The serial sampler: rows of its batches, trajectories, resets, evaluation, state."""

import copy

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.pg.generic import GenericFfAgent
from rlpyt.core.records import TrajInfo
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.samplers.parallel_parts import DiceEnv, RecurrentRule
from tests.samplers.parts import CountEnv, EchoAgent


def start(batch_T=6, batch_B=1, bootstrap_value=False, seed=3, **kwargs):
    kwargs = {"EnvCls": CountEnv, "env_kwargs": {}, "max_decorrelation_steps": 0, **kwargs}
    sampler = SerialSampler(batch_T=batch_T, batch_B=batch_B, **kwargs)
    agent = EchoAgent()
    sampler.initialize(
        agent=agent,
        seed=seed,
        bootstrap_value=bootstrap_value,
        traj_info_kwargs={"discount": 0.9},
    )
    return sampler, agent


def column(array, b=0):
    array = np.asarray(array)[:, b]
    return (array[:, 0] if array.ndim > 1 else array).tolist()


def test_reset_collector_table_by_hand():
    sampler, _ = start()
    samples, infos = sampler.obtain_samples(0)
    assert column(samples.env.observation) == [0, 1, 2, 3, 0, 1]
    assert column(samples.env.reward) == [1, 2, 3, 4, 1, 2]
    assert column(samples.env.done) == [0, 0, 0, 1, 0, 0]
    assert column(samples.env.prev_reward) == [0, 1, 2, 3, 4, 1]
    assert column(samples.agent.action) == [2, 3, 4, 2, 2, 3]
    assert column(samples.agent.prev_action) == [1, 2, 3, 4, 2, 2]
    assert column(samples.env.env_info.count) == [1, 2, 3, 4, 1, 2]
    assert len(infos) == 1
    assert (infos[0].Length, infos[0].Return, infos[0].NonzeroRewards) == (4, 10, 4)
    assert infos[0].DiscountedReturn == pytest.approx(8.146)


def test_wait_reset_collector_table_by_hand():
    sampler, _ = start(CollectorCls=CpuWaitResetCollector)
    samples, infos = sampler.obtain_samples(0)
    assert column(samples.env.observation) == [0, 1, 2, 3, 0, 0]
    assert column(samples.env.reward) == [1, 2, 3, 4, 0, 0]
    assert column(samples.env.done) == [0, 0, 0, 1, 1, 1]
    assert column(samples.agent.action) == [2, 3, 4, 2, 0, 0]
    assert column(samples.env.env_info.count) == [1, 2, 3, 4, 0, 0]
    assert column(samples.agent.agent_info.value)[4:] == [0, 0]
    assert column(samples.agent.agent_info.prev_action)[4:] == [0, 0]
    assert [info.Length for info in infos] == [4]


class Third(CountEnv):
    """Fails where it is the third."""

    made = []

    def __init__(self):
        super().__init__()
        if len(self.made) == 2:
            raise OSError("no licence is left")
        self.made.append(self)


@pytest.mark.parametrize("kwargs", [{"batch_B": 3}, {"batch_B": 2, "eval_n_envs": 1}])
def test_a_start_that_fails_closes_the_environments_made_so_far(kwargs, monkeypatch):
    monkeypatch.setattr(Third, "made", [])
    sampler = SerialSampler(Third, {}, batch_T=1, eval_max_steps=9, **kwargs)
    with pytest.raises(OSError, match="no licence"):
        sampler.initialize(agent=EchoAgent(), seed=3)
    sampler.shutdown()
    assert [env.closed for env in Third.made] == [True, True]


def test_waiting_environments_start_the_next_batch_from_their_reset():
    # The terminal observation used to be put in place of the one of the reset.
    sampler, _ = start(CollectorCls=CpuWaitResetCollector)
    sampler.obtain_samples(0)
    samples, infos = sampler.obtain_samples(1)
    assert column(samples.env.observation) == [0, 1, 2, 3, 0, 0]
    assert [info.Return for info in infos] == [10]
    assert column(samples.agent.prev_action)[0] == 1, "the null action"
    assert sampler.collector.envs[0].n_resets == 1 + 1 + 2, (
        "example, start, and once after each batch"
    )


def test_environments_that_waited_are_reset_once_and_leave_blank_rows():
    kwargs = {"CollectorCls": CpuWaitResetCollector, "record_next_observation": True}
    sampler, _ = start(batch_T=3, **kwargs)
    observed, following = [], []
    for itr in range(4):
        env = sampler.obtain_samples(itr)[0].env
        observed.append(column(env.observation))
        following.append(column(env.next_observation))
    assert observed == [[0, 1, 2], [3, 0, 0], [0, 1, 2], [3, 0, 0]]
    assert following == [[1, 2, 3], [4, 0, 0], [1, 2, 3], [4, 0, 0]]


def test_waiting_environments_go_on_after_a_lost_life():
    sampler, _ = start(
        batch_T=3,
        CollectorCls=CpuWaitResetCollector,
        env_kwargs={"episode_steps": 4, "life_steps": 2},
    )
    samples, infos = sampler.obtain_samples(0)
    assert column(samples.env.observation) == [0, 1, 0]
    assert column(samples.env.done) == [0, 1, 1]
    assert infos == []
    samples, infos = sampler.obtain_samples(1)
    assert column(samples.env.observation) == [2, 3, 0]
    assert [info.Length for info in infos] == [4]


@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
def test_agent_sees_null_action_and_zero_reward_after_done(CollectorCls):
    # Previous action and reward of the old episode used to reach the agent in the new one.
    sampler, _ = start(
        batch_T=2, CollectorCls=CollectorCls, env_kwargs={"episode_steps": 4, "life_steps": 2}
    )
    for itr in range(4):
        samples, _ = sampler.obtain_samples(itr)
        seen = column(samples.agent.agent_info.prev_action)
        rewards = (np.asarray(samples.agent.agent_info.value[:, 0]) // 100).tolist()
        assert seen[0] == 1, "the null action"
        assert rewards == [0, 1 if itr % 2 == 0 else 3]


def test_batches_continue_each_other_and_alias_one_buffer():
    sampler, _ = start(batch_T=3, batch_B=2, env_kwargs={"episode_steps": 7})
    first, _ = sampler.obtain_samples(0)
    assert column(first.env.observation, 1) == [0, 1, 2]
    last_reward = float(first.env.reward[-1, 1])
    second, _ = sampler.obtain_samples(1)
    assert second is first
    assert column(second.env.observation, 1) == [3, 4, 5]
    assert float(second.env.prev_reward[0, 1]) == last_reward == 3
    # Writing an action writes the previous action of the next row.
    second.agent.action[0] = 4
    assert (sampler.samples_np.agent.prev_action[1] == 4).all()


class TwoActions(gymnasium.Env):
    """It writes into the action that it gets."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Dict(
        {
            "move": gymnasium.spaces.Discrete(3),
            "push": gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward = float(action["push"].sum())
        action["push"][...] = 9
        return np.zeros(2, np.float32), reward, False, False, {}


def test_actions_of_several_fields_are_recorded_as_the_agent_chose_them():
    sampler = SerialSampler(lambda: GymEnvWrapper(TwoActions()), {}, batch_T=4, batch_B=2)
    sampler.initialize(GenericFfAgent(), seed=0)
    samples, _ = sampler.obtain_samples(0)
    action = samples.agent.action
    assert action._fields == ("move", "push")
    np.testing.assert_allclose(action.push.sum(-1), samples.env.reward, rtol=1e-5)
    for now, before in zip(action, samples.agent.prev_action):
        assert np.array_equal(now[:-1], before[1:])
    sampler.shutdown()


def test_bootstrap_value_is_of_the_observation_after_the_batch():
    sampler, _ = start(batch_T=3, bootstrap_value=True)
    samples, _ = sampler.obtain_samples(0)
    assert samples.agent.bootstrap_value.shape == (1, 1)
    assert samples.agent.bootstrap_value.item() == 3 + 100 * 3


def test_next_observation_is_recorded_even_at_the_end_of_an_episode():
    sampler, _ = start(record_next_observation=True)
    samples, _ = sampler.obtain_samples(0)
    assert column(samples.env.next_observation) == [1, 2, 3, 4, 1, 2]
    assert column(samples.env.observation) == [0, 1, 2, 3, 0, 1]


def test_decorrelation_does_not_depend_on_how_environments_are_grouped():
    long = {"env_kwargs": {"episode_steps": 1000}, "max_decorrelation_steps": 50}
    together, _ = start(batch_B=4, **long)
    counts = [env.count for env in together.collector.envs]
    assert len(set(counts)) > 1
    assert all(1 <= count <= 50 for count in counts)
    assert together.agent_inputs.observation[:, 0].tolist() == counts
    assert [info.Length for info in together.traj_infos] == counts
    second_pair = SerialSampler(CountEnv, long["env_kwargs"], 6, 2, max_decorrelation_steps=50)
    second_pair.initialize(agent=EchoAgent(), seed=3, rank=1, world_size=2)
    assert [env.count for env in second_pair.collector.envs] == counts[2:]


def test_decorrelation_takes_one_step_or_more():
    sampler, _ = start(batch_B=20, env_kwargs={"episode_steps": 9}, max_decorrelation_steps=3)
    samples, _ = sampler.obtain_samples(0)
    assert set(samples.env.observation[0, :, 0].tolist()) == {1, 2, 3}


def test_an_episode_that_ends_in_decorrelation_leaves_nothing_behind():
    episodes = {"env_kwargs": {"episode_steps": 1}, "max_decorrelation_steps": 3}
    sampler, _ = start(batch_B=8, **episodes)
    samples, infos = sampler.obtain_samples(0)
    assert (samples.agent.prev_action[0] == 1).all(), "the null action"
    assert not samples.env.prev_reward[0].any()
    assert {info.Length for info in infos} == {1}


def test_trajectories_know_what_was_observed_before_each_step_of_decorrelation():
    class Observed(TrajInfo):
        def step(self, observation, *args):
            super().step(observation, *args)
            self.seen = (*self.get("seen", ()), int(observation[0]))

    long = {"env_kwargs": {"episode_steps": 1000}, "max_decorrelation_steps": 50}
    (info,) = start(TrajInfoCls=Observed, **long)[0].traj_infos
    assert info.seen == tuple(range(info.Length))
    assert info.Length > 1


def evaluation(**kwargs):
    return start(**{"eval_n_envs": 2, "eval_max_steps": 22, "eval_env_kwargs": {}, **kwargs})


def test_evaluation_until_its_step_limit():
    sampler, agent = evaluation()
    infos = sampler.evaluate_agent(5)
    assert [info.Return for info in infos] == [10] * 4, "2 envs, 11 steps, episodes of 4"
    # The mode first, so that a recurrent agent can put its sampling state aside.
    assert agent.calls[-2:] == ["eval 5", "reset"]


def test_evaluation_stops_after_the_step_that_completes_enough():
    sampler, _ = evaluation(eval_max_trajectories=3)
    assert len(sampler.evaluate_agent(0)) == 4, "both of the second round complete together"
    assert sum(len(env.actions) for env in sampler.eval_collector.envs) == 16


def test_evaluation_leaves_training_environments_alone():
    sampler, _ = evaluation(batch_T=2)
    sampler.obtain_samples(0)
    sampler.evaluate_agent(0)
    samples, _ = sampler.obtain_samples(1)
    assert column(samples.env.observation) == [2, 3]


def test_evaluation_environments_have_seeds_of_their_own():
    class SeededEnv(CountEnv):
        def seed(self, seed):
            self.my_seed = seed

    sampler, _ = evaluation(EnvCls=SeededEnv, batch_B=3, seed=7)
    seeds = {env.my_seed for env in (*sampler.collector.envs, *sampler.eval_collector.envs)}
    assert len(seeds) == 5


class Forgetful(DiceEnv):
    def state_dict(self):
        raise NotImplementedError("Forgetful cannot save its state")


def test_memory_of_an_environment_without_state_begins_anew():
    # An agent that was training kept what it remembered of another episode.
    sampler, agent = SerialSampler(Forgetful, {}, batch_T=6, batch_B=2), RecurrentRule()
    sampler.initialize(agent, seed=3)
    sampler.obtain_samples(0)
    assert agent.prev_rnn_state.any()
    state = copy.deepcopy(sampler.state_dict())
    for mode in (agent.sample_mode, agent.train_mode, agent.eval_mode):
        sampler.obtain_samples(1)
        mode(1)
        sampler.load_state_dict(copy.deepcopy(state))
        agent.sample_mode(2)
        assert not agent.prev_rnn_state.any()


def test_state_of_another_size_is_refused():
    state = start(batch_B=2)[0].state_dict()
    with pytest.raises(ValueError, match="had 2 envs, this one has 3"):
        start(batch_B=3)[0].load_state_dict(state)


def test_shutdown_closes_every_environment():
    sampler, _ = evaluation()
    sampler.shutdown()
    sampler.shutdown()
    assert all(env.closed for env in [*sampler.collector.envs, *sampler.eval_collector.envs])
    SerialSampler(CountEnv, {}, batch_T=1, batch_B=1).shutdown()


def test_a_second_start_closes_the_environments_of_the_first():
    sampler, agent = evaluation()
    envs = [*sampler.collector.envs, *sampler.eval_collector.envs]
    sampler.initialize(agent)
    assert all(env.closed for env in envs)
    assert not any(env.closed for env in sampler.collector.envs)


def test_shutdown_goes_on_after_an_environment_that_cannot_close():
    sampler, _ = evaluation()
    sampler.collector.envs[0].close = None
    sampler.shutdown()
    assert all(env.closed for env in [*sampler.collector.envs[1:], *sampler.eval_collector.envs])
