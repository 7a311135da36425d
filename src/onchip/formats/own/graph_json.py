"""The graph file: a network as JSON, without weights. The fields are those of the TypedDicts."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.errors import GraphError, InputError, errors_in_file
from onchip.formats.canonical import canonical_sha256, to_json
from onchip.formats.files import read_file, write_file
from onchip.formats.own.operator_fields import (
    OperatorFields,
    fields_of_operator,
    operator_of_fields,
    within_range,
)
from onchip.formats.validation import Format, field_path, parse, placed
from onchip.ir.graph import Graph
from onchip.ir.state import State
from onchip.ir.tensor import Role, Tensor

GRAPH_FORMAT: Final = Format("onchip-graph", 1, GraphError)


class TensorFields(TypedDict):
    """A tensor: `shape` and `bits` (per element), or `bytes`."""

    name: str
    shape: NotRequired[list[int]]
    bits: NotRequired[int]
    bytes: NotRequired[int]
    role: Role
    aliases: NotRequired[list[str]]
    part_of: NotRequired[str]
    region: NotRequired[list[tuple[int, int]]]


class StateFields(TypedDict):
    """A network input whose value for the next inference is a network output; `in_place`: its writer may read it.

    `alias` is an alias of the output that is no output of its own.
    """

    old: str
    new: str
    in_place: NotRequired[bool]
    alias: NotRequired[str]


class GraphFields(TypedDict):
    """A graph file; the operators stand in the given order."""

    format: Literal["onchip-graph"]
    version: Literal[1]
    name: str
    tensors: list[TensorFields]
    operators: list[OperatorFields]
    states: NotRequired[list[StateFields]]


def read_graph(path: Path) -> Graph:
    """The graph of a `.json` or `.json.gz` file; raises InputError."""
    return graph_from_json(read_file(path), str(path))


def graph_from_json(text: str | bytes, file: str) -> Graph:
    """The graph that `text` says; `file` is its name in errors. Raises GraphError."""
    fields = parse(GraphFields, GRAPH_FORMAT, text, file)
    with errors_in_file(file):
        return Graph(
            fields["name"],
            tuple(_tensor(entry, field_path(("tensors", i))) for i, entry in enumerate(fields["tensors"])),
            tuple(operator_of_fields(one, field_path(("operators", i))) for i, one in enumerate(fields["operators"])),
            tuple(State(**entry) for entry in fields.get("states", ())),
        )


def write_graph(graph: Graph, path: Path) -> None:
    """Writes the graph file, packed where `path` ends in `.gz`; raises OutputError where it cannot be written."""
    write_file(path, graph_to_json(graph).encode())


def graph_to_json(graph: Graph) -> str:
    """The graph file's text: one line for each tensor and operator."""
    fields = _graph_fields(graph)
    name = to_json(fields["name"], GraphError)
    tensors = ",\n  ".join(to_json(entry, GraphError) for entry in fields["tensors"])
    operators = ",\n  ".join(to_json(entry, GraphError) for entry in fields["operators"])
    states = f',\n "states": {to_json(fields["states"], GraphError)}' if "states" in fields else ""
    return (
        f'{{"format": "{GRAPH_FORMAT.name}", "version": {GRAPH_FORMAT.version}, "name": {name},\n'
        f' "tensors": [\n  {tensors}],\n'
        f' "operators": [\n  {operators}]{states}}}\n'
    )


def graph_sha256(graph: Graph) -> str:
    """SHA-256 of the graph's canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return canonical_sha256(_graph_fields(graph), GraphError)


def _tensor(fields: TensorFields, place: str) -> Tensor:
    shape = tuple(fields["shape"]) if "shape" in fields else None
    try:
        return Tensor(
            fields["name"],
            _size_in_bytes(fields, shape),
            fields["role"],
            shape,
            fields.get("bits"),
            tuple(fields.get("aliases", ())),
            fields.get("part_of"),
            tuple(fields["region"]) if "region" in fields else None,
        )
    except InputError as error:
        raise placed(error, place) from None


def _size_in_bytes(fields: TensorFields, shape: tuple[int, ...] | None) -> int:
    given = [key for key in ("shape", "bits", "bytes") if key in fields]
    if shape is not None and given == ["shape", "bits"]:
        size = Tensor.of_shape(fields["name"], shape, fields["bits"], fields["role"]).size_bytes
    elif given == ["bytes"]:
        size = fields["bytes"]
    else:
        raise GraphError(f"it has {' and '.join(given) or 'no size'}", expected="shape and bits, or bytes")
    return within_range(size)


def _graph_fields(graph: Graph) -> GraphFields:
    fields: GraphFields = {
        "format": "onchip-graph",
        "version": 1,
        "name": graph.name,
        "tensors": [_tensor_fields(tensor) for tensor in graph.tensors],
        "operators": [fields_of_operator(operator) for operator in graph.operators],
    }
    if graph.states:
        fields["states"] = [_state_fields(state) for state in graph.states]
    return fields


def _state_fields(state: State) -> StateFields:
    fields: StateFields = {"old": state.old, "new": state.new}
    if state.in_place:
        fields["in_place"] = True
    if state.alias:
        fields["alias"] = state.alias
    return fields


def _tensor_fields(tensor: Tensor) -> TensorFields:
    fields: TensorFields
    if tensor.shape is not None and tensor.bits is not None:
        fields = {"name": tensor.name, "shape": list(tensor.shape), "bits": tensor.bits, "role": tensor.role}
    else:
        fields = {"name": tensor.name, "bytes": tensor.size_bytes, "role": tensor.role}
    if tensor.aliases:
        fields["aliases"] = list(tensor.aliases)
    if tensor.part_of is not None and tensor.region is not None:
        fields["part_of"] = tensor.part_of
        fields["region"] = list(tensor.region)
    return fields
