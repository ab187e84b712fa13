import csv

import pytest

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.logger import Logger, Sink


class RecordingSink(Sink):
    def __init__(self):
        self.lines, self.values, self.rows = [], [], []
        self.n_closed = 0

    def write_text(self, line):
        self.lines.append(line)

    def write_value(self, key, value, step):
        self.values.append((key, value, step))

    def write_row(self, row, step):
        self.rows.append((row, step))

    def close(self):
        self.n_closed += 1


@pytest.fixture(autouse=True)
def fresh_logger():
    """No test sees what another one left behind."""
    with logger.using(Logger()) as fresh:
        yield fresh
        fresh.close()


@pytest.fixture
def sink():
    return RecordingSink()


@pytest.fixture
def read_csv():
    def read(path):
        with open(path, newline="") as file:
            return list(csv.reader(file))

    return read


@pytest.fixture
def dump():
    def dump_row(**row):
        for key, value in row.items():
            logger.record_tabular(key, value)
        logger.dump_tabular()

    return dump_row
