"""Multiply-accumulates of operators, their cycles, and stated durations.

An array that unrolls fixed loops takes the product, over a layer's loops, of ceil(loop size / units along it); partly
filled iterations are lost. A dimension without a loop name unrolls the one of its listed loops, or of all loops, that
saves the most. An array of free units takes ceil(multiply-accumulates / units). Operators other than matrix products
take one unit for each element (of a pool's window, of the output), all units in parallel. Operands are assumed to be in
place.

A tile has the loops of its operator over the region that it computes and the range that it reduces:
multiply-accumulates of an operator's tiles add up to the operator's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, gcd, prod
from typing import Final

from onchip.answer.problem import Durations, Problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Direction, Dma
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.layer import LOOPS, OTHER_NAMES
from onchip.ir.operator import Operator
from onchip.ir.tile import Tile
from onchip.ir.window import shapes_computed
from onchip.ops.contractions import MATRIX_KINDS, nests_of
from onchip.ops.entries import ELEMENTWISE, ENTRIES, REDUCING
from onchip.ops.layers_of import WITHOUT_NEST, layers_of
from onchip.ops.nests import elements_visited, whole_operator
from onchip.ops.windows import NoLayerError
from onchip.plugins import PluginError, PluginGroup

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "QLinearConv", "ConvInteger", "com.microsoft::FusedConv"})


class SimpleCost:
    """The cycle model of a graph's operators on an accelerator.

    Raises AcceleratorError if the accelerator has no array.
    """

    def __init__(self, graph: Graph, accelerator: Accelerator) -> None:
        if accelerator.array is None:
            raise AcceleratorError(
                "it has no array, so nothing can be timed on it",
                place=f"accelerator {accelerator.name!r}",
                expected="`array` in its file",
            )
        self._graph = graph
        self._count = MacCount(graph)
        self._array: ComputeArray = accelerator.array
        self._unrolled = tuple(_unrolled(self._array))

    def cycles(self, operator: Operator) -> int:
        """Return the cycles that the operator takes on the array, at least 1."""
        loops = self._count.loops(operator)
        if loops is None:
            return ceil(elements_visited(self._graph, operator) / self._array.macs)
        if self._array.free is not None:
            return max(1, ceil(prod(loops.values()) / self._array.free))
        left = {tuple(loops[loop] for loop in LOOPS)}
        for units, places in self._unrolled:
            left = {(*sizes[:at], ceil(sizes[at] / units), *sizes[at + 1 :]) for sizes in left for at in places}
        return max(1, min(map(prod, left)))


def _unrolled(array: ComputeArray) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the units along each dimension, and the positions in LOOPS that it may unroll."""
    for dimension, units in array.dimensions.items():
        own = OTHER_NAMES.get(dimension, dimension)
        loops = (own,) if own in LOOPS else array.unrolls.get(dimension, LOOPS)
        yield units, [LOOPS.index(loop) for loop in loops]


class MacCount:
    """The multiply-accumulates of a graph's operators, independent of the hardware."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def macs(self, operator: Operator) -> int:
        """Return the number of multiply-accumulates; 0 for operators other than matrix products."""
        if operator.kind == "Einsum":
            names = (operator.outputs[0], *operator.inputs, *operator.parameters)
            return _axes_of_einsum(operator, _seen(operator, [self._shape(name) or () for name in names]))
        loops = self.loops(operator)
        return prod(loops.values()) if loops else 0

    def loops(self, operator: Operator) -> Mapping[str, int] | None:
        """Return the loop sizes of a matrix product or convolution; None for other operators and unknown shapes."""
        whole = self.loops_of_whole(operator)
        return whole if operator.tile is None or whole is None else _loops_of_tile(operator, operator.tile, whole)

    def loops_of_whole(self, operator: Operator) -> Mapping[str, int] | None:
        """Return the loop sizes of the operator that a tile belongs to, or of the operator itself."""
        if operator.tile is not None:
            whole = operator.whole
            return _loops(whole, _shapes_of_tile(whole, operator.tile))
        shapes = [self._shape(name) for name in (operator.outputs[0], *operator.inputs, *operator.parameters)]
        if any(shape is None for shape in shapes[:2]):
            return None
        return _loops(operator, _seen(operator, [shape or () for shape in shapes]))

    def _shape(self, name: str) -> tuple[int, ...] | None:
        return self._graph.tensor[name].shape


def recomputed_macs(graph: Graph) -> int | None:
    """Return the multiply-accumulates of tiles beyond one run of each operator; None if no operator is in tiles."""
    count = MacCount(graph)
    of_tiles, whole = Counter[str](), dict[str, int]()
    for operator in graph.operators:
        if operator.tile is not None:
            of_tiles[operator.tile.operator] += count.macs(operator)
            whole[operator.tile.operator] = prod((count.loops_of_whole(operator) or {"none": 0}).values())
    return sum(max(0, macs - whole[name]) for name, macs in of_tiles.items()) if of_tiles else None


def _shapes_of_tile(whole: Operator, tile: Tile) -> Sequence[tuple[int, ...]]:
    return _seen(whole, [tile.shape[name] for name in (tile.outputs[0], *tile.inputs, *tile.parameters)])


def _seen(operator: Operator, stored: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
    """Return the shapes of the output and of the operands with which the operator computes."""
    return [stored[0], *shapes_computed(operator, stored[1:])]


def _axes_of_einsum(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> int:
    """Return the product of the sizes of all named axes, 0 if the equation does not name the axes of all operands."""
    try:
        return prod(ENTRIES[operator.kind](operator, shapes).loops.values())
    except NoLayerError:
        return 0


def _loops(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> Mapping[str, int] | None:
    """Return the loop sizes of an operator with these shapes, the output's first."""
    if len(shapes) < 2:
        return None
    output, _, *others = shapes
    match operator.kind:
        case kind if kind in _CONVOLUTIONS:
            return _convolution(operator, shapes)
        case kind if kind in MATRIX_KINDS:
            return _matrix_product(operator, shapes)
        case "Attention" if output and (keys := _keys(operator, others)):
            # Scores and their weighted sum: twice as many products per output element as there are keys.
            return _product(output, 2 * keys)
    return None


def _loops_of_tile(operator: Operator, tile: Tile, whole: Mapping[str, int]) -> Mapping[str, int]:
    """Return the loops of the whole operator, restricted to the tile."""
    region, written = tile.regions[0], tile.shape[tile.outputs[0]]
    if tile.reduction is None and region == tuple((0, size) for size in written):
        return whole
    sizes = [stop - start for start, stop in region]
    if operator.kind not in _CONVOLUTIONS:
        return {**whole, "K": sizes[-1], "C": _depth_of_tile(operator, tile, whole["C"]), "Q": prod(sizes[:-1])}
    depth = whole["C"] if tile.reduction is None else tile.reduction[1] - tile.reduction[0]
    of_a_group = _channels_of_a_group(*region[1], whole["K"])
    pixels = sizes[2:] if operator.kind != "ConvTranspose" else _input_pixels(tile)
    return {
        **whole,
        "N": sizes[0],
        "K": of_a_group,
        "C": depth,
        "P": prod(pixels[:-1]),
        "Q": pixels[-1],
        "G": sizes[1] // of_a_group,
    }


def _input_pixels(tile: Tile) -> list[int]:
    """Return the spatial sizes of a transposed convolution's input, in proportion to the computed outputs.

    The sizes of adjacent tiles add up to the input's.
    """
    read, written = tile.shape[tile.inputs[0]][2:], tile.shape[tile.outputs[0]][2:]
    return [
        stop * size // outputs - start * size // outputs
        for (start, stop), size, outputs in zip(tile.regions[0][2:], read, written, strict=True)
    ]


def _channels_of_a_group(start: int, stop: int, channels: int) -> int:
    """Return the channels per group of output channels [start, stop): all, or the most that split each group evenly."""
    if start // channels == (stop - 1) // channels:
        return stop - start
    return gcd(start, stop, channels)


def _depth_of_tile(operator: Operator, tile: Tile, depth: int) -> int:
    """Return the tile's reduction depth; a product's range is in the units of its first operand's features."""
    if tile.reduction is None:
        return depth
    units = tile.reduction[1] - tile.reduction[0]
    entry = ENTRIES[operator.kind](operator, _shapes_of_tile(operator, tile)) if operator.kind in MATRIX_KINDS else None
    weight = () if entry is None else entry.operands.get(entry.factors[-1], ())
    return units * next((one.terms[entry.summed] for one in weight if entry and entry.summed in one.terms), 1)


def _convolution(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> Mapping[str, int] | None:
    """Return the loops; further spatial dimensions join the height, a transposed one loops over the input's pixels."""
    try:
        loops = ENTRIES[operator.kind](operator, shapes).loops
    except NoLayerError:
        return None
    pixels, window = ([loops[f"{letter}{at}"] for at in range(2, len(shapes[0]))] for letter in "PR")
    sizes = {"P": prod(pixels[:-1]), "Q": pixels[-1], "R": prod(window[:-1]), "S": window[-1]}
    return {"N": loops["N"], "K": loops["K"], "C": loops["C"], **sizes, "G": loops.get("G", 1)}


def _matrix_product(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> Mapping[str, int] | None:
    try:
        (nest,) = nests_of(ENTRIES[operator.kind](operator, shapes)).values()
    except NoLayerError:
        return None
    return _product((nest.n, nest.k) if operator.kind == "FULLY_CONNECTED" else shapes[0] or (1,), nest.c)


def _product(output: tuple[int, ...], depth: int) -> Mapping[str, int]:
    """Return the loops of a product, with rows as output width: every row uses the same weights."""
    return {"N": 1, "K": output[-1], "C": depth, "P": 1, "Q": prod(output[:-1]), "R": 1, "S": 1, "G": 1}


def _keys(operator: Operator, others: list[tuple[int, ...]]) -> int:
    """Return the number of keys per query, from the shapes of queries, keys and values if an export lists them."""
    listed = operator.attributes.get("input_shapes")
    if isinstance(listed, list) and len(listed) > 1 and isinstance(listed[1], list):
        return [each for each in listed[1] if isinstance(each, int)][-2]
    return others[0][-2] if others and len(others[0]) > 1 else 0


@dataclass(frozen=True, slots=True)
class UncostedOperator:
    """An operator that is costed as data movement, because it has no loop nest, and the reason.

    No figure contains its `macs`, which are None if the kind is unknown. `operations` are the multiply-accumulates, or
    the elements that it visits if these are more.
    """

    operator: str
    kind: str
    why: str
    macs: int | None
    operations: int


def uncosted_operators(graph: Graph, names: Collection[str]) -> tuple[UncostedOperator, ...]:
    """Return the operators of these names, which are costed without loop nests, in the network's order."""
    reasons = {one.operator: one.why for one in layers_of(graph).left_out}
    operators = []
    for one in (operator for operator in graph.operators if operator.name in names):
        macs = _macs_without_nest(graph, one)
        operations = max(macs or 0, elements_visited(graph, one))
        why = reasons.get(one.name, _OPERANDS_UNKNOWN)
        operators.append(UncostedOperator(one.name, one.kind, why, macs, operations))
    return tuple(operators)


_OPERANDS_UNKNOWN: Final = "what its loop nests multiply is no tensor of the network"
_WITHOUT_PRODUCTS: Final = WITHOUT_NEST | ELEMENTWISE | REDUCING | {"Appended", "Gates", "Steps"}


def _macs_without_nest(graph: Graph, operator: Operator) -> int | None:
    macs = max(layers_of(whole_operator(graph, operator)).macs, MacCount(graph).macs(operator))
    return macs if macs or operator.kind in _WITHOUT_PRODUCTS else None


MACS: Final = "macs"
"""Name of the model `SimpleCost`."""
OPERATOR_COSTS: Final = PluginGroup[[Graph, Accelerator], Mapping[str, int]]("onchip.costs", Mapping)
"""Cycle models by name; each returns whole cycles, at least 1, for each operator of the graph."""


def cycles_by_model(name: str, graph: Graph, accelerator: Accelerator) -> Callable[[Operator], int]:
    """Return the function from an operator of the graph to its cycles in the named cost model.

    Cycles in an operator's file override the model. Raises UsageError for an unknown name, AcceleratorError if `macs`
    has no array, PluginError for a plug-in that is broken or omits an operator.
    """
    if all(operator.stated.cycles is not None for operator in graph.operators):
        return _stated_or(lambda _: 0)
    return _stated_or(_by_model(name, graph, accelerator))


def cycles_of_plan(problem: Problem, accelerator: Accelerator, cost: str | None) -> Callable[[Operator], int]:
    """Return the function from an operator of a plan to its cycles, by the named model or by the plan itself.

    A plan without durations is counted by `macs`. Raises the errors of `cycles_by_model`, and UsageError for an
    operator that a plan with durations omits.
    """
    if cost is None and problem.durations is not None:
        return problem.durations.of_operator
    return cycles_by_model(cost or MACS, problem.graph, accelerator)


def _stated_or(model: Callable[[Operator], int]) -> Callable[[Operator], int]:
    return lambda operator: model(operator) if operator.stated.cycles is None else operator.stated.cycles


def _by_model(name: str, graph: Graph, accelerator: Accelerator) -> Callable[[Operator], int]:
    if name == MACS:
        return SimpleCost(graph, accelerator).cycles
    model = OPERATOR_COSTS.find(name)
    if model is None:
        expected = ", ".join((MACS, *OPERATOR_COSTS.names))
        raise UsageError(f"no cost model is called {name!r}", place="cost", expected=expected)
    cycles = model(graph, accelerator)
    for operator in graph.operators:
        said = cycles.get(operator.name)
        if not isinstance(said, int) or said < 1:
            place, expected = f"plug-in {name!r} of {OPERATOR_COSTS.name}", "whole cycles, at least 1"
            raise PluginError(f"it says {said!r} for operator {operator.name!r}", place=place, expected=expected)
    return lambda operator: cycles[operator.name]


def durations_on(accelerator: Accelerator, cycles: Mapping[str, int]) -> Durations:
    """Return the durations of DMA transfers, with `cycles` for operators that state none."""
    dma = accelerator.dma or Dma()
    ports = accelerator.dram.ports if accelerator.dram else ()
    has_one_channel = any(port.direction is Direction.READ_WRITE for port in ports)
    return Durations(cycles, dma.queues, dma.setup_cycles, has_one_channel)
