"""An edge program as a graph of operators over the bytes that ExecuTorch plans, and its nodes in another order.

Inputs live from the beginning and outputs to the end, as ExecuTorch counts: an operator of its own writes all inputs,
another reads all outputs. Parameters and buffers are no tensors here. What is a view to ExecuTorch has its base's
bytes; such nodes, and those without a tensor, follow as soon as what they read is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

BEGINNING: Final = "<inputs>"
END: Final = "<outputs>"
MOST_BYTES: Final = 1 << 40
Storages: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class EdgeGraph:
    """`operators` are the nodes that run something, each by the name of its operator in the graph."""

    graph: Graph
    operators: dict[str, Node]
    nodes: tuple[Node, ...]

    def nodes_in(self, order: Sequence[int]) -> list[Node]:
        """All nodes but inputs and output, the operators in this order of the graph's."""
        emitted = {node for node in self.nodes if node.op == "placeholder"}
        running = set(self.operators.values())
        listed: list[Node] = []

        def emit(node: Node) -> None:
            emitted.add(node)
            listed.append(node)
            for user in node.users:
                if user not in running and user not in emitted and user.op != "output":
                    emit_if_ready(user)

        def emit_if_ready(node: Node) -> None:
            if all(read in emitted for read in node.all_input_nodes):
                emit(node)

        for node in self.nodes:
            if node not in emitted and node not in running and node.op != "output":
                emit_if_ready(node)
        for index in order:
            node = self.operators.get(self.graph.operators[index].name)
            if node is not None:
                emit(node)
        return listed


def edge_graph(program: ExportedProgram) -> EdgeGraph:
    """Read one method; raises GraphError where its operators may not change places, or a size has no bound."""
    return _EdgeReader(program).read()


class _EdgeReader:
    """Goes through the nodes once."""

    def __init__(self, program: ExportedProgram) -> None:
        self._nodes: tuple[Node, ...] = tuple(program.graph_module.graph.nodes)
        self._user_inputs = set(program.graph_signature.user_inputs)
        self._storages: dict[Node, Storages] = {}
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._running: dict[str, Node] = {}

    def read(self) -> EdgeGraph:
        inputs: list[str] = []
        for node in self._nodes:
            if node.op == "placeholder":
                self._storages[node] = self._new_storages(node) if node.name in self._user_inputs else ()
                inputs += self._storages[node]
            elif node.op != "output":
                self._read_node(node)
        if inputs:
            self._operators.insert(0, Operator(BEGINNING, "Inputs", (), tuple(inputs)))
        outputs = next(node for node in self._nodes if node.op == "output")
        self._tensors.append(Tensor(END, 1, Role.OUTPUT))
        self._operators.append(Operator(END, "Outputs", self._read_by(outputs), (END,)))
        return EdgeGraph(Graph("edge", tuple(self._tensors), tuple(self._operators)), self._running, self._nodes)

    def _read_node(self, node: Node) -> None:
        _may_change_its_place(node)
        if _is_part_of_result(node):
            source, index = node.args
            whole, part = self._storages[source], _part_name(source, index)
            is_whole = len(_tensors_of(source)) <= 1
            self._storages[node] = whole if is_whole else tuple(name for name in whole if name == part)
            return
        if _is_elided_view(node) or not _tensors_of(node):
            self._storages[node] = self._read_by(node)
            return
        reads = self._read_by(node)
        written = self._storages[node] = self._new_storages(node)
        self._operators.append(Operator(node.name, str(node.target), reads, written))
        self._running[node.name] = node

    def _read_by(self, node: Node) -> Storages:
        return tuple(dict.fromkeys(name for read in node.all_input_nodes for name in self._storages[read]))

    def _new_storages(self, node: Node) -> Storages:
        """Add the tensors that a node writes; those without bytes only where it writes nothing else."""
        values = _tensors_of(node)
        names = [node.name] if len(values) == 1 else [_part_name(node, index) for index in range(len(values))]
        sizes = {name: _most_bytes(value, node) for name, value in zip(names, values, strict=True)}
        written = {name: size for name, size in sizes.items() if size} or dict.fromkeys(names[:1], 1)
        self._tensors += (Tensor(name, size, Role.ACTIVATION) for name, size in written.items())
        return tuple(written)


def _part_name(node: Node, index: object) -> str:
    return f"{node.name}[{index}]"


def _tensors_of(node: Node) -> list[object]:
    """The tensors that a node has as its value, in order."""
    import torch

    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]


def _most_bytes(value: object, node: Node) -> int:
    """The bytes of a tensor, where a dimension is open at its upper bound; raises GraphError where it has none."""
    from executorch.exir.sym_util import eval_upper_bound

    size = value.element_size()  # type: ignore[attr-defined]
    for dimension in value.shape:  # type: ignore[attr-defined]
        size *= eval_upper_bound(dimension) or 0
    if size > MOST_BYTES:
        raise GraphError(
            "a dimension has no upper bound", place=f"node {node.name!r}", expected="one, as by torch.export.Dim"
        )
    return int(size)


def _is_part_of_result(node: Node) -> bool:
    from operator import getitem

    return node.target is getitem


def _is_elided_view(node: Node) -> bool:
    """Whether ExecuTorch will make it a view: not where it is an output."""
    return "view_copy" in str(node.target) and all(user.op != "output" for user in node.users)


def _may_change_its_place(node: Node) -> None:
    """Raise GraphError for what writes into what it reads, or draws random numbers in turn."""
    from torch import Tag

    operator = getattr(node.target, "_op", node.target)
    schema = getattr(operator, "_schema", None)
    if schema is not None and schema.is_mutable:
        what = "it writes into what it reads"
    elif Tag.nondeterministic_seeded in getattr(operator, "tags", ()):
        what = "it draws random numbers"
    else:
        return
    raise GraphError(what, place=f"node {node.name!r}", expected="operators that may change places")
