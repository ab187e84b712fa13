"""Action masks as functions of tensors, and random actions within them."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from rlpyt.core.masks import (
    FORBIDDEN,
    is_allowed,
    mask_atoms,
    mask_of,
    mask_probabilities,
    mask_values,
    random_action,
    redrawn,
)
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.collections import record


@record
class Observation(NamedTuple):
    action_mask: Any


MASK = torch.tensor([[1, 0, 1], [0, 0, 0]], dtype=torch.int8)  # The second is of an end.


def test_values():
    q = torch.tensor([[1.0, 5.0, 3.0], [1.0, 5.0, 3.0]], requires_grad=True)
    masked = mask_values(q, MASK)
    assert masked.tolist() == [[1, pytest.approx(FORBIDDEN), 3], [1, 5, 3]]
    assert is_allowed(masked).tolist() == [[True, False, True], [True, True, True]]
    masked.max(dim=-1).values.sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[0, 0, 1], [0, 1, 0]]
    quantiles = mask_values(q[..., None].expand(2, 3, 7), MASK.bool())
    assert quantiles.mean(-1).argmax(-1).tolist() == [2, 1]
    assert is_allowed(quantiles.mean(-1)).tolist() == [[True, False, True], [True, True, True]]


@pytest.mark.parametrize("z", [(-1, 0, 1), (0, 1, 2), (-200, -150, -100), (1e-4, 2e-4, 3e-4)])
def test_atoms(z):
    p = torch.eye(3).expand(2, 3, 3).flip(-1)  # The first action has the greatest return.
    mask = torch.tensor([[0, 1, 1], [0, 0, 0]])
    q = mask_atoms(p, mask) @ torch.tensor(z, dtype=torch.float)
    assert q.argmax(-1).tolist() == [1, 0]
    assert is_allowed(q).tolist() == [[False, True, True], [True, True, True]]


def test_probabilities_are_a_softmax_over_the_allowed():
    logits = torch.tensor([[0.5, 2.0, -1.0], [0.5, 2.0, -1.0]], requires_grad=True)
    prob = mask_probabilities(torch.softmax(logits, -1), MASK)
    expected = torch.softmax(torch.tensor([0.5, -1.0]), -1)
    torch.testing.assert_close(prob[0, [0, 2]], expected)
    torch.testing.assert_close(prob[1], torch.softmax(logits[1], -1))
    assert prob[0, 1] == 0
    torch.log(prob[0, 0]).backward()
    assert logits.grad is not None
    want = torch.tensor([1 - expected[0], 0, -expected[1]])
    torch.testing.assert_close(logits.grad[0], want, atol=1e-6, rtol=0)


@pytest.mark.parametrize("gap", [60.0, 300.0])
def test_network_that_prefers_a_forbidden_action(gap):
    logits = torch.tensor([0.0, gap, 1.0], requires_grad=True)
    prob = mask_probabilities(torch.softmax(logits, -1), MASK[0])
    assert prob[1] == 0
    assert prob.sum().item() == pytest.approx(1)
    if gap < 80:  # Beyond, softmax itself is 0 for both.
        assert (prob[2] / prob[0]).item() == pytest.approx(np.e, rel=1e-4)
    torch.log(prob[0]).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_random_actions_within_a_mask():
    space = IntBox(0, 4)
    space.seed(0)
    mask = np.array([0, 1, 0, 1], np.int8)
    drawn = [int(random_action(space, Observation(mask))) for _ in range(50)]
    assert set(drawn) == {1, 3}
    assert random_action(space, Observation(0 * mask)) in range(4)
    masks = np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]])

    def draw(which):
        return np.where(which, space.sample(), 0)

    action = redrawn(np.zeros(4, int), Observation(masks), space, draw)
    assert action.tolist() == [1, 0, 3, 0]


def test_random_actions_without_a_mask():
    spaces = [IntBox(0, 4), IntBox(0, 4)]
    for space in spaces:
        space.seed(0)
    for observation in (np.zeros(3), Observation(np.zeros(5))):  # Of another meaning.
        assert mask_of(observation, spaces[0]) is None
        assert random_action(spaces[0], observation) == spaces[1].sample()
    action = np.zeros(3, int)
    assert redrawn(action, np.zeros((3, 2)), spaces[0], None) is action
