"""The graph file: a network as JSON, which may name a model with its weights; and bundled networks and layer tables.

`tools/make_workloads.py` writes the networks as raw graphs of batch 1. Each layer table names its source and licence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from gzip import decompress
from hashlib import file_digest
from importlib.resources import files
from os.path import relpath
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from onchip.answer.bindings import Bindings
from onchip.errors import GraphError, InputError, UsageError, errors_in_file
from onchip.formats.files import canonical_sha256, document_text, read_file, write_file
from onchip.formats.own.fields import BindingFields, FileKind, binding_fields, bindings_of, made, present, written
from onchip.formats.validation import LARGEST_INTEGER, Doc, Format, errors_at, field_path, parse
from onchip.ir.graph import Graph, State
from onchip.ir.layer import Layer
from onchip.ir.operator import ChannelSplits, InPlace, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart, Tile

GRAPH_FORMAT: Final = Format("onchip-graph", 1, GraphError)


class WayOfSplittingFields(TypedDict):
    """A split into `parts` equal parts, and the cycles of one part."""

    parts: Annotated[int, Doc("Number of parts.")]
    cycles: Annotated[int, Doc("Cycles of one part.")]


class SplitsFields(TypedDict):
    """Splits along the channels of outputs and parameters; each part reads its inputs whole, or split the same way."""

    axis: Annotated[Literal["channels"], Doc("Axis of the split.")]
    inputs: Annotated[Literal["whole", "split"], Doc("`whole` if each part reads all of its inputs, else `split`.")]
    ways: Annotated[list[WayOfSplittingFields], Doc("Numbers of parts that are possible.")]


class TileFields(TypedDict):
    """A tile: the part of `operator` that is computed, and the whole shapes of its operands in order.

    `regions` has a range for each dimension of each output; without `reduction` the sum is complete.
    """

    operator: Annotated[str, Doc("Operator of which a part is computed.")]
    inputs: Annotated[list[str], Doc("Inputs of that operator.")]
    parameters: NotRequired[Annotated[list[str], Doc("Parameters of that operator.")]]
    outputs: Annotated[list[str], Doc("Outputs of that operator.")]
    shapes: Annotated[list[list[int]], Doc("Shapes of inputs, parameters and outputs, in this order.")]
    regions: Annotated[list[list[tuple[int, int]]], Doc("Computed range along each dimension of each output.")]
    reduction: NotRequired[Annotated[tuple[int, int], Doc("Range of the reduction that is summed.")]]
    part: NotRequired[Annotated[SumPart, Doc("Position of the tile in a sum of several parts.")]]


class OperatorFields(TypedDict):
    """An operator, with names of tensors; empty fields may be absent, except inputs and outputs.

    `in_place` has pairs of an input and an output that may share bytes, with the distance in bytes from the address of
    the input to that of the output.
    """

    name: Annotated[str, Doc("Name of the operator, unique in the graph.")]
    kind: Annotated[str, Doc("Operator type, as in ONNX if it means the same.")]
    inputs: Annotated[list[str], Doc("Names of input tensors.")]
    parameters: NotRequired[Annotated[list[str], Doc("Names of parameters, such as weights.")]]
    outputs: Annotated[list[str], Doc("Names of output tensors.")]
    attributes: NotRequired[Annotated[dict[str, Any], Doc("Attributes, as in ONNX.")]]
    members: NotRequired[Annotated[list[str], Doc("Nodes of the model that the operator fuses.")]]
    tile: NotRequired[Annotated[TileFields, Doc("Part of another operator that this one computes.")]]
    in_place: NotRequired[list[tuple[str, str] | tuple[str, str, int]]]
    """Pairs of tensors that may share bytes."""
    workspace_bytes: NotRequired[Annotated[int, Doc("Scratch memory of the kernel in bytes.")]]
    cycles: NotRequired[Annotated[int, Doc("Measured cycles, which replace those of the cost model.")]]
    energy_pj: NotRequired[Annotated[float, Doc("Measured energy in pJ, which replaces that of the cost model.")]]
    splits: NotRequired[Annotated[SplitsFields, Doc("Numbers of equal channel tiles in which the operator may run.")]]


class TensorFields(TypedDict):
    """A tensor: `shape` and `bits` (per element), or `bytes`."""

    name: Annotated[str, Doc("Name of the tensor, unique in the graph.")]
    shape: NotRequired[Annotated[list[int], Doc("Shape.")]]
    bits: NotRequired[Annotated[int, Doc("Bits per element.")]]
    bytes: NotRequired[Annotated[int, Doc("Size in bytes; replaces `shape` and `bits`.")]]
    role: Annotated[Role, Doc("Place in the network: `input`, `activation`, `output` or `parameter`.")]
    aliases: NotRequired[Annotated[list[str], Doc("Other names of the same tensor in the model.")]]
    part_of: NotRequired[Annotated[str, Doc("Tensor of which this one is a region.")]]
    region: NotRequired[Annotated[list[tuple[int, int]], Doc("Range along each dimension of that tensor.")]]


class StateFields(TypedDict):
    """A network input whose value for the next inference is a network output; `in_place`: its writer may read it.

    `alias` is an alias of the output that is not an output itself.
    """

    old: Annotated[str, Doc("Network input that holds the state.")]
    new: Annotated[str, Doc("Network output that is its next value.")]
    in_place: NotRequired[Annotated[bool, Doc("True if the operator that writes the new state may read the old one.")]]
    alias: NotRequired[Annotated[str, Doc("Another name of the output.")]]


class WeightFields(BindingFields):
    """The model with the weights of a graph in tiles, and the bindings with which the model was read."""

    file: Annotated[str, Doc("Path of the model, relative to the folder of the graph file.")]
    sha256: Annotated[str, Doc("SHA-256 of the model file.")]


class GraphFields(TypedDict):
    """A graph file, with the operators in the given order."""

    format: Annotated[Literal["onchip-graph"], Doc("Name of the format.")]
    version: Annotated[Literal[1], Doc("Version of the format.")]
    name: Annotated[str, Doc("Name of the network.")]
    tensors: Annotated[list[TensorFields], Doc("Tensors.")]
    operators: Annotated[list[OperatorFields], Doc("Operators in topological order, which is the given order.")]
    states: NotRequired[Annotated[list[StateFields], Doc("States that are kept between inferences.")]]
    weights: NotRequired[Annotated[WeightFields, Doc("Model of which the graph has tiles.")]]


@dataclass(frozen=True, slots=True)
class WeightSource:
    """A model file whose operators a graph has in tiles, and the bindings with which the model was read."""

    model: Path
    bindings: Bindings


def weights_of_graph(path: Path) -> WeightSource | None:
    """Return the model that a graph file names; None if it names none. Raises InputError for another or no model."""
    fields = parse(GraphFields, GRAPH_FORMAT, read_file(path), str(path)).get("weights")
    if fields is None:
        return None
    model = path.parent / fields["file"]
    try:
        found = _sha256_of(model)
    except OSError:
        what = f"its model {str(model)!r} cannot be read"
        raise InputError(
            what, file=str(path), place="weights.file", expected="the model of which it has tiles"
        ) from None
    if found != fields["sha256"]:
        what = f"its model {str(model)!r} has changed"
        raise InputError(what, file=str(path), place="weights.sha256", expected=f"{fields['sha256']}, not {found}")
    with errors_in_file(str(path)):
        return WeightSource(model, bindings_of(fields, GraphError))


def _sha256_of(model: Path) -> str:
    with model.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _graph_of(fields: GraphFields) -> Graph:
    return Graph(
        fields["name"],
        tuple(_tensor(entry, field_path(("tensors", i))) for i, entry in enumerate(fields["tensors"])),
        tuple(_operator(one, field_path(("operators", i))) for i, one in enumerate(fields["operators"])),
        tuple(State(**entry) for entry in fields.get("states", ())),
    )


def _tensor(fields: TensorFields, place: str) -> Tensor:
    given = [key for key in ("shape", "bits", "bytes") if key in fields]
    with errors_at(place):
        if given not in (["shape", "bits"], ["bytes"]):
            raise GraphError(f"it has {' and '.join(given) or 'no size'}", expected="shape and bits, or bytes")
        if (size_bytes := fields.get("bytes")) is None:
            shape = tuple(fields["shape"])
            size_bytes = Tensor.of_shape(fields["name"], shape, fields["bits"], fields["role"]).size_bytes
        return made(Tensor, fields, size_bytes=_within_range(size_bytes))


def _within_range(size_bytes: int) -> int:
    """Return the size of a tensor or a workspace; raises GraphError beyond 64 bits."""
    if size_bytes > LARGEST_INTEGER:
        raise GraphError("its size is too large", expected="at most 2^63-1 bytes")
    return size_bytes


def _operator(fields: OperatorFields, place: str) -> Operator:
    attributes = fields.get("attributes", {})
    for name, value in attributes.items():
        if isinstance(value, (dict, list)):
            _check_attribute(value, f"{place}.attributes.{name}")
    with errors_at(place):
        return made(
            Operator,
            fields,
            attributes=attributes,
            tile=made(Tile, {"parameters": (), **fields["tile"]}) if "tile" in fields else None,
            in_place=tuple(InPlace(*pair) for pair in fields.get("in_place", ())),
            workspace_bytes=_within_range(fields.get("workspace_bytes", 0)),
            stated=made(StatedCost, fields, splits=_splits(fields.get("splits"))),
        )


def _check_attribute(value: dict[str, Any] | list[Any], place: str) -> None:
    """Raise GraphError for an object; the places of entries are made only for lists and objects."""
    if isinstance(value, dict):
        raise GraphError("it is an object", place, "a number, string, truth value, null or list of these")
    for index, entry in enumerate(value):
        if isinstance(entry, (dict, list)):
            _check_attribute(entry, f"{place}[{index}]")


def _splits(fields: SplitsFields | None) -> ChannelSplits | None:
    if fields is None:
        return None
    return ChannelSplits(fields["inputs"] == "split", tuple((way["parts"], way["cycles"]) for way in fields["ways"]))


def write_tiles(graph: Graph, path: Path, weights: WeightSource | None) -> None:
    """Write a graph in tiles as `write_graph` does, with the model of its weights."""
    fields = None if weights is None else _weight_fields(weights, path.parent)
    write_file(path, graph_to_json(graph, fields).encode())


def _weight_fields(weights: WeightSource, folder: Path) -> dict[str, object]:
    file = Path(relpath(weights.model, folder)).as_posix()
    return {"file": file, "sha256": _sha256_of(weights.model), **binding_fields(weights.bindings)}


def graph_to_json(graph: Graph, weights: Mapping[str, object] | None = None) -> str:
    """Return the text of a graph file, one line per tensor and operator. Raises GraphError for text not Unicode."""
    fields = _graph_fields(graph)
    head = {name: fields.pop(name) for name in ("format", "version", "name")} | present({"weights": weights})
    return document_text(head, {name: tuple(listed) for name, listed in fields.items()}, GraphError)


_GRAPHS: Final = FileKind(GRAPH_FORMAT, GraphFields, _graph_of, graph_to_json)
read_graph, graph_from_json, write_graph = _GRAPHS.read, _GRAPHS.of_text, _GRAPHS.write


def graph_sha256(graph: Graph) -> str:
    """Return the SHA-256 of the graph's canonical JSON (sorted keys, no spaces, UTF-8), as hexadecimal digits."""
    return canonical_sha256(_graph_fields(graph), GraphError)


def _graph_fields(graph: Graph) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "format": GRAPH_FORMAT.name,
        "version": GRAPH_FORMAT.version,
        "name": graph.name,
        "tensors": [_tensor_fields(tensor) for tensor in graph.tensors],
        "operators": [_operator_fields(operator) for operator in graph.operators],
    }
    states = [written(StateFields, one) for one in graph.states]
    return fields | ({"states": states} if states else {})


def _tensor_fields(tensor: Tensor) -> dict[str, object]:
    if tensor.shape is None or tensor.bits is None:
        return written(TensorFields, tensor, shape=None, bits=None, bytes=tensor.size_bytes)
    return written(TensorFields, tensor, bytes=None)


def _operator_fields(operator: Operator) -> dict[str, object]:
    stated = operator.stated
    in_place = [
        (one.input, one.output, one.shift_bytes) if one.shift_bytes else (one.input, one.output)
        for one in operator.in_place
    ]
    splits = stated.splits and {
        "axis": "channels",
        "inputs": "split" if stated.splits.cuts_inputs else "whole",
        "ways": [{"parts": parts, "cycles": cycles} for parts, cycles in stated.splits.ways],
    }
    return written(
        OperatorFields,
        operator,
        attributes={**operator.attributes},
        tile=operator.tile and written(TileFields, operator.tile),
        in_place=in_place,
        cycles=stated.cycles,
        energy_pj=stated.energy_pj,
        splits=splits,
    )


class _Table(TypedDict):
    layers: dict[str, str]
    subsets: NotRequired[dict[str, list[str]]]


def bundled_networks() -> tuple[str, ...]:
    """Return the names of all bundled networks, sorted."""
    return tuple(sorted(_names("graphs", ".json.gz")))


def load_network(name: str) -> Graph:
    """Return the raw graph of a bundled network; raises UsageError for another name."""
    names = bundled_networks()
    if name not in names:
        raise UsageError(f"no network {name!r} is bundled", expected=f"one of {', '.join(names)}")
    packed = files("onchip.data").joinpath("graphs", f"{name}.json.gz").read_bytes()
    return graph_from_json(decompress(packed), f"{name}.json.gz")


def layer_tables() -> tuple[str, ...]:
    """Return the names of all layer tables, sorted; a subset is named after its table, like `deepbench-ocr`."""
    return tuple(sorted(name for whole in _names("layers", ".json") for name in (whole, *_subsets(whole))))


def layer_table(name: str) -> Mapping[str, Layer]:
    """Return a map from each layer's name in the source to the layer; raises UsageError for an unknown table."""
    for whole in _names("layers", ".json"):
        subsets: dict[str, list[str] | None] = {whole: None, **_subsets(whole)}
        if name in subsets:
            texts, wanted = _table(whole)["layers"], subsets[name]
            return {layer: Layer.of_text(texts[layer]) for layer in (texts if wanted is None else wanted)}
    raise UsageError(f"no layer table {name!r} is bundled", expected=f"one of {', '.join(layer_tables())}")


def _names(folder: str, suffix: str) -> tuple[str, ...]:
    entries = (entry.name for entry in files("onchip.data").joinpath(folder).iterdir())
    return tuple(name.removesuffix(suffix) for name in entries if name.endswith(suffix))


def _subsets(whole: str) -> dict[str, list[str]]:
    return {f"{whole}-{part}": layers for part, layers in _table(whole).get("subsets", {}).items()}


def _table(whole: str) -> _Table:
    text = files("onchip.data").joinpath("layers", f"{whole}.json").read_text(encoding="utf-8")
    table: _Table = json.loads(text)
    return table
