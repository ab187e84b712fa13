import pytest
import torch

from rlpyt.algos.losses import clipped_surrogate_loss, clipped_value_loss
from tests.reference.policy_gradient import surrogate

# ratio, advantage, loss and its gradient, clipped at 0.2
SURROGATE = [
    (1.0, 3.0, -3.0, -3.0),
    (1.1, 1.0, -1.1, -1.0),
    (1.5, 1.0, -1.2, 0.0),
    (0.5, 1.0, -0.5, -1.0),
    (1.5, -1.0, 1.5, 1.0),
    (0.5, -1.0, 0.8, 0.0),
    (0.9, -2.0, 1.8, 2.0),
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "grad"), SURROGATE)
def test_surrogate(ratio, advantage, loss, grad):
    r = torch.tensor([ratio], requires_grad=True)
    found = clipped_surrogate_loss(r, torch.tensor([advantage]), 0.2)
    assert found.item() == pytest.approx(loss)
    assert surrogate(ratio, advantage, 0.2) == pytest.approx(loss)
    found.sum().backward()
    assert r.grad is not None
    assert r.grad.item() == pytest.approx(grad)


# value, return, old value, loss and its gradient, clipped at 1
VALUE = [
    (0.0, 2.0, 0.0, 2.0, -2.0),
    (0.5, 2.0, 0.0, 1.125, -1.5),
    (1.5, 2.0, 0.0, 0.5, 0.0),
    (2.5, 0.0, 1.0, 3.125, 2.5),
    (-3.0, 0.0, 0.0, 4.5, -3.0),
    (-3.0, -4.0, 0.0, 4.5, 0.0),
]


@pytest.mark.parametrize(("value", "return_", "old_value", "loss", "grad"), VALUE)
def test_clipped_value(value, return_, old_value, loss, grad):
    v = torch.tensor([value], requires_grad=True)
    found = clipped_value_loss(v, torch.tensor([return_]), torch.tensor([old_value]), 1.0)
    assert found.item() == pytest.approx(loss)
    found.sum().backward()
    assert v.grad is not None
    assert v.grad.item() == pytest.approx(grad)
