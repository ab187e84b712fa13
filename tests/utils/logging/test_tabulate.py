import pytest

from rlpyt.utils.logging.tabulate import simple_separated_format, tabulate, tabulate_formats


def lines(*args, **kwargs):
    return tabulate(*args, **kwargs).split("\n")


def test_numbers_are_aligned_on_the_decimal_point():
    data = [("a", "1"), ("long name", 12.5), ("b", 1e10), ("c", float("nan")), ("d", -1.23456789)]
    assert lines(data) == [
        "---------  ---------",
        "a            1",
        "long name   12.5",
        "b            1e+10",
        "c          nan",
        "d           -1.23457",
        "---------  ---------",
    ]


def test_a_column_with_text_is_text():
    assert lines([("a", 1.0), ("b", "x1")]) == ["-  ---", "a  1.0", "b  x1", "-  ---"]


def test_whole_numbers_are_written_out():
    assert lines([["1234567890"], [5]]) == ["-" * 10, "1234567890", " " * 9 + "5", "-" * 10]


@pytest.mark.parametrize(
    ("numalign", "column"),
    [
        ("decimal", [" 1.5", "10"]),
        ("right", ["1.5", " 10"]),
        ("left", ["1.5", "10"]),
        ("center", ["1.5", " 10"]),
        (None, ["1.5", "10"]),
    ],
)
def test_numalign(numalign, column):
    assert lines([[1.5], [10]], tablefmt="plain", numalign=numalign) == column


@pytest.mark.parametrize(
    ("stralign", "column"), [("left", ["a", "bcd"]), ("right", ["  a", "bcd"])]
)
def test_stralign(stralign, column):
    assert lines([["a"], ["bcd"]], tablefmt="plain", stralign=stralign) == column


def test_float_format():
    assert lines([[1234.5678]], tablefmt="plain", floatfmt=",.2f") == ["1,234.57"]


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        ([["x", 1], ["yy", 20]], ["name", "n"]),
        ([["name", "n"], ["x", 1], ["yy", 20]], "firstrow"),
        ({"name": ["x", "yy"], "n": [1, 20]}, "keys"),
        ([{"name": "x", "n": 1}, {"name": "yy", "n": 20}], "keys"),
    ],
)
def test_headers(data, headers):
    assert lines(data, headers) == ["name   n", "----  --", "x      1", "yy    20"]


def test_headers_for_fewer_columns_leave_the_first_without():
    assert lines([["row", 1]], ["n"], tablefmt="plain") == ["     n", "row  1"]


def test_missing_values():
    assert lines([["a", 1], ["b"], ["c", None]], tablefmt="plain", missingval="?") == [
        "a  1",
        "b  ?",
        "c  ?",
    ]


def test_own_separator():
    assert tabulate([["a", 1], ["b", 2]], tablefmt=simple_separated_format("\t")) == "a\t1\nb\t2"


def test_formats():
    assert tabulate_formats == ["plain", "simple"]
    with pytest.raises(ValueError, match="'html': use plain or simple"):
        tabulate([], tablefmt="html")


def test_empty_table():
    assert tabulate([], tablefmt="plain") == ""
    assert lines([], ["a", "b"]) == ["a  b", "-  -"]
