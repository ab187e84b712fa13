import pytest
import torch

from rlpyt.models.rnn import masked_rows, unroll
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.quick_args import accepts

Pair = namedarraytuple("Pair", ["a", "b"])


class Sum:
    """Its state and its output are the sum of what it saw since it was zero."""

    def __init__(self):
        self.calls = []

    def __call__(self, x, state):
        self.calls.append(len(x))
        total = torch.zeros(1, x.shape[1], 1) if state is None else state.a
        sums = x[..., None].cumsum(0) + total
        return sums, Pair(sums[-1:], -sums[-1:])


X = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])


def reset_at(*steps):
    reset = torch.zeros(4, 2, dtype=torch.bool)
    for t, b in steps:
        reset[t, b] = True
    return reset


@pytest.mark.parametrize(
    ("reset", "first", "second", "calls"),
    [
        (None, [1, 3, 6, 10], [10, 30, 60, 100], [4]),
        (reset_at(), [1, 3, 6, 10], [10, 30, 60, 100], [4]),
        (reset_at((2, 1)), [1, 3, 6, 10], [10, 30, 30, 70], [2, 2]),
        (reset_at((2, 1), (2, 0), (3, 0)), [1, 3, 3, 4], [10, 30, 30, 70], [2, 1, 1]),
        (reset_at((0, 0), (1, 0)), [1, 2, 5, 9], [10, 30, 60, 100], [1, 3]),
    ],
)
def test_state_is_zero_where_an_episode_begins(reset, first, second, calls):
    network = Sum()
    outputs, state = unroll(network, (X,), None, reset, network)
    assert outputs[..., 0].T.tolist() == [first, second]
    assert state.a.flatten().tolist() == [first[-1], second[-1]]
    assert network.calls == calls


def test_state_before_the_first_step():
    state = Pair(torch.tensor([[[100.0], [1000.0]]]), torch.zeros(1, 2, 1))
    outputs, _ = unroll(Sum(), (X,), state, reset_at((0, 1), (3, 0)), Sum())
    assert outputs[..., 0].T.tolist() == [[101, 103, 106, 4], [10, 30, 60, 100]]
    assert state.a.flatten().tolist() == [100, 1000], "what was given is not changed"


def test_network_that_takes_the_argument_is_called_once():
    given = []

    class Network:
        def forward(self, x, state, reset=None):
            given.append(reset)
            return x, state

    network = Network()
    unroll(network.forward, (X,), None, reset_at(), network)
    unroll(network.forward, (X,), None, reset_at((1, 1)), network)
    assert given[0] is None
    assert torch.equal(given[1], reset_at((1, 1)))


def test_inputs_may_be_records():
    def network(pair, state):
        return pair.a + pair.b, torch.zeros(1, 2, 1)

    outputs, _ = unroll(network, (Pair(X, X),), None, reset_at((1, 0)), network)
    assert torch.equal(outputs, 2 * X)


class Old:
    def forward(self, x, state): ...


class New:
    def forward(self, x, state, reset=None): ...


class HandsOn(New):
    def forward(self, *args, **kwargs): ...


class OldAgain(HandsOn):
    def forward(self, x, state): ...


@pytest.mark.parametrize(
    ("cls", "expected"),
    [(Old, False), (New, True), (HandsOn, True), (OldAgain, False), (int, False)],
)
def test_that_methods_take_an_argument(cls, expected):
    assert accepts(cls, "forward", "reset") == expected


def test_states_of_any_shape():
    # Those of convolutional networks [N,B,C,H,W] were taken for [N,B,H].
    def network(x, state):
        return x, state

    ones = Pair(torch.ones(1, 2, 3, 2, 2), torch.ones(1, 2))
    _, state = unroll(network, (X,), ones, reset_at((2, 1)), network)
    assert state.a[0, 0].eq(1).all()
    assert state.a[0, 1].eq(0).all()
    assert state.b.tolist() == [[1, 0]]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_masked_rows(shape):
    mask = reset_at((1, 0), (3, 1))
    rows = masked_rows(torch.ones(4, 2, *shape), mask)
    assert rows.shape == (4, 2, *shape)
    for t in range(4):
        for b in range(2):
            assert (rows[t, b] == (not mask[t, b])).all()
