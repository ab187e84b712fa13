"""Files that are replaced atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a file that replaces ``path`` once it is complete and on disk.

    If the body raises or the process is killed, ``path`` is unchanged.

    Args:
        path: path of the file to write or replace; its directory must exist.
        mode: mode of ``open``, ``"w"`` or ``"wb"``.
        **kwargs: further arguments of ``open``.
    """
    path = os.fspath(path)
    temporary = path + ".tmp"
    try:
        with open(temporary, mode, **kwargs) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def make_parent(path: str | os.PathLike[str]) -> str:
    """Create the directory of the file ``path``, and return ``path`` as a string."""
    path = os.fspath(path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    return path
