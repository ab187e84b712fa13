"""Copies of memory that go past the cache, for compiled code.

A batch larger than the cache gains nothing from passing through it. An ordinary store first reads
the line of memory that it is about to overwrite, and pushes others out; a non-temporal store does
not. Measured with 133 MB of images: 5.6 ms instead of 9.7 ms, of which 4.5 ms are what writing
zeros takes.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils as numba_cgutils
from numba.extending import intrinsic

from rlpyt.replays._memory import LINE
from rlpyt.utils.jit import jit
from rlpyt.utils.types import NDArray

_cgutils: Any = numba_cgutils  # Partly annotated in some versions.
_ir: Any = _cgutils.ir
_BYTES = _ir.IntType(8).as_pointer()


def _byte(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """Pointer to a byte of an array [n] of bytes."""
    data = _cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _BYTES), [at])


def _stream_line(typing_context: Any, dest: Any, to: Any, source: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = _ir.VectorType(_ir.IntType(8), LINE).as_pointer()
        write_to = _byte(context, builder, signature.args[0], args[0], args[1])
        read_at = _byte(context, builder, signature.args[2], args[2], args[3])
        value = builder.load(builder.bitcast(read_at, line), align=1)
        store = builder.store(value, builder.bitcast(write_to, line), align=LINE)
        one = _ir.Constant(_ir.IntType(32), 1)
        store.set_metadata("nontemporal", builder.module.add_metadata([one]))
        return context.get_dummy_value()

    return types.void(dest, types.intp, source, types.intp), codegen


def _fetch_line(typing_context: Any, source: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag = _ir.IntType(32)
        kind = _ir.FunctionType(_ir.VoidType(), [_BYTES, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        read_at = _byte(context, builder, signature.args[0], args[0], args[1])
        # To read, into the second cache, data. The buffers on the way to the first are what
        # streamed lines leave through (measured: 9% of the time to sample sequences of frames).
        builder.call(prefetch, [read_at, flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.void(source, types.intp), codegen


def _finish_stream(typing_context: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


# Copy a line from any place ``at`` to a place ``to`` that is a multiple of LINE in memory.
stream_line: Any = intrinsic(_stream_line)
# Ask for the line at a place that is read soon. Any place will do, inside or outside of the array.
fetch_line: Any = intrinsic(_fetch_line)
# Before anybody else may look at what was streamed.
finish_stream: Any = intrinsic(_finish_stream)


@jit
def stream_copy(
    dest: NDArray, to: int, source: NDArray, at: int, n: int, offset: int, ahead: int
) -> None:
    """Copy ``n`` bytes past the cache, and ask for bytes that are copied soon meanwhile.

    Args:
        dest: [...] bytes.
        to: first byte to write.
        source: [...] bytes.
        at: first byte to read.
        n: number of bytes.
        offset: of the memory of ``dest`` from a multiple of LINE.
        ahead: byte of ``source`` from which on lines are fetched, one for four that are copied.
    """
    head = min(n, -(to + offset) % LINE)
    for p in range(head):
        dest[to + p] = source[at + p]
    p = head
    while p + 4 * LINE <= n:
        fetch_line(source, ahead)
        ahead += LINE
        stream_line(dest, to + p, source, at + p)
        stream_line(dest, to + p + LINE, source, at + p + LINE)
        stream_line(dest, to + p + 2 * LINE, source, at + p + 2 * LINE)
        stream_line(dest, to + p + 3 * LINE, source, at + p + 3 * LINE)
        p += 4 * LINE
    while p + LINE <= n:
        stream_line(dest, to + p, source, at + p)
        p += LINE
    while p < n:
        dest[to + p] = source[at + p]
        p += 1
