"""Build a raw Graph from an exported program: symbols bound, states as inputs and outputs, unused operators dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils._pytree import tree_map

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, OpenDimensionsError
from onchip.formats.networks import NEXT
from onchip.formats.torch.recording import Recording
from onchip.formats.torch.replay import RESULTS, STATES, ExportReplay, ReplayOptions, first_line
from onchip.formats.torch.symbols import OpenShapes, Sizes
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.state import State
from onchip.ir.tensor import Role, Tensor
from onchip.transform.rewrite.states import state_written_by


def exported(
    module: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[object]
) -> torch.export.ExportedProgram:
    """The program of a module as at inference, or an `ExportedProgram` as it is; raises GraphError."""
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
    """In eval mode, without gradients, and without attention's fast path, which hides its operators."""
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
"""Nodes visited while sizes are tried; the first sizes are tried whatever the program."""


@dataclass(frozen=True, slots=True)
class ReplayedProgram:
    """A raw graph, what was recorded of the program, and by their names there what tensors are called in the graph."""

    graph: Graph
    recording: Recording
    renamed: Mapping[str, str]


def graph_of_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> Graph:
    """The raw graph; raises UsageError for bindings that are not the program's, OpenDimensionsError and GraphError."""
    return replayed_program(program, name, bindings, options).graph


def replayed_program(
    program: torch.export.ExportedProgram, name: str, bindings: Bindings, options: ReplayOptions
) -> ReplayedProgram:
    """The raw graph with what it was made from; raises as `graph_of_program` does."""
    shapes = OpenShapes.of(program)
    sizes = shapes.sizes(bindings)
    still_open = shapes.open_dimensions(sizes)
    if still_open:
        suggested = _sizes_that_do(program, shapes, sizes, options)
        dims = {symbol: suggested[symbol] for symbol in shapes.symbols if symbol not in sizes}
        raise OpenDimensionsError(still_open, replace(bindings, dims={**bindings.dims, **dims}).options)
    return _replayed(name, _recorded(program, replace(options, sizes=sizes)))


def _sizes_that_do(
    program: torch.export.ExportedProgram, shapes: OpenShapes, sizes: Sizes, options: ReplayOptions
) -> Sizes:
    """Sizes for all symbols with which the program was seen to run; the first that were tried, if with none."""
    candidates = list(shapes.candidates(sizes))
    for candidate in candidates[: max(1, _GREATEST_VISITS // max(1, len(program.graph.nodes)))]:
        try:
            _recorded(program, replace(options, sizes=candidate))
        except InputError:
            continue
        return candidate
    return candidates[0]


def _recorded(program: torch.export.ExportedProgram, options: ReplayOptions) -> Recording:
    """What a run of the program records; what it writes in place is known after the first only."""
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
    renamed = tuple(_with_names(operator, new) for operator in operators)
    graph = Graph(name, named, renamed, tuple(_states(recording, tensors, new, renamed)))
    return ReplayedProgram(graph, recording, new)


def _states(
    recording: Recording, tensors: Mapping[str, Tensor], new: Mapping[str, str], operators: Sequence[Operator]
) -> Iterator[State]:
    """Yield what is kept, where its next value has tensors of its own of as many bytes."""
    writers = {name: operator for operator in operators for name in operator.outputs}
    for state, tensor in recording.states:
        if state in tensors and tensors[state].size_bytes == tensors[tensor].size_bytes:
            yield state_written_by(writers[new[tensor]], state, new[tensor])


def _with_names(operator: Operator, new: dict[str, str]) -> Operator:
    inputs, outputs = (tuple(new.get(one, one) for one in names) for names in (operator.inputs, operator.outputs))
    return replace(operator, inputs=inputs, outputs=outputs)


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


def whole_outputs(
    program: torch.export.ExportedProgram, recording: Recording, given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The network outputs by torch's names, and the next values of states; `given` are inputs and states by name.

    Raises as torch does.
    """
    values: list[object] = []
    states: dict[str, torch.Tensor] = {}
    nodes = (node for node in program.graph.nodes if node.op == "placeholder")
    for spec, node in zip(program.graph_signature.input_specs, nodes, strict=True):
        name = node.name if spec.kind is InputKind.USER_INPUT else str(spec.target)
        if isinstance(spec.arg, ConstantArgument):
            values.append(spec.arg.value)
        elif name in given:
            states[name] = given[name].clone()
            values.append(states[name])
        else:
            held = program.state_dict.get(name, program.constants.get(name))
            values.append(held.detach().clone() if isinstance(held, torch.Tensor) else held)
    with torch.no_grad():
        results = torch.fx.Interpreter(program.graph_module).run(*values)
    specs = list(zip(program.graph_signature.output_specs, results, strict=True))
    states |= {str(spec.target): value for spec, value in specs if spec.kind in STATES}
    found = {f"{name}{NEXT}": states[name] for name, _ in recording.states}
    plain = [value for spec, value in specs if spec.kind in RESULTS and isinstance(value, torch.Tensor)]
    return found | dict(zip((name for name, _ in recording.outputs), plain, strict=True))
