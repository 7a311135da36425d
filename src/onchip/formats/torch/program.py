"""Build a raw Graph from an exported program: symbols bound, states as inputs and outputs, unused operators dropped.

Every operator of `torch.export` is a node, in execution order:

* A result in the bytes of an argument is no node: views, dropout at inference, and results that by their schema may be
  the argument (`contiguous`, `reshape`) even if they permute the elements. A result that changes the number of bytes (a
  copied slice, an expanded tensor, a cast) is a node, and so is a permutation if `as_onnx` is set.
* An operator in place reads the old tensor and writes a new tensor, which later readers of any view see.
* A buffer or an input that is written is a state: a network input, and its last value, called `NAME@next`, a network
  output.
* A slice of a parameter is a separate parameter; parameters over the same bytes are one.
* A weight that is dequantised first is the parameter in the file, followed by its scales.
* Operators without readers are dropped, and so are unread outputs that serve only the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_map

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, OpenDimensionsError
from onchip.formats.networks import NEXT
from onchip.formats.torch.recording import Recording
from onchip.formats.torch.replay import STATES, ExportReplay, OpenShapes, ReplayOptions, Sizes, first_line
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.shared_bytes import state_written_by


def exported(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[object]
) -> torch.export.ExportedProgram:
    """Return the program of a module in inference mode, or the `ExportedProgram` itself; raises GraphError."""
    if isinstance(module, torch.export.ExportedProgram):
        return module
    parameter = next(iter(module.parameters()), None)
    device = parameter.device if parameter is not None else None
    inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tuple(example_inputs))
    with _as_at_inference(module):
        try:
            return torch.export.export(module, inputs, strict=False)
        except Exception as error:
            place = f"module {type(module).__name__!r}"
            raise GraphError(f"torch.export refuses it: {first_line(error)}", place=place) from error


@contextmanager
def _as_at_inference(module: torch.nn.Module) -> Iterator[None]:
    """Enter eval mode, without gradients, and without attention's fast path, which hides its operators."""
    training = [each for each in module.modules() if each.training]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for each in training:
            each.training = True


_GREATEST_VISITS = 20_000
"""Limit on nodes visited while sizes are tried; the first sizes are always tried."""


@dataclass(frozen=True, slots=True)
class ReplayedProgram:
    """A raw graph, the recording of its program, and a map from recorded names to names in the graph."""

    graph: Graph
    recording: Recording
    renamed: Mapping[str, str]


def graph_of_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> Graph:
    """Return the raw graph; raises UsageError for foreign bindings, OpenDimensionsError and GraphError."""
    return replayed_program(program, name, bindings, options).graph


def replayed_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> ReplayedProgram:
    """Return the raw graph with its recording; raises as `graph_of_program` does."""
    shapes = OpenShapes.of(program)
    sizes = shapes.sizes(bindings)
    still_open = shapes.open_dimensions(sizes)
    if still_open:
        suggested = _sizes_that_do(program, shapes, sizes, options)
        dims = {symbol: suggested[symbol] for symbol in shapes.symbols if symbol not in sizes}
        raise OpenDimensionsError(still_open, replace(bindings, dims={**bindings.dims, **dims}))
    return _replayed(name, _recorded(program, replace(options, sizes=sizes)))


def _sizes_that_do(
    program: torch.export.ExportedProgram, shapes: OpenShapes, sizes: Sizes, options: ReplayOptions
) -> Sizes:
    """Return sizes for all symbols with which the program runs, or the first candidate if it runs with none."""
    candidates = list(shapes.candidates(sizes))
    for candidate in candidates[: max(1, _GREATEST_VISITS // max(1, len(program.graph.nodes)))]:
        try:
            _recorded(program, replace(options, sizes=candidate))
        except InputError:
            continue
        return candidate
    return candidates[0]


def _recorded(program: torch.export.ExportedProgram, options: ReplayOptions) -> Recording:
    """Return the recording of a run; a second run is necessary if the first finds inputs written in place."""
    states = frozenset(one.target for one in program.graph_signature.output_specs if one.kind in STATES)
    replay = ExportReplay(program, options, states)
    recording = replay.recording()
    if replay.written_in_place <= states:
        return recording
    return ExportReplay(program, options, states | replay.written_in_place).recording()


def _replayed(name: str, recording: Recording) -> ReplayedProgram:
    operators = _needed_operators(recording)
    used = {tensor for operator in operators for tensor in (*operator.reads, *operator.outputs)}
    tensors = {
        tensor.name: tensor for tensor in recording.tensors.values() if tensor.name in used or tensor.role is Role.INPUT
    }
    for _, tensor_name in recording.states:
        tensors[tensor_name] = replace(tensors[tensor_name], role=Role.OUTPUT)
    for output_name, tensor_name in recording.outputs:
        tensor = tensors[tensor_name]
        aliases = (*tensor.aliases, recording.unique_name(output_name)) if tensor.role is Role.OUTPUT else ()
        tensors[tensor_name] = replace(tensor, role=Role.OUTPUT, aliases=aliases)
    new = {tensor: recording.unique_name(f"{state}{NEXT}") for state, tensor in recording.states}
    named = tuple(replace(tensor, name=new.get(tensor.name, tensor.name)) for tensor in tensors.values())
    renamed = tuple(
        replace(
            operator,
            inputs=tuple(new.get(one, one) for one in operator.inputs),
            outputs=tuple(new.get(one, one) for one in operator.outputs),
        )
        for operator in operators
    )
    graph = Graph(name, named, renamed, tuple(_states(recording, tensors, new, renamed)))
    return ReplayedProgram(graph, recording, new)


def _states(
    recording: Recording, tensors: Mapping[str, Tensor], new: Mapping[str, str], operators: Sequence[Operator]
) -> Iterator[State]:
    """Yield the states whose next value is a separate tensor with an equal number of bytes."""
    writers = {name: operator for operator in operators for name in operator.outputs}
    for state, tensor in recording.states:
        if state in tensors and tensors[state].size_bytes == tensors[tensor].size_bytes:
            yield state_written_by(writers[new[tensor]], state, new[tensor])


def _needed_operators(recording: Recording) -> list[Operator]:
    needed = {tensor for _, tensor in (*recording.states, *recording.outputs)}
    operators: list[Operator] = []
    for operator in reversed(recording.operators):
        if needed.isdisjoint(operator.outputs):
            continue
        needed.update(operator.reads)
        written = tuple(output for output in operator.outputs if output in needed or output not in recording.optional)
        operators.append(replace(operator, outputs=written))
    return operators[::-1]
