"""Updates compiled as one graph: losses, gradients, clipping and the steps of optimizers.

A compiled update runs the methods of the algorithm that an eager one runs. They differ in two
places of :class:`~rlpyt.algos.base.RlAlgorithm`: numbers that the host would read become masks,
and the step of an optimizer is a function here, since torch does not trace its ``step``.
"""

from __future__ import annotations

import itertools
import operator
import os
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.radam import radam
from torch.optim.rmsprop import rmsprop

import rlpyt
from rlpyt.algos._optim import FusedAdam
from rlpyt.utils.logging import logger

Update = Callable[..., Any]

TORCH, LIBRARY = (module.__path__[0] + os.sep for module in (torch, rlpyt))  # Their folders.

_NUMBERS = itertools.count()  # Of the graphs of this process.


class CannotCompile(Exception):
    """The reason why an update is not compiled."""


def lasting(x: torch.Tensor) -> torch.Tensor:
    """Mark ``x`` as a tensor that keeps its place, so that a CUDA graph may change it."""
    from torch._dynamo import mark_static_address  # Takes a second, as in _compile().

    mark_static_address(x)
    return x


# --- Steps of optimizers --------------------------------------------------------------------------


class GraphStep:
    """The step of an optimizer as a function of tensors; its state stays in the optimizer.

    Args:
        optimizer: optimizer; the state that its first step would make is made here.

    Raises:
        CannotCompile: if this class of optimizer is unknown here.

    Attributes:
        optimizer: the optimizer.
        parameters: parameters of all groups.
    """

    def __init__(self, optimizer: Any) -> None:
        OptimCls = torch.optim.Adam if isinstance(optimizer, FusedAdam) else type(optimizer)
        if OptimCls not in STEPS:
            names = ", ".join(cls.__name__ for cls in STEPS)
            raise CannotCompile(f"the optimizer is {OptimCls.__name__}, not {names}")
        self.optimizer = optimizer
        self._step, names_of = STEPS[OptimCls]
        self._groups: list[tuple[Mapping[str, Any], torch.Tensor, list[Any], dict[str, Any]]] = []
        for group in optimizer.param_groups:
            for name in ("amsgrad", "differentiable"):
                if group.get(name):
                    raise CannotCompile(f"{name} of the optimizer is set")
            moments = names_of(group)
            for p in group["params"]:
                if not optimizer.state[p]:  # As its first step would make it.
                    optimizer.state[p].update({moment: torch.zeros_like(p) for moment in moments})
                    optimizer.state[p]["step"] = torch.zeros(())
                optimizer.state[p]["step"] = optimizer.state[p]["step"].to(p.device)
            states = {
                name: [lasting(optimizer.state[p][name]) for p in group["params"]]
                for name in ("step", *moments)
            }
            lr = torch.full((), float(group["lr"]), device=group["params"][0].device)
            self._groups.append((group, lr, group["params"], states))
        self.parameters = [p for *_, parameters, _ in self._groups for p in parameters]
        self._known_state = self._state()

    def follow(self) -> bool:
        """Copy learning rates, which schedules may change; return whether all else is the same."""
        groups = self.optimizer.param_groups
        for group, (known, lr, parameters, _) in zip(groups, self._groups):
            if group is not known or group["params"] is not parameters:
                return False
            lr.fill_(group["lr"])
        state = self._state()
        n_same = sum(map(operator.is_, state, self._known_state))
        return len(groups) == len(self._groups) and n_same == len(state) == len(self._known_state)

    def _state(self) -> list[Any]:
        """Return the tensors of the optimizer's state, whose keys are slow to look up."""
        return [x for entry in self.optimizer.state.values() for x in entry.values()]

    def __call__(self, is_finite: torch.Tensor) -> None:
        """Take a step if ``is_finite`` is true; otherwise leave everything unchanged."""
        for group, lr, all_parameters, all_states in self._groups:
            trained = [i for i, p in enumerate(all_parameters) if p.grad is not None]
            if not trained:
                continue
            parameters = [all_parameters[i] for i in trained]
            states = {name: [xs[i] for i in trained] for name, xs in all_states.items()}
            changed = [*parameters, *(x for xs in states.values() for x in xs)]
            before = [x.clone() for x in changed]
            gradients = [p.grad for p in parameters]
            with torch.no_grad():
                self._step(group, lr, parameters, gradients, states)
                for x, old in zip(changed, before):
                    x.copy_(torch.where(is_finite, x, old))
            for p in parameters:
                p.grad = None  # Not an output of the graph.


def _adam(group: Any, lr: Any, parameters: Any, gradients: Any, states: Any) -> None:
    beta1, beta2 = group["betas"]
    adam(
        parameters,
        gradients,
        states["exp_avg"],
        states["exp_avg_sq"],
        [],
        states["step"],
        foreach=False,
        decoupled_weight_decay=group["decoupled_weight_decay"],
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=group["maximize"],
        capturable=_is_capturable(states),
    )


def _radam(group: Any, lr: Any, parameters: Any, gradients: Any, states: Any) -> None:
    beta1, beta2 = group["betas"]
    # torch computes the rectification, a difference of large numbers, in double precision too.
    steps = [step.double() for step in states["step"]]
    radam(
        parameters,
        gradients,
        states["exp_avg"],
        states["exp_avg_sq"],
        steps,
        decoupled_weight_decay=group["decoupled_weight_decay"],
        foreach=False,
        capturable=True,  # A branch without the host, on the CPU too.
        maximize=group["maximize"],
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
    )
    for step, new in zip(states["step"], steps):
        step.copy_(new)


def _rmsprop(group: Any, lr: Any, parameters: Any, gradients: Any, states: Any) -> None:
    rmsprop(
        parameters,
        gradients,
        states["square_avg"],
        states.get("grad_avg", []),
        states.get("momentum_buffer", []),
        states["step"],
        foreach=False,
        maximize=group["maximize"],
        lr=lr,
        alpha=group["alpha"],
        eps=group["eps"],
        weight_decay=group["weight_decay"],
        momentum=group["momentum"],
        centered=group["centered"],
        capturable=_is_capturable(states),
    )


def _is_capturable(states: Any) -> bool:
    """Return whether numbers of steps are on a device: torch compiles no other step for CUDA."""
    return not states["step"][0].is_cpu


def _rmsprop_state(group: Mapping[str, Any]) -> list[str]:
    more = {"grad_avg": group["centered"], "momentum_buffer": group["momentum"]}
    return ["square_avg", *(name for name, is_used in more.items() if is_used)]


def _adam_state(group: Mapping[str, Any]) -> list[str]:
    return ["exp_avg", "exp_avg_sq"]


# The step of each class, and the names of its state beside the number of steps.
STEPS: dict[Any, tuple[Callable[..., None], Callable[..., list[str]]]] = {
    torch.optim.Adam: (_adam, _adam_state),
    torch.optim.AdamW: (_adam, _adam_state),
    torch.optim.RAdam: (_radam, _adam_state),
    torch.optim.RMSprop: (_rmsprop, _rmsprop_state),
}


# --- Updates --------------------------------------------------------------------------------------


class CompiledUpdate:
    """A method of an algorithm, as one graph.

    The first call compiles it. If that fails, one line in the log gives the reason, and no call is
    compiled.

    Args:
        name: name of the update in the log.
        update: bound method that takes batches and returns values by name.
        settings: True, or keywords of ``torch.compile`` that replace the defaults. True means CUDA
            graphs where the update trains on a CUDA device.
        prepare: function to call before; raises :class:`CannotCompile` with a reason.
    """

    def __init__(self, name: str, update: Any, settings: Any, prepare: Callable[[], None]) -> None:
        self.name = name
        self._prepare = prepare
        self._update = update
        if settings is True:  # On CUDA, a graph of kernels, which compiles faster too.
            is_cuda = update.__self__.training_device.type == "cuda"
            settings = {"mode": "reduce-overhead"} if is_cuda else {}
        self._settings = compile_settings(settings)
        self._is_cuda_graph = bool(self._settings.get("options", {}).get("triton.cudagraphs"))
        self._graph: Update | None = None
        self.is_given_up = False

    def __call__(self, *batch: Any) -> Any:
        if self.is_given_up:
            return self._update(*batch)
        is_first = self._graph is None
        start = time.perf_counter()
        try:
            if self._graph is None:
                logger.log(f"Compiling {self.name} ...")
                self._graph = self._compile()
            before = _n_graphs()
            values = self._graph(*batch)
        except Exception as error:
            is_of_compiling = type(error).__module__.startswith(
                ("torch._dynamo", "torch._inductor")
            )
            if not is_first and not is_of_compiling:
                raise
            self.is_given_up = True
            logger.log(f"WARNING: {self.name} is not compiled: {_reason(error)}")
            return self._update(*batch)
        if _n_graphs() > before:
            again = "" if is_first else " again, for other shapes or numbers,"
            logger.log(f"Compiled {self.name}{again} in {time.perf_counter() - start:.1f} s.")
        # The next replay of a CUDA graph writes its outputs into the same memory.
        return _each_tensor(torch.Tensor.clone, values) if self._is_cuda_graph else values

    def _compile(self) -> Update:
        import torch._dynamo.config as config  # Takes a second, so only those who compile do it.

        if not hasattr(config, "trace_autograd_ops"):
            raise CannotCompile(f"torch {torch.__version__} does not trace gradients: use 2.13")
        config.trace_autograd_ops = True
        # Schedules do not count the steps of compiled updates.
        warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
        if self._update.__self__.world_size > 1:
            raise CannotCompile("other processes take part in the backward pass")
        self._prepare()
        update = self._update

        def graph(*batch: Any) -> Any:
            return _each_tensor(torch.Tensor.detach, update(*batch))

        # torch finds what it compiled before by the code, whose name makes it this update's own.
        code = graph.__code__.replace(co_name=f"graph_{next(_NUMBERS)}")
        graph = types.FunctionType(code, globals(), graph.__name__, None, graph.__closure__)
        compiled: Update = torch.compile(graph, **self._settings)
        return compiled


def _guards_of_data(guards: Sequence[Any]) -> list[bool]:
    """Return which of the guards that torch checks before an update to keep.

    Left out are those of code in modules, which no program replaces during a run, and those of the
    states of optimizers, which :meth:`GraphStep.follow` checks: a tenth of a small update's time.
    """
    code = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)

    def is_kept(guard: Any) -> bool:
        is_code = guard.is_global and isinstance(guard.value, code)
        is_state = isinstance(guard.value, torch.Tensor) and "._compiler." in guard.name
        return not is_code and not is_state

    return [*map(is_kept, guards)]


def compile_settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return all keywords for ``torch.compile``.

    Args:
        keywords: keywords that replace the defaults. torch takes either a mode or options; here the
            options of the mode are added to the defaults, which keep the random numbers of an eager
            run.
    """
    settings: dict[str, Any] = {"fullgraph": True, "dynamic": False, **keywords}
    if settings.get("backend", "inductor") != "inductor":
        return settings
    options = torch._inductor.list_mode_options(settings.pop("mode", None) or "default")
    options = {**options, **(settings.pop("options", None) or {})}
    # No Python between the kernels, where no CUDA graph replaces it.
    defaults = {
        "fallback_random": True,
        "cpp_wrapper": not options.get("triton.cudagraphs"),
        "size_asserts": False,
        "guard_filter_fn": _guards_of_data,
    }
    return {**settings, "options": {**defaults, **options}}


class UpdateCompiler:
    """The compiled updates of one run of an algorithm, and the steps of its optimizers."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}  # Attributes of the algorithm that are or hold optimizers.
        self._steps: list[GraphStep] = []
        self._updates: dict[str, CompiledUpdate] = {}

    def run(self, update: Any, batch: tuple[Any, ...], settings: Any) -> Any:
        """Return ``update(*batch)``; the first call of each update compiles it."""
        attributes = vars(update.__self__)
        is_same = all(attributes.get(name) is held for name, held in self._held.items())
        if not is_same or not all(step.follow() for step in self._steps):
            self._held, self._steps, self._updates = {}, [], {}  # Other optimizers or states.
        name = update.__name__
        if name not in self._updates:
            title = f"{name} of {type(update.__self__).__name__}"
            make_steps = partial(self._make_steps, attributes)
            self._updates[name] = CompiledUpdate(title, update, settings, make_steps)
        return self._updates[name](*batch)

    def _make_steps(self, attributes: Mapping[str, Any]) -> None:
        if not self._steps:
            self._held = {name: x for name, x in attributes.items() if optimizers_in(x)}
            optimizers = [optimizer for x in self._held.values() for optimizer in optimizers_in(x)]
            self._steps = [*map(GraphStep, optimizers)]

    def step_of(self, optimizer: Any) -> GraphStep:
        """Return the step of ``optimizer`` in a graph."""
        return next(step for step in self._steps if step.optimizer is optimizer)


def optimizers_in(value: Any) -> list[Any]:
    """Return ``value`` if it is an optimizer, and the optimizers in it if it is a list."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return [x for x in values if isinstance(x, torch.optim.Optimizer)]


def _n_graphs() -> int:
    """Return the number of graphs that were compiled in this process."""
    n_graphs: int = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    return n_graphs


def _each_tensor(function: Callable[..., Any], values: Any) -> Any:
    """Apply ``function`` to each tensor in nested dicts and tuples."""
    if isinstance(values, torch.Tensor):
        return function(values)
    if isinstance(values, dict):
        return {name: _each_tensor(function, value) for name, value in values.items()}
    if isinstance(values, tuple):
        made = [_each_tensor(function, value) for value in values]
        return getattr(values, "_make", tuple)(made)
    return values


def _reason(error: Exception) -> str:
    """Return why the update is not compiled, where, and what to do, in one line."""
    text = str(error).strip() or type(error).__name__
    if "InvalidCxxCompiler" in text:  # The name of the cause, which torch wraps.
        return "there is no C++ compiler that works: install one, such as g++, or set CXX"
    if type(error).__name__ == "FailOnRecompileLimitHit":
        return (
            "shapes or numbers changed too often: keep batches to one shape, and make a number "
            "that changes a tensor"
        )
    lines = text.splitlines()
    reason = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0].strip()
    stack = getattr(error, "real_stack", None) or ()  # Of all errors of tracing.
    frames = [frame for frame in stack if not frame.filename.startswith(TORCH)]
    if not frames:
        return reason
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARY)]
    at = (own or frames)[-1]
    remedy = (
        "use operations of torch alone there, such as torch.where for a branch"
        if own
        else "this is code of the library, nothing is to be done"
    )
    return f"{reason}, at {at.filename}:{at.lineno}, `{at.line}`: {remedy}"
