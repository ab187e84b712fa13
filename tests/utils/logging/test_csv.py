import os

import pytest

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.sinks import CsvSink


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "progress.csv"


def test_new_keys_extend_the_header_on_the_right(path, dump, read_csv):
    """The columns used to come back in the order of a set."""
    logger.add_tabular_output(path)
    columns = [f"c{i}" for i in range(20)]
    for n in (2, 2, 11, 20):
        dump(**dict.fromkeys(reversed(columns[:n]), n))
    header, *rows = read_csv(path)
    assert header == (
        ["c1", "c0"] + [f"c{i}" for i in range(10, 1, -1)] + [f"c{i}" for i in range(19, 10, -1)]
    )
    assert rows == [
        ["2"] * 2 + ["nan"] * 18,
        ["2"] * 2 + ["nan"] * 18,
        ["11"] * 11 + ["nan"] * 9,
        ["20"] * 20,
    ]
    assert os.listdir(path.parent) == ["progress.csv"]


def test_fields_are_quoted(path, dump, read_csv):
    logger.add_tabular_output(path)
    row = {'a "quoted", key': "x,y", "two": "line\nbreak"}
    dump(**row)
    dump(new=1)
    assert read_csv(path) == [
        ['a "quoted", key', "two", "new"],
        ["x,y", "line\nbreak", "nan"],
        ["nan", "nan", "1"],
    ]


def test_names_of_files_that_are_no_text(path, dump, read_csv):
    # They blocked all later rows.
    logger.add_tabular_output(path)
    dump(file="a\udcff")
    dump(file="b")
    assert read_csv(path) == [["file"], ["a\\udcff"], ["b"]]


def test_adding_empties_an_old_file(path, dump, read_csv):
    """Also the header is new: that of before the removal used to be remembered."""
    for key in ("a", "b"):
        logger.add_tabular_output(path)
        logger.add_tabular_output(path)  # A second time changes nothing.
        dump(**{key: 1})
        assert read_csv(path) == [[key], ["1"]]
        logger.remove_tabular_output(path)
    logger.remove_tabular_output(path)
    dump(c=1)
    assert read_csv(path) == [["b"], ["1"]]


def test_append_continues_rows_and_columns(path, dump, read_csv):
    logger.add_tabular_output(path)
    dump(a=1, b=2)
    logger.remove_tabular_output(path)
    logger.add_tabular_output(path, append=True)
    dump(b=4, a=3)
    dump(c=5)
    assert read_csv(path) == [
        ["a", "b", "c"],
        ["1", "2", "nan"],
        ["3", "4", "nan"],
        ["nan", "nan", "5"],
    ]


def test_append_drops_a_line_without_end(path, dump, read_csv):
    path.parent.mkdir()
    path.write_text("a,b\n1,2\n3,")
    logger.add_tabular_output(path, append=True)
    dump(a=5, b=6)
    assert read_csv(path) == [["a", "b"], ["1", "2"], ["5", "6"]]


def test_held_output_goes_on_where_it_was(path, dump, read_csv):
    logger.add_tabular_output(path)
    dump(a=1)
    logger.hold_tabular_output(path)
    assert list(logger.current().held_csv_files) == [str(path)]
    dump(a=2)
    logger.add_tabular_output(path)
    dump(a=3)
    assert read_csv(path) == [["a"], ["1"], ["3"]]


def test_held_output_can_be_removed(path, dump, read_csv):
    logger.add_tabular_output(path)
    logger.hold_tabular_output(path)
    logger.remove_tabular_output(path)
    assert logger.current().held_csv_files == {}
    logger.hold_tabular_output(path)  # Not there: nothing happens.


def test_drop_rows_of_a_later_time(path, dump, read_csv):
    logger.add_tabular_output(path)
    logger.add_tabular_output(path.parent / "other.csv")
    for itr in (9, 19, 29):
        dump(itr=itr)
    logger.drop_tabular_after("itr", 19)
    logger.drop_tabular_after("no such column", 0)
    dump(itr=29)
    assert read_csv(path) == [["itr"], ["9"], ["19"], ["29"]]
    assert read_csv(path.parent / "other.csv") == read_csv(path)


def test_full_disk_loses_no_row(path, read_csv):
    resource = pytest.importorskip("resource")
    sink = CsvSink(path)
    sink.write_row({"a": 1}, 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))
    try:
        with pytest.raises(OSError, match="disk full"):
            sink.write_row({"a": "x" * 10}, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_csv(path) == [["a"], ["1"]]
    sink.write_row({"a": 3}, 2)
    sink.close()
    assert read_csv(path) == [["a"], ["1"], ["x" * 10], ["3"]]


def test_failed_extension_leaves_the_old_file(path, read_csv, monkeypatch):
    sink = CsvSink(path)
    sink.write_row({"a": 1}, 0)
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", lambda *args: (_ for _ in ()).throw(OSError("no")))
        with pytest.raises(OSError, match="no"):
            sink.write_row({"a": 2, "b": 2}, 1)
    assert read_csv(path) == [["a"], ["1"]]
    assert os.listdir(path.parent) == ["progress.csv"]
    sink.close()  # Writes what is pending.
    assert read_csv(path) == [["a", "b"], ["1", "nan"], ["2", "2"]]


@pytest.mark.parametrize("append", [False, True])
def test_a_relative_path_survives_a_change_of_directory(
    append, tmp_path, monkeypatch, dump, read_csv
):
    """The file was opened again elsewhere when its columns grew."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    logger.add_tabular_output("progress.csv", append)
    dump(a=1)
    monkeypatch.chdir(tmp_path / "elsewhere")
    dump(a=2, b=3)
    logger.drop_tabular_after("a", 1)
    assert list(logger.current().csv_files) == ["progress.csv"]
    assert read_csv(tmp_path / "progress.csv") == [["a", "b"], ["1", "nan"]]
    assert os.listdir(tmp_path / "elsewhere") == []
