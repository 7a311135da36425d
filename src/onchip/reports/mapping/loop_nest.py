"""A mapping as the papers print it: nested loops, outermost first, with the memory whose tile they run over.

The form is that of CoSA's Listing 1 (Huang et al., ISCA 2021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand
from onchip.ir.layer import INPUT, RELEVANT, WEIGHT, Layer
from onchip.model.layer.chains import boundaries
from onchip.model.layer.limits import needed_bits
from onchip.reports.shared.words import short_bytes

INDENT = "  "


def loop_nest(problem: LayerProblem, mapping: LayerMapping) -> str:
    """One line for each loop and memory; the loops of a dimension are numbered from the innermost, from 0.

    A memory's line stands right above the loops that its tile spans. Where operands are cut at different loops, each
    has a line of its own. First come the operands where they lie whole: at DRAM or at their homes.
    """
    layer = problem.layer
    bits = needed_bits(problem, boundaries(mapping.layer(layer), problem, mapping))
    heads = {cut: list(_heads(problem.accelerator, mapping, cut, bits)) for cut in range(len(mapping.nest) + 1)}
    lines, depth = [f"// {head}" for head in (*_homes(problem), *_short(layer, mapping))], 0
    for cut in range(len(mapping.nest), -1, -1):
        lines += [f"{INDENT * depth}// {head}" for head in heads[cut]]
        if cut:
            lines.append(f"{INDENT * depth}{_loop(mapping.nest, cut - 1)}")
            depth += 1
    return "\n".join([*lines, f"{INDENT * depth}{_body(layer)}"])


def _short(layer: Layer, mapping: LayerMapping) -> Iterator[str]:
    """Loops whose last turns are not executed."""
    for name in mapping.ragged:
        if mapping.bounds[name] > layer.bounds[name]:
            yield f"{name.lower()} ends short, after {layer.bounds[name]} of {mapping.bounds[name]} iterations"


def _homes(problem: LayerProblem) -> Iterator[str]:
    """DRAM first, then the memory farthest from the MACs."""
    operands = problem.layer.operands
    for memory in (DRAM, *(level.memory.name for level in reversed(problem.accelerator.levels))):
        if here := [operand for operand in operands if problem.home(operand) == memory]:
            yield f"{memory}: {', '.join(here)}"


def _heads(
    accelerator: Accelerator, mapping: LayerMapping, cut: int, bits: Mapping[tuple[str, str], int]
) -> Iterator[str]:
    """Yield each memory with the tiles that begin at this cut, the memory farthest from the MACs first."""
    for level in reversed(accelerator.levels):
        memory = level.memory.name
        tiles = [
            f"{operand} {short_bytes(-(-bits[memory, operand] // 8))}"
            for operand in Operand
            for kept in mapping.kept(operand)
            if (kept.memory, kept.loops) == (memory, cut)
        ]
        if tiles:
            yield f"{memory}: {', '.join(tiles)}"


def _loop(nest: tuple[Loop, ...], index: int) -> str:
    loop = nest[index]
    number = Counter(inner.dimension for inner in nest[:index])[loop.dimension]
    head = f"{loop.dimension.lower()}{number} = [0 : {loop.size}) :"
    return f"for {head}" if loop.along is None else f"spatial_for {head}  // along {loop.along}"


def _body(layer: Layer) -> str:
    """With the loops that lead to another element; of the input, places in height and width."""
    places = {"P": "height", "Q": "width", "R": "", "S": ""}
    names = []
    for operand in layer.operands:
        relevant = [loop for loop in RELEVANT[operand] if loop != "G" or layer.g > 1]
        loops = [(places.get(loop, loop.lower()) if operand == INPUT else loop.lower()) for loop in relevant]
        names.append(f"{operand}[{', '.join(loop for loop in loops if loop)}]")
    source, *weight, output = names
    return f"{output} += {source} * {weight[0]}" if WEIGHT in layer.operands else f"{output} += {source}"
