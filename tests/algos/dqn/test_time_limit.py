"""``bootstrap_timelimit``: transitions that a time limit cut are stored, but not trained on."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.mlp_agent import MlpCatDqnAgent, MlpDqnAgent, MlpIqnAgent, MlpQrDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.iqn import IQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.replay import not_timed_out
from rlpyt.core.records import SamplesToBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.collections import namedarraytuple
from tests.agents.parts import made
from tests.algos.parts import SETTINGS, batch, examples, initialized

EnvInfo = namedarraytuple("EnvInfo", ["timeout", "score"])


def examples_with_timeout(image=False):
    return {**examples(image), "env_info": EnvInfo(timeout=False, score=0.0)}


def timed_batch(seed, timeout=None):
    """A batch whose episodes end by a time limit: all of them, none, or every other."""
    samples = batch(np.random.default_rng(seed), done=0.4)
    done = samples.env.done
    is_timeout = torch.arange(8).reshape(4, 2) % 2 == 0 if timeout is None else timeout
    env_info = EnvInfo(timeout=done & is_timeout, score=torch.zeros(4, 2))
    return samples._replace(env=samples.env._replace(env_info=env_info))


def make_algo(AlgoCls, AgentCls, **settings):
    settings = {**SETTINGS, "bootstrap_timelimit": True, **settings}
    agent = made(AgentCls(model_kwargs={"hidden_sizes": [8]}))
    return initialized(AlgoCls(**settings), agent, examples=examples_with_timeout())


def run(algo, n_itr, timeout=None):
    return [algo.optimize_agent(itr, timed_batch(itr, timeout)) for itr in range(n_itr)]


# --- Set-up ---------------------------------------------------------------------------------------


def test_it_is_an_option():
    """A time limit is the end of an episode unless it was asked for."""
    algo = initialized(DQN(**SETTINGS), examples=examples_with_timeout())
    assert algo.bootstrap_timelimit is False
    assert type(algo.replay_buffer) is UniformReplayBuffer
    assert algo.replay_buffer.samples._fields == SamplesToBuffer._fields


class OwnConstructor(DQN):
    """Stores what the original did, to which this setting was unknown."""

    def __init__(self):
        for name, value in vars(DQN(**SETTINGS)).items():
            if name != "bootstrap_timelimit":
                setattr(self, name, value)


class OwnSetUp(OwnConstructor):
    """Does by hand what :meth:`DQN.initialize` does."""

    def initialize(self, agent, n_itr, batch_spec, *args, **kw):
        self.agent, self.n_itr, self.mid_batch_reset = agent, n_itr, True
        self.sampler_bs, self.updates_per_optimize, self.min_itr_learn = batch_spec.size, 4, 2
        self.initialize_replay_buffer(examples_with_timeout(), batch_spec)
        self.optim_initialize()


@pytest.mark.parametrize("AlgoCls", [OwnConstructor, OwnSetUp])
def test_subclass_without_it(AlgoCls):
    algo = initialized(AlgoCls(), examples=examples_with_timeout())
    assert type(algo.replay_buffer) is UniformReplayBuffer
    assert len(run(algo, 3)[-1].loss) == 4


def test_own_replay_buffer_must_have_it():
    def without_timeout_n(example, **kwargs):
        return UniformReplayBuffer(example=example, **kwargs)

    algo = make_algo(DQN, MlpDqnAgent, ReplayBufferCls=without_timeout_n)
    with pytest.raises(ValueError, match=r"timeout_n.*TlUniformReplayBuffer"):
        run(algo, 4)


# --- The loss -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("AlgoCls", "AgentCls", "prioritized_replay", "n_step_return"),
    [
        (DQN, MlpDqnAgent, True, 3),
        (CategoricalDQN, MlpCatDqnAgent, True, 1),
        (QRDQN, MlpQrDqnAgent, False, 3),
        (IQN, MlpIqnAgent, False, 1),
    ],
)
def test_loss_is_the_mean_over_the_others(AlgoCls, AgentCls, prioritized_replay, n_step_return):
    settings = {"prioritized_replay": prioritized_replay, "n_step_return": n_step_return}
    settings |= {"batch_size": 32, "min_steps_learn": 48}  # So far, priorities are equal.
    algo = make_algo(AlgoCls, AgentCls, **settings)
    run(algo, 6)
    samples = algo.replay_buffer.sample_batch(32)
    valid = not_timed_out(samples)
    assert 0 < valid.sum() < 32
    assert torch.equal(valid, ~samples.timeout_n)
    torch.manual_seed(0)
    values = algo._get_loss_values(samples)
    # The targets of the ones that are not trained on change nothing.
    samples.return_[~valid] += 100.0
    torch.manual_seed(0)
    others = algo._get_loss_values(samples)
    assert torch.equal(values["loss"], others["loss"])
    assert (values["tdAbsErr"][~valid] == 0).all()
    assert (values["tdAbsErr"][valid] > 0).any()

    # The mean over all is that of both parts, by their numbers.
    samples.timeout_n[:] = valid
    torch.manual_seed(0)
    rest = algo._get_loss_values(samples)
    algo.bootstrap_timelimit = False
    torch.manual_seed(0)
    n, every = int(valid.sum()), algo._get_loss_values(samples)
    expected = (n * values["loss"] + (32 - n) * rest["loss"]) / 32
    torch.testing.assert_close(every["loss"], expected, rtol=1e-4, atol=1e-5)


def test_batch_of_nothing_but_time_outs_changes_nothing():
    algo = make_algo(DQN, MlpDqnAgent)
    run(algo, 4)
    samples = algo.replay_buffer.sample_batch(8)
    samples.timeout_n[:] = True
    loss, _ = algo.loss(samples)
    assert loss.item() == 0


def test_they_are_hardly_drawn_again():
    """By their temporal difference, which training leaves as it is, they would crowd out others."""
    algo = make_algo(DQN, MlpDqnAgent, prioritized_replay=True, pri_alpha=1.0, replay_size=64)
    run(algo, 8)
    for _ in range(20):
        samples = algo.replay_buffer.sample_batch(64)
        algo.update_priorities(algo._get_loss_values(samples))
    assert algo.replay_buffer.samples_timeout_n.mean() > 0.1
    assert algo.replay_buffer.sample_batch(500).timeout_n.float().mean() < 0.02
