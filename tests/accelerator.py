"""The devices that tests run on, whose copies and waits are counted: a GPU, and a simulated one.

Tensors of the simulated device keep their numbers in CPU memory. Numbers are real, forward and
backward, in optimizers too. As on a GPU, an operation on tensors of two devices raises an error (a
CPU tensor without dimensions may take part), and numpy cannot read a tensor of the device. What a
GPU would wait for is counted.

On a GPU, random numbers are drawn by the host, so that results are those of the CPU but for
rounding.

torch has to learn of the simulated device before its first backward pass, and cannot fork after
one: tests run a function in another process, by :func:`apart`. Its server has imported what the
functions need, and never computes.
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import FrameType
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

try:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as _set_up
except ImportError:  # Of torch before 2.10.
    _set_up = None

NAME = "sim"
SIMULATED, GPU = f"{NAME}:0", "cuda:0"
DEVICES = [SIMULATED] * (_set_up is not None) + [GPU] * torch.cuda.is_available()
ABSENT = pytest.param(None, marks=pytest.mark.skip(reason="no GPU, and torch simulates no device"))
ROUNDING = {SIMULATED: 0, GPU: 1e-4}  # Greatest difference from the numbers of the CPU.
on_each_device = pytest.mark.parametrize("device", DEVICES or [ABSENT])
# Operations whose result, or its shape, the host has to know.
WAITING = frozenset(
    ["_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "_unique2"]
)


class OnDevice(torch.Tensor):
    """A tensor of the device; ``host`` holds its numbers."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> OnDevice:
        layout = {"strides": host.stride(), "storage_offset": host.storage_offset()}
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, host.shape, dtype=host.dtype, device=torch.device(NAME, 0), **layout
        )
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})

    def __repr__(self, **kwargs: Any) -> str:
        return f"OnDevice({self.host})"

    def numpy(self, **kwargs: Any) -> Any:
        raise TypeError(f"numpy cannot read a tensor of {self.device}: copy it to the CPU first")

    def tolist(self) -> Any:
        _count("out")
        return self.host.tolist()


class Accelerator(TorchDispatchMode):
    """A context in which the simulated device exists.

    Attributes:
        counts: number of copies "in" to the device, of copies "out", and of "waits" for a number.
        places: the same by the line of the library.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.places: Counter[tuple[str, str]] = Counter()
        self._functions = _Functions()

    def __enter__(self) -> Accelerator:
        global _present
        _present = self
        self._functions.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        global _present
        _present = None
        super().__exit__(*error)
        self._functions.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {})


class Gpu(Accelerator):
    """A context that counts what a GPU copies and waits for; the host draws random numbers."""

    def __enter__(self) -> Gpu:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.filterwarnings("always", "called a synchronizing")
        self._show, warnings.showwarning = warnings.showwarning, self._count_wait
        self._precision = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        torch.cuda.set_sync_debug_mode("warn")
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.cuda.set_sync_debug_mode("default")
        torch.backends.cudnn.allow_tf32 = self._precision
        self._warnings.__exit__(*error)

    def _count_wait(self, message: Any, *args: Any, **kwargs: Any) -> None:
        if "called a synchronizing" in str(message):
            _count("waits")
        else:
            self._show(message, *args, **kwargs)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name in ("copy_", "_to_copy"):
            source = args[1] if name == "copy_" else args[0]
            result = func(*args, **kwargs)
            if source.is_cuda and not result.is_cuda:
                _count("out")
                _count("waits", -1)  # For this copy.
            elif result.is_cuda and not source.is_cuda:
                _count("in")
            return result
        if name in DRAWING or name == "native_dropout":
            return _drawn_by_host(func, args, kwargs)
        return func(*args, **kwargs)


DRAWING = frozenset(
    ["bernoulli", "bernoulli_", "exponential_", "multinomial", "normal", "normal_", "rand"]
    + ["rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "random_"]
    + ["uniform_"]
)


def _drawn_by_host(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Draw what the CPU would; these copies are not counted."""
    is_on_gpu = torch.device(kwargs.get("device") or "cpu").type == "cuda"

    def find(x: torch.Tensor) -> None:
        nonlocal is_on_gpu
        is_on_gpu |= x.is_cuda

    _each(find, (args, kwargs))
    if not is_on_gpu:
        return func(*args, **kwargs)
    torch.cuda.set_sync_debug_mode("default")
    try:
        host_args, host_kwargs = _each(torch.Tensor.cpu, (args, kwargs))
        if "device" in host_kwargs:
            host_kwargs["device"] = "cpu"
        name = func.overloadpacket.__name__
        if name == "native_dropout":
            x, p, _ = args
            kept = torch.empty_like(host_args[0]).bernoulli_(1 - p).cuda()
            return x * (kept / (1 - p)), kept.bool()
        result = func(*host_args, **host_kwargs).cuda()
        return args[0].copy_(result) if name.endswith("_") else result
    finally:
        torch.cuda.set_sync_debug_mode("warn")


def present(device: str) -> Accelerator:
    """Return a context in which ``device`` exists and is counted."""
    return Gpu() if device == GPU else Accelerator()


_present: Accelerator | None = None


_processes: dict[bool, ProcessPoolExecutor] = {}


def end() -> None:
    """End the processes that were started."""
    for process in _processes.values():
        process.shutdown()
    _processes.clear()


def _begin(is_simulated: bool) -> None:
    torch.set_num_threads(1)
    if is_simulated:
        _set_up(NAME)


def apart(function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(*args)``, computed in a process that has the device.

    torch would pin memory for the simulated device, so the GPU is used in a process without it.
    """
    is_simulated = GPU not in args
    if is_simulated not in _processes:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch._dynamo", "tests.contracts.test_accelerator"])
        _processes[is_simulated] = ProcessPoolExecutor(1, context, _begin, (is_simulated,))
    return _processes[is_simulated].submit(function, *args).result(timeout=120)


def _count(kind: str, n: int = 1) -> None:
    if _present is None:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and "/rlpyt/" not in frame.f_code.co_filename:
        frame = frame.f_back
    place = ""
    if frame is not None:
        place = f"{frame.f_code.co_filename.rpartition('/rlpyt/')[2]}:{frame.f_lineno}"
    _present.counts[kind] += n
    _present.places[kind, place] += n


def _compute(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one operation on the CPU, and put its results where the device would have them."""
    name = func.overloadpacket.__name__
    tensors: list[torch.Tensor] = []

    def to_host(x: torch.Tensor) -> torch.Tensor:
        tensors.append(x)
        return x.host if isinstance(x, OnDevice) else x

    host_args, host_kwargs = _each(to_host, (args, kwargs))
    here = [x for x in tensors if isinstance(x, OnDevice)]
    requested = kwargs.get("device")
    to_device = bool(here) if requested is None else torch.device(requested).type == NAME
    if name == "copy_":
        to_device = isinstance(args[0], OnDevice)
        _count_copy(from_device=isinstance(args[1], OnDevice), to_device=to_device)
    elif name == "_to_copy":
        _count_copy(from_device=bool(here), to_device=to_device)
    elif here and any(x.dim() for x in tensors if not isinstance(x, OnDevice)):
        raise RuntimeError(f"{name} got tensors of {NAME}:0 and of the CPU")
    elif here and name in WAITING:
        _count("waits")
    if requested is not None:
        host_kwargs["device"] = "cpu"
    of_host = {id(x.host): x for x in here}
    results = func(*host_args, **host_kwargs)

    def placed(x: torch.Tensor) -> torch.Tensor:
        if id(x) in of_host:  # An operation in place returns its argument.
            return of_host[id(x)]
        return OnDevice(x) if to_device and not isinstance(x, OnDevice) else x

    return _each(placed, results)


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    """Return nested tuples, lists and dicts with ``function`` of each tensor; fast."""
    if isinstance(x, torch.Tensor):
        return function(x)
    if isinstance(x, (tuple, list)):
        return type(x)([_each(function, part) for part in x])
    if isinstance(x, dict):
        return {name: _each(function, part) for name, part in x.items()}
    return x


def _count_copy(from_device: bool, to_device: bool) -> None:
    if from_device != to_device:
        _count("in" if to_device else "out")


# --- Functions of torch whose kernels round differently with and without gradients ---------------


class _Functions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in ("conv2d", "lstm") or not isinstance(args[0], OnDevice):
            return func(*args, **(kwargs or {}))
        if name == "conv2d":
            if torch.is_grad_enabled():  # The layout in which models train on the CPU.
                args = (args[0].contiguous(memory_format=torch.channels_last), *args[1:])
            return func(*args, **(kwargs or {}))
        if not torch.is_grad_enabled():
            on_host = pytree.tree_map_only(OnDevice, lambda x: x.host, args)
            return tuple(map(OnDevice, func(*on_host)))
        flat, spec = pytree.tree_flatten(args)
        return _Lstm.apply(func, spec, *flat)


class _Lstm(torch.autograd.Function):
    """The LSTM of the CPU with its gradient: kernels for accelerators do not run on a CPU."""

    @staticmethod
    def forward(ctx: Any, func: Any, spec: Any, *flat: Any) -> Any:
        inputs = [x.host.detach() if isinstance(x, OnDevice) else x for x in flat]
        for x, needs_grad in zip(inputs, ctx.needs_input_grad[2:]):
            if needs_grad:
                x.requires_grad_()
        with torch.enable_grad():
            outputs = func(*pytree.tree_unflatten(inputs, spec))
        ctx.inputs, ctx.outputs = inputs, outputs
        return tuple(OnDevice(x.detach()) for x in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        needed = [i for i, x in enumerate(ctx.inputs) if getattr(x, "requires_grad", False)]
        found = torch.autograd.grad(
            ctx.outputs, [ctx.inputs[i] for i in needed], [x.host for x in grads], allow_unused=True
        )
        results: list[Any] = [None] * (2 + len(ctx.inputs))
        for i, x in zip(needed, found):
            results[2 + i] = None if x is None else OnDevice(x)
        return tuple(results)
