"""Every run ends with the numbers in ``numbers.json``: to the last digit where these were recorded.

On another processor or with other versions floating point differs: there they agree within
:data:`TOLERANCE`, and :func:`test_numbers_were_recorded_on_this_machine` is skipped and says so. To
compare exactly there, run ``python -m tests.golden.record FILE`` at the commit before, and set
``RLPYT_GOLDEN=FILE`` for this test.
"""

import json
import os
from pathlib import Path

import pytest

from tests.golden.record import NUMBERS, RUNS, machine, numbers_of
from tests.selection import FULL

RECORDED = json.loads(Path(os.environ.get("RLPYT_GOLDEN", NUMBERS)).read_text())
IS_EXACT = RECORDED["machine"] == machine()
# With the instructions of other processors all numbers agreed within a tenth of these.
TOLERANCE = {"rel": 1e-3, "abs": 1e-6}
# Other versions of torch drop out other units.
DRAWN_BY_TORCH = {"droq"}
SERIAL = [name for name in RUNS if not name.endswith("Sampler")]


def test_every_run_is_recorded():
    assert RECORDED["runs"].keys() == RUNS.keys()


def test_numbers_were_recorded_on_this_machine():
    if not IS_EXACT:
        pytest.skip(f"here {machine()}, recorded {RECORDED['machine']}: compared by {TOLERANCE}")


@pytest.mark.parametrize("name", RUNS if FULL else SERIAL)
def test_run_ends_as_recorded(name):
    if name in DRAWN_BY_TORCH and RECORDED["machine"]["torch"] != machine()["torch"]:
        pytest.skip(f"recorded with torch {RECORDED['machine']['torch']}, which draws dropout")
    numbers, expected = numbers_of(name), RECORDED["runs"][name]
    log = {column: numbers["log"].get(column, "lost") for column in expected["log"]}
    if IS_EXACT:
        assert {**numbers, "log": log} == expected
    assert numbers["norms"] == pytest.approx(expected["norms"], **TOLERANCE)
    for column, values in log.items():
        near = pytest.approx(
            list(map(float, expected["log"][column].split())), nan_ok=True, **TOLERANCE
        )
        assert list(map(float, values.split())) == near, column
