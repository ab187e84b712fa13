"""Tables of text: columns padded to one width, numbers aligned on their decimal point."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

Line = namedtuple("Line", ["begin", "hline", "sep", "end"])
DataRow = namedtuple("DataRow", ["begin", "sep", "end"])
TableFormat = namedtuple(
    "TableFormat",
    [
        "lineabove",
        "linebelowheader",
        "linebetweenrows",
        "linebelow",
        "headerrow",
        "datarow",
        "padding",
        "with_header_hide",
    ],
)


def simple_separated_format(separator: str) -> TableFormat:
    """A ``tablefmt`` without rules, whose columns are separated by ``separator``."""
    row = DataRow("", separator, "")
    return TableFormat(None, None, None, None, row, row, padding=0, with_header_hide=None)


_DASHES = Line("", "-", "  ", "")
_FORMATS = {
    "plain": simple_separated_format("  "),
    "simple": simple_separated_format("  ")._replace(
        lineabove=_DASHES,
        linebelowheader=_DASHES,
        linebelow=_DASHES,
        with_header_hide=["lineabove", "linebelow"],
    ),
}
tabulate_formats = sorted(_FORMATS)

_INTEGER = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)", re.IGNORECASE)
_AFTER_WHOLE_PART = re.compile(r"(\.|e[-+]).*")


def tabulate(
    tabular_data: Iterable[Any],
    headers: str | Sequence[Any] = (),
    tablefmt: str | TableFormat = "simple",
    floatfmt: str = "g",
    numalign: str | None = "decimal",
    stralign: str | None = "left",
    missingval: str = "",
) -> str:
    """The table of some rows, as text of several lines.

    Args:
        tabular_data: rows of cells, rows as dicts, or a dict of columns. Text which reads as a
            number is one; a column is one of numbers if all its cells are.
        headers: names of the columns, ``"firstrow"``, or ``"keys"`` of the dicts.
        tablefmt: a name of ``tabulate_formats``, or what ``simple_separated_format`` returns.
        floatfmt: format of numbers which are no integers.
        numalign: ``decimal``, ``left``, ``right``, ``center`` or ``None``, for columns of numbers.
        stralign: the same, without ``decimal``, for other columns.
        missingval: stands for ``None`` and for the missing end of a short row.

    Raises:
        ValueError: for an unknown format.
    """
    if isinstance(tablefmt, str):
        if tablefmt not in _FORMATS:
            raise ValueError(f"Unknown tablefmt {tablefmt!r}: use {' or '.join(tabulate_formats)}.")
        tablefmt = _FORMATS[tablefmt]
    names, rows = _names_and_rows(tabular_data, headers)
    columns = []
    for name, *cells in zip_longest(names, *rows):
        is_number = _is_number_column(cells)
        align = numalign if is_number else stralign
        texts = [_text(cell, floatfmt if is_number else None, missingval) for cell in cells]
        columns.append(_aligned(str(name), texts, align, with_header=bool(names)))
    return "\n".join(_lines([list(row) for row in zip(*columns)], tablefmt, bool(names)))


def _names_and_rows(
    data: Iterable[Any], headers: str | Sequence[Any]
) -> tuple[list[Any], list[list[Any]]]:
    keys: list[Any] = []
    if isinstance(data, Mapping):
        keys = list(data)
        rows = [list(row) for row in zip_longest(*data.values())]
    else:
        rows = []
        for row in data:
            keys = keys or (list(row) if isinstance(row, Mapping) else [])
            rows.append([row.get(key) for key in keys] if isinstance(row, Mapping) else list(row))
    n_columns = max(map(len, rows), default=0)
    if headers == "keys":
        headers = keys or range(n_columns)
    elif headers == "firstrow":
        headers = rows.pop(0) if rows else []
    names = list(headers)
    if names:
        n_columns = max(n_columns, len(names))
        names = [""] * (n_columns - len(names)) + names  # The first columns may be labels of rows.
    return names, [row + [None] * (n_columns - len(row)) for row in rows]


def _is_number_column(cells: Iterable[Any]) -> bool:
    texts = [str(cell) for cell in cells if cell is not None]
    return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def _text(cell: Any, floatfmt: str | None, missingval: str) -> str:
    if cell is None:
        return missingval
    text = str(cell)
    if floatfmt is None or _INTEGER.fullmatch(text):
        return text
    return format(float(text), floatfmt)


def _aligned(name: str, texts: list[str], align: str | None, with_header: bool) -> list[str]:
    if align == "decimal":
        # Behind the whole part, every number takes as many places as the longest.
        n_after = [len(text) - len(_AFTER_WHOLE_PART.sub("", text)) for text in texts]
        longest = max(n_after, default=0)
        texts = [text + " " * (longest - n) for text, n in zip(texts, n_after)]
    pad = {"decimal": str.rjust, "right": str.rjust, "center": str.center}.get(
        align or "", str.ljust
    )
    cells = [name, *texts] if with_header else texts
    width = max(map(len, cells), default=0)
    return [pad(cell, width) for cell in cells]


def _lines(rows: list[list[str]], fmt: TableFormat, with_header: bool) -> list[str]:
    widths = [len(cell) + 2 * fmt.padding for cell in rows[0]] if rows else []
    hidden = (fmt.with_header_hide or []) if with_header else []
    blank = " " * fmt.padding

    def rule(line: Line | None) -> list[str]:
        if line is None:
            return []
        return [line.begin + line.sep.join(line.hline * width for width in widths) + line.end]

    def row_line(row: list[str], style: DataRow) -> str:
        cells = style.sep.join(blank + cell + blank for cell in row)
        return str(style.begin + cells + style.end).rstrip()

    lines = [] if "lineabove" in hidden else rule(fmt.lineabove)
    if with_header:
        lines += [row_line(rows[0], fmt.headerrow), *rule(fmt.linebelowheader)]
        rows = rows[1:]
    for i, row in enumerate(rows):
        lines += rule(fmt.linebetweenrows) if i > 0 else []
        lines.append(row_line(row, fmt.datarow))
    return lines + ([] if "linebelow" in hidden else rule(fmt.linebelow))
