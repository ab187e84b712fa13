"""Updates compiled as one graph: losses, gradients, clipping and the steps of optimizers.

A compiled update runs the methods of the algorithm that an eager one runs, with another step:
:class:`GraphSteps` in place of :class:`~rlpyt.algos.base.EagerStep`. Numbers that the host would
read become masks, and the step of an optimizer is a function, since torch does not trace its
``step``.
"""

from __future__ import annotations

import itertools
import os
import time
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.radam import radam
from torch.optim.rmsprop import rmsprop

import rlpyt
from rlpyt.algos._optim import FusedAdam, scale_down
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

    def copy_learning_rates(self) -> None:
        """Take over learning rates, which schedules change."""
        for group, lr, *_ in self._groups:
            lr.fill_(group["lr"])

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


class GraphSteps:
    """The parts of a gradient step in a compiled update: nothing is read on the host.

    Args:
        optimizers: all optimizers of an algorithm.
    """

    def __init__(self, optimizers: Sequence[Any]) -> None:
        self._steps = [*map(GraphStep, optimizers)]

    def copy_learning_rates(self) -> None:
        """Take over the learning rates of all optimizers."""
        for step in self._steps:
            step.copy_learning_rates()

    def _of(self, optimizer: Any) -> GraphStep:
        return next(step for step in self._steps if step.optimizer is optimizer)

    def parameters_of(self, optimizer: Any) -> list[torch.nn.Parameter]:
        # From the optimizer itself, its learning rate would be a constant of the graph.
        return self._of(optimizer).parameters

    def set_gradients(self, loss: torch.Tensor, parameters: list[torch.nn.Parameter]) -> None:
        for parameter in parameters:
            parameter.grad = None
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = torch.autograd.grad(loss, trained, allow_unused=True)
        for parameter, gradient in zip(trained, gradients):
            parameter.grad = gradient

    def scale(self, gradients: list[torch.Tensor], norm: torch.Tensor, limit: float) -> None:
        scale_down(gradients, norm, limit)

    def take(self, optimizer: Any, number: torch.Tensor, n_skipped: Any) -> Any:
        is_finite = torch.isfinite(number)
        n_skipped.add_((~is_finite).float())
        self._of(optimizer)(is_finite)
        return n_skipped


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
        update: bound method of an algorithm that takes batches and returns values by name.
        settings: True, or keywords of ``torch.compile`` that replace the defaults. True means CUDA
            graphs where the update trains on a CUDA device.
        compiler: compiler with the steps of the algorithm's optimizers.
    """

    def __init__(self, update: Any, settings: Any, compiler: UpdateCompiler) -> None:
        self.name = f"{update.__name__} of {type(update.__self__).__name__}"
        self._compiler = compiler
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
            values = self._run(self._graph, *batch)
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

    def _run(self, graph: Update, *batch: Any) -> Any:
        algo, steps = self._update.__self__, self._compiler.steps
        steps.copy_learning_rates()
        algo._step = steps
        try:
            return graph(*batch)
        finally:
            del algo._step

    def _compile(self) -> Update:
        import torch._dynamo.config as config  # Takes a second, so only those who compile do it.

        if not hasattr(config, "trace_autograd_ops"):
            raise CannotCompile(f"torch {torch.__version__} does not trace gradients: use 2.13")
        config.trace_autograd_ops = True
        # Schedules do not count the steps of compiled updates.
        warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
        if self._update.__self__.world_size > 1:
            raise CannotCompile("other processes take part in the backward pass")
        self._compiler.steps  # noqa: B018  (Raises CannotCompile for unknown optimizers.)
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

    Left out are those of code in modules and of the states of optimizers, a tenth of a small
    update's time: after replacing these, a program calls ``algo.recompile()``.
    """
    code = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)

    def is_kept(guard: Any) -> bool:
        is_code = guard.is_global and isinstance(guard.value, code)
        is_state = isinstance(guard.value, torch.Tensor) and "._step." in guard.name
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

    def __init__(self, algo: Any) -> None:
        self._algo = algo
        self._updates: dict[str, CompiledUpdate] = {}

    @cached_property
    def steps(self) -> GraphSteps:
        """The steps of all optimizers; :class:`CannotCompile` is raised if one is unknown."""
        values = vars(self._algo).values()
        return GraphSteps([optimizer for value in values for optimizer in optimizers_in(value)])

    def run(self, update: Any, batch: tuple[Any, ...], settings: Any) -> Any:
        """Return ``update(*batch)``; the first call of each update compiles it."""
        name = update.__name__
        if name not in self._updates:
            self._updates[name] = CompiledUpdate(update, settings, self)
        return self._updates[name](*batch)


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
