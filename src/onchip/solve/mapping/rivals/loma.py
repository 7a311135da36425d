"""`--method loma`: all orders of the loops' prime factors, memories filled from the units up (LOMA, AICAS 2021).

The array is unrolled first, as much of it as can be; the smallest factors are joined until `limit` loops are left.
Each operand has its own cuts: a memory takes as many of the innermost loops as fit into its share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.cost.layer_limits import array_of, needed_bits
from onchip.ir.loopnest import Layer
from onchip.plan.mapping import Kept, Loop, Mapping, loops_along
from onchip.plan.result import Result, Stop
from onchip.solve.limits import Run
from onchip.solve.mapping.factors import prime_counts
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.rivals.best import Best, in_chunks

METHOD: Final = "loma"
LIMIT: Final = 6


def solve_as_loma(
    layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run, limit: int = LIMIT
) -> Result[Mapping]:
    """The best of all orders; nothing is random."""
    best = Best(layer, accelerator, objective)
    beside = _unrolled(layer, accelerator)
    loops = _joined(_left(layer, beside), limit)
    for mappings in in_chunks(_filled(layer, accelerator, beside, order) for order in _orders(loops)):
        if run.stop is not None:
            return best.result(METHOD, run, run.stop)
        for value, mapping in best.values(mappings):
            best.offer(value, mapping)
    return best.result(METHOD, run, Stop.COMPLETED)


def _unrolled(layer: Layer, accelerator: Accelerator) -> tuple[Loop, ...]:
    """Largest factors first, along the first dimension of the array that takes them."""
    array = array_of(accelerator)
    left, sizes = dict(array.sizes), dict[tuple[str, str], int]()
    for name in left:
        for loop in loops_along(array, name):
            taken = prod(size for (_, other), size in sizes.items() if other == loop)
            for prime in sorted(_primes(layer.bounds[loop] // taken), reverse=True):
                if prime <= left[name]:
                    left[name] //= prime
                    sizes[name, loop] = sizes.get((name, loop), 1) * prime
    return tuple(Loop(loop, size, name) for (name, loop), size in sizes.items())


def _primes(bound: int) -> list[int]:
    return [prime for prime, count in prime_counts(bound).items() for _ in range(count)]


def _left(layer: Layer, beside: Sequence[Loop]) -> list[Loop]:
    side = {loop: prod(one.size for one in beside if one.dimension == loop) for loop in layer.bounds}
    return [Loop(loop, prime) for loop, bound in layer.bounds.items() for prime in _primes(bound // side[loop])]


def _joined(loops: list[Loop], limit: int) -> list[Loop]:
    """Joins the two smallest factors of the loop that has most, until `limit` are left or all loops are whole."""
    while len(loops) > limit:
        counts = {loop.dimension: sum(one.dimension == loop.dimension for one in loops) for loop in loops}
        name = max(counts, key=lambda dimension: counts[dimension])
        if counts[name] == 1:
            break
        own = sorted((loop for loop in loops if loop.dimension == name), key=lambda loop: loop.size)
        rest = [loop for loop in loops if loop.dimension != name]
        loops = [*rest, Loop(name, own[0].size * own[1].size), *own[2:]]
    return loops


def _orders(loops: Sequence[Loop]) -> Iterator[tuple[Loop, ...]]:
    """Different ones: equal factors are not exchanged."""
    if not loops:
        yield ()
    for first in dict.fromkeys(loops):
        rest = list(loops)
        rest.remove(first)
        for others in _orders(rest):
            yield (first, *others)


def _filled(layer: Layer, accelerator: Accelerator, beside: tuple[Loop, ...], order: tuple[Loop, ...]) -> Mapping:
    """Each operand of a memory has an equal share of it."""
    nest = (*beside, *order)
    kept: dict[str, tuple[Kept, ...]] = dict.fromkeys(Operand, ())
    for level in accelerator.levels:
        held = [operand for operand in layer.operands if operand in level.memory.holds]
        for operand in held:
            share = level.memory.capacity_bytes * 8 // len(held)
            cut = kept[operand][-1].loops if kept[operand] else len(beside)
            if _need(layer, accelerator, nest, operand, (*kept[operand], Kept(level.memory.name, cut))) > share:
                continue
            while cut < len(nest):
                more = (*kept[operand], Kept(level.memory.name, cut + 1))
                if _need(layer, accelerator, nest, operand, more) > share:
                    break
                cut += 1
            kept[operand] = (*kept[operand], Kept(level.memory.name, cut))
    return Mapping(nest, kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])


def _need(layer: Layer, accelerator: Accelerator, nest: tuple[Loop, ...], operand: str, kept: tuple[Kept, ...]) -> int:
    """Bits of the last memory of a list."""
    alone = {str(one): kept if one == operand else () for one in Operand}
    return needed_bits(layer, accelerator, Mapping(nest, **alone))[kept[-1].memory, operand]
