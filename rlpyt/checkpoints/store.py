"""The checkpoints of a run in one directory: saving, loading, and removal of the oldest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

import rlpyt
from rlpyt.checkpoints.arrays import divided, read_array
from rlpyt.checkpoints.files import (
    FORMAT,
    MANIFEST,
    SCHEMA,
    CheckpointError,
    Writing,
    damaged,
    free_path,
    read_manifest,
    remove,
    remove_leftovers,
    verify,
)
from rlpyt.checkpoints.tree import decode, encode
from rlpyt.processes.machine import look_at_machine
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.context import versions

_NAME = re.compile(r"checkpoint_\d+(-\d+)?")


class Checkpoints:
    """The newest checkpoints of one run, in a directory.

    Training waits while :meth:`save` copies the changed data; a thread writes the copy. If writing
    fails (a full disk), the next call logs the error and the run continues without this checkpoint;
    earlier ones are unchanged.

    Args:
        directory: directory of the checkpoints, made with the first one.
        keep: number of checkpoints to keep.
        configuration: settings that a run must share with a checkpoint to load it, as plain
            values; None to load any.
        max_copy_bytes: limit of the memory for copies; beyond it :meth:`save` waits for the writer.
            By default half of what this process may still use.

    Raises:
        ValueError: if ``keep`` is less than 1.
        TypeError: if ``configuration`` contains anything but plain values.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int = 2,
        configuration: Any = None,
        max_copy_bytes: int | None = None,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep is {keep}: keep at least 1 checkpoint")
        self.directory = Path(directory)
        self.keep = keep
        self.configuration, arrays = encode(configuration)
        if arrays:
            raise TypeError(
                f"configuration has arrays or numpy scalars at {sorted(arrays)}: give plain values"
            )
        self.max_copy_bytes = max_copy_bytes
        self._writing: Writing | None = None
        self._is_reported = False
        remove_leftovers(self.directory)

    def save(self, state: Any, step: int) -> None:
        """Copy the changed parts of ``state``, and write them in the background.

        Args:
            state: nested dictionaries, lists and tuples of plain values, numpy arrays and tensors;
                arrays are copied as needed.
            step: number in the checkpoint's name, usually the environment steps so far.

        Raises:
            TypeError: if a value cannot be saved; the message names its path in ``state``.
        """
        tree, arrays = encode(state)
        self.wait()
        complete = self.complete()
        source = complete[-1] if complete else None
        before: dict[str, Any] = {"serial": 0, "arrays": {}, "files": {}}
        if source is not None:
            before = read_manifest(source)
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "schema": SCHEMA,
            "library_version": rlpyt.__version__,
            "versions": versions(),
            "step": int(step),
            "serial": before["serial"] + 1,
            "configuration": self.configuration,
            "state": tree,
            "arrays": {},
            "files": {},
        }
        limit = self.max_copy_bytes
        if limit is None:
            limit = look_at_machine().memory // 2
        outdated = complete[: max(0, len(complete) - self.keep + 1)]
        # The run may have been at this step before.
        path = free_path(self.directory / f"checkpoint_{int(step):09d}")
        writing = Writing(path, manifest, source, before["files"], limit, outdated)
        self._writing, self._is_reported = writing, False
        try:
            for file, pieces in divided(arrays, manifest["arrays"], before["arrays"]):
                writing.put(file, pieces)
        except BaseException as error:
            writing.end(error)
            raise
        writing.end()

    def wait(self) -> bool:
        """Wait until the last checkpoint is written; return whether it is on disk.

        An error of the writer is logged once.
        """
        error = None if self._writing is None else self._writing.join()
        if self._writing is not None and error is not None and not self._is_reported:
            self._is_reported = True
            logger.log(
                f"WARNING: {self._writing.path} was not written ({type(error).__name__}: {error}). "
                "The run continues, and earlier checkpoints are unchanged. Check the free space "
                "and the permissions of the directory."
            )
        return error is None

    def latest(self) -> Path | None:
        """Return the path of the newest complete checkpoint, or None."""
        complete = self.complete()
        return complete[-1] if complete else None

    def load(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Verify the files of a checkpoint, and return its state.

        Arrays and tensors are new, in CPU memory. :class:`~rlpyt.checkpoints.arrays.Rows` are
        replaced by ``SavedRows``; keep the checkpoint until they are read.

        Args:
            path: path of a checkpoint; by default the latest.

        Raises:
            CheckpointError: if the checkpoint is missing, damaged, foreign, from a newer library,
                or has another configuration.
        """
        found = self.latest() if path is None else Path(path)
        if found is None:
            raise CheckpointError(
                f"there is no complete checkpoint in {self.directory}: give the directory that "
                "contains the directories checkpoint_..., or start a new run"
            )
        manifest = read_manifest(found)
        verify(found, manifest)
        self._check_configuration(found, manifest["configuration"])
        entries = manifest["arrays"]
        try:
            return decode(manifest["state"], lambda name: read_array(found, entries[name]))
        except (SafetensorError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged(found, f"its content does not fit together ({error!r})") from error

    def remove(self, path: Path) -> None:
        """Remove a checkpoint; even an interrupted removal makes it incomplete."""
        remove(path)

    def complete(self) -> list[Path]:
        """Return the complete checkpoints, newest last.

        Raises:
            CheckpointError: if a manifest is damaged; a run that took another checkpoint would
                overwrite the later part of its log.
        """
        found = []
        for path in self.directory.glob("checkpoint_*"):
            if _NAME.fullmatch(path.name):
                try:
                    found.append((read_manifest(path)["serial"], path))
                except CheckpointError:
                    if (path / MANIFEST).exists():
                        raise
                    continue  # Incomplete.
        return [path for _, path in sorted(found)]

    def _check_configuration(self, path: Path, saved: Any) -> None:
        if self.configuration is None or saved is None:
            return
        differences = list(_differences(saved, self.configuration, "configuration"))
        if differences:
            raise CheckpointError(
                f"{path} has another configuration: {'; '.join(differences)}. Use the "
                "settings of the checkpoint, or another directory for this run"
            )


def step_of(path: Path) -> int:
    """Return the step in a checkpoint's name."""
    return int(path.name.split("_")[1].partition("-")[0])


def _differences(saved: Any, given: Any, path: str) -> Iterator[str]:
    """Yield a text for every place where two encoded configurations differ."""
    both = (saved, given)
    if all(isinstance(each, dict) and isinstance(each.get("dict"), dict) for each in both):
        missing = "not there"
        for key in {**saved["dict"], **given["dict"]}:
            one, other = (each["dict"].get(key, missing) for each in both)
            yield from _differences(one, other, f"{path}.{key}")
    elif saved != given or type(saved) is not type(given):
        values = [decode(each, str) for each in both]
        yield f"{path} is {values[0]!r} in the checkpoint and {values[1]!r} here"
