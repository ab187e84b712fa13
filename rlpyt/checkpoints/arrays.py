"""Arrays of a checkpoint: divided into files, so that unchanged files are written only once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from safetensors import safe_open

from rlpyt.utils.types import Array, NDArray

LARGEST_FILE = 64 << 20
N_SEGMENTS, SMALLEST_SEGMENT = 256, 256 << 10

# Element types of safetensors; arrays of other types are stored as bytes.
_REAL = (
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.float32, torch.float64),
)
_TENSORS = (*_REAL, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
_COMPLEX = (torch.complex64, torch.complex128)
_ARRAYS = tuple(str(dtype).removeprefix("torch.") for dtype in _REAL)


class Rows(np.ndarray[Any, Any]):
    """View of the first rows of an array that fills up; saved in segments and loaded in place.

    A loaded state has :class:`SavedRows` in its place.

    Attributes:
        capacity: number of rows in the whole array.
    """

    capacity: int

    @classmethod
    def of(cls, array: NDArray, n_rows: int) -> Rows:
        """Return the first ``n_rows`` of ``array`` [capacity,...]."""
        rows = array[:n_rows].view(cls)
        rows.capacity = len(array)
        return rows

    def __array_finalize__(self, source: Any) -> None:
        self.capacity = getattr(source, "capacity", 0)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


class SavedRows:
    """Rows in a checkpoint, read on demand.

    Attributes:
        shape: shape [n_rows,...] of all rows.
        dtype: dtype of the rows.
    """

    def __init__(self, directory: Path, entry: Mapping[str, Any]) -> None:
        self.shape: tuple[int, ...] = tuple(entry["shape"])
        self.dtype: np.dtype[Any] = np.dtype(entry["dtype"])
        self._directory = directory
        self._entry = entry

    def __len__(self) -> int:
        return self.shape[0]

    def read_into(self, array: NDArray) -> None:
        """Fill the first rows of ``array``, one segment at a time."""
        for start, segment in _pieces(self._directory, self._entry):
            array[start : start + len(segment)] = segment

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        array: NDArray = np.empty(self.shape, self.dtype)
        self.read_into(array)
        return array if dtype is None else array.astype(dtype)


# --- Arrays as tensors, which safetensors writes ------------------------------------------------


def is_storable(array: Any) -> bool:
    """Return whether ``array`` has elements that can be stored, and is dense."""
    if isinstance(array, torch.Tensor):
        return array.layout == torch.strided and array.dtype in (*_TENSORS, *_COMPLEX)
    is_masked = isinstance(array, np.ma.MaskedArray)
    return not is_masked and array.dtype.kind not in "OV" and array.itemsize > 0


def describe(array: Array) -> dict[str, Any]:
    """Return type, dtype and shape of ``array`` as JSON values."""
    if isinstance(array, torch.Tensor):
        return {
            "type": "torch",
            "dtype": str(array.dtype).removeprefix("torch."),
            "shape": list(array.shape),
        }
    return {"type": "numpy", "dtype": array.dtype.str, "shape": list(array.shape)}


def as_stored(array: Array) -> torch.Tensor:
    """Return a copy of ``array`` as a tensor that safetensors can write."""
    if isinstance(array, torch.Tensor):
        copy = array.detach().to("cpu", copy=True).contiguous()
        return torch.view_as_real(copy) if copy.is_complex() else copy
    copied = np.array(array, order="C")
    if copied.dtype.isnative and copied.dtype.name in _ARRAYS:
        return torch.from_numpy(copied)
    return torch.from_numpy(copied.reshape(-1).view(np.uint8))


def from_stored(stored: torch.Tensor, description: Mapping[str, Any]) -> Array:
    """Rebuild an array from the results of :func:`as_stored` and :func:`describe`.

    Raises:
        ValueError: if they do not fit together.
    """
    if description["type"] == "torch":
        is_complex = description["dtype"].startswith("complex")
        # A copy, since in the file complex numbers lie at any multiple of half their size.
        return torch.view_as_complex(stored.clone()) if is_complex else stored
    dtype = np.dtype(description["dtype"])
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype} holds objects")
    array: Array = stored.numpy().view(dtype).reshape(description["shape"])
    return array


# --- Division into files ------------------------------------------------------------------------


def divided(
    arrays: Mapping[str, Array], entries: dict[str, Any], before: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Array] | str]]:
    """Yield the name of every file, and its arrays or the name of an equal file in ``before``.

    Args:
        arrays: arrays by name, not copied.
        entries: entries of the manifest, filled in here: description and pieces of every array.
        before: entries of the previous checkpoint.
    """
    known = dict(_segments(before))
    pack: dict[str, Array] = {}
    n_packs, n_bytes = 0, 0
    for i, (name, array) in enumerate(arrays.items()):
        is_rows = isinstance(array, Rows)
        pieces: list[dict[str, Any]] = []
        entries[name] = {**describe(array), "is_rows": is_rows, "pieces": pieces}
        slug = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[-80:]
        for start, stop in _cuts(array):
            piece = array if stop is None else array[start:stop]
            key = name if stop is None else f"{name}[{start}:{stop}]"
            if isinstance(piece, Rows):
                file, digest = f"rows{i:03d}-{slug}-{start:09d}.safetensors", fingerprint(piece)
                pieces.append({"file": file, "key": key, "start": start, "fingerprint": digest})
                same = known.get((name, piece.dtype.str, piece.shape, start, digest))
                yield file, same or {key: piece}
                continue
            if pack and n_bytes + piece.nbytes > LARGEST_FILE:
                yield _pack_name(n_packs), pack
                pack, n_packs, n_bytes = {}, n_packs + 1, 0
            pack[key] = piece
            n_bytes += piece.nbytes
            pieces.append({"file": _pack_name(n_packs), "key": key, "start": start})
    if pack:
        yield _pack_name(n_packs), pack


def _pack_name(number: int) -> str:
    return f"arrays-{number:03d}.safetensors"


def _cuts(array: Array) -> Iterator[tuple[int, int | None]]:
    """Yield the first row and the stop of each piece of ``array``; stop is None for all of it."""
    is_rows = isinstance(array, Rows)
    if not is_rows and array.nbytes <= LARGEST_FILE:
        yield 0, None
        return
    row_bytes = max(1, array.nbytes // max(1, len(array)))
    if isinstance(array, Rows):
        # By the capacity, so that segments keep their places while the array fills up.
        length = max(-(-SMALLEST_SEGMENT // row_bytes), -(-array.capacity // N_SEGMENTS))
    else:
        length = max(1, LARGEST_FILE // row_bytes)
    for start in range(0, len(array), length):
        yield start, min(start + length, len(array))


def _segments(entries: Mapping[str, Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield a key that identifies the content of each segment of rows, and its file."""
    for name, entry in entries.items():
        pieces = entry["pieces"] if entry["is_rows"] else []
        stops = [*(piece["start"] for piece in pieces[1:]), *entry["shape"][:1]]
        for piece, stop in zip(pieces, stops):
            shape = (stop - piece["start"], *entry["shape"][1:])
            yield (name, entry["dtype"], shape, piece["start"], piece["fingerprint"]), piece["file"]


def fingerprint(array: NDArray) -> str:
    """Return a hash of the content of ``array``, 32 hexadecimal digits."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # Copied only if strided.
    return xxhash.xxh3_128(content.data).hexdigest()


# --- Reading ------------------------------------------------------------------------------------


def read_array(path: Path, entry: Mapping[str, Any]) -> Any:
    """Return the array of a manifest entry; :class:`SavedRows` if it was rows."""
    if entry["is_rows"]:
        return SavedRows(path, entry)
    pieces = [array for _, array in _pieces(path, entry)]
    is_tensor = isinstance(pieces[0], torch.Tensor)
    if len(pieces) > 1:
        return torch.cat(pieces) if is_tensor else np.concatenate(pieces)
    return pieces[0].clone() if is_tensor else pieces[0].copy()


def _pieces(path: Path, entry: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the pieces of an array, each with its first row."""
    shape = entry["shape"]
    starts = [piece["start"] for piece in entry["pieces"]]
    for piece, start, stop in zip(entry["pieces"], starts, [*starts[1:], *shape[:1]] or [None]):
        with safe_open(path / piece["file"], framework="pt") as file:
            stored = file.get_tensor(piece["key"])  # Mapped from the file, not read yet.
        rows = [] if stop is None else [stop - start]
        yield start, from_stored(stored, {**entry, "shape": [*rows, *shape[1:]]})
