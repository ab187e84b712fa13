import json
import os
import re
import runpy
import sys
import time
from contextlib import suppress
from datetime import datetime

import numpy as np
import pytest
import torch

from rlpyt.utils.logging import context, logger
from rlpyt.utils.logging.context import add_exp_param, check_progress, get_log_dir, logger_context
from tests.forked import fork


@pytest.fixture(autouse=True)
def log_dir(tmp_path, monkeypatch):
    """Relative directories and ``LOG_DIR`` are inside of the test's own."""
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "data" / "exp")


def test_logs_are_below_the_current_directory_or_that_of_the_environment(tmp_path, monkeypatch):
    # An installed library logged into site-packages.
    monkeypatch.delenv("RLPYT_LOG_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert runpy.run_path(context.__file__)["LOG_DIR"] == str(tmp_path / "data")
    monkeypatch.setenv("RLPYT_LOG_DIR", "x/y")
    assert runpy.run_path(context.__file__)["LOG_DIR"] == str(tmp_path / "x/y")


def test_get_log_dir(tmp_path):
    pattern = r"/local/\d{8}/\d{6}/exp/a"
    assert re.fullmatch(re.escape(str(tmp_path / "data")) + pattern, get_log_dir("exp/a"))
    assert re.fullmatch("/root" + pattern, get_log_dir("exp/a", "/root"))
    assert get_log_dir("/absolute") == get_log_dir("/absolute", create=True) == "/absolute"


def test_runs_of_one_second_have_a_directory_each(tmp_path, monkeypatch, dump, read_csv):
    class Clock(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(context, "datetime", Clock)
    for name in ("030405", "030405-2", "030405-3"):
        with logger_context("ppo", 0, "a"):
            dump(x=name)
        progress = tmp_path / "data" / "local" / "20260102" / name / "ppo" / "run_0/progress.csv"
        assert read_csv(progress) == [["x"], [name]]


def test_files_of_a_run(log_dir, tmp_path, dump, read_csv, capsys):
    with logger_context(log_dir, 3, "pong", {"lr": 0.1}, snapshot_mode="last"):
        exp_dir = logger.get_snapshot_dir()
        assert exp_dir == os.path.join(log_dir, "run_3")
        logger.log("hello")
        logger.save_itr_params(0, {"itr": 0})
        dump(a=1)
    assert sorted(os.listdir(exp_dir)) == [
        "debug.log",
        "params.json",
        "params.pkl",
        "progress.csv",
    ]
    assert read_csv(exp_dir + "/progress.csv") == [["a"], ["1"]]
    with open(exp_dir + "/params.json") as file:
        assert json.load(file) == {"lr": 0.1, "name": "pong", "run_ID": 3}
    with open(exp_dir + "/debug.log") as file:
        assert file.readline().endswith(" | pong_3 hello\n")
    assert "is outside of" not in capsys.readouterr().out


def test_everything_is_as_before_afterwards(log_dir, tmp_path, fresh_logger, dump, sink):
    """Nothing was restored after an exception, and snapshot settings never."""
    logger.add_sink(sink)
    logger.push_prefix("mine ")
    logger.set_snapshot_mode("gap")
    logger.set_snapshot_dir(tmp_path / "mine")
    logger.set_log_tabular_only(True)
    logger.set_iteration(5)
    sinks = list(fresh_logger.sinks)
    with (  # noqa: PT012 (what is set before the error is what is undone)
        pytest.raises(ZeroDivisionError),
        logger_context(log_dir, 0, "a", snapshot_mode="all"),
    ):
        assert not logger.get_log_tabular_only()
        assert logger.current().prefix == "mine a_0 "
        logger.push_prefix("never popped ")
        logger.set_iteration(99)
        logger.record_tabular("never dumped", 1)
        _ = 1 / 0
    assert logger.current() is fresh_logger
    assert logger.current().prefix == "mine "
    assert logger.get_snapshot_mode() == "gap"
    assert logger.get_snapshot_dir() == str(tmp_path / "mine")
    assert logger.get_log_tabular_only()
    assert logger.current().iteration == 5
    assert logger.current().rows == []
    assert fresh_logger.sinks == sinks
    assert sink.n_closed == 0
    dump(after=1)
    with open(log_dir + "/run_0/progress.csv") as file:
        assert file.read() == ""


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_exception_leaves_its_traceback_and_all_files(log_dir, dump, read_csv, error):
    with (  # noqa: PT012 (the steps before the error are what must survive it)
        pytest.raises(error),
        logger_context(log_dir, 0, "a", snapshot_mode="last"),
    ):
        dump(a=1)
        logger.save_itr_params(0, {"itr": 0})
        files = [
            *(sink.file for sink in logger.current().text_files.values()),
            *(sink.file for sink in logger.current().csv_files.values()),
        ]
        logger.set_log_tabular_only(True)  # No text; the traceback is written all the same.
        raise error("out of luck")
    assert all(file.closed for file in files)
    run_dir = log_dir + "/run_0"
    with open(run_dir + "/debug.log") as file:
        text = file.read()
    assert text.count("Traceback (most recent call last)") == 1
    assert text.endswith(f"{error.__name__}: out of luck\n")
    assert read_csv(run_dir + "/progress.csv") == [["a"], ["1"]]
    assert torch.load(run_dir + "/params.pkl") == {"itr": 0}


def test_what_is_not_on_disk_at_the_end_is_an_error(log_dir, dump, capsys):
    """The run used to end as if nothing was wrong, and a sweep then removed its checkpoints."""
    for name in ("progress.csv.tmp", "params.pkl"):  # As on a full disk: no file can be made here.
        os.makedirs(f"{log_dir}/run_0/{name}")

    def run(error):
        with logger_context(log_dir, 0, "a", snapshot_mode="last"):
            dump(a=1)
            dump(a=2)
            with suppress(OSError, RuntimeError):
                logger.save_itr_params(0, {})
            if error is not None:
                raise error

    with pytest.raises(OSError, match=r"params.pkl and 2 rows of .*progress.csv could not be writ"):
        run(None)
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError())
    assert "closed file" not in capsys.readouterr().out


def test_what_is_written_in_the_end_is_no_error(log_dir, dump, read_csv):
    os.makedirs(f"{log_dir}/run_0/progress.csv.tmp")
    os.makedirs(f"{log_dir}/run_0/params.pkl")
    with logger_context(log_dir, 0, "a", snapshot_mode="last"):
        dump(a=1)
        with suppress(OSError, RuntimeError):
            logger.save_itr_params(0, {})
        os.rmdir(f"{log_dir}/run_0/progress.csv.tmp")
        os.rmdir(f"{log_dir}/run_0/params.pkl")
        logger.save_itr_params(1, {})
    assert read_csv(f"{log_dir}/run_0/progress.csv") == [["a"], ["1"]]


def test_nested_contexts(log_dir, dump, read_csv):
    with logger_context(log_dir, "outer", "a", snapshot_mode="all"):
        outer_dir = logger.get_snapshot_dir()
        logger.set_iteration(1)
        dump(outer=1)
        logger.record_tabular("outer", 2)
        with logger_context(log_dir, "inner", "b"):
            logger.set_iteration(50)
            logger.log("inside")
            dump(inner=1)
        assert logger.current().iteration == 1
        assert logger.get_snapshot_dir() == outer_dir
        assert logger.get_snapshot_mode() == "all"
        logger.dump_tabular()
        logger.log("outside")
    assert read_csv(log_dir + "/run_outer/progress.csv") == [["outer"], ["1"], ["2"]]
    assert read_csv(log_dir + "/run_inner/progress.csv") == [["inner"], ["1"]]
    with open(log_dir + "/run_inner/debug.log") as file:
        text = file.read()
        assert "a_outer b_inner inside" in text
        assert "outside" not in text
    with open(log_dir + "/run_outer/debug.log") as file:
        text = file.read()
        assert "a_outer b_inner inside" in text
        assert "a_outer outside" in text


def test_outputs_added_before_go_on_inside(log_dir, tmp_path, dump, read_csv, sink):
    logger.add_tabular_output(tmp_path / "all.csv")
    logger.add_sink(sink)
    for run_ID in range(2):
        with logger_context(log_dir, run_ID, "a"):
            dump(x=run_ID)
    dump(x=2)
    assert read_csv(tmp_path / "all.csv") == [["x"], ["0"], ["1"], ["2"]]
    assert [row for row, _ in sink.rows] == [{"x": 0}, {"x": 1}, {"x": 2}]


def test_outputs_added_inside_are_closed_at_the_end(log_dir, tmp_path, dump, sink, read_csv):
    with logger_context(log_dir, 0, "a"):
        logger.add_sink(sink)
        logger.add_tabular_output(tmp_path / "extra.csv")
        logger.hold_tabular_output(tmp_path / "extra.csv")
        file = logger.current().held_csv_files[str(tmp_path / "extra.csv")].file
    assert file.closed
    assert sink.n_closed == 1
    dump(x=1)
    assert sink.rows == []


def test_removal_inside_of_an_output_added_before_lasts_until_the_end(log_dir, sink):
    logger.add_sink(sink)
    with logger_context(log_dir, 0, "a"):
        logger.remove_sink(sink)
        logger.log("inside")
    logger.log("after", with_timestamp=False)
    assert sink.lines == ["after"]
    assert sink.n_closed == 0


def test_a_second_run_of_the_same_name_empties_the_csv(log_dir, dump, read_csv):
    for x in range(2):
        with logger_context(log_dir, 0, "a"):
            dump(x=x)
    assert read_csv(log_dir + "/run_0/progress.csv") == [["x"], ["1"]]


def test_resume_continues_the_csv(log_dir, dump, read_csv):
    for x in range(2):
        with logger_context(log_dir, 0, "a", resume=x > 0):
            dump(x=x)
            logger.log(f"part {x}")
    assert read_csv(log_dir + "/run_0/progress.csv") == [["x"], ["0"], ["1"]]
    with open(log_dir + "/run_0/debug.log") as file:
        assert "part 0" in file.read()


def test_log_params_are_copied_and_always_serialisable(log_dir):
    """The caller's dict used to get the two keys."""
    params = {
        "cls": dict,
        "dtype": torch.float32,
        "seed": np.int64(3),
        "nested": {("a", 1): {"obj": object()}, 2: [torch.ones(1), (1, None)]},
    }
    before = dict(params)
    with logger_context(log_dir, 0, "a", params):
        pass
    assert params == before
    with open(log_dir + "/run_0/params.json") as file:
        assert json.load(file) == {
            "cls": "type",
            "dtype": "dtype",
            "seed": 3,
            "nested": {"('a', 1)": {"obj": "object"}, "2": ["Tensor", [1, None]]},
            "name": "a",
            "run_ID": 0,
        }


# Where a run logs to.


def test_relative_directory_is_moved_into_log_dir(tmp_path, capsys):
    with logger_context("somewhere", 0, "a"):
        exp_dir = logger.get_snapshot_dir()
    pattern = r"/local/\d{8}/\d{6}/somewhere/run_0"
    assert re.fullmatch(re.escape(str(tmp_path / "data")) + pattern, exp_dir)
    notice = capsys.readouterr().out
    assert notice == f"Logging to {exp_dir}\n"


def test_a_relative_directory_stays_in_log_dir(tmp_path):
    for _ in range(2):  # The second one was looked for without end.
        with logger_context("../../x/../somewhere", 0, "a"):
            assert logger.get_snapshot_dir().startswith(f"{tmp_path}/data/local/")
    assert len(list((tmp_path / "data" / "local").rglob("somewhere/run_0"))) == 2


def test_resume_takes_the_directory(tmp_path, capsys):
    # It was named after the time of the start, where there was nothing to resume.
    with logger_context("somewhere", 0, "a", resume=True):
        assert logger.get_snapshot_dir() == str(tmp_path / "somewhere" / "run_0")
    assert capsys.readouterr().out == ""


# Tensorboard.


def test_summary_writer_is_closed_and_reset(log_dir, dump):
    """The writer of one context used to receive the numbers of the next."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with logger_context(log_dir, 0, "a", use_summary_writer=True):
        writer = logger.get_tf_summary_writer()
        for itr in range(3):
            logger.set_iteration(itr)
            dump(x=itr * 0.5)
        with logger_context(log_dir, 1, "b"):
            assert logger.get_tf_summary_writer() is None
            dump(x=100)
        assert logger.get_tf_summary_writer() is writer
    assert logger.get_tf_summary_writer() is None
    events = accumulator.EventAccumulator(log_dir + "/run_0").Reload()
    assert [(e.step, e.value) for e in events.Scalars("x")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert not any("tfevents" in name for name in os.listdir(log_dir + "/run_1"))


def test_missing_tensorboard_is_named(log_dir, fresh_logger, monkeypatch):
    """It used to be printed at import and to be a NameError later."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"rlpyt\[tensorboard\]"):
        logger_context(log_dir, 0, "a", use_summary_writer=True).__enter__()
    assert logger.current() is fresh_logger


# A run that is killed.


def run_endlessly(log_dir):
    with logger_context(log_dir, 0, "a", snapshot_mode="last", override_prefix=True):
        for itr in range(10**6):
            logger.save_itr_params(itr, {"itr": itr, "w": torch.full((2_000_000,), float(itr))})
            logger.record_tabular("itr", itr)
            logger.record_tabular(f"new{itr % 50}", itr)
            logger.dump_tabular()


def test_killed_run_leaves_a_whole_csv_and_snapshot(log_dir, read_csv, tmp_path):
    run = fork(run_endlessly, log_dir, output=tmp_path / "output")
    csv_path, snapshot = (os.path.join(log_dir, "run_0", n) for n in ("progress.csv", "params.pkl"))
    deadline = time.monotonic() + 60
    while run.is_alive() and time.monotonic() < deadline:
        # In the middle of a save, with some rows behind it.
        if os.path.exists(snapshot + ".tmp") and len(read_csv(csv_path)) > 3:
            break
    else:
        pytest.fail("The run ended by itself, or never came to a save.")
    run.kill()
    run.join()
    header, *rows = read_csv(csv_path)
    assert header[:3] == ["itr", "new0", "new1"]
    assert [row[0] for row in rows] == [str(itr) for itr in range(len(rows))]
    assert {len(row) for row in rows} == {len(header)}
    params = torch.load(snapshot)
    assert params["itr"] in (len(rows), len(rows) - 1)
    assert torch.all(params["w"] == params["itr"])


# Files of finished runs.


def test_add_exp_param(log_dir):
    for run_ID in range(2):
        with logger_context(log_dir, run_ID, "a", {"lr": 1, "env": {"id": "x"}}):
            pass

    def params():
        with open(log_dir + "/run_1/params.json") as file:
            return json.load(file)

    add_exp_param("note", "new", log_dir)
    add_exp_param("lr", 2, log_dir)
    add_exp_param("env", {"id": "y", "lives": 1}, log_dir)
    assert params()["note"] == "new"
    assert params()["lr"] == 1
    assert params()["env"] == {"id": "x", "lives": 1}
    add_exp_param("lr", 2, log_dir, overwrite=True)
    add_exp_param("env", {"id": "y"}, log_dir, overwrite=True)
    assert params()["lr"] == 2
    assert params()["env"] == {"id": "y", "lives": 1}


def test_check_progress_counts_lines(log_dir, dump, capsys, monkeypatch):
    for run_ID in range(2):
        with logger_context(log_dir, run_ID, "a"):
            for i in range(run_ID + 1):
                dump(x=i)
    capsys.readouterr()
    check_progress(log_dir)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["2", log_dir + "/run_0/progress.csv"],
        ["3", log_dir + "/run_1/progress.csv"],
    ]
    monkeypatch.chdir(log_dir)
    check_progress()
    assert capsys.readouterr().out.splitlines() == lines
