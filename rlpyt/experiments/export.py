"""Export of a trained policy as one graph, for programs without this library or without Python."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from rlpyt.core.protocols import AgentLike
from rlpyt.core.records import EnvSpaces
from rlpyt.core.statistics import Statistics
from rlpyt.experiments.acting import Normalization, greedy, step_from
from rlpyt.utils.buffer import buffer_from_example, map_buffer, named_leaves
from rlpyt.utils.files import make_parent
from rlpyt.utils.logging import logger
from rlpyt.utils.types import Nested

FORMATS = (".onnx", ".pt2")
INPUTS = ("observation", "prev_action", "prev_reward", "rnn_state")


class Policy(Protocol):
    """Attributes of a :class:`~rlpyt.experiments.trained.TrainedAgent` that a graph needs."""

    agent: AgentLike
    spaces: EnvSpaces
    statistics: Statistics
    normalization: Normalization | None


class Graph(NamedTuple):
    """Policy as a graph, with examples of its inputs and outputs by name, in order."""

    program: torch.export.ExportedProgram
    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]

    def shape(self, name: str) -> str:
        """Return the shape of an input or output, with the letter B for the batch."""
        sizes = [str(size) for size in (self.inputs | self.outputs)[name].shape]
        sizes[_batch_dim(name)] = "B"
        return f"[{','.join(sizes)}]"


def export(trained: Policy, file: str | Path) -> Graph:
    """Write the deterministic policy of an agent to a file.

    The graph takes a batch of any size, in the form that networks receive: a record has one input
    for each field, float64 becomes float32, and discrete values count from 0. Its outputs are the
    action and the agent's other results, such as action values or the parameters of the policy's
    distribution. ``NormalizeObservation``, as the last wrapper of the environment, is part of the
    graph. The previous action, the previous reward and the recurrent state are inputs if the
    network uses them, zero at the start of an episode; the next recurrent state is then an output.

    Args:
        trained: agent, see :func:`rlpyt.experiments.trained.load`.
        file: file to write, with the ending ".onnx", or ".pt2" for ``torch.export.load``.

    Raises:
        ValueError: if the file has another ending, the agent draws random numbers even to act
            deterministically, or torch cannot trace its network.
        ImportError: if the packages that write ONNX are not installed.
    """
    suffix = Path(file).suffix
    if suffix not in FORMATS:
        raise ValueError(f"file={str(file)!r}: use one of the endings {' and '.join(FORMATS)}")
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if suffix == ".onnx" and missing:
        raise ImportError(f"ONNX needs {missing[0]}: pip install 'rlpyt[export]', or write .pt2")
    if trained.statistics and trained.normalization is None:
        logger.log(
            "The exported graph takes observations as wrappers return them, normalized by "
            f"{', '.join(trained.statistics)}: apply these, from agent.statistics, before it."
        )
    make_parent(file)
    graph = make_graph(trained)
    if suffix == ".pt2":
        torch.export.save(graph.program, file)
        return graph
    with _quiet():
        torch.onnx.export(
            graph.program,
            (),
            file,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    return graph


def make_graph(trained: Policy) -> Graph:
    """Return the graph of a policy, see :func:`export`."""
    agent = trained.agent
    with greedy(agent), torch.no_grad(), _quiet():
        step = _Step(trained)
        program = step.program()
        nodes = program.graph.nodes
        needed = _ancestors(next(node for node in nodes if node.op == "output"))
        # The last placeholders are the inputs, after parameters and constants.
        placeholders = [node for node in nodes if node.op == "placeholder"][-len(step.names) :]
        used = [
            name
            for name, node in zip(step.names, placeholders)
            if node in needed or name.startswith("observation")
        ]
        if used != step.names:
            step.names = used
            program = step.program()
        inputs = {name: step.examples[name] for name in used}
        return Graph(program, inputs, step.run(inputs))


def _ancestors(output: torch.fx.Node) -> set[torch.fx.Node]:
    """Return the output of a side-effect-free graph and all nodes that it depends on."""
    found, left = {output}, [output]
    while left:
        new = set(left.pop().all_input_nodes) - found
        found |= new
        left += new
    return found


class _Step:
    """Step of an agent as a function of tensors.

    Attributes:
        examples: all inputs by name, for a batch of two at the start of an episode.
        names: names of the inputs that the function takes.
    """

    def __init__(self, trained: Policy) -> None:
        self._agent = trained.agent
        self._normalize = trained.normalization or torch.nn.Identity()
        nulls = [space.null_value() for space in trained.spaces]
        if trained.normalization is not None:
            nulls[0] = trained.normalization.space.null_value()
        observation, action = (buffer_from_example(null, 2) for null in nulls)
        action[:] = nulls[1]
        inputs = map_buffer(torch.from_numpy, (observation, action, np.zeros(2, np.float32)))
        before = torch.get_rng_state()
        _, rnn_state = step_from(self._agent, self._prepared(inputs), None)
        if not torch.equal(torch.get_rng_state(), before):
            torch.set_rng_state(before)
            raise ValueError(
                f"{type(self._agent).__name__} draws random numbers in every step: its action is "
                "not a function of the observation, so it cannot be exported"
            )
        self._inputs = (*inputs, map_buffer(torch.zeros_like, rnn_state))
        self.examples = _by_name(INPUTS, self._inputs)
        self.names = list(self.examples)

    def _prepared(self, inputs: Sequence[Nested]) -> Sequence[Nested]:
        observation, *rest = inputs
        return self._normalize(observation), *rest

    def program(self) -> torch.export.ExportedProgram:
        """Return the function's graph, for the inputs in ``names``."""
        batch = torch.export.Dim("batch")
        sizes = tuple({_batch_dim(name): batch} for name in self.names)
        tensors = tuple(self.examples[name] for name in self.names)
        module = _Module(
            self._agent.acting_model,
            lambda *inputs: tuple(self.run(dict(zip(self.names, inputs))).values()),
        )
        try:
            program = torch.export.export(module, tensors, dynamic_shapes=(sizes,), strict=False)
        except Exception as error:  # torch has many kinds, and no common class for them.
            agent, reason = type(self._agent).__name__, str(error).partition("\n")[0]
            raise ValueError(
                f"{agent} cannot be exported: {reason}: use operations of torch alone in its "
                "network, such as torch.where for a branch on values"
            ) from error
        # Without side effects, and without nodes that only these need.
        functional: torch.export.ExportedProgram = program.run_decompositions({})
        return functional

    def run(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the outputs by name; missing inputs have the values of a first step."""
        B = next(iter(given.values())).shape[0]
        all_inputs = (
            given[name] if name in given else _of_batch(example, _batch_dim(name), B)
            for name, example in self.examples.items()
        )
        *inputs, rnn_state = (map_buffer(lambda _: next(all_inputs), part) for part in self._inputs)
        step, rnn_state = step_from(self._agent, self._prepared(inputs), rnn_state)
        info = {
            name: part
            for name, part in named_leaves(step.agent_info)
            if not name.startswith("prev_rnn_state")
        }
        return (
            _by_name(("action",), (step.action,))
            | info
            | _by_name(("next_rnn_state",), (rnn_state,))
        )


class _Module(torch.nn.Module):
    """Function as a module, with the network whose parameters it uses."""

    def __init__(self, model: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._function = model, function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self._function(*inputs)


def _by_name(roots: Sequence[str], parts: Sequence[Nested]) -> dict[str, torch.Tensor]:
    return {name: x for root, part in zip(roots, parts) for name, x in named_leaves(part, root)}


def _batch_dim(name: str) -> int:
    return int("rnn_state" in name)  # [N,B,H]


def _of_batch(example: torch.Tensor, dim: int, B: int) -> torch.Tensor:
    """Repeat the first entry of an example along its batch dimension."""
    shape = list(example.shape)
    shape[dim] = B
    return example.narrow(dim, 0, 1).expand(shape)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of torch about its own packages, which are not needed here."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
