"""Improvement of a mapping by single changes.

Spatial loops follow LOMA, as far as memories have capacity for the unrolled tiles. Temporal loops run in one of a few
orders. Each memory, from the nearest on, keeps the longest prefix of them for which its operands' tiles fit together.
The best of these mappings is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, prod
from typing import Final

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import MemoryLevel, Operand
from onchip.ir.layer import INPUT, RELEVANT
from onchip.mapping.baselines.loma import inside_first, last_apart
from onchip.model.layer.tables import LayerCosts
from onchip.model.unrolling.unrolling import Unrolled, prime_counts, unrolled_greedily

SUMMED: Final = ("S", "R", "C")
INNERMOST_FIRST: Final = (*SUMMED, "Q", "P", "K", "G", "N")
"""Reduction loops are innermost, so that partial sums stay near the MACs."""


def one_by_one(problem: LayerProblem) -> LayerMapping:
    """Return the serial mapping; each memory keeps one element of each operand it holds, without a capacity check."""
    bounds = problem.layer.bounds
    loops = tuple(Loop(name, bounds[name]) for name in INNERMOST_FIRST if bounds[name] > 1)
    summed = sum(loop.dimension in SUMMED for loop in loops)
    kept = (
        tuple(Kept(level.memory.name, summed if operand is Operand.OUTPUT else 0) for level in keepers)
        for operand in Operand
        for keepers in (problem.keepers(operand) if operand in problem.layer.operands else (),)
    )
    return LayerMapping(loops, *kept)


ORDERS: Final = (
    ("S", "R", "C", "Q", "P", "K", "G", "N"),
    ("S", "R", "C", "K", "Q", "P", "G", "N"),
)
"""Orders of temporal loops, innermost first. Both keep sums near the MACs; then weights or inputs stay longer."""


def greedy_mapping(problem: LayerProblem, objective: MappingObjective) -> LayerMapping | None:
    """Return the best of a few mappings, including `one_by_one`; None if none fits.

    Raises AcceleratorError if the accelerator's description is incomplete, InputError for loops of more than 65,535.
    """
    unrolled, costs = _unrolled(problem), LayerCosts(problem)
    full = [_in_order(problem, unrolled, order, fills_all=True) for order in ORDERS]
    best = _cheapest(costs, full, objective)
    if best is None:
        best = _cheapest(costs, [_in_order(problem, unrolled, order, fills_all=False) for order in ORDERS], objective)
    return _cheapest(costs, [one for one in (best, one_by_one(problem)) if one is not None], objective)


def _unrolled(problem: LayerProblem) -> Unrolled:
    """Return LOMA's spatial unrolling, limited to tiles of one array iteration that fit all memories."""

    def may_stand(beside: Sequence[Loop]) -> bool:
        return all(_has_room(problem, level, beside, dict.fromkeys(held, ())) for level, held in keeping)

    keeping = [(level, _kept_by(problem, level)) for level in problem.levels]
    return inside_first(problem, unrolled_greedily(problem.layer, problem.accelerator, may_stand))


def _has_room(
    problem: LayerProblem, level: MemoryLevel, beside: Sequence[Loop], turns: Mapping[str, Sequence[Loop]]
) -> bool:
    """Return True if a memory can hold the tiles of its spatial loops and of each operand's temporal loops."""
    apart = [loop for loop in beside if level.serves is None or loop.along in level.serves]
    spanned = ((one, _spanned(problem, (*apart, *own))) for one, own in turns.items())
    return sum(_elements(problem, one, sizes) * _bits(problem, one) for one, sizes in spanned) <= _room(problem, level)


def _cheapest(costs: LayerCosts, mappings: Iterable[LayerMapping], objective: MappingObjective) -> LayerMapping | None:
    """Return the best mapping that fits, or None."""
    found = list(dict.fromkeys(mappings))
    figures = costs.of(found)
    valued = [
        (objective.of(float(energy_pj), float(cycles)), mapping)
        for mapping, energy_pj, cycles in zip(found, figures.energy_pj, figures.cycles, strict=True)
        if isfinite(energy_pj)
    ]
    return min(valued, key=lambda one: one[0], default=(0.0, None))[1]


def _in_order(problem: LayerProblem, unrolled: Unrolled, order: Sequence[str], *, fills_all: bool) -> LayerMapping:
    """Return a mapping with this loop order, each memory filled as far as possible.

    Without `fills_all` only the memory farthest from the MACs is filled, since tiles of memories below can overfill it.
    """
    turns = [Loop(name, prime) for name in order for prime in _primes(unrolled.turns[name])]
    cuts: dict[str, list[int]] = {operand: [] for operand in Operand}
    for level in problem.levels:
        further = turns if fills_all or level is problem.levels[-1] else ()
        for operand, cut in _cuts(problem, level, unrolled, further, cuts).items():
            cuts[operand].append(cut)
    nest, places = _nest(problem, unrolled, turns, cuts)
    kept = (
        tuple(
            Kept(level.memory.name, places[cut])
            for level, cut in zip(problem.keepers(operand), cuts[operand], strict=True)
        )
        if operand in problem.layer.operands
        else ()
        for operand in Operand
    )
    return LayerMapping(nest, *kept)


def _cuts(
    problem: LayerProblem,
    level: MemoryLevel,
    unrolled: Unrolled,
    turns: Sequence[Loop],
    below: Mapping[str, Sequence[int]],
) -> Mapping[str, int]:
    """Return for each operand a memory keeps the number of temporal loops its tiles span.

    Starts from the spans of the memory below and extends all operands together while their tiles fit.
    """
    own = {operand: below[operand][-1] if below[operand] else 0 for operand in _kept_by(problem, level)}
    found = own
    for cut in range(min(own.values(), default=0) + 1, len(turns) + 1):
        further = {operand: max(cut, least) for operand, least in own.items()}
        if not _has_room(problem, level, unrolled.beside, {one: turns[:at] for one, at in further.items()}):
            break
        found = further
    return found


def _kept_by(problem: LayerProblem, level: MemoryLevel) -> list[str]:
    return [one for one in problem.layer.operands if level in problem.keepers(one)]


def _room(problem: LayerProblem, level: MemoryLevel) -> int:
    """Return the bits left for tiles besides operands that reside whole; half of them in a double-buffered memory."""
    layer, name = problem.layer, level.memory.name
    whole = (one for one in layer.operands if problem.home(one) == name)
    room = problem.usable_bits(name) - sum(layer.elements(one) * _bits(problem, one) for one in whole)
    return room // 2 if level.double_buffered else room


def _spanned(problem: LayerProblem, loops: Iterable[Loop]) -> dict[str, int]:
    sizes = dict.fromkeys(problem.layer.bounds, 1)
    for loop in loops:
        sizes[loop.dimension] *= loop.size
    return sizes


def _bits(problem: LayerProblem, operand: str) -> int:
    return problem.layer.partial_bits if operand == Operand.OUTPUT else problem.layer.bits(operand)


def _elements(problem: LayerProblem, operand: str, spanned: dict[str, int]) -> int:
    if operand != INPUT:
        return prod(spanned[name] for name in RELEVANT[operand])
    positions = 1
    for axis in problem.layer.axes:
        outputs, filters = spanned[axis.output_loop], spanned[axis.filter_loop]
        positions *= min((outputs - 1) * axis.stride + (filters - 1) * axis.dilation + 1, axis.size)
    return spanned["N"] * spanned["C"] * spanned["G"] * positions


def _nest(
    problem: LayerProblem, unrolled: Unrolled, turns: Sequence[Loop], cuts: Mapping[str, Sequence[int]]
) -> tuple[tuple[Loop, ...], Mapping[int, int]]:
    """Return the nest, and the number of its loops that each cut spans.

    A spatial loop comes right above the tiles of the last memory with several instances along its dimension.
    """
    keepers = problem.keepers(Operand.INPUT)
    cut_at = {problem.levels.index(level): cut for level, cut in zip(keepers, cuts[Operand.INPUT], strict=True)}
    beside: dict[int, list[Loop]] = {}
    for loop in unrolled.beside:
        beside.setdefault(cut_at.get(last_apart(problem, str(loop.along)), 0), []).append(loop)
    ends = {cut for own in cuts.values() for cut in own}
    nest: list[Loop] = []
    places: dict[int, int] = {}
    for at in range(len(turns) + 1):
        places[at] = len(nest)
        nest += beside.get(at, ())
        if at < len(turns):
            last = nest[-1] if nest and at not in ends else None
            if last is not None and (last.dimension, last.along) == (turns[at].dimension, None):
                nest[-1] = Loop(last.dimension, last.size * turns[at].size)
            else:
                nest.append(turns[at])
    return tuple(nest), places


def _primes(bound: int) -> Iterator[int]:
    for prime, count in sorted(prime_counts(bound).items()):
        yield from [prime] * count
