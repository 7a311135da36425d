"""A Split as one Slice per output."""

from __future__ import annotations

from itertools import accumulate

from onchip.ir.graph import Graph
from onchip.ir.operator import VIEWS, Operator
from onchip.ir.window import integer


def slices_of(graph: Graph, operator: Operator) -> tuple[Operator, ...]:
    """Return the Slices that write the outputs of a Split, in order; empty for other operators or unknown shapes."""
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
