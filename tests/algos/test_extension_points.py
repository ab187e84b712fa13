"""What research code changed in replay algorithms by copying them: each is one small method."""

import copy
from collections import namedtuple

import numpy as np
import pytest
import torch

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.dqn.dqn import DQN, OptInfo, SamplesToBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import save__init__args
from tests.algos.parts import SETTINGS, initialized, make_algo, run


def test_extra_loss_term():
    class Regularised(DQN):
        def loss(self, samples):
            loss, td_abs_errors = super().loss(samples)
            return loss + 1000 * sum(
                p.square().sum() for p in self.agent.parameters()
            ), td_abs_errors

    def norm(algo):
        run(algo, 0, 10)
        return float(sum(p.detach().square().sum() for p in algo.agent.parameters()))

    torch.manual_seed(0)
    plain = norm(make_algo())
    torch.manual_seed(0)
    assert norm(make_algo(Regularised)) < plain


def test_extra_info():
    class Informed(DQN):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.opt_info_fields = (*OptInfo._fields, "meanReturn", "done")

        def _get_loss_values(self, samples):
            values = super()._get_loss_values(samples)
            return {
                **values,
                "meanReturn": samples.return_.mean(),
                "done": samples.done,
                "notLogged": 1,
            }

    info = run(make_algo(Informed), 0, 3)[-1]
    assert info._fields == ("loss", "gradNorm", "tdAbsErr", "meanReturn", "done")
    assert len(info.loss) == len(info.meanReturn) == len(info.done) == 4


def test_extra_field_in_the_replay():
    Mine = namedarraytuple("Mine", (*SamplesToBuffer._fields, "lives"))

    class WithLives(DQN):
        def examples_to_buffer(self, examples):
            return Mine(*super().examples_to_buffer(examples), lives=np.int64(0))

        def samples_to_buffer(self, samples):
            lives = samples.agent.action + 10
            return Mine(*super().samples_to_buffer(samples), lives=lives)

        def loss(self, samples):
            assert torch.equal(samples.lives, samples.action + 10)
            return super().loss(samples)

    for prioritized in (False, True):
        algo = make_algo(WithLives, prioritized_replay=prioritized)
        assert len(run(algo, 0, 3)[-1].loss) == 4


def test_another_gradient_clip():
    class ByValue(DQN):
        def clip_gradients(self, parameters):
            norm = super().clip_gradients(parameters)
            torch.nn.utils.clip_grad_value_(parameters, 1e-4)
            return norm

    algo = make_algo(ByValue, OptimCls=torch.optim.SGD, learning_rate=1.0)
    run(algo, 0, 2)
    before = [p.detach().clone() for p in algo.agent.parameters()]
    algo.updates_per_optimize = 1
    run(algo, 2, 3)
    changes = [(p - q).abs().max() for p, q in zip(algo.agent.parameters(), before, strict=True)]
    assert max(changes).item() == pytest.approx(1e-4, rel=0.1)


def test_order_of_one_iteration():
    calls = []

    def spied(name):
        def method(self, *args, **kwargs):
            calls.append(name)
            return getattr(super(Spy, self), name)(*args, **kwargs)

        return method

    names = (
        "add_samples_to_buffer",
        "samples_to_buffer",
        "_get_empty_optim_info",
        "pre_optimize_process",
        "_apply_optimization",
        "_get_loss_values",
        "loss",
        "select_at_indexes",
        "update_itr_hyperparams",
    )
    Spy = type("Spy", (DQN,), {name: spied(name) for name in names})
    algo = make_algo(Spy)
    algo.updates_per_optimize = 1
    run(algo, 0, 1)
    assert calls == list(names[:3])
    run(algo, 1, 2)
    del calls[:]
    run(algo, 2, 3)
    assert calls == list(names)


def test_replay_made_by_the_subclass():
    class Mine(DQN):
        def initialize_replay_buffer(self, examples, batch_spec, async_=False):
            self.replay_buffer = UniformReplayBuffer(
                example=self.examples_to_buffer(examples), size=40, B=batch_spec.B, n_step_return=1
            )

    algo = make_algo(Mine)
    assert algo.replay_buffer.size == 40
    run(algo, 0, 3)


def test_optimize_agent_written_by_hand():
    """As most forks have it: the loop of the published code with a few changed lines."""
    Info = namedtuple("Info", ["loss", "mine"])

    class Mine(DQN):
        opt_info_fields = Info._fields

        def optimize_agent(self, itr, samples=None, sampler_itr=None):
            itr = itr if sampler_itr is None else sampler_itr
            if samples is not None:
                self.replay_buffer.append_samples(self.samples_to_buffer(samples))
            info = Info([], [])
            if itr < self.min_itr_learn:
                return info
            for _ in range(self.updates_per_optimize):
                drawn = self.replay_buffer.sample_batch(self.batch_size)
                self.optimizer.zero_grad()
                loss, td_abs_errors = self.loss(drawn)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.agent.parameters(), self.clip_grad_norm)
                self.optimizer.step()
                if self.prioritized_replay:
                    self.replay_buffer.update_batch_priorities(td_abs_errors)
                info.loss.append(loss.item())
                info.mine.extend(td_abs_errors[::8].numpy())
                self.update_counter += 1
                if self.update_counter % self.target_update_interval == 0:
                    self.agent.update_target(self.target_update_tau)
            self.update_itr_hyperparams(itr)
            return info

    torch.manual_seed(0)
    np.random.seed(0)
    by_hand = make_algo(Mine, prioritized_replay=True)
    found = [loss for info in run(by_hand, 0, 5) for loss in info.loss]
    torch.manual_seed(0)
    np.random.seed(0)
    ours = make_algo(prioritized_replay=True)
    assert [loss for info in run(ours, 0, 5) for loss in info.loss] == pytest.approx(found)
    assert by_hand.update_counter == ours.update_counter


def test_optimizer_made_by_the_subclass():
    class Mine(DQN):
        def optim_initialize(self, rank=0):
            self.rank = rank
            self.optimizer = self.OptimCls(
                self.agent.parameters(), lr=self.learning_rate, **self.optim_kwargs
            )

    algo = make_algo(Mine)
    assert algo.optimizer.defaults["eps"] == 0.01 / 8
    run(algo, 0, 3)


# --- Constructors -------------------------------------------------------------------------------


def test_batch_size_may_be_computed():
    # The constructor tried to set it.
    class Mine(DQN):
        def __init__(self, n_parts=2, **kwargs):
            super().__init__(**kwargs)
            save__init__args(locals())

        @property
        def batch_size(self):
            return self._batch_size * self.n_parts

    algo = initialized(Mine(**{**SETTINGS, "batch_size": 4}))
    assert (algo._batch_size, algo.batch_size, algo.updates_per_optimize) == (4, 8, 4)
    run(algo, 0, 3)


def test_settings_of_an_algorithm_that_has_none():
    class Mine(RlAlgorithm):
        def __init__(self):
            pass

    algo = Mine()
    assert (algo.discount, algo.clip_grad_norm, algo.min_itr_learn) == (1.0, None, 0)
    with pytest.raises(AttributeError, match="q_lambda"):
        _ = algo.q_lambda


# --- Base ---------------------------------------------------------------------------------------


def test_abstract_methods_name_their_class():
    class Mine(RlAlgorithm):
        pass

    algo = Mine()
    for call in (
        lambda: algo.initialize(None, 1, None, True, {}),
        lambda: algo.async_initialize(None, 1, None, True, {}),
        lambda: algo.optimize_agent(0),
    ):
        with pytest.raises(NotImplementedError, match="Mine"):
            call()
    assert (algo.opt_info_fields, algo.bootstrap_value, algo.update_counter) == ((), False, 0)


class WithCuriosity(DQN):
    """Trains a network of its own, by an optimizer whose rate falls."""

    def make_optimizers(self):
        super().make_optimizers()
        self.curiosity = torch.nn.Linear(4, 1)
        self.curiosity_optimizer = self.make_optimizer(self.curiosity.parameters(), 0.1)
        self.curiosity_rate = torch.optim.lr_scheduler.ExponentialLR(self.curiosity_optimizer, 0.5)

    def update_networks(self, batch):
        loss = self.curiosity(torch.ones(4)).square().sum()
        self.minimize(loss, self.curiosity_optimizer)
        self.curiosity_rate.step()
        return super().update_networks(batch)


def test_networks_optimizers_and_schedules_of_a_subclass_are_in_checkpoints():
    # A resumed run began them anew.
    algo = make_algo(WithCuriosity)
    run(algo, 0, 3)
    state = copy.deepcopy(algo.state_dict())
    assert state["further"].keys() == {"curiosity", "curiosity_optimizer", "curiosity_rate"}
    other = make_algo(WithCuriosity)
    other.load_state_dict(copy.deepcopy(state))
    torch.testing.assert_close(other.curiosity.state_dict(), algo.curiosity.state_dict())
    assert other.curiosity_rate.last_epoch == algo.update_counter > 0
    (group,) = other.curiosity_optimizer.param_groups
    assert group["lr"] == 0.1 * 0.5**algo.update_counter
    with pytest.raises(ValueError, match=r"states of \['curiosity', .*, which DQN lacks"):
        make_algo().load_state_dict(state)


@pytest.mark.parametrize("n_actions", [2, 4, 6, 8, 10, 20])
def test_every_column_of_a_value_is_logged(n_actions):
    # A stride of 8 logged the first of 2, 4 or 8 columns alone.
    algo = make_algo()
    algo.opt_info_fields = ("q",)
    info = algo._get_empty_optim_info()
    algo.record_opt_info(info, {"q": torch.arange(n_actions).expand(5, 32, n_actions)})
    logged = algo.fetch_opt_info(info).q
    assert set(logged) == set(range(n_actions))
    assert len(logged) < 160 * n_actions / 7
    counts = [logged.count(action) for action in set(logged)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("loss", "words"), [(torch.ones(3), r"shape \(3,\)"), (None, "None"), (1.5, "1.5")]
)
def test_a_loss_that_is_no_scalar_is_named(loss, words):
    algo = make_algo()
    with pytest.raises(ValueError, match=f"the loss of DQN is .*{words}.*: make it a scalar"):
        algo.minimize(loss, algo.optimizer)
