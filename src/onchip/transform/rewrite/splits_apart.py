"""The transform that takes a Split apart: each of its outputs is a Slice of its own, through which tiles can see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate

from onchip.ir.graph import Graph
from onchip.ir.operator import VIEWS, Operator
from onchip.ir.window import integer


@dataclass(frozen=True, slots=True)
class SplitsApart:
    """The transform from a Split to operators `NAME (0)`, `NAME (1)` and so on of kind Slice, one for each output.

    It leaves alone those that are named as `whole`, those of a map that has no shape or is a view of another one, and
    those whose parts do not make up the map. It ensures that the Slices of a Split have all elements of its map once.
    """

    whole: Collection[str] = ()

    def __call__(self, graph: Graph) -> Graph:
        """The same network; names of tensors, and of other operators, keep their meaning."""
        operators = [
            part
            for operator in graph.operators
            for part in (slices_of(graph, operator) if operator.name not in self.whole else ()) or (operator,)
        ]
        return Graph(graph.name, graph.tensors, tuple(operators), graph.states)


def slices_of(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """The Slices that write what a Split writes, in order; none where the operator is none, or they are not known."""
    if operator.kind != "Split" or len(operator.inputs) != 1 or not VIEWS.isdisjoint(operator.attributes):
        return ()
    source = graph.tensor[operator.inputs[0]].shape
    shapes = [shape for name in operator.outputs if (shape := graph.tensor[name].shape) is not None]
    if not source or len(shapes) != len(operator.outputs) or any(len(shape) != len(source) for shape in shapes):
        return ()
    axis = integer(operator, "axis", 0) % len(source)
    ends = list(accumulate(shape[axis] for shape in shapes))
    parts = [shape[:axis] + source[axis : axis + 1] + shape[axis + 1 :] for shape in shapes]
    if ends[-1] != source[axis] or any(part != source for part in parts):
        return ()
    return tuple(
        Operator(
            f"{operator.name} ({at})",
            "Slice",
            operator.inputs,
            (name,),
            (),
            {"starts": [end - shapes[at][axis]], "ends": [end], "axes": [axis]},
        )
        for at, (name, end) in enumerate(zip(operator.outputs, ends, strict=True))
    )
