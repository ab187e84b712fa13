"""Epsilon-greedy action selection."""

import numpy as np
import pytest
import torch

from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy, EpsilonGreedy

N = 20_000


def frequency_of_greedy(epsilon, q):
    """Fraction of [T,B] samples that are the greedy action, for each b."""
    torch.manual_seed(0)
    actions = EpsilonGreedy(dim=q.shape[-1], epsilon=epsilon).sample(q)
    return (actions == q.argmax(dim=-1)).float().mean(dim=0)


class TestSample:
    @pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
    @pytest.mark.parametrize("epsilon", [0, 0.0, 0.5, 1, np.float64(0.5), torch.tensor(0.0)])
    def test_leading_dims(self, lead, epsilon):
        q = torch.randn(*lead, 4)
        actions = EpsilonGreedy(dim=4, epsilon=epsilon).sample(q)
        assert actions.shape == lead
        assert actions.dtype == torch.long
        if float(epsilon) == 0:
            assert torch.equal(actions, q.argmax(dim=-1))

    @pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
    def test_random_actions_include_the_greedy_one(self, epsilon):
        q = torch.tensor([0.0, 1.0, 0.5]).expand(N, 1, 3)
        expected = 1 - epsilon + epsilon / 3
        assert frequency_of_greedy(epsilon, q).item() == pytest.approx(expected, abs=0.02)

    @pytest.mark.parametrize("make", [torch.tensor, np.array])
    def test_vector_belongs_to_the_batch_dimension(self, make):
        epsilon = make([0.0, 0.5, 1.0])
        frequency = frequency_of_greedy(epsilon, torch.tensor([1.0, 0.0]).expand(N, 3, 2))
        torch.testing.assert_close(frequency, torch.tensor([1.0, 0.75, 0.5]), atol=0.02, rtol=0)
        assert EpsilonGreedy(dim=2, epsilon=epsilon).sample(torch.rand(3, 2)).shape == (3,)

    def test_one_datum_takes_the_first_of_a_vector(self):
        """As when examples are made from a single environment."""
        distribution = EpsilonGreedy(dim=2, epsilon=torch.tensor([0.0, 1.0]))
        actions = [distribution.sample(torch.tensor([0.0, 1.0])).item() for _ in range(20)]
        assert actions == [1] * 20

    @pytest.mark.parametrize("batch", [1, 3])
    def test_vector_of_another_length_than_the_batch(self, batch):
        distribution = EpsilonGreedy(dim=2, epsilon=torch.tensor([0.1, 0.2]))
        with pytest.raises(ValueError, match="epsilon has 2 elements but the batch has"):
            distribution.sample(torch.zeros(batch, 2))

    def test_epsilon_zero_draws_nothing(self):
        state = torch.get_rng_state()
        EpsilonGreedy(dim=2, epsilon=0).sample(torch.zeros(3, 2))
        assert torch.equal(torch.get_rng_state(), state)

    def test_dtype(self):
        distribution = EpsilonGreedy(dim=2, dtype=torch.int32)
        assert distribution.sample(torch.zeros(3, 2)).dtype == torch.int32
        distribution.set_epsilon(0)
        assert distribution.sample(torch.zeros(3, 2)).dtype == torch.int32


def test_set_epsilon():
    distribution = EpsilonGreedy(dim=2)
    assert distribution.epsilon == 1
    distribution.set_epsilon(0.25)
    assert distribution.epsilon == distribution._epsilon == 0.25


class TestCategorical:
    # Expected returns under z = (-1, 0, 1): 0.5 and 0.1; under z = (1, 0, -1): reversed sign.
    p = torch.tensor([[0.1, 0.3, 0.6], [0.2, 0.5, 0.3]])
    z = torch.tensor([-1.0, 0.0, 1.0])

    @pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
    def test_greedy_in_the_expectation(self, lead):
        distribution = CategoricalEpsilonGreedy(dim=2, epsilon=0, z=self.z)
        actions = distribution.sample(self.p.expand(*lead, 2, 3))
        assert torch.equal(actions, torch.zeros(lead, dtype=torch.long))

    def test_given_atoms_come_before_those_set(self):
        distribution = CategoricalEpsilonGreedy(dim=2, epsilon=0)
        distribution.set_z(self.z)
        assert distribution.sample(self.p).item() == 0
        # Raised RuntimeError: the truth value of a tensor was taken.
        assert distribution.sample(self.p, z=-self.z).item() == 1
        assert distribution.sample(self.p, -self.z.double()).item() == 1
