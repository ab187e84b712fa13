"""Random shifts of images: beside a naive twin, and in the updates of an algorithm."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.augmentation import RandomShift
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.qpg.sac_discrete import DiscreteSAC
from rlpyt.envs.toy import Catch
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.contracts.test_compile import Graphs
from tests.reference.augmentation import shifted

IMAGES = np.random.default_rng(0).integers(256, size=(6, 3, 7, 5), dtype=np.uint8)


def drawn(pad, B):
    """The shifts u, v [B] that the next call draws."""
    torch.manual_seed(3)
    u, v = torch.randint(-pad, pad + 1, (2, B)).tolist()
    torch.manual_seed(3)
    return u, v


@pytest.mark.parametrize("pad", [0, 2, 9])  # The last one is wider than the image.
def test_shifts_are_those_of_the_twin(pad):
    u, v = drawn(pad, len(IMAGES))
    found = RandomShift(pad)(torch.from_numpy(IMAGES))
    assert found.dtype == torch.uint8
    np.testing.assert_array_equal(found.numpy(), shifted(IMAGES, u, v, pad))


def test_intensity_scales_each_image_by_at_most_two_deviations():
    u, v = drawn(2, len(IMAGES))
    found = RandomShift(2, intensity=0.5)(torch.from_numpy(IMAGES)).numpy()
    expected = shifted(IMAGES, u, v, 2) / 255
    factors = (found.sum((1, 2, 3)) / expected.sum((1, 2, 3)))[:, None, None, None]
    np.testing.assert_allclose(found, expected * factors, rtol=1e-5)
    assert len(np.unique(factors)) == len(IMAGES)
    many = RandomShift(0, intensity=0.5)(torch.full((5000, 1, 1, 1), 255, dtype=torch.uint8))
    assert (many.min(), many.max()) == (0, 2)  # 1 - 2 * 0.5 and 1 + 2 * 0.5.
    inside = many[(many > 0) & (many < 2)]
    assert abs(inside.mean() - 1) < 0.03
    assert 0.4 < inside.std() < 0.5


def test_all_shifts_are_equally_frequent():
    image = torch.arange(25, dtype=torch.uint8).reshape(1, 1, 5, 5).expand(9000, 1, 5, 5)
    counts = RandomShift(1)(image)[:, 0, 2, 2].bincount(minlength=25).reshape(5, 5)
    assert counts.sum() == counts[1:4, 1:4].sum()
    assert (counts[1:4, 1:4] - 1000).abs().max() < 150


class Watched(DQN):
    """Keeps the batches drawn from replay, and those that the loss gets."""

    def sample_from_replay(self):
        self.drawn = super().sample_from_replay()
        return self.drawn

    def loss(self, samples):
        self.seen = samples
        return super().loss(samples)


def trained(**settings):
    compiles = settings.pop("compile", False)
    small = {"channels": [4], "kernel_sizes": [4], "strides": [2], "paddings": [0]}
    env_kwargs = {"grid_shape": (10, 5), "img_shape": (20, 10), "num_img_obs": 2}
    runner = MinibatchRl(
        algo=Watched(batch_size=8, replay_size=80, min_steps_learn=16, replay_ratio=2, **settings),
        agent=AtariDqnAgent(model_kwargs={"fc_sizes": 8, **small}),
        sampler=SerialSampler(Catch, env_kwargs, batch_T=4, batch_B=2, max_decorrelation_steps=0),
        n_steps=64,
        log_interval_steps=64,
        seed=0,
        affinity={"master_torch_threads": 1},
        compile=compiles,
    )
    runner.train()
    return runner


def parameters(runner):
    return [*runner.agent.model.parameters()]


def test_an_update_sees_shifted_observations_and_target_observations():
    seen = []

    def augmentation(images):
        seen.append(images)
        return images // (1 + len(seen) % 2)  # Observations, drawn first, are halved.

    algo = trained(augmentation=augmentation).algo
    assert len(seen) == 2 * algo.update_counter > 0
    before, after = algo.drawn, algo.seen
    halves = before.agent_inputs.observation // 2
    assert torch.equal(after.agent_inputs.observation, halves)
    assert torch.equal(after.target_inputs.observation, before.target_inputs.observation)
    for name in ("action", "return_", "done_n"):
        assert getattr(before, name) is getattr(after, name)


def test_keywords_make_shifts_and_none_changes_nothing():
    shifts = trained(augmentation=RandomShift(2, 0.1))
    named = trained(augmentation={"pad": 2, "intensity": 0.1})
    none = trained()
    assert none.algo.seen is none.algo.drawn
    assert all(map(torch.equal, parameters(shifts), parameters(named)))
    assert not all(map(torch.equal, parameters(shifts), parameters(none)))


@pytest.mark.full
def test_a_compiled_update_computes_the_same():
    graphs = Graphs()
    shift = RandomShift(2, 0.1)
    pairs = zip(
        parameters(trained(augmentation=shift)),
        parameters(trained(augmentation=shift, compile=graphs.settings)),
        strict=True,
    )
    assert graphs.n == 1
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)


def test_discrete_sac_has_the_setting():
    assert DiscreteSAC(augmentation=RandomShift()).augmentation == RandomShift(4, 0.0)
