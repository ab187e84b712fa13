"""The script whose runs a sweep starts: ``SCRIPT`` of the module that tests it."""

import textwrap

import pytest

from rlpyt.experiments.sweeps import sweep


@pytest.fixture
def script(request, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr("rlpyt.utils.logging.context.LOG_DIR", str(tmp_path / "data"))
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(request.module.SCRIPT))
    return path
