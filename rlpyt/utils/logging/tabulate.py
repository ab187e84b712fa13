"""Kept for programs written against rlpyt 0.1.2; tables are made by the package tabulate."""

from tabulate import (
    DataRow as DataRow,
    Line as Line,
    TableFormat as TableFormat,
    simple_separated_format as simple_separated_format,
    tabulate as tabulate,
    tabulate_formats as tabulate_formats,
)
