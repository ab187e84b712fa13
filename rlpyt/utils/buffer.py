"""Nested structures of arrays: made by example, shared between processes, converted leaf by leaf.

A structure is an array, None, or a tuple or named tuple of structures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import methodcaller
from typing import Any

import numpy as np
import torch

from rlpyt.utils.collections import (
    NamedArrayTupleSchema_like,
    NamedTuple,
    is_namedarraytuple,
    is_namedtuple,
    namedarraytuple_like,
)
from rlpyt.utils.shared_array import (
    np_mp_array as np_mp_array,
    np_mp_array_spawn as np_mp_array_spawn,
)
from rlpyt.utils.types import NDArray, Nested

ALIGNMENT = 128  # Bytes between the tensors of one copy, in whole multiples.


def map_buffer(fn: Callable[[Any], Any], buffer: Nested) -> Nested:
    """Apply ``fn`` to every array or tensor of ``buffer``; None stays None.

    Args:
        fn: function of an array or tensor; a scalar leaf is passed as an array without dimensions.
        buffer: array, tensor, scalar, None, or tuple or named tuple of these.

    Returns:
        The same structure with the results of ``fn``.

    Raises:
        TypeError: if there is anything else, such as a list, a dict or a string.
    """
    if buffer is None:
        return None
    if isinstance(buffer, (np.ndarray, torch.Tensor)):
        return fn(buffer)
    if isinstance(buffer, tuple):
        make: Callable[..., Nested] = getattr(buffer, "_make", tuple)
        return make([map_buffer(fn, part) for part in buffer])
    if isinstance(buffer, (bool, int, float, complex, np.generic)):
        return fn(np.asarray(buffer))
    raise TypeError(
        f"buffer contains {buffer!r}, a {type(buffer).__name__}: give arrays, None, or (named) "
        "tuples of them"
    )


def leaves(buffer: Nested) -> list[Any]:
    """Return the arrays, tensors and numbers of ``buffer`` in order, leaving out None."""
    if not isinstance(buffer, tuple):
        return [] if buffer is None else [buffer]
    found: list[Any] = []
    for part in buffer:
        if isinstance(part, tuple):
            found += leaves(part)
        elif part is not None:
            found.append(part)
    return found


def named_leaves(buffer: Nested, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted field name and leaf of a tuple, in the order of :func:`leaves`.

    Fields of a tuple without names are numbered.
    """
    if buffer is None:
        return
    if not isinstance(buffer, tuple):
        yield prefix, buffer
        return
    for name, part in zip(getattr(buffer, "_fields", None) or map(str, range(len(buffer))), buffer):
        yield from named_leaves(part, f"{prefix}.{name}" if prefix else name)


def as_numpy(array: Any) -> NDArray:
    """Return an array, tensor or number as numpy, without a copy if possible."""
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def numpy_leaves(buffer: Nested) -> list[NDArray]:
    """Return the leaves of ``buffer`` as numpy arrays, see :func:`leaves` and :func:`as_numpy`."""
    return [as_numpy(leaf) for leaf in leaves(buffer)]


def buffer_from_example(
    example: Nested,
    leading_dims: int | Sequence[int],
    share_memory: bool = False,
    use_NatSchema: bool | None = None,
) -> Nested:
    """Make a buffer of zeros for many instances of ``example``.

    Args:
        example: array, scalar, None, or a nested named tuple of them.
        leading_dims: dimensions in front of each array's own, e.g. (T, B).
        share_memory: whether child processes share the arrays.
        use_NatSchema: whether records of the buffer are schema-style; by default as in the example.

    Returns:
        Array [*leading_dims, ...], or namedarraytuples of the names and fields of the example.

    Raises:
        TypeError: if an example is neither a number nor an array of numbers; names its field.
    """
    if example is None:
        return None
    schema_style = isinstance(example, NamedTuple)
    if not (schema_style or is_namedtuple(example) or is_namedarraytuple(example)):
        return build_array(example, leading_dims, share_memory)
    if schema_style if use_NatSchema is None else use_NatSchema:
        make = NamedArrayTupleSchema_like(example)._make
    else:
        make = namedarraytuple_like(example)._make
    parts = []
    for field, part in zip(example._fields, example):
        try:
            parts.append(buffer_from_example(part, leading_dims, share_memory, use_NatSchema))
        except (TypeError, ValueError) as error:  # The latter if numpy finds different lengths.
            raise TypeError(f"field {field!r}: {error}") from None
    return make(parts)


def build_array(
    example: Any, leading_dims: int | Sequence[int], share_memory: bool = False
) -> NDArray:
    """Make an array of zeros [*leading_dims, ...] with the dtype and trailing shape of ``example``.

    Args:
        example: array, tensor, number, or a sequence that numpy can convert to an array.
        leading_dims: dimensions in front.
        share_memory: whether child processes share the array.

    Raises:
        TypeError: if the example is neither a number nor an array of numbers or booleans.
    """
    if isinstance(example, torch.Tensor):
        example = example.detach().cpu()
    a = np.asarray(example)
    if a.dtype.kind not in "biufc":
        raise TypeError(
            f"example {example!r} is not an array of numbers: give arrays, numbers, or named "
            "tuples of them, with the same shape at every step"
        )
    dims = (leading_dims,) if isinstance(leading_dims, (int, np.integer)) else tuple(leading_dims)
    shape = dims + a.shape
    return np_mp_array(shape, a.dtype) if share_memory else np.zeros(shape, a.dtype)


def torchify_buffer(buffer_: Nested) -> Nested:
    """Convert every array to a tensor that shares its memory; tensors and None stay."""
    return map_buffer(lambda x: x if isinstance(x, torch.Tensor) else torch.from_numpy(x), buffer_)


def numpify_buffer(buffer_: Nested) -> Nested:
    """Convert every tensor to an array that shares its memory if on CPU; arrays and None stay."""
    return map_buffer(_numpify, buffer_)


def _numpify(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return x.numpy() if x.is_cpu else x.cpu().numpy()


def buffer_to(buffer_: Nested, device: torch.device | str | int | None = None) -> Nested:
    """Move every tensor to ``device``.

    Several tensors without gradient that cross between the CPU and another device are packed: they
    cross in one copy, and the results share one allocation.

    Raises:
        TypeError: if an array is not a tensor.
    """
    target = None if device is None else torch.device(device)
    packed = iter(_move_packed(_crossing(buffer_, target), target))

    def to(x: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor):
            raise TypeError(
                f"buffer_ contains a {type(x).__name__}: convert it by torchify_buffer first"
            )
        if target is None or (x.is_cpu and target.type == "cpu"):
            return x
        return next(packed) if _crosses(x, target) else x.to(target)

    return map_buffer(to, buffer_)


def _crossing(buffer_: Nested, device: torch.device | None) -> list[torch.Tensor]:
    """Return the tensors that :func:`buffer_to` packs."""
    if device is None:
        return []
    return [x for x in leaves(buffer_) if isinstance(x, torch.Tensor) and _crosses(x, device)]


def _crosses(x: torch.Tensor, device: torch.device) -> bool:
    return x.is_cpu != (device.type == "cpu") and not x.requires_grad


def _move_packed(tensors: list[torch.Tensor], device: Any) -> list[torch.Tensor]:
    """Move tensors from one device to another in a single copy."""
    is_pinned = bool(tensors) and device.type == "cuda"  # Then the copy runs beside the program.
    if len(tensors) < 2 and not is_pinned:
        return [x.to(device) for x in tensors]
    sizes = [x.numel() * x.element_size() for x in tensors]
    # Every tensor begins where kernels expect it to.
    starts = [0, *accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]
    packed = torch.empty(
        starts[-1], dtype=torch.uint8, device=tensors[0].device, pin_memory=is_pinned
    )

    def views(memory: torch.Tensor) -> list[torch.Tensor]:
        all_of = {dtype: memory.view(dtype) for dtype in {x.dtype for x in tensors}}
        return [
            all_of[x.dtype].as_strided(x.shape, _dense_strides(x), start // x.element_size())
            for x, start in zip(tensors, starts)
        ]

    for view, x in zip(views(packed), tensors):
        view.copy_(x)
    return views(packed.to(device, non_blocking=is_pinned))


def _dense_strides(x: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of a tensor with the shape of ``x`` that lies in memory row by row."""
    return x.stride() if x.is_contiguous() else torch.empty(x.shape, device="meta").stride()


def existing_device(name: str, device: int | str | torch.device, remedy: str) -> torch.device:
    """Return a device with its index.

    Args:
        name: argument named in the error.
        device: device, its name, or the index of a CUDA device.
        remedy: advice for the error, if there is no such device.

    Raises:
        ValueError: if torch cannot use it.
    """
    if not isinstance(device, (str, torch.device)):
        device = torch.device("cuda", int(device))
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # The latter from torch without CUDA.
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{name} is {str(device)!r}, which torch cannot use ({reason}): {remedy}"
        ) from None


def buffer_method(buffer_: Nested, method_name: str, *args: Any, **kwargs: Any) -> Nested:
    """Call the method of this name on every array or tensor; returns the structure of results."""
    return map_buffer(methodcaller(method_name, *args, **kwargs), buffer_)


def buffer_func(buffer_: Nested, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Nested:
    """Call ``func(x, *args, **kwargs)`` on every array or tensor ``x``."""
    return map_buffer(lambda x: func(x, *args, **kwargs), buffer_)


def get_leading_dims(buffer_: Nested, n_dim: int = 1) -> tuple[int, ...] | None:
    """Return the first ``n_dim`` dimensions, common to all arrays; None without arrays.

    Raises:
        ValueError: if the dimensions of arrays differ.
    """
    dims: set[tuple[int, ...]] = set()
    map_buffer(lambda x: dims.add(tuple(x.shape[:n_dim])), buffer_)
    if len(dims) > 1:
        raise ValueError(
            f"arrays of buffer_ have the leading dimensions {sorted(dims)}: give all the same, or "
            f"make n_dim={n_dim} smaller"
        )
    return dims.pop() if dims else None
