"""The progress bar on a terminal, and its silence elsewhere."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rlpyt.utils import prog_bar
from rlpyt.utils.logging import logger
from rlpyt.utils.prog_bar import ProgBarCounter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(prog_bar, "sys", SimpleNamespace(stderr=stream))
    return stream


@pytest.fixture(autouse=True)
def _all_outputs() -> Any:
    yield
    logger.set_log_tabular_only(False)


def filled(stream: Terminal) -> int:
    """Length of the bar as it was drawn last."""
    return stream.getvalue().rpartition("\r")[2].count("#")


def test_the_bar_fills_and_ends(terminal: Terminal) -> None:
    bar = ProgBarCounter(50)
    bar.update(25)
    half = filled(terminal)
    assert 0 < half < 30
    bar.update(10)
    bar.update(25)
    assert filled(terminal) == half
    bar.update(70)
    assert filled(terminal) == 30
    written = terminal.getvalue()
    bar.update(50)
    bar.stop()
    assert terminal.getvalue() == written


def test_stop_ends_the_line_early(terminal: Terminal) -> None:
    bar = ProgBarCounter(1000)
    bar.update(100)
    bar.stop()
    bar.stop()
    assert terminal.getvalue().endswith("\n")
    assert terminal.getvalue().count("Total time") == 1


def test_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgBarCounter(10)
    bar.update(5)
    bar.stop()
    assert bar.pbar is None
    assert capsys.readouterr().err == ""


def test_silent_without_pyprind(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyprind", None)
    bar = ProgBarCounter(10)
    bar.update(5)
    bar.stop()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("first", [True, False])
def test_tabular_only_may_change_at_any_time(terminal: Terminal, first: bool) -> None:
    """Switching it off after the bar was made used to end in an error."""
    logger.set_log_tabular_only(first)
    bar = ProgBarCounter(10)
    drawn = terminal.getvalue()
    logger.set_log_tabular_only(not first)
    bar.update(5)
    bar.stop()
    assert terminal.getvalue() == drawn


def test_a_count_of_nothing(terminal: Terminal) -> None:
    bar = ProgBarCounter(0)
    bar.update(0)
    bar.update(1)
    assert filled(terminal) == 30
