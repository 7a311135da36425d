"""Tensors that share bytes, states of the previous inference, and stated workspaces."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import Final

from onchip.answer.schedule import WORKSPACE
from onchip.arch.sharing import NO_SHARING, SharedKinds
from onchip.errors import GraphError
from onchip.ir.graph import Graph, State
from onchip.ir.operator import SEEN_SHAPES, InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import integer, integers
from onchip.ops.entries import ELEMENTWISE
from onchip.ops.views import paces_of

ELEMENT_BY_ELEMENT: Final = ELEMENTWISE | {
    *("BatchNormalization", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "RELU", "RELU6")
}
"""Kinds whose output elements each depend on the elements at the same position in equally large inputs."""
JOINS: Final = "Concat"
PARTS: Final = "Split"
LEAVES: Final = "Slice"
TURNS: Final = "Transpose"
ALIASES: Final = (JOINS, PARTS, LEAVES, TURNS)
"""Kinds that move nothing if input and output share bytes."""


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """The transform that gives each operator its pairs of an input and an output that may share bytes, and no others.

    No pair has an input that its operator also reads through another view. `declared` are the pairs, by operator name,
    that a file states itself. They replace the pairs that follow from the kind, as far as the operator still reads and
    writes these tensors.
    """

    sharing: SharedKinds = NO_SHARING
    declared: Mapping[str, tuple[InPlace, ...]] = field(default_factory=dict, hash=False)

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph with its pairs."""
        if self.sharing == NO_SHARING and not graph.shares_bytes:
            return graph
        operators = tuple(
            replace(one, in_place=tuple(pair for pair in self._pairs(one, graph) if one.may_overwrite(pair.input)))
            for one in graph.operators
        )
        return replace(graph, operators=operators)

    def _pairs(self, operator: Operator, graph: Graph) -> Iterator[InPlace]:
        is_alias = operator.kind in ALIASES
        if not (self.sharing.is_alias if is_alias else self.sharing.computes_in_place)(operator.kind):
            return
        if operator.name in self.declared:
            pairs = self.declared[operator.name]
            yield from (one for one in pairs if one.input in operator.inputs and one.output in operator.outputs)
        elif operator.kind in (JOINS, PARTS):
            yield from _parts_of_a_whole(operator, graph)
        elif is_alias:
            yield from _band(operator, graph)
        elif operator.kind in ELEMENT_BY_ELEMENT:
            yield from _as_large_as_the_output(operator, graph)


def declared_in(graph: Graph, now: Graph) -> dict[str, tuple[InPlace, ...]]:
    """Return the pairs of each operator of a graph by its name, for tensors whose size is unchanged in `now`."""
    sizes = now.tensor

    def is_as_large(name: str) -> bool:
        return name in sizes and sizes[name].size_bytes == graph.tensor[name].size_bytes

    return {
        operator.name: tuple(one for one in operator.in_place if is_as_large(one.input) and is_as_large(one.output))
        for operator in graph.operators
        if operator.in_place
    }


def _as_large_as_the_output(operator: Operator, graph: Graph) -> Iterator[InPlace]:
    """Yield each input with as many elements and bytes as the only output."""
    if len(operator.outputs) > 1:
        return
    written = graph.tensor[operator.outputs[0]]
    for name in dict.fromkeys(operator.inputs):
        read = graph.tensor[name]
        if read.size_bytes == written.size_bytes and _elements(read) == _elements(written) is not None:
            yield InPlace(name, written.name)


def _elements(tensor: Tensor) -> int | None:
    return None if tensor.shape is None else prod(tensor.shape)


def _parts_of_a_whole(operator: Operator, graph: Graph) -> Iterator[InPlace]:
    """Yield the parts of a concatenation or split along the first dimension of more than one element."""
    names, (whole_name, *others) = operator.inputs, operator.outputs
    if operator.kind == PARTS:
        names, (whole_name, *others) = operator.outputs, operator.inputs
    whole, parts = graph.tensor[whole_name], [graph.tensor[name] for name in names]
    if others or len(set(names)) != len(names) or not _lie_behind_one_another(operator, whole, parts):
        return
    starts = accumulate((part.size_bytes for part in parts), initial=0)
    for part, start in zip(parts, starts, strict=False):
        yield (
            InPlace(part.name, whole_name, -start) if operator.kind == JOINS else InPlace(whole_name, part.name, start)
        )


def _lie_behind_one_another(operator: Operator, whole: Tensor, parts: list[Tensor]) -> bool:
    """Return True if the bytes of the whole are the concatenated bytes of the parts."""
    if whole.shape is None or any(part.shape is None or len(part.shape) != len(whole.shape) for part in parts):
        return False
    axis = integer(operator, "axis", 0) % max(1, len(whole.shape))
    return prod(whole.shape[:axis]) == 1 and sum(part.size_bytes for part in parts) == whole.size_bytes


def _band(operator: Operator, graph: Graph) -> Iterator[InPlace]:
    """Yield the result of a slice, or of a transposition of size-1 axes, if it is contiguous in the input."""
    read, written = graph.tensor[operator.inputs[0]], graph.tensor[operator.outputs[0]]
    source, target = read.shape, written.shape
    is_one = len(operator.inputs) == len(operator.outputs) == 1 and SEEN_SHAPES not in operator.attributes
    if not is_one or source is None or target is None or read.bits is None or read.bits != written.bits:
        return
    first = _first_left(operator, source, target) if operator.kind == LEAVES else _first_turned(operator, source)
    if first is not None and first * read.bits % 8 == 0:
        yield InPlace(read.name, written.name, first * read.bits // 8)


def _first_left(operator: Operator, source: tuple[int, ...], target: tuple[int, ...]) -> int | None:
    """Return the index of the input element that is the output's first, if the output is contiguous; else None."""
    paces = paces_of(operator, source, target)
    if paces is None:
        return None
    cut = next((at for at, (had, has) in enumerate(zip(source, target, strict=True)) if had != has), 0)
    last = max((at for at, (had, has) in enumerate(zip(source, target, strict=True)) if had != has), default=0)
    is_stretch = prod(target[:last]) == 1 and all(paces[at].step == 1 or target[at] == 1 for at in range(cut, last + 1))
    return sum(pace.first * prod(source[at + 1 :]) for at, pace in enumerate(paces)) if is_stretch else None


def _first_turned(operator: Operator, source: tuple[int, ...]) -> int | None:
    """Return 0 if the axes of more than one element keep their order; else None."""
    order = integers(operator, "perm", tuple(reversed(range(len(source)))))
    kept = [at for at in order if source[at] > 1]
    return 0 if kept == sorted(kept) else None


UPDATES: Final = frozenset(
    {
        *("ScatterND", "ScatterElements", "TensorScatter"),
        *("index_put", "index_copy", "scatter", "slice_scatter", "select_scatter"),
    }
)
"""Kinds, of ONNX and of torch, that overwrite some elements of their first input."""


def state_written_by(writer: Operator, old: str, new: str) -> State:
    """Return the state; an operator that updates its first input may do so in place."""
    return State(old, new, in_place=writer.kind in UPDATES and writer.inputs[:1] == (old,))


def with_states(graph: Graph, declared: Mapping[str, str], listed: Container[str] | None = None) -> Graph:
    """Return the graph with the declared states, from each input to the output that is its next value.

    States that the graph already has are kept. `listed` are the names that the file lists as outputs, or None if every
    name is one. Raises GraphError unless each pair is a network input and a network output of equal size.
    """
    states = []
    shown = {alias: tensor.name for tensor in graph.tensors for alias in tensor.aliases}
    for old, said in declared.items():
        new = shown.get(said, said)
        if new not in graph.producer:
            what = f"no operator writes {said!r}, its next value"
            raise GraphError(what, place=f"state {old!r}", expected="a network output, as in `states`")
        state = state_written_by(graph.producer[new], old, new)
        states.append(state if new == said or listed is None or new in listed else replace(state, alias=said))
    known = {(state.old, state.new) for state in graph.states}
    return replace(graph, states=(*graph.states, *(one for one in states if (one.old, one.new) not in known)))


def with_workspaces(graph: Graph) -> Graph:
    """Return the graph with each workspace as an output of its operator without readers: `OPERATOR@workspace`.

    The workspace thus has an address while the operator runs, and is never copied. Raises GraphError if a name is
    taken.
    """
    if not any(operator.workspace_bytes for operator in graph.operators):
        return graph
    spaces = tuple(
        Tensor(operator.name + WORKSPACE, operator.workspace_bytes, Role.ACTIVATION)
        for operator in graph.operators
        if operator.workspace_bytes
    )
    operators = tuple(_writing_its_own(one) for one in graph.operators)
    return Graph(graph.name, (*graph.tensors, *spaces), operators, graph.states)


def _writing_its_own(operator: Operator) -> Operator:
    if not operator.workspace_bytes:
        return operator
    return replace(operator, outputs=(*operator.outputs, operator.name + WORKSPACE), workspace_bytes=0)
