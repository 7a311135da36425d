"""Check a mapping of a layer against an accelerator, and the claims about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, loops_along
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, Axis, Layer
from onchip.verify.rules import Rule, Violation


def verify_mapping(problem: LayerProblem, mapping: LayerMapping, *, may_pad: bool = False) -> tuple[Violation, ...]:
    """Return all violations of a mapping; it is legal exactly when there are none.

    With `may_pad` the loops may iterate beyond the layer's bounds. Capacities are measured only if everything else is
    legal.
    """
    found = [
        *_bounds(problem.layer, mapping, may_pad=may_pad),
        *_array(problem.accelerator, mapping),
        *_places(problem, mapping),
    ]
    if not found:
        found.extend(_capacities(problem, mapping))
    return tuple(found)


def tile_bits(problem: LayerProblem, mapping: LayerMapping) -> dict[str, dict[str, int]]:
    """Return the bits that one instance of each memory needs per operand, without whole operands that live there.

    At the home of an operand the figure is the excess over the operand's own elements, as its partial sums may be
    wider. Needs of 0 are omitted. The mapping must be legal except for capacities.
    """
    layer = problem.layer
    found: dict[str, dict[str, int]] = {}
    for level in problem.accelerator.levels:
        whole = [one for one in layer.operands if problem.homes.of(Operand(one)) == level.memory.name]
        needs = dict(needed_bits(layer, mapping, level, whole))
        for operand in whole:
            needs[operand] -= layer.elements(operand) * layer.bits(operand)
        found[level.memory.name] = {operand: bits for operand, bits in needs.items() if bits}
    return found


def _bounds(layer: Layer, mapping: LayerMapping, *, may_pad: bool) -> Iterator[Violation]:
    for name, bound in layer.bounds.items():
        iterations = 1
        for loop in mapping.nest:
            iterations *= loop.size if loop.dimension == name else 1
        detail = f"{iterations} iterations for a bound of {bound}"
        if iterations < bound:
            yield Violation(Rule.TOO_FEW_ITERATIONS, name, detail)
        elif name in mapping.ragged:
            yield from _last_iteration(name, bound, mapping)
        elif iterations > bound and not may_pad:
            yield Violation(Rule.TOO_MANY_ITERATIONS, name, detail)


def _last_iteration(name: str, bound: int, mapping: LayerMapping) -> Iterator[Violation]:
    """Report imperfectly factorised loops that cover the bound even without the outermost loop's last iteration."""
    *inner, outermost = [1, *(loop.size for loop in mapping.nest if loop.dimension == name and loop.size > 1)]
    fewer = outermost - 1
    for size in inner:
        fewer *= size
    if fewer >= bound:
        yield Violation(Rule.TOO_MANY_ITERATIONS, name, f"{fewer} iterations would do for a bound of {bound}")


def _array(accelerator: Accelerator, mapping: LayerMapping) -> Iterator[Violation]:
    units = dict(accelerator.array.sizes) if accelerator.array else {}
    used: dict[str, int] = defaultdict(lambda: 1)
    for loop in mapping.nest:
        if loop.along is None:
            continue
        if accelerator.array is None or loop.along not in units:
            yield Violation(Rule.NO_SUCH_DIMENSION, loop.along, f"loop {loop} runs along it")
        elif loop.size > 1 and loop.dimension not in loops_along(accelerator.array, loop.along):
            yield Violation(Rule.NOT_UNROLLED, loop.along, f"loop {loop} runs along it")
        used[loop.along] *= loop.size
    for name, need in used.items():
        if name in units and need > units[name]:
            yield Violation(Rule.ARRAY_EXCEEDED, name, f"{need} of {units[name]} units")


def _places(problem: LayerProblem, mapping: LayerMapping) -> Iterator[Violation]:
    levels = list(problem.accelerator.levels)
    for operand in Operand:
        before: int | None = None
        for kept in mapping.kept(operand):
            if operand not in problem.layer.operands:
                yield Violation(Rule.NO_SUCH_OPERAND, operand, f"it is kept in {kept.memory!r}")
                continue
            places = [at for at, level in enumerate(levels) if level.memory.name == kept.memory]
            if not places:
                yield Violation(Rule.NO_SUCH_MEMORY, kept.memory, f"{operand} is kept in it")
                continue
            (at,) = places
            if not _holds(problem, levels[at], operand):
                yield Violation(Rule.NOT_HELD, operand, f"{kept.memory!r} does not hold it")
            if problem.homes.of(operand) in [level.memory.name for level in levels[: at + 1]]:
                yield Violation(Rule.MISPLACED, operand, f"it lies whole in or below {kept.memory!r}")
            if before is not None and (at <= before or not _serves_all_of(levels[at], levels[before])):
                detail = f"{kept.memory!r} is not above {levels[before].memory.name!r}"
                yield Violation(Rule.MISPLACED, operand, detail)
            before = at


def _holds(problem: LayerProblem, level: MemoryLevel, operand: Operand) -> bool:
    if operand is Operand.WEIGHT and problem.weight_is_an_input:
        is_product = not problem.layer.is_element_by_element
        return Operand.INPUT in level.memory.holds or (is_product and Operand.WEIGHT in level.memory.holds)
    return operand in level.memory.holds


def _serves_all_of(upper: MemoryLevel, lower: MemoryLevel) -> bool:
    if upper.serves is None:
        return True
    return lower.serves is not None and all(name in upper.serves for name in lower.serves)


def _capacities(problem: LayerProblem, mapping: LayerMapping) -> Iterator[Violation]:
    needs = tile_bits(problem, mapping)
    for level in problem.accelerator.levels:
        name = level.memory.name
        room = 8 * problem.room_bytes.get(name, level.memory.capacity_bytes)
        need = sum(needs[name].values())
        if need > room:
            parts = ", ".join(f"{operand} {bits}" for operand, bits in needs[name].items())
            yield Violation(Rule.CAPACITY_EXCEEDED, name, f"{need} bits ({parts}) in {room}")


def needed_bits(
    layer: Layer, mapping: LayerMapping, level: MemoryLevel, whole: Sequence[str] = ()
) -> Mapping[str, int]:
    """Return the bits per operand that a legal mapping needs in one instance of a memory, home of `whole` operands."""
    executed = mapping.layer(layer)
    needs: dict[str, int] = {}
    for operand in executed.operands:
        if operand in whole:
            bits = _bits(executed, mapping, operand, len(mapping.kept(operand)), level)
            needs[operand] = executed.elements(operand) * bits
        for number, kept in enumerate(mapping.kept(operand)):
            if kept.memory == level.memory.name:
                bits = _bits(executed, mapping, operand, number, level)
                needs[operand] = _elements(executed, mapping, operand, kept, level) * bits
                if level.double_buffered and _changes(mapping, operand, kept):
                    needs[operand] *= 2
    return needs


def _bits(layer: Layer, mapping: LayerMapping, operand: str, number: int, level: MemoryLevel) -> int:
    """Return the bits per element of an operand's tile; an output tile that still accumulates has partial-sum width."""
    if operand != OUTPUT:
        return layer.bits(operand)
    cut = mapping.kept(operand)[number - 1].loops if number else 0
    for at, loop in enumerate(mapping.nest):
        if loop.size > 1 and loop.dimension not in RELEVANT[OUTPUT]:
            comes_later = at >= cut if loop.along is None else not _is_served(loop, level)
            if comes_later:
                return layer.partial_bits
    return layer.output_bits


def _changes(mapping: LayerMapping, operand: str, kept: Kept) -> bool:
    """Return True if the tile is ever replaced by another tile."""
    return any(
        loop.along is None and loop.size > 1 and loop.dimension in RELEVANT[operand]
        for loop in mapping.nest[kept.loops :]
    )


def _is_served(loop: Loop, level: MemoryLevel) -> bool:
    """Return True if one instance of the memory serves all units along the spatial loop."""
    return level.serves is None or loop.along in level.serves


def _elements(layer: Layer, mapping: LayerMapping, operand: str, kept: Kept, level: MemoryLevel) -> int:
    """Return the number of elements of the operand's largest tile."""
    inside = [
        (at < kept.loops if loop.along is None else _is_served(loop, level)) for at, loop in enumerate(mapping.nest)
    ]
    axes = layer.axes if operand == INPUT else ()
    along_axes = [name for axis in axes for name in (axis.output_loop, axis.filter_loop)]
    elements = 1
    for loop, is_inside in zip(mapping.nest, inside, strict=True):
        is_counted = loop.dimension in RELEVANT[operand] and loop.dimension not in (*along_axes, *mapping.ragged)
        if is_inside and is_counted:
            elements *= loop.size
    for name in mapping.ragged:
        if name in RELEVANT[operand] and name not in along_axes:
            elements *= max(map(len, _indices(layer, mapping, name, inside)))
    for axis in axes:
        elements *= _longest(layer, axis, mapping, inside)
    return elements


def _longest(layer: Layer, axis: Axis, mapping: LayerMapping, inside: list[bool]) -> int:
    """Return the most stored positions, from the first to the last one touched, over all tiles."""
    outputs, filters = (_indices(layer, mapping, name, inside) for name in (axis.output_loop, axis.filter_loop))
    longest = 0
    for some_outputs, some_filters in product(outputs, filters):
        touched = [o * axis.stride + f * axis.dilation - axis.padding for o in some_outputs for f in some_filters]
        first, last = max(min(touched), 0), min(max(touched), axis.size - 1)
        longest = max(longest, last - first + 1)
    return longest


def _indices(layer: Layer, mapping: LayerMapping, dimension: str, inside: list[bool]) -> list[list[int]]:
    """Return the indices of a dimension that each tile touches; `layer` is the layer as executed, padding included."""
    tiles: dict[tuple[int, ...], list[int]] = defaultdict(list)
    loops = [
        (loop.size, is_in) for loop, is_in in zip(mapping.nest, inside, strict=True) if loop.dimension == dimension
    ]
    for digits in product(*(range(size) for size, _ in loops)):
        index, weight = 0, 1
        for digit, (size, _) in zip(digits, loops, strict=True):
            index, weight = index + digit * weight, weight * size
        if index < layer.bounds[dimension]:
            tiles[tuple(digit for digit, (_, is_in) in zip(digits, loops, strict=True) if not is_in)].append(index)
    return list(tiles.values())


RELATIVE_TOLERANCE = 1e-9
"""Tolerance of energies: sums of real numbers, whose last digits depend on the order of addition."""


def is_value_of(claim: Claim, value: float) -> bool:
    """Return True if the claimed objective value equals this value, whether or not it is rounded to a whole number."""
    return abs(value - claim.objective_value) <= 0.5 + RELATIVE_TOLERANCE * abs(value)


def mapping_claim_violations(claim: Claim, subject: str, value: float | None) -> Iterator[Violation]:
    """Yield the violations of the claim for a mapping of the layer `subject`; a `value` of None is not compared."""
    said, bound = claim.objective_value, claim.lower_bound
    if value is not None and not is_value_of(claim, value):
        detail = f"{said} is claimed for {claim.objective}, it is {value:.17g}"
        yield Violation(Rule.OBJECTIVE_DIFFERS, f"{subject}: result.objective_value", detail)
    detail = f"{bound} is claimed, and an objective value of {said}"
    if bound > said:
        yield Violation(Rule.BOUND_ABOVE_OBJECTIVE, f"{subject}: result.lower_bound", detail)
    if claim.status is Status.OPTIMAL and bound < said:
        yield Violation(Rule.OPTIMAL_UNPROVEN, f"{subject}: result.status", f"OPTIMAL is claimed; {detail}")
    if claim.status in (Status.INFEASIBLE, Status.UNKNOWN):
        detail = f"{claim.status} is claimed, but there is a mapping"
        yield Violation(Rule.ANSWER_DENIED, f"{subject}: result.status", detail)
