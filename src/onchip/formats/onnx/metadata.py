"""An ONNX model with its plan in `metadata_props`, which runtimes keep; all else as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onchip.answer.document import PlanDocument
from onchip.answer.program import Compute
from onchip.errors import InputError, PlanError
from onchip.facts.residencies import residencies_of
from onchip.formats.canonical import to_json
from onchip.formats.files import read_file
from onchip.formats.own.plan_json_writer import memory_fields, plan_to_json
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx

PREFIX = "onchip."
GREATEST_PROTOBUF_BYTES = 2**31 - 1


def metadata_of(document: PlanDocument, graph: Graph) -> dict[str, str]:
    """What is added for a legal plan, all of it JSON: memories, order and residencies, and the whole plan file.

    `onchip.order` has an object for each step, with the operator and the nodes it runs; nodes without a unique name
    are called after their first output, as everywhere in onchip. A tile says which regions of the outputs it writes.
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
    """Tiles of one operator run the same nodes, each over its regions of the operator's outputs."""
    tile = operator.tile
    if tile is None:
        return {"operator": operator.name, "nodes": list(operator.members or (operator.name,))}
    regions = dict(zip(tile.outputs, ([list(each) for each in region] for region in tile.regions), strict=True))
    return {"operator": operator.name, "nodes": list(operator.members or (tile.operator,)), "regions": regions}


def model_with_metadata(path: Path, metadata: Mapping[str, str], target: Path) -> bytes:
    """The bytes of the model with `metadata` in it, in place of what an earlier plan left.

    External data stay where they are, by the names that the model has for them. Raises InputError where the model
    would not find them from `target`.
    """
    import onnx

    model = onnx.ModelProto.FromString(read_file(path, GREATEST_PROTOBUF_BYTES))
    _external_data_stay_in_reach(model, path, target)
    kept = [(entry.key, entry.value) for entry in model.metadata_props if not entry.key.startswith(PREFIX)]
    del model.metadata_props[:]
    for key, value in (*kept, *metadata.items()):
        model.metadata_props.add(key=key, value=value)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _external_data_stay_in_reach(model: onnx.ModelProto, source: Path, target: Path) -> None:
    """A model looks for its external data beside itself; data that are missing already are nobody's loss."""
    for location in dict.fromkeys(_external_locations(model)):
        if (source.parent / location).exists() and not (target.parent / location).exists():
            raise InputError(
                f"its external data {location!r} would not be beside it",
                file=str(target),
                expected=f"a file in the directory of {source.name!r}",
            )


def _external_locations(model: onnx.ModelProto) -> Iterator[str]:
    for tensor in _stored_tensors(model):
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _stored_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Initializers and constants, in graphs within nodes too."""
    from onchip.formats.onnx.scopes import all_nodes, subgraphs  # with onnx, which takes long to import

    yield from model.graph.initializer
    for sparse in model.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    nodes = (*model.graph.node, *(node for function in model.functions for node in function.node))
    for node in all_nodes(nodes):
        for graph in subgraphs(node):
            yield from graph.initializer
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
