"""An ONNX model with its plan in `metadata_props`, which runtimes keep; the rest of the model is unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from onchip.answer.document import PlanDocument
from onchip.answer.program import Compute, residencies_of
from onchip.errors import InputError, PlanError, errors_in_file
from onchip.formats.files import to_json
from onchip.formats.own.plan_json import memory_fields, plan_to_json
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx

Entries: TypeAlias = Any
"""A protobuf list of keys and values; it has no types."""
PREFIX = "onchip."


def metadata_of(document: PlanDocument, graph: Graph) -> dict[str, str]:
    """Return the metadata of a legal plan, as JSON: memories, order, residencies, and the whole plan file.

    `onchip.order` has an object for each step, with the operator and its nodes; nodes without a unique name are called
    after their first output, as everywhere in onchip. A tile states the regions of the outputs that it writes.
    """
    plan = document.answer
    memories = [memory_fields(memory) for memory in plan.memories]
    operators = (graph.operator[line.operator] for line in plan.instructions if isinstance(line, Compute))
    residencies = [
        {
            "tensor": one.tensor,
            "memory": one.memory,
            "offset_bytes": one.offset_bytes,
            "size_bytes": one.size_bytes,
            "start_step": one.start_step,
            "stop_step": one.stop_step,
        }
        for one in residencies_of(plan, graph)
    ]
    return {
        f"{PREFIX}memories": to_json(memories, PlanError),
        f"{PREFIX}order": to_json([_step(operator) for operator in operators], PlanError),
        f"{PREFIX}residencies": to_json(residencies, PlanError),
        f"{PREFIX}plan": plan_to_json(document),
    }


def _step(operator: Operator) -> dict[str, object]:
    """Return the entry of a step; tiles of one operator run the same nodes, each over its regions."""
    tile = operator.tile
    if tile is None:
        return {"operator": operator.name, "nodes": list(operator.members or (operator.name,))}
    regions = dict(zip(tile.outputs, ([list(each) for each in region] for region in tile.regions), strict=True))
    return {"operator": operator.name, "nodes": list(operator.members or (tile.operator,)), "regions": regions}


def model_with_metadata(path: Path, metadata: Mapping[str, str], target: Path) -> bytes:
    """Return the bytes of the model with `metadata`, which replaces that of an earlier plan.

    Each node states its steps and the addresses of its outputs, each listed value its addresses. External data stay in
    place, under the names that the model has for them. Raises InputError if the model would not find them from
    `target`.
    """
    model = _model_of(path)
    _external_data_stay_in_reach(model, path, target)
    _put(model, metadata)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def plan_in_model(path: Path) -> str:
    """Return the plan file in a model; raises InputError if the model has none."""
    for entry in _model_of(path).metadata_props:
        if entry.key == f"{PREFIX}plan":
            return str(entry.value)
    what, expected = "it holds no plan", "a model that `onchip export --to onnx` has written"
    raise InputError(what, file=str(path), place=f"metadata_props {PREFIX}plan", expected=expected)


def differing_places(path: Path, metadata: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each place of a model and key whose value differs from that of `metadata`."""
    model = _model_of(path)
    found = _said(model)
    _put(model, metadata)
    expected = _said(model)
    yield from sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))


def _model_of(path: Path) -> onnx.ModelProto:
    from onchip.formats.onnx.file import parsed_model

    with errors_in_file(str(path)):
        return parsed_model(path)


def _put(model: onnx.ModelProto, metadata: Mapping[str, str]) -> None:
    """Replace the plan metadata of the model, its nodes and its values."""
    _replace(model.metadata_props, metadata)
    steps: dict[str, list[int]] = {}
    for step, entry in enumerate(json.loads(metadata[f"{PREFIX}order"])):
        for name in entry["nodes"]:
            steps.setdefault(name, []).append(step)
    places: dict[str, list[dict[str, object]]] = {}
    for one in json.loads(metadata[f"{PREFIX}residencies"]):
        places.setdefault(one.pop("tensor"), []).append(one)
    for name, node in _nodes(model):
        said = {f"{PREFIX}steps": to_json(steps[name], PlanError)} if name in steps else {}
        outputs = {output: places[output] for output in node.output if output in places}
        if outputs:
            said[f"{PREFIX}outputs"] = to_json(outputs, PlanError)
        _replace(node.metadata_props, said)
    for value in _values(model):
        at = places.get(value.name)
        _replace(value.metadata_props, {} if at is None else {f"{PREFIX}residencies": to_json(at, PlanError)})


def _replace(props: Entries, metadata: Mapping[str, str]) -> None:
    kept = [(entry.key, entry.value) for entry in props if not entry.key.startswith(PREFIX)]
    del props[:]
    for key, value in (*kept, *metadata.items()):
        props.add(key=key, value=value)


def _said(model: onnx.ModelProto) -> dict[tuple[str, str], str]:
    """Return a map from place and key to the plan metadata of the model, its nodes and its values."""
    places = [("model", model.metadata_props)]
    places += [(f"node {name!r}", node.metadata_props) for name, node in _nodes(model)]
    places += [(f"value {value.name!r}", value.metadata_props) for value in _values(model)]
    return {(place, one.key): one.value for place, props in places for one in props if one.key.startswith(PREFIX)}


def _nodes(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    from onchip.formats.onnx.nodes import node_names

    return zip(node_names(model.graph.node), model.graph.node, strict=True)


def _values(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    for values in (model.graph.input, model.graph.output, model.graph.value_info):
        yield from values


def _external_data_stay_in_reach(model: onnx.ModelProto, source: Path, target: Path) -> None:
    """Raise InputError if external data would not be in the folder of `target`; missing data do not matter."""
    entries = (entry for tensor in _stored_tensors(model) for entry in tensor.external_data)
    for location in dict.fromkeys(entry.value for entry in entries if entry.key == "location"):
        if (source.parent / location).exists() and not (target.parent / location).exists():
            what = f"its external data {location!r} would not be beside it"
            raise InputError(what, file=str(target), expected=f"a file in the directory of {source.name!r}")


def _stored_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield initializers and constants, also in graphs within nodes."""
    from onchip.formats.onnx.nodes import all_nodes, subgraphs  # with onnx, which takes long to import

    yield from model.graph.initializer
    for sparse in model.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    nodes = (*model.graph.node, *(node for function in model.functions for node in function.node))
    for node in all_nodes(nodes):
        for graph in subgraphs(node):
            yield from graph.initializer
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
