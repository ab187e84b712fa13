"""Waits for something that should happen, which fail rather than last for ever."""

import time

LONG_S = 60.0  # Enough on a busy machine.


def wait_until(is_reached, limit_s=LONG_S, pause_s=0.02):
    """Return once ``is_reached()`` is true; it may raise if it never will be."""
    deadline = time.monotonic() + limit_s
    while not is_reached():
        assert time.monotonic() < deadline, f"not reached in {limit_s:g} s"
        time.sleep(pause_s)
