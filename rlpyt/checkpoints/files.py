"""Files of a checkpoint: the thread that writes them, the manifest, and its verification."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import queue
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_safetensors

import rlpyt
from rlpyt.checkpoints.arrays import as_stored
from rlpyt.utils.types import Array

FORMAT, SCHEMA = "rlpyt checkpoint", 1
MANIFEST = "manifest.json"
UNFINISHED = ".tmp"


class CheckpointError(ValueError):
    """Error for a checkpoint that is damaged, foreign, too new, or has another configuration."""


# --- Writing ------------------------------------------------------------------------------------


class Writing:
    """Writer of one checkpoint, with a thread that writes copies as they arrive.

    Args:
        path: path of the complete checkpoint.
        manifest: manifest; its ``files`` are filled in here.
        source: earlier checkpoint with unchanged files, or None.
        source_files: ``files`` of the earlier manifest.
        max_copy_bytes: limit of the memory for copies not yet written.
        outdated: checkpoints to remove once this one is complete.
    """

    def __init__(
        self,
        path: Path,
        manifest: dict[str, Any],
        source: Path | None,
        source_files: Mapping[str, Any],
        max_copy_bytes: int,
        outdated: list[Path],
    ) -> None:
        self.path = path
        self._manifest = manifest
        self._source = source
        self._source_files = source_files
        self._max_copy_bytes = max_copy_bytes
        self._outdated = outdated
        self._error: BaseException | None = None
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._n_bytes = 0
        self._progress = threading.Condition()
        # Not a daemon, so that a program completes its last checkpoint before it ends.
        self._thread = threading.Thread(target=self._run, name=f"writes {path.name}")
        self._thread.start()

    def put(self, file: str, pieces: dict[str, Array] | str) -> None:
        """Copy ``pieces`` for the thread, which writes them to ``file``.

        A string instead of arrays names an unchanged file of the earlier checkpoint. If the copies
        would exceed the memory limit, the call waits until some are written.
        """
        if isinstance(pieces, str):
            self._work.put((file, pieces, 0))
            return
        n_bytes = sum(piece.nbytes for piece in pieces.values())
        with self._progress:
            self._progress.wait_for(
                lambda: (
                    not self._n_bytes
                    or self._n_bytes + n_bytes <= self._max_copy_bytes
                    or self._error is not None
                )
            )
            if self._error is not None:
                return
            self._n_bytes += n_bytes
        self._work.put((file, {key: as_stored(piece) for key, piece in pieces.items()}, n_bytes))

    def end(self, error: BaseException | None = None) -> None:
        """Let the thread complete the checkpoint, or discard it because of an error."""
        self._work.put(error)

    def join(self) -> BaseException | None:
        """Wait until the thread is done; return the error that stopped it, or None."""
        self._thread.join()
        return self._error

    def _run(self) -> None:
        temporary = self.path.with_name(self.path.name + UNFINISHED)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _new_directory(temporary):
                while isinstance(item := self._work.get(), tuple):
                    self._write(temporary, *item)
                    del item  # Free its memory before waiting for the next one.
                if item is not None:
                    raise item
                _write_file(temporary / MANIFEST, manifest_text(self._manifest))
                _sync(temporary)
                os.rename(temporary, self.path)
            _sync(self.path.parent)
        except BaseException as error:  # noqa: BLE001
            with self._progress:
                self._error = error
                self._progress.notify_all()
            shutil.rmtree(temporary, ignore_errors=True)
            return
        for path in self._outdated:
            remove(path)

    def _write(self, directory: Path, file: str, content: Any, n_bytes: int) -> None:
        if isinstance(content, str):
            assert self._source is not None
            link_or_copy(self._source / content, directory / file)
            self._manifest["files"][file] = self._source_files[content]
            return
        data = to_safetensors(content)
        _write_file(directory / file, data)
        digest = hashlib.sha256(data).hexdigest()
        self._manifest["files"][file] = {"size": len(data), "sha256": digest}
        with self._progress:
            self._n_bytes -= n_bytes
            self._progress.notify_all()


def manifest_text(manifest: Mapping[str, Any]) -> bytes:
    """Return ``manifest`` as JSON, one entry per line; the last is the sha256 of the others."""
    lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in manifest.items()]
    lines.append(f'"sha256": "{hashlib.sha256(",".join(lines).encode()).hexdigest()}"')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _write_file(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_path(path: Path) -> Path:
    """Return ``path``; if it exists, the first free one of ``path-2``, ``path-3``, ..."""
    free, n = path, 1
    while free.exists():
        n += 1
        free = path.with_name(f"{path.name}-{n}")
    return free


def link_or_copy(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Make ``path`` a hard link to the file ``source``; where that is impossible, a copy."""
    try:
        os.link(source, path)
    except OSError:
        with open(source, "rb") as file, open(path, "xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())


@contextmanager
def _new_directory(path: Path) -> Iterator[None]:
    """Make a directory and lock it, at most until this process ends."""
    while True:
        path.mkdir(exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # Another process removed it as a leftover before the lock.
            continue
        with suppress(OSError):  # Not every file system has locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Remove unfinished checkpoints, unless their writer is alive."""
    for path in directory.glob(f"checkpoint_*{UNFINISHED}"):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:  # Its writer holds the lock.
            continue
        finally:
            os.close(descriptor)


def remove(path: Path) -> None:
    """Rename and remove a checkpoint, so that an interrupted removal leaves no valid one."""
    renamed = path.with_name(f"{path.name}.old{UNFINISHED}")
    with suppress(OSError):
        os.rename(path, renamed)
        shutil.rmtree(renamed, ignore_errors=True)


# --- Reading ------------------------------------------------------------------------------------


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest of the checkpoint ``path``, not verified.

    Raises:
        CheckpointError: if it is missing, or not the manifest of a checkpoint.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"{path} is not a complete checkpoint: its {MANIFEST} cannot be read ({error}). Give a "
            "directory checkpoint_..., or load the latest"
        ) from error
    except ValueError as error:
        raise damaged(path, f"{MANIFEST} is not valid JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} was not written by this library: the format in its {MANIFEST} is not "
            f"{FORMAT!r}. Give a directory that Checkpoints wrote"
        )
    if not isinstance(manifest.get("serial"), int):
        raise damaged(path, f"its {MANIFEST} has no serial number")
    return manifest


def verify(path: Path, manifest: dict[str, Any]) -> None:
    """Compare all files of the checkpoint ``path`` with its manifest.

    Raises:
        CheckpointError: if they differ, or a newer library wrote them.
    """
    if not isinstance(manifest.get("schema"), int) or manifest["schema"] > SCHEMA:
        raise CheckpointError(
            f"{path} has schema {manifest.get('schema')}, of rlpyt "
            f"{manifest.get('library_version')}; this is rlpyt {rlpyt.__version__}, which reads "
            f"schemas up to {SCHEMA}: update rlpyt to load it"
        )
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    if json.loads(manifest_text(content))["sha256"] != manifest.get("sha256"):
        raise damaged(path, f"{MANIFEST} does not match its sha256")
    for file, expected in manifest["files"].items():
        if Path(file).name != file:
            raise damaged(path, f"{MANIFEST} names {file!r}, which is not in the directory")
        try:
            size, digest = _size_and_digest(path / file)
        except OSError as error:
            raise damaged(path, f"{file} cannot be read ({error})") from error
        if size != expected["size"]:
            raise damaged(path, f"{file} has {size} bytes instead of {expected['size']}")
        if digest != expected["sha256"]:
            raise damaged(path, f"{file} has the sha256 {digest}, not {expected['sha256']}")


def _size_and_digest(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def damaged(path: Path, reason: str) -> CheckpointError:
    """Return the error for a checkpoint whose content has changed since it was written."""
    return CheckpointError(
        f"{path} is damaged: {reason}. Remove this directory to continue from the checkpoint "
        "before it"
    )
