"""The processes of a pool, seen from the one which started them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class LifeSign:
    """What a process says about itself while it works, in memory shared with its parent.

    Attributes:
        values: time steps taken in the present task, whether it is at work, index of the
            environment it is busy with (or -1), how much else it has begun, such as resets. Written
            as plain numbers, since that costs the least in a step loop.
    """

    STEPS, BUSY, PLACE, BEGUN = 0, 1, 2, 3
    NOTHING = (0, 0, -1, 0)

    def __init__(self, context: Any) -> None:
        self.values = context.RawArray("l", self.NOTHING)

    @classmethod
    def enter(cls, values: Any, place: int) -> None:
        """Say that something begins which may take its time, in an environment, or -1 in none."""
        values[cls.PLACE] = place
        values[cls.BEGUN] += 1

    def begin(self) -> None:
        """Say that from now on others wait for this process."""
        self.values[self.STEPS] = 0
        self.values[self.BUSY] = 1

    def end(self) -> None:
        """Say that it is done, and waits itself."""
        self.values[self.BUSY] = 0
        self.values[self.PLACE] = -1


@dataclass
class Member:
    """One process of a pool."""

    process: Any
    label: str
    report: Any  # connection: what it says when it fails
    life: LifeSign
    text: str = ""
    has_closed: bool = False  # its report: it will say no more

    def has_ended(self) -> bool:
        """Whether it works no more; it may still be alive to clean up."""
        self.read_report()
        return self.has_closed or not self.process.is_alive()

    def read_report(self) -> None:
        """Take what has been reported so far; the process may still be alive."""
        while True:
            try:
                data = os.read(self.report.fileno(), 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not data:
                self.has_closed = True
                return
            self.text += data.decode(errors="replace")

    def describe(self) -> str:
        """Who it is, and what it was doing."""
        place = self.life.values[LifeSign.PLACE]
        doing = f", busy with environment {place}," if place >= 0 else ""
        return f"{self.label}, process {self.process.pid}{doing}"


@dataclass
class Silence:
    """Who has given no sign of life, since when."""

    at: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)

    def longest(self, members: Iterable[tuple[int, Member]], start: float) -> tuple[int, float]:
        """Index of the member which was silent for the longest, and for how many seconds."""
        now = time.monotonic()
        for i, member in members:
            steps, is_busy, place, begun = member.life.values
            at = (steps, place, begun)
            if self.at.setdefault(i, at) != at or not is_busy:
                self.at[i], self.since[i] = at, now
        silent = [(now - self.since.get(i, start), i) for i, _ in members]
        seconds, i = max(silent, default=(0.0, -1))
        return i, seconds


def describe_exit(code: int | None) -> str:
    """How a process ended, by its exit code; None if it is still alive."""
    if code is None:
        return "failed and hangs while it cleans up"
    if code >= 0:
        return f"ended with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    out_of_memory = ", as the system does when memory is short" if name == "SIGKILL" else ""
    return f"was ended by {name}{out_of_memory}"
