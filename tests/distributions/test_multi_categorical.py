"""Arrays of choices: sums over the entries, and choices that an entry does not have."""

import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.multi_categorical import MultiCategorical


@pytest.mark.parametrize("nvec", [4, [3], [2, 5], [[2, 3], [4, 1]]])
def test_is_the_sum_of_categoricals(nvec):
    lead = (2, 3)
    d = MultiCategorical(nvec)
    sizes = np.asarray(nvec)
    missing = torch.as_tensor(np.arange(sizes.max()) >= sizes[..., None])
    old, new = (
        DistInfo(torch.randn(*lead, *missing.shape).masked_fill(missing, -math.inf).softmax(-1))
        for _ in range(2)
    )
    action = d.sample(old)
    assert action.shape == lead + sizes.shape
    assert action.dtype == torch.int64
    assert bool((action < torch.as_tensor(sizes)).all())
    each, sums = Categorical(dim=int(sizes.max())), {}
    for index in np.ndindex(*sizes.shape):
        one_old, one_new = (DistInfo(info.prob[(..., *index, slice(None))]) for info in (old, new))
        for name, term in {
            "logli": each.log_likelihood(action[(..., *index)], one_old),
            "entropy": each.entropy(one_old),
            "kl": each.kl(one_old, one_new),
        }.items():
            sums[name] = sums.get(name, 0) + term
    torch.testing.assert_close(d.log_likelihood(action, old), sums["logli"])
    torch.testing.assert_close(d.entropy(old), sums["entropy"])
    torch.testing.assert_close(d.kl(old, new), sums["kl"])
    assert d.dim == sizes.size
    onehot = d.to_onehot(action)
    assert onehot.shape == old.prob.shape
    assert torch.equal(d.from_onehot(onehot), action)


def test_choices_that_are_missing_have_no_gradient():
    logits = torch.zeros(2, 3, requires_grad=True)
    missing = torch.tensor([[False, False, True], [False, False, False]])
    p = DistInfo(prob=logits.masked_fill(missing, -math.inf).softmax(-1))
    d = MultiCategorical([2, 3])
    (d.entropy(p) + d.log_likelihood(torch.tensor([0, 0]), p)).backward()
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([0.5, -0.5, 0.0], abs=1e-6)
