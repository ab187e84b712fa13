"""One test or more per row of the table of functions."""

import re
import sys

import numpy as np
import pytest
import torch

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.logger import Sink

TIMESTAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}  \| "


class Writer:
    """Stands for a tensorboard writer."""

    def __init__(self):
        self.scalars = []

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))


class FailingSink(Sink):
    def __init__(self, method):
        self.n_calls = 0
        setattr(self, method, self.fail)

    def fail(self, *args):
        self.n_calls += 1
        raise RuntimeError("no connection")


# Text.


def test_log_goes_to_console_and_files(tmp_path, capsys):
    path = tmp_path / "deep" / "debug.log"
    logger.add_text_output(path)
    logger.push_prefix("run_0 ")
    with logger.prefix("itr #3 "):
        logger.log("hello")
    printed = capsys.readouterr().out
    assert re.fullmatch(TIMESTAMP + "run_0 itr #3 hello\n", printed)
    assert path.read_text() == printed  # Without closing: every line is flushed.


def test_colours_are_for_terminals_only(tmp_path, capsys, monkeypatch):
    logger.add_text_output(tmp_path / "debug.log")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    logger.log("hello", with_timestamp=False, color="green")
    assert capsys.readouterr().out == "\x1b[32mhello\x1b[0m\n"
    assert (tmp_path / "debug.log").read_text() == "hello\n"


def test_text_output_appends_and_is_removed(tmp_path):
    path = str(tmp_path / "debug.log")
    for text in ("one", "two"):
        logger.add_text_output(path)
        logger.add_text_output(path)  # A second time changes nothing.
        logger.log(text, with_timestamp=False)
        logger.remove_text_output(path)
        logger.remove_text_output(path)
    logger.log("three")
    assert (tmp_path / "debug.log").read_text() == "one\ntwo\n"


def test_disabled_prefix(capsys):
    logger.push_prefix("run_0 ")
    logger.set_disable_prefix(True)
    assert logger.get_disable_prefix()
    logger.log("hello", with_timestamp=False)
    assert capsys.readouterr().out == "hello\n"


def test_disable_stops_text_values_and_rows(sink, dump, capsys):
    logger.add_sink(sink)
    logger.disable()
    logger.log("hello")
    dump(a=1)
    assert capsys.readouterr().out == ""
    assert (sink.lines, sink.values, sink.rows) == ([], [], [])
    assert (
        logger.current().rows == []
    )  # Was stored, and appeared in the first row after ``enable``.
    logger.enable()
    dump(b=2)
    assert sink.rows == [({"b": 2}, 0)]


# Rows.


def test_table_is_printed_line_by_line(capsys):
    with logger.tabular_prefix("Diagnostics/"):
        logger.record_tabular("Iteration", 12)
        logger.record_tabular("CumTime (s)", 1.25)
    logger.push_prefix("itr ")
    logger.dump_tabular(with_prefix=False, with_timestamp=False)
    assert capsys.readouterr().out.split("\n") == [
        "-----------------------  -----",
        "Diagnostics/Iteration    12",
        "Diagnostics/CumTime (s)   1.25",
        "-----------------------  -----",
        "",
    ]


def test_a_table_has_one_time_and_the_columns_to_read(tmp_path, capsys, read_csv):
    logger.add_tabular_output(tmp_path / "progress.csv")
    logger.record_tabular("steps", 7)
    logger.record_tabular("details", 8)
    logger.record_tabular("gridStd", 9)  # Of no average.
    logger.record_tabular_misc_stat("loss", [1, 2])
    logger.dump_tabular(unread=["details"])
    rule, *rows, _ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(TIMESTAMP + "[- ]+", rule)
    assert [row.split() for row in rows] == [
        ["steps", "7"],
        ["gridStd", "9"],
        ["lossAverage", "1.5"],
    ]
    header = ["steps", "details", "gridStd"]
    header += ["loss" + name for name in ("Average", "Std", "Median", "Min", "Max")]
    assert read_csv(tmp_path / "progress.csv")[0] == header


def test_disabled_tabular_shows_but_does_not_write(tmp_path, dump, read_csv, capsys):
    logger.add_tabular_output(tmp_path / "progress.csv")
    logger.disable_tabular()
    dump(a=1)
    assert "a  1" in capsys.readouterr().out
    logger.enable_tabular()
    dump(b=2)
    assert read_csv(tmp_path / "progress.csv") == [["b"], ["2"]]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (True, True),
        (3, 3),
        (np.float32(0.1), np.float32(0.1)),
        (np.array([2.5]), 2.5),
        (torch.tensor(2.5, requires_grad=True), 2.5),
        (None, "None"),
        ("text", "text"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_recorded_value(sink, dump, value, stored):
    logger.add_sink(sink)
    dump(a=value)
    assert sink.rows == [({"a": stored}, 0)]


def test_a_recorded_array_is_what_it_was(sink):
    logger.add_sink(sink)
    array = np.zeros(2)
    logger.record_tabular("a", array)
    array += 1
    logger.dump_tabular()
    assert sink.rows == [({"a": "[0. 0.]"}, 0)]


@pytest.mark.parametrize(
    ("placement", "with_writer", "keys"),
    [
        ("back", False, ["xAverage", "xStd", "xMedian", "xMin", "xMax"]),
        ("back", True, ["x/Average", "x/Std", "x/Median", "x/Min", "x/Max"]),
        ("front", False, ["Averagex", "Stdx", "Medianx", "Minx", "Maxx"]),
        ("front", True, ["Averagex", "Stdx", "Medianx", "Minx", "Maxx"]),
    ],
)
def test_misc_stat_keys(placement, with_writer, keys):
    logger.set_tf_summary_writer(Writer() if with_writer else None)
    logger.record_tabular_misc_stat("x", [1.0], placement)
    assert [key for key, _ in logger.current().rows] == keys


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 6],
        (1.0, 2.0, 3.0, 6.0),
        np.array([[1, 2], [3, 6]], dtype=np.uint8),
        torch.tensor([1.0, 2.0, 3.0, 6.0], requires_grad=True),
        torch.tensor([1.0, 2.0, 3.0, 6.0], dtype=torch.bfloat16),
        [torch.tensor(1.0, requires_grad=True), np.float32(2), 3, 6],
        [torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 6.0]])],
    ],
)
def test_misc_stat_values(values):
    logger.record_tabular_misc_stat("x", values)
    np.testing.assert_allclose([v for _, v in logger.current().rows], [3, np.sqrt(3.5), 2.5, 1, 6])


@pytest.mark.parametrize("values", [[], np.array([]), [1.0, np.nan]])
def test_misc_stat_of_nothing_or_nan_is_nan(values):
    logger.record_tabular_misc_stat("x", values)
    assert len(logger.current().rows) == 5
    assert all(np.isnan(value) for _, value in logger.current().rows)


def test_misc_stat_of_infinity():
    # Numpy warned of the standard deviation.
    logger.record_tabular_misc_stat("x", [1.0, np.inf])
    values = [value for _, value in logger.current().rows]
    np.testing.assert_equal(values, [np.inf, np.nan, np.inf, 1, np.inf])


# Tabular-only mode.


def test_tabular_only(sink, dump, capsys, monkeypatch):
    monkeypatch.setattr(logger, "table_printer", logger.TerminalTablePrinter())
    logger.add_sink(sink)
    logger.set_log_tabular_only(True)
    assert logger.get_log_tabular_only()
    logger.log("hello")
    dump(a=1, b=2)
    assert logger.table_printer.headers
    dump(b=4, c=5)
    assert capsys.readouterr().out == (
        "  a    b\n---  ---\n  1    2\na      b\n---  ---\n       4\n"
    )
    assert sink.lines == []
    assert len(sink.rows) == 2


def test_table_printer_fills_the_terminal_with_the_latest_rows(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "80")
    printer = logger.TerminalTablePrinter()
    for i in range(4):
        printer.print_tabular([("itr", i)])
    last_screen = capsys.readouterr().out.split("\x1b[2J\x1b[H")[-1]
    assert last_screen == "  itr\n-----\n    2\n    3\n"


# Snapshots.


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("all", {f"itr_{i}.pkl" for i in range(7)}),
        ("last", {"params.pkl"}),
        ("gap", {"itr_0.pkl", "itr_2.pkl", "itr_5.pkl"}),
        ("last+gap", {"itr_0.pkl", "itr_2.pkl", "itr_5.pkl", "params.pkl"}),
        ("none", set()),
    ],
)
def test_snapshot_modes(tmp_path, mode, names):
    logger.set_snapshot_dir(tmp_path / "run")
    logger.set_snapshot_mode(mode)
    logger.set_snapshot_gap(3)
    assert logger.get_snapshot_dir() == str(tmp_path / "run")
    assert (logger.get_snapshot_mode(), logger.get_snapshot_gap()) == (mode, 3)
    for itr in range(7):
        logger.save_itr_params(itr, {"itr": itr, "w": torch.ones(2)})
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    for name in names:
        itr = 6 if name == "params.pkl" else int(name[4:-4])
        assert torch.load(tmp_path / "run" / name)["itr"] == itr


def test_no_snapshot_without_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger.save_itr_params(0, {})
    assert list(tmp_path.iterdir()) == []


def test_snapshot_gap_is_checked():
    logger.set_snapshot_mode("gap")
    with pytest.raises(ValueError, match="gap=0 must be at least 1 iteration"):
        logger.set_snapshot_gap(0)


def test_failed_save_leaves_the_last_snapshot(tmp_path):
    """The old file used to be emptied before it was known that the new one can be written."""
    logger.set_snapshot_dir(tmp_path)
    logger.set_snapshot_mode("last")
    logger.save_itr_params(0, {"itr": 0})
    with pytest.raises(Exception, match="lambda"):
        logger.save_itr_params(1, {"itr": 1, "w": torch.ones(1000), "f": lambda: None})
    assert [path.name for path in tmp_path.iterdir()] == ["params.pkl"]
    assert torch.load(tmp_path / "params.pkl") == {"itr": 0}


# Tensorboard.


def test_summary_writer_gets_numbers_at_once():
    writer = Writer()
    logger.set_tf_summary_writer(writer)
    assert logger.get_tf_summary_writer() is writer
    assert logger._tf_summary_writer is writer
    logger.set_iteration(4)
    with logger.tabular_prefix("p/"):
        logger.record_tabular("a", np.float32(1.5))
    logger.record_tabular("b", "text")
    assert writer.scalars == [("p/a", 1.5, 4)]
    logger.set_tf_summary_dir("somewhere")
    assert logger.get_tf_summary_dir() == "somewhere"
    logger.set_tf_summary_writer(None)
    logger.record_tabular("a", 1)
    assert len(writer.scalars) == 1
    assert logger.get_tf_summary_writer() is None


# Sinks.


def test_removed_sink_is_closed_and_gets_nothing_more(sink, dump):
    logger.add_sink(sink)
    logger.add_sink(sink)
    logger.log("one", with_timestamp=False)
    logger.remove_sink(sink)
    logger.remove_sink(sink)
    logger.log("two")
    dump(a=1)
    assert sink.lines == ["one"]
    assert sink.rows == []
    assert sink.n_closed == 1


@pytest.mark.parametrize("method", ["write_text", "write_value", "write_row"])
def test_failing_sink_is_reported_once_and_tried_again(method, sink, dump, tmp_path, read_csv):
    failing = FailingSink(method)
    logger.add_sink(failing)
    logger.add_sink(sink)
    logger.add_tabular_output(tmp_path / "progress.csv")
    for i in range(3):
        logger.log(f"line {i}", with_timestamp=False)
        dump(a=i)
    assert failing.n_calls >= 3
    assert [row for row, _ in sink.rows] == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert read_csv(tmp_path / "progress.csv") == [["a"], ["0"], ["1"], ["2"]]
    reports = [line for line in sink.lines if "Traceback" in line]
    assert len(reports) == 1
    assert "FailingSink" in reports[0]
    assert "RuntimeError: no connection" in reports[0]


def test_all_sinks_failing_is_reported_on_stderr(fresh_logger, capsys):
    fresh_logger.sinks = [FailingSink("write_text")]
    logger.log("hello")
    assert "no connection" in capsys.readouterr().err


# State.


def test_state_round_trip(fresh_logger):
    logger.set_iteration(9)
    state = fresh_logger.state_dict()
    with logger.using(logger.Logger()) as other:
        other.load_state_dict(state)
        assert logger.current().iteration == 9
    assert logger.current() is fresh_logger
