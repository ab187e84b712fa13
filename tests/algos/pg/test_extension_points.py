"""What research code changed in A2C and PPO by copying them: each is one small method."""

import numpy as np
import pytest
import torch

from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.base import OptInfo
from rlpyt.algos.pg.ppo import PPO, LossInputs
from rlpyt.core.records import AgentInputs
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.utils.buffer import buffer_method
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.misc import iterate_mb_idxs
from rlpyt.utils.quick_args import save__init__args
from rlpyt.utils.tensor import valid_mean
from tests.algos.pg.parts import Setup, lstm_agent

Extended = namedarraytuple("Extended", (*LossInputs._fields, "bonus"))


def square_sum(setup):
    return sum(x * x for x in setup.parameters())


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_extra_loss_term(AlgoCls):
    class Regularised(AlgoCls):
        def combine_losses(self, *args):
            loss, *infos = super().combine_losses(*args)
            squares = sum(p.square().sum() for p in self.agent.parameters())
            return (loss + 1000 * squares, *infos)

    found = []
    for Cls in (AlgoCls, Regularised):
        torch.manual_seed(0)
        setup = Setup(Cls())
        setup.train(0, 5)
        found.append(square_sum(setup))
    assert found[1] < found[0]


def test_rewards_changed_in_place_are_not_inputs_of_the_agent():
    # The agent was trained with previous rewards that it had not received.
    class InPlace(A2C):
        def process_returns(self, samples):
            samples.env.reward.add_(0.5)
            return super().process_returns(samples)

    class Copied(A2C):
        def process_returns(self, samples):
            env = samples.env._replace(reward=samples.env.reward + 0.5)
            return super().process_returns(samples._replace(env=env))

    found = []
    for AlgoCls in (InPlace, Copied):
        torch.manual_seed(0)
        setup = Setup(AlgoCls(), agent=lstm_agent(), T=3)
        setup.train(0, 5)
        found.append(setup.parameters())
    assert found[0] == found[1]


@pytest.mark.parametrize("AlgoCls", [A2C, PPO])
def test_extra_infos(AlgoCls):
    class Informed(AlgoCls):
        opt_info_fields = (*OptInfo._fields, "piLoss", "valueLoss", "mine")

        def _get_loss_values(self, *args):
            return {**super()._get_loss_values(*args), "mine": torch.ones(())}

    (info,) = Setup(Informed(entropy_loss_coeff=0.0)).train()
    assert info._fields == (*OptInfo._fields, "piLoss", "valueLoss", "mine")
    loss, pi_loss, value_loss, mine = (
        torch.tensor(x).reshape(-1) for x in (info.loss, info.piLoss, info.valueLoss, info.mine)
    )
    coeff = 0.5 if AlgoCls is A2C else 1.0
    assert torch.allclose(loss, pi_loss + coeff * value_loss)
    assert mine.tolist() == [1] * len(loss)


class OwnPpoLoss(PPO):
    """As the published code has it, without the parts that may be replaced."""

    def loss(
        self, agent_inputs, action, return_, advantage, valid, old_dist_info, init_rnn_state=None
    ):
        if self.agent.recurrent:
            init_rnn_state = buffer_method(init_rnn_state, "transpose", 0, 1)
            init_rnn_state = buffer_method(init_rnn_state, "contiguous")
            dist_info, value, _ = self.agent(*agent_inputs, init_rnn_state)
        else:
            dist_info, value = self.agent(*agent_inputs)
        dist = self.agent.distribution
        ratio = dist.likelihood_ratio(action, old_dist_info=old_dist_info, new_dist_info=dist_info)
        clipped = torch.clamp(ratio, 1.0 - self.ratio_clip, 1.0 + self.ratio_clip)
        surrogate = torch.min(ratio * advantage, clipped * advantage)
        pi_loss = -valid_mean(surrogate, valid)
        value_loss = self.value_loss_coeff * valid_mean(0.5 * (value - return_) ** 2, valid)
        entropy = dist.mean_entropy(dist_info, valid)
        loss = pi_loss + value_loss - self.entropy_loss_coeff * entropy
        return loss, entropy, dist.mean_perplexity(dist_info, valid)


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_loss_written_by_hand(agent):
    # It failed where the parts of the loss were to be logged.
    found = []
    for Cls in (PPO, OwnPpoLoss):
        torch.manual_seed(0)
        setup = Setup(Cls(minibatches=1), agent and agent(), CollectorCls=CpuWaitResetCollector)
        setup.algo.opt_info_fields = (*OptInfo._fields, "piLoss")
        (info,) = setup.train()
        found.append(info)
    assert np.allclose(found[0].loss, found[1].loss, rtol=1e-4)
    assert np.allclose(found[0].entropy, found[1].entropy, rtol=1e-4)
    assert np.size(found[0].piLoss) == np.size(found[0].loss)
    assert found[1].piLoss == []


def test_extra_field_beside_clipped_values():
    # The field of the clipped values took the place of the own one.
    class WithBonus(PPO):
        def loss_input_from_samples(self, samples):
            bonus = samples.agent.action + 10
            return Extended(*super().loss_input_from_samples(samples), bonus=bonus)

        def loss(self, action, bonus=None, **kwargs):
            assert torch.equal(bonus, action + 10)
            return super().loss(action=action, **kwargs)

    Setup(WithBonus(value_clip=0.2)).train()


def test_inputs_of_the_loss_from_computed_targets():
    class OfTargets(PPO):
        def loss_input_from_samples(self, samples, agent_inputs, return_, advantage, valid):
            old_dist_info = samples.agent.agent_info.dist_info
            action = samples.agent.action
            return LossInputs(agent_inputs, action, return_, advantage, valid, old_dist_info)

    found = []
    for Cls in (PPO, OfTargets):
        torch.manual_seed(0)
        np.random.seed(0)
        setup = Setup(Cls(minibatches=2))
        setup.train()
        found.append(setup.parameters())
    assert found[0] == found[1]


class ByHand(PPO):
    """As most forks have it: the loop of the published code with a few changed lines."""

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        agent_inputs = AgentInputs(
            samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
        )
        return_, advantage, valid = self.process_returns(samples)
        inputs = LossInputs(
            agent_inputs=agent_inputs,
            action=samples.agent.action,
            return_=return_,
            advantage=advantage,
            valid=valid,
            old_dist_info=samples.agent.agent_info.dist_info,
        )
        T, B = samples.env.reward.shape
        recurrent = self.agent.recurrent
        state = samples.agent.agent_info.prev_rnn_state[0] if recurrent else None
        info = OptInfo(*([] for _ in range(len(OptInfo._fields))))
        size = B if recurrent else T * B
        for _ in range(self.epochs):
            for idxs in iterate_mb_idxs(size, size // self.minibatches, shuffle=True):
                at_T = slice(None) if recurrent else idxs % T
                at_B = idxs if recurrent else idxs // T
                self.optimizer.zero_grad()
                given = state[at_B] if recurrent else None
                loss, entropy, perplexity = self.loss(*inputs[at_T, at_B], given)
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(self.agent.parameters(), self.clip_grad_norm)
                self.optimizer.step()
                info.loss.append(loss.item())
                info.gradNorm.append(float(norm))
                info.entropy.append(entropy.item())
                info.perplexity.append(perplexity.item())
                self.update_counter += 1
        if self.linear_lr_schedule:
            self.lr_scheduler.step()
            self.ratio_clip = self._ratio_clip * (self.n_itr - itr) / self.n_itr
        return info


@pytest.mark.parametrize("agent", [None, lstm_agent])
def test_optimize_agent_written_by_hand(agent):
    found = []
    for Cls in (PPO, ByHand):
        torch.manual_seed(0)
        setup = Setup(Cls(minibatches=1, epochs=3), agent and agent())
        found.append([x for info in setup.train(0, 1) for x in info.loss])
        assert setup.algo.update_counter == 3
        assert setup.algo.optimizer.param_groups[0]["lr"] == pytest.approx(9e-4)
    assert found[1] == pytest.approx(found[0], rel=1e-3)


# --- Constructors -------------------------------------------------------------------------------


class Instead(PPO):
    def __init__(
        self,
        mine=7,
        discount=0.99,
        learning_rate=0.001,
        value_loss_coeff=1.0,
        entropy_loss_coeff=0.01,
        OptimCls=torch.optim.Adam,
        optim_kwargs=None,
        clip_grad_norm=1.0,
        initial_optim_state_dict=None,
        gae_lambda=1,
        minibatches=3,
        epochs=4,
        ratio_clip=0.1,
        linear_lr_schedule=True,
        normalize_advantage=False,
    ):
        if optim_kwargs is None:
            optim_kwargs = {}
        save__init__args(locals())


class OwnSetUp(Instead):
    """Sets up by hand, as the original did, which knew fewer settings."""

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, **kwargs):
        self.agent, self.n_itr, self.batch_spec = agent, n_itr, batch_spec
        self.mid_batch_reset, self._ratio_clip = mid_batch_reset, self.ratio_clip
        self.optimizer = self.OptimCls(agent.parameters(), self.learning_rate)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda itr: 1.0)


@pytest.mark.parametrize("written_by_hand", [(), (ByHand,)])
def test_set_up_written_by_hand(written_by_hand):
    # Settings, statistics and generator were made by the library's initialize() only.
    AlgoCls = type("Mine", (OwnSetUp, *written_by_hand), {})
    fresh = Setup(AlgoCls()).algo.state_dict()
    setup = Setup(AlgoCls())
    (info,) = setup.train()
    assert len(info.loss) == 12
    setup.algo.load_state_dict(fresh)
