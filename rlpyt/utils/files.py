"""Replacement of files as a whole, further names of files, and free paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w", **kwargs: Any) -> Iterator[IO[Any]]:
    """Open a file that replaces ``path`` once it is complete and on disk.

    If the body raises or the process is killed, ``path`` stays as it was.

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


def free_path(path: Path) -> Path:
    """Return ``path``, or with -2, -3, ... at its end if there is something already."""
    free, n = path, 1
    while free.exists():
        n += 1
        free = path.with_name(f"{path.name}-{n}")
    return free


def link_or_copy(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Make ``path`` another name of the file ``source``; where that is impossible, a copy."""
    try:
        os.link(source, path)
    except OSError:
        with open(source, "rb") as file, open(path, "xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())
