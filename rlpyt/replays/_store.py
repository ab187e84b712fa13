"""Rows of storage in host memory or on a device: how they are made, written, read and changed.

A replay buffer has one store, chosen when the buffer is made. Rows are arrays [T,B,...], or records
of them: numpy arrays in host memory, tensors on a device. A place is the index t * B + b of an
entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from rlpyt.checkpoints.arrays import SavedRows
from rlpyt.core.rows import warn_of_loss
from rlpyt.replays._memory import LARGE, BatchMemory, allocate, free_memory
from rlpyt.utils.buffer import (
    as_numpy,
    buffer_from_example,
    buffer_to,
    leaves,
    map_buffer,
    named_leaves,
)
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Array, IntArray, NDArray, Nested


class HostStore:
    """Rows in host memory, as numpy arrays.

    Args:
        share_memory: whether processes share the rows.

    Attributes:
        device: device of the rows; None for host memory.
        memory: allocator of large arrays for batches.
    """

    device: torch.device | None = None

    def __init__(self, share_memory: bool = False) -> None:
        self.share_memory = share_memory
        self.memory = BatchMemory()

    # --- Rows -------------------------------------------------------------------------------

    def allocate(self, example: Nested, leading_dims: tuple[int, ...]) -> Any:
        """Make zeroed rows [*leading_dims, ...] for ``example``."""
        return allocate(example, leading_dims, self.share_memory)

    def require(self, allocate_all: Callable[[], None], rows: dict[str, Any], size: int) -> None:
        """Raise ``ValueError`` unless the rows of a buffer fit; in host memory nothing is checked.

        Args:
            allocate_all: function that allocates them, and collects them in ``rows``.
            rows: rows, by name.
            size: number of transitions in them.
        """

    def load(self, rows: Any, saved: Any) -> None:
        """Copy ``saved`` [T',...], of a state, to the first of ``rows`` [T,...]."""
        if isinstance(saved, SavedRows):
            saved.read_into(rows)
        else:
            rows[: len(saved)] = saved

    # --- Arrays of the host -------------------------------------------------------------------

    def local(self, *arrays: Array) -> tuple[Any, ...]:
        """Return arrays of the host where the rows are: on a device as tensors, in one copy."""
        return arrays

    def arange(self, *bounds: int) -> Any:
        """Return successive integers, like ``np.arange``, where the rows are."""
        return np.arange(*bounds)

    def tensors(self, batch: Nested) -> Any:
        """Return the arrays of ``batch`` as tensors that share their memory."""
        if isinstance(batch, np.ndarray):
            return torch.from_numpy(batch)
        if isinstance(batch, tuple):
            record: Any = batch
            parts = [self.tensors(part) for part in record]
            return tuple(parts) if type(record) is tuple else record._make(parts)
        return batch

    # --- Writing ------------------------------------------------------------------------------

    def write(self, rows: Nested, t: int, given: Nested) -> int:
        """Copy ``given`` [T',B,...] to the circle of ``rows`` [T,B,...], from row t on.

        Args:
            rows: rows of any structure.
            t: first row.
            given: the same structure of arrays, tensors, or numbers for all entries.

        Returns:
            Number T' of rows.

        Raises:
            ValueError: if structure or shapes do not fit; nothing is written then.
        """
        arrays, parts, names = zip(*_paired(rows, given))
        sources = self._sources(parts)
        n_rows = next((len(source) for source in sources if source.ndim), 0)
        T, B = arrays[0].shape[:2]
        if n_rows > T:
            raise ValueError(
                f"cannot append {n_rows} rows at once to a buffer of T={T} rows: make size at "
                f"least {n_rows * B}, or the batches shorter"
            )
        for i, array in enumerate(arrays):
            if sources[i].shape != (n_rows, *array.shape[1:]):
                sources[i] = broadcast(names[i], sources[i], n_rows, array.shape[1:])
            dtype = numpy_dtype(array)
            if dtype.kind in "biu" and not np.can_cast(numpy_dtype(sources[i]), dtype):
                warn_of_loss(f"samples.{names[i]}", as_numpy(sources[i]), dtype)
        stop = t + n_rows
        for array, source in zip(arrays, self.local(*sources)):
            if stop <= T:
                array[t:stop] = source
            else:
                array[t:], array[: stop - T] = source[: T - t], source[T - t :]
        return n_rows

    def _sources(self, given: Iterable[Any]) -> list[Any]:
        return [np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in given]

    def put(self, rows: Nested, T_idxs: IntArray, B_idxs: IntArray, entries: Nested) -> None:
        """Write host arrays ``entries`` [n,...] to rows ``T_idxs`` [n], environments ``B_idxs``."""
        for array, part in zip(leaves(rows), leaves(entries), strict=True):
            array[T_idxs, B_idxs] = part

    # --- Reading ------------------------------------------------------------------------------

    def places(
        self,
        shape: tuple[int, int],
        T_idxs: Any,
        B_idxs: Any,
        offsets: Any = 0,
        stride: int = 1,
    ) -> Any:
        """Return the places [...] of rows ``T_idxs + offsets`` (modulo T) and ``B_idxs``.

        Args:
            shape: T and B of the rows.
            T_idxs: rows [n].
            B_idxs: environments [n]; negative ones count from the end.
            offsets: integers that broadcast with ``T_idxs``, from :meth:`local` or :meth:`arange`.
            stride: number of rows from one that ``T_idxs`` may name to the next.

        Raises:
            IndexError: if there is no such environment.
            ValueError: if ``T_idxs`` are no multiples of ``stride``.
        """
        return _host_places(shape, np.asarray(T_idxs), np.asarray(B_idxs), offsets, stride)

    def read(self, rows: Iterable[Nested], places: Any) -> list[Any]:
        """Copy the entries at ``places`` [...] of each of ``rows`` [T,B,...]; None stays None."""
        copies: list[Any] = []
        for array in rows:
            if isinstance(array, np.ndarray):
                entries = array.reshape(-1, *array.shape[2:])
                if array.nbytes * places.size < LARGE * len(entries):
                    copies.append(entries.take(places, axis=0))
                else:
                    out = self.memory.empty((*places.shape, *entries.shape[1:]), array.dtype)
                    # Any mode but "raise", which copies to a buffer first.
                    copies.append(entries.take(places, axis=0, out=out, mode="clip"))
            else:
                copies.append(None if array is None else array._make(self.read(array, places)))
        return copies

    def fill(self, flags: Any, entries: Iterable[Any], values: Iterable[Nested]) -> None:
        """Set each of ``entries`` [m,...] to a value [...] (None: zero) where ``flags`` [m]."""
        mask = flags.astype(bool, copy=False)
        for array, value in zip(entries, values):
            array[mask] = 0 if value is None else value

    def replace(self, flags: torch.Tensor, batch: Nested, values: Callable[[Any], Nested]) -> None:
        """Set ``batch`` where ``flags`` [m] are not zero.

        Args:
            flags: flags [m] that are not zero where an entry is replaced.
            batch: tensors [m,...] to change.
            values: function that returns the new entries, or one for all, for indexes [k].
        """
        hits = np.flatnonzero(flags)
        if len(hits) == 0:
            return
        new = self.tensors(values(hits))
        for target, value in zip(leaves(batch), leaves(new), strict=True):
            target[hits] = value


class DeviceStore(HostStore):
    """Rows on a device, as tensors.

    The host never waits for the device, but where the number of entries is not known in advance.

    Args:
        device: device of the rows.
    """

    device: torch.device

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def allocate(self, example: Nested, leading_dims: tuple[int, ...]) -> Any:
        def zeros(entry: NDArray) -> torch.Tensor:
            dtype = torch.from_numpy(entry).dtype
            return torch.zeros((*leading_dims, *entry.shape[1:]), dtype=dtype, device=self.device)

        return map_buffer(zeros, buffer_from_example(example, 1))

    def require(self, allocate_all: Callable[[], None], rows: dict[str, Any], size: int) -> None:
        """Log the bytes of all rows, which are counted on the device "meta", without memory."""
        device, self.device = self.device, torch.device("meta")
        allocate_all()
        n_bytes = sum(array.nbytes for array in rows.values())
        rows.clear()
        self.device = device
        free = free_memory(device)
        of_free = "" if free is None else f" of {free:,} free ones"
        logger.log(f"Replay storage: {n_bytes:,} bytes{of_free} on {device}, {size:,} steps")
        if free is not None and n_bytes > free:
            raise ValueError(
                f"size is {size:,} steps, which take {n_bytes:,} bytes, but {device} has {free:,} "
                f"free: make replay_size at most {int(size * free / n_bytes):,}, or store in host "
                "memory (replay_device=None)"
            )

    def load(self, rows: Any, saved: Any) -> None:
        (rows[: len(saved)],) = self.local(np.asarray(saved))

    def local(self, *arrays: Array) -> tuple[Any, ...]:
        tensors = [
            x if isinstance(x, torch.Tensor) else torch.from_numpy(np.require(x, None, ["C", "W"]))
            for x in arrays
        ]
        moved: tuple[Any, ...] = buffer_to(tuple(tensors), self.device)
        return moved

    def arange(self, *bounds: int) -> Any:
        return torch.arange(*bounds, device=self.device)

    def tensors(self, batch: Nested) -> Any:
        return batch

    def _sources(self, given: Iterable[Any]) -> list[Any]:
        def is_here(x: Any) -> bool:
            return isinstance(x, torch.Tensor) and x.device == self.device

        return [x if is_here(x) else as_numpy(x) for x in given]

    def put(self, rows: Nested, T_idxs: IntArray, B_idxs: IntArray, entries: Nested) -> None:
        T_idxs, B_idxs, *parts = self.local(T_idxs, B_idxs, *leaves(entries))
        for array, part in zip(leaves(rows), parts, strict=True):
            array[T_idxs, B_idxs] = part.to(array.dtype)

    def places(
        self,
        shape: tuple[int, int],
        T_idxs: Any,
        B_idxs: Any,
        offsets: Any = 0,
        stride: int = 1,
    ) -> Any:
        """Return the places as tensors; ``T_idxs`` that are tensors come from a draw."""
        T, B = shape
        if not isinstance(T_idxs, torch.Tensor):
            flat = _host_places(shape, np.asarray(T_idxs), np.asarray(B_idxs), 0, stride)
            T_idxs, B_idxs = self.local(*np.divmod(flat, B))
        return torch.add(B_idxs, (T_idxs + offsets) % T, alpha=B)

    def read(self, rows: Iterable[Nested], places: Any) -> list[Any]:
        copies: list[Any] = []
        for array in rows:
            if isinstance(array, torch.Tensor):
                copy = array.flatten(0, 1).index_select(0, places.reshape(-1))
                copies.append(copy.reshape(*places.shape, *array.shape[2:]))
            else:
                copies.append(None if array is None else array._make(self.read(array, places)))
        return copies

    def fill(self, flags: Any, entries: Iterable[Any], values: Iterable[Nested]) -> None:
        for record, value in zip(entries, values):
            targets = leaves(record)
            parts = [0] * len(targets) if value is None else leaves(value)
            _merge(flags != 0, targets, parts)

    def replace(self, flags: torch.Tensor, batch: Nested, values: Callable[[Any], Nested]) -> None:
        """Set ``batch`` where ``flags`` are not zero, from new entries for all of it."""
        _merge(flags != 0, leaves(batch), leaves(values(slice(None))))


def _merge(is_hit: torch.Tensor, targets: list[torch.Tensor], values: list[Any]) -> None:
    """Set each of ``targets`` [m,...] to its value where ``is_hit`` [m].

    An index by the mask would wait for the number of its entries.
    """
    for target, value in zip(targets, values, strict=True):
        mask = is_hit.reshape(-1, *[1] * (target.dim() - 1))
        if isinstance(value, (bool, int)):
            target.masked_fill_(mask, value)
        else:
            target.copy_(torch.where(mask, torch.as_tensor(value).to(target), target))


def _host_places(
    shape: tuple[int, int], T_idxs: IntArray, B_idxs: IntArray, offsets: Any, stride: int
) -> IntArray:
    T, B = shape
    if stride > 1 and (T_idxs % stride).any():
        raise ValueError(
            f"sequences cannot begin at rows {T_idxs[T_idxs % stride > 0]}: recurrent states are "
            f"stored for multiples of rnn_state_interval={stride}"
        )
    try:
        return np.ravel_multi_index((T_idxs + offsets, B_idxs), shape, mode=("wrap", "raise"))
    except ValueError:
        if B_idxs.min() < -B or B_idxs.max() >= B:
            raise IndexError(
                f"B_idxs are from {B_idxs.min()} to {B_idxs.max()}: choose from {-B} to {B - 1}"
            ) from None
        flat: IntArray = (T_idxs + offsets) % T * B + B_idxs % B
        return flat


def _paired(rows: Nested, given: Nested, name: str = "") -> list[tuple[Any, Any, str]]:
    """Return each array of ``rows`` with the part of ``given`` for it, and its dotted name.

    Raises:
        ValueError: if they have other fields.
    """
    if not isinstance(rows, tuple):
        if isinstance(given, tuple) or (rows is None) != (given is None):
            raise other_fields(name, rows, given)
        return [] if rows is None else [(rows, given, name)]
    is_plain = type(rows) is tuple
    if not isinstance(given, tuple) or (type(given) is tuple) != is_plain:
        raise other_fields(name, rows, given)
    record: Any = rows
    other: Any = given
    fields = ("",) * len(record) if is_plain else record._fields
    if not is_plain and other._fields != fields:
        raise other_fields(name, rows, given)
    prefix = f"{name}." if name else ""
    return [
        pair
        for field, array, part in zip(fields, rows, given)
        for pair in _paired(array, part, prefix + field)
    ]


def other_fields(name: str, rows: Nested, given: Nested) -> ValueError:
    """Return the error for a record ``given`` whose fields are not those of ``rows``."""
    own, other = ([field for field, _ in named_leaves(x, name)] for x in (rows, given))
    order = " in another order" if sorted(own) == sorted(other) else ""
    return ValueError(
        f"samples have the fields {other} and this buffer {own}{order} (missing: "
        f"{sorted(set(own) - set(other))}, unknown: {sorted(set(other) - set(own))}): append "
        "records with the fields of the example it was made with"
    )


def broadcast(name: str, source: Array, n_rows: int, entry: tuple[int, ...]) -> NDArray:
    """Return ``source`` [T',B,...], or a scalar, as an array [T',*entry].

    Raises:
        ValueError: if numpy cannot broadcast it.
    """
    B, source = entry[0], as_numpy(source)
    inner = source.shape[2:]
    while len(inner) > len(entry) - 1 and inner[-1] == 1:
        inner = inner[:-1]
    inner = (1,) * (len(entry) - 1 - len(inner)) + inner
    try:
        if source.ndim and source.shape[:2] != (n_rows, B):
            raise ValueError
        entries = source.reshape((n_rows, B) + inner) if source.ndim else source
        return np.broadcast_to(entries, (n_rows, *entry))
    except ValueError:
        raise ValueError(
            f"samples.{name} has shape {source.shape}, this buffer stores [T', B={B}, ...] = "
            f"[{n_rows}, {str(entry)[1:-1]}]: append batches of the B and the example it was made "
            "with"
        ) from None


def numpy_dtype(array: Array) -> np.dtype[Any]:
    """Return the numpy dtype of an array or tensor."""
    if isinstance(array, np.ndarray):
        return array.dtype
    dtype: np.dtype[Any] = torch.empty(0, dtype=array.dtype).numpy().dtype
    return dtype
