"""No oracle agrees with a library that was made worse on purpose.

By default each way and each oracle is tried once, with ``RLPYT_FULL=1`` all that should meet.
"""

import pytest

from tests.oracles.mutations import MUTATIONS
from tests.oracles.registry import ORACLES
from tests.selection import selected

CELLS = [(mutation, name) for mutation, (_, names) in MUTATIONS.items() for name in names]


@pytest.mark.parametrize(("mutation", "name"), selected(CELLS, aspects=set))
def test_noticed(mutation, name, monkeypatch):
    MUTATIONS[mutation][0](monkeypatch)
    assert not ORACLES[name].run().agrees()
