"""Episodes that end within a batch: the next one is trained on as the agent saw it."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.generic import GenericLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.impala import IMPALA
from rlpyt.algos.rollouts import inputs_when_acting, resets
from rlpyt.core.records import EnvSpaces
from rlpyt.envs.toy import Counter
from rlpyt.models.pg.generic_model import GenericLstmModel
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.collections import record_class
from tests.agents.pg.parts import RECORD
from tests.algos.pg.parts import LSTM, Recorder, Setup, lstm_agent

COUNTING = {"EnvCls": Counter, "env_kwargs": {"length": 3}, "T": 8, "B": 2}


@pytest.mark.parametrize("minibatches", [1, 2])
def test_recurrent_agents_are_trained_past_ends(minibatches):
    # All steps after the first end of an episode in a batch were lost to them.
    algo = Recorder(minibatches=minibatches, epochs=1, learning_rate=0.0)
    setup = Setup(algo, lstm_agent(), **COUNTING)
    samples = setup.sample()
    assert samples.env.done[2].all()
    algo.optimize_agent(0, samples)
    assert [batch.valid for batch in algo.seen] == [None] * minibatches
    for ratio in algo.ratios:
        assert ratio.shape[0] == 8
        assert torch.allclose(ratio, torch.ones(()), atol=1e-5), "as when acting"


def test_later_steps_count_in_a2c():
    setup = Setup(A2C(value_loss_coeff=0.0, entropy_loss_coeff=0.0), lstm_agent(), **COUNTING)
    samples = setup.sample()
    losses = []
    for bonus in (0, 10):
        samples.env.reward[6] += bonus
        losses.append(setup.algo.loss(samples)[0].item())
    assert losses[0] != losses[1]


class PlainModel(GenericLstmModel):
    """As models were written for the original."""

    def forward(self, observation, prev_action, prev_reward, state):
        return super().forward(observation, prev_action, prev_reward, state)


class PlainAgent(GenericLstmAgent):
    """As agents were written for the original."""

    def __call__(self, observation, prev_action, prev_reward, state):
        return super().__call__(observation, prev_action, prev_reward, state)


class LongMemory(GenericLstmAgent):
    """Remembers earlier episodes, as in RL^2."""

    def reset_one(self, idx):
        pass


class PlainPpo(Recorder):
    """With a loss as it was written for the original."""

    def loss(
        self, agent_inputs, action, return_, advantage, valid, old_dist_info, init_rnn_state=None
    ):
        args = (agent_inputs, action, return_, advantage, valid, old_dist_info, init_rnn_state)
        return super().loss(*args)


@pytest.mark.parametrize(
    ("AlgoCls", "agent"),
    [
        (Recorder, lambda: GenericLstmAgent(ModelCls=PlainModel, **LSTM)),
        (Recorder, lambda: PlainAgent(**LSTM)),
        (Recorder, lambda: LongMemory(**LSTM)),  # Was trained as if it had forgotten them.
        (PlainPpo, lstm_agent),
    ],
    ids=["model", "agent", "memory", "loss"],
)
def test_agents_without_resets_stop_at_the_first_end(AlgoCls, agent):
    algo = AlgoCls(minibatches=1, epochs=1, learning_rate=0.0)
    setup = Setup(algo, agent(), **COUNTING)
    samples = setup.sample()
    algo.optimize_agent(0, samples)
    (batch,) = algo.seen
    assert batch.valid[:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert torch.allclose(algo.ratios[0][:3], torch.ones(()), atol=1e-5)


def test_process_returns_masks_for_callers_of_their_own():
    setup = Setup(A2C(), lstm_agent(), **COUNTING)
    samples = setup.sample()
    assert setup.algo.process_returns(samples)[2][:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert setup.algo.process_returns(setup.algo.with_resets(samples))[2] is None


@pytest.mark.parametrize(("AlgoCls", "is_extended"), [(A2C, 0), (A2C, 1), (IMPALA, 1)])
def test_a_loss_of_ones_own_gets_no_resets(AlgoCls, is_extended):
    # It ran the agent over the ends of episodes, but all steps counted.
    seen = []

    class Own(AlgoCls):
        only_async = False

        def loss(self, samples):
            seen.append(resets(samples))
            if is_extended:
                return super().loss(samples)
            valid = self.process_returns(samples)[2]
            assert valid[:, 0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
            loss = sum(p.sum() for p in self.agent.parameters())
            return loss, loss.detach(), loss.detach()

    Setup(Own(), lstm_agent(), **COUNTING).train(0, 1)
    assert seen == [None]


@pytest.mark.parametrize(
    ("agent", "CollectorCls"), [(None, CpuResetCollector), (lstm_agent, CpuWaitResetCollector)]
)
def test_others_have_no_resets(agent, CollectorCls):
    setup = Setup(A2C(), agent and agent(), **COUNTING, CollectorCls=CollectorCls)
    assert resets(setup.algo.with_resets(setup.sample())) is None


class Reactive(torch.nn.Module):
    """Acts on the previous action and reward only."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, observation, prev_action, prev_reward):
        output = self.linear(torch.cat([prev_action, prev_reward.unsqueeze(-1)], dim=-1))
        return output[..., :2].softmax(-1), output[..., 2]


@pytest.mark.parametrize("CollectorCls", [CpuResetCollector, CpuWaitResetCollector])
def test_previous_action_and_reward_are_as_the_agent_got_them(CollectorCls):
    # At the first step of an episode they were the last ones of the episode before.
    algo = Recorder(minibatches=1, epochs=1, learning_rate=0.0)
    agent = CategoricalPgAgent(ModelCls=Reactive)
    setup = Setup(algo, agent, **COUNTING, CollectorCls=CollectorCls)
    samples = setup.sample()
    recorded = [x.clone() for x in (samples.agent.prev_action, samples.env.prev_reward)]
    algo.optimize_agent(0, samples)
    assert torch.allclose(algo.ratios[0], torch.ones(()), atol=1e-5)
    assert torch.equal(samples.agent.prev_action, recorded[0]), "the batch stays as it is"
    assert torch.equal(samples.env.prev_reward, recorded[1])


def test_null_actions_of_any_space():
    Agent = record_class("Agent", ("prev_action",))
    Env = record_class("Env", ("observation", "prev_reward", "done"))
    Samples = record_class("Samples", ("agent", "env"))
    done = torch.tensor([[True, False], [False, False]])
    ones = torch.ones(2, 2)
    env = Env(observation=ones, prev_reward=ones, done=done)

    class Of:
        def __init__(self, action):
            self.env_spaces = EnvSpaces(None, action)
            self.device = torch.device("cpu")

    box = FloatBox(1, 3, (2,), null_value=2)
    samples = Samples(agent=Agent(prev_action=torch.full((2, 2, 2), 3.0)), env=env)
    seen = inputs_when_acting(Of(box), samples)
    assert seen.prev_action[1].tolist() == [[2, 2], [3, 3]]
    assert seen.prev_reward.tolist() == [[1, 1], [0, 1]]

    space = GymSpaceWrapper(RECORD.action._gym_space, name="act", null_value={"turn": 1})
    Action = type(space.null_value())
    action = Action(
        force=torch.full((2, 2, 2), 3.0),
        keys_=torch.full((2, 2, 3), 1, dtype=torch.int8),
        turn=torch.full((2, 2), 2),
    )
    samples = Samples(agent=Agent(prev_action=action), env=env)
    seen = inputs_when_acting(Of(space), samples).prev_action
    assert seen.turn.tolist() == [[2, 2], [1, 2]]
    assert seen.keys_.dtype == torch.int8
    assert np.all(seen.force[1, 0].numpy() == 0)
    assert np.all(seen.force[1, 1].numpy() == 3)
