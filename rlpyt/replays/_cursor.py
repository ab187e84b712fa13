"""The cursor of a ring which several processes move."""

from __future__ import annotations

import ctypes
from multiprocessing.sharedctypes import RawValue

from rlpyt.replays._window import Window


class SharedCursor:
    """Row which is written next, and whether all were, in memory that processes share.

    A process works on a :class:`Window` of its own, between :meth:`pull` and :meth:`push`; both
    need a lock around them.
    """

    def __init__(self) -> None:
        self.t = RawValue("l", 0)
        self.full = RawValue(ctypes.c_bool, False)

    def pull(self, window: Window) -> None:
        """Move ``window`` to where the last writer left the cursor."""
        window.t = self.t.value
        window.full = self.full.value

    def push(self, window: Window) -> None:
        """Leave the cursor where ``window`` is."""
        self.t.value = window.t
        self.full.value = window.full
