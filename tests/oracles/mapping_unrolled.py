"""The space of `loma` and `uneven`: one spatial mapping, all orders of the temporal loops, all level boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations, product
from math import inf, prod

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import MemoryLevel
from onchip.ir.layer import LOOPS, Layer
from onchip.model.accounting.accounting import Accounting, settled
from onchip.model.layer.cost import access_of, energy_pj
from onchip.model.layer.limits import layer_accesses
from onchip.model.layer.ragged import boundaries
from oracles.mapspace import levels_with_room

CHANGES = {"input": "NCPQRSG", "weight": "KCRSG", "output": "NKPQG"}
"""The loops along which an operand has other elements."""


def primes_of(bound: int) -> list[int]:
    """Return the prime factors in ascending order, with multiplicity."""
    found, prime = [], 2
    while bound > 1:
        if bound % prime:
            prime += 1
        else:
            found.append(prime)
            bound //= prime
    return found


def loops_along(accelerator: Accelerator, name: str) -> str:
    """Return the loops that a dimension of the array may unroll."""
    array = accelerator.array
    if array is None or name in array.unrolls:
        return "".join(array.unrolls[name]) if array else ""
    own = {"B": "N", "OY": "P", "OX": "Q", "FY": "R", "FX": "S"}.get(name, name)
    return own if own in LOOPS else "".join(LOOPS)


def unrolled(layer: Layer, accelerator: Accelerator) -> tuple[list[Loop], dict[str, int]]:
    """Return the spatial loops and the remaining temporal bounds: largest factors and first dimensions first."""
    left, beside = dict(layer.bounds), []
    for name, units in (accelerator.array.sizes if accelerator.array else {}).items():
        for loop in loops_along(accelerator, name):
            size = 1
            for prime in reversed(primes_of(left[loop])):
                if prime * size <= units and left[loop] % prime == 0:
                    size, left[loop] = size * prime, left[loop] // prime
            units //= size
            if size > 1:
                beside.append(Loop(loop, size, name))
    return beside, left


def factors(turns: dict[str, int]) -> list[Loop]:
    """Return every prime factor as a separate loop."""
    return [Loop(name, prime) for name, bound in turns.items() for prime in primes_of(bound)]


def orders(loops: Sequence[Loop]) -> list[tuple[Loop, ...]]:
    """Return each distinct order once."""
    return sorted(set(permutations(loops)), key=str)


def serves(level: MemoryLevel, loop: Loop) -> bool:
    """Return True if one instance of the memory serves all units along the loop."""
    return level.serves is None or loop.along in level.serves


def elements(layer: Layer, operand: str, inside: Sequence[Loop]) -> int:
    """Return the elements of the tile that these loops touch, with the rows that a stride skips in between."""
    sizes = {name: prod(loop.size for loop in inside if loop.dimension == name) for name in LOOPS}
    if operand != "input":
        return prod(sizes[name] for name in CHANGES[operand])
    top, left, bottom, right = layer.padding
    found = sizes["N"] * sizes["C"] * sizes["G"]
    for axis, (one, two, cut_off) in enumerate((("P", "R", top + bottom), ("Q", "S", left + right))):
        stride, dilation = layer.stride[axis], layer.dilation[axis]
        whole = (layer.bounds[one] - 1) * stride + (layer.bounds[two] - 1) * dilation + 1 - cut_off
        found *= min((sizes[one] - 1) * stride + (sizes[two] - 1) * dilation + 1, whole)
    return found


def room_bits(
    layer: Layer, level: MemoryLevel, operand: str, beside: Sequence[Loop], order: Sequence[Loop], cut: int, below: int
) -> int:
    """Return the bits of a tile of the innermost `cut` loops; sums are narrow if complete after `below` loops."""
    inside = [*(loop for loop in beside if serves(level, loop)), *order[:cut]]
    later = [*(loop for loop in beside if not serves(level, loop)), *order[below:]]
    is_partial = operand == "output" and any(loop.dimension not in CHANGES["output"] for loop in later)
    one = elements(layer, operand, inside) * (layer.partial_bits if is_partial else layer.bits(operand))
    changes = any(loop.dimension in CHANGES[operand] for loop in order[cut:])
    return 2 * one if level.double_buffered and changes else one


def placed(
    layer: Layer,
    accelerator: Accelerator,
    beside: Sequence[Loop],
    order: Sequence[Loop],
    cuts: dict[str, tuple[int, ...]],
) -> LayerMapping:
    """Return the mapping; a spatial loop is directly above the last tile of the input that excludes it."""
    keepers = _keepers(layer, accelerator)
    above = {
        loop: max(
            (cut for level, cut in zip(keepers["input"], cuts["input"], strict=False) if not serves(level, loop)),
            default=0,
        )
        for loop in beside
    }
    nest: list[Loop] = []
    ends = []
    for at in range(len(order) + 1):
        nest.extend(loop for loop in beside if above[loop] == at)
        ends.append(len(nest))
        nest.extend(order[at : at + 1])
    kept = (
        tuple(Kept(level.memory.name, ends[cut]) for level, cut in zip(keepers[operand], cuts[operand], strict=False))
        for operand in CHANGES
    )
    return LayerMapping(tuple(nest), *kept)


def _keepers(layer: Layer, accelerator: Accelerator) -> dict[str, list[MemoryLevel]]:
    return levels_with_room(LayerProblem(layer, accelerator))


def least_uneven_pj(layer: Layer, accelerator: Accelerator, accounting: Accounting) -> float:
    """Return the least energy over all orders and level boundaries under that accounting; infinite if nothing fits.

    Tiles take the capacity of all rows from the first to the last, and incomplete sums their partial width.
    """
    beside, turns = unrolled(layer, accelerator)
    least = inf
    for order in orders(factors(turns)):
        ways = [_ways(layer, accelerator, accounting, beside, order, operand) for operand in layer.operands]
        for chosen in product(*ways):
            energy = sum(one[0] for one in chosen)
            if energy < least and _fit(accelerator, [one[1] for one in chosen]):
                least = energy
    mac_pj = (accelerator.array.mac_energy_pj or 0.0) if accelerator.array else 0.0
    return least + layer.macs * mac_pj


def _ways(
    layer: Layer,
    accelerator: Accelerator,
    accounting: Accounting,
    beside: Sequence[Loop],
    order: Sequence[Loop],
    operand: str,
) -> list[tuple[float, dict[str, int]]]:
    """Return one operand's energy and its need of each memory, for all level boundaries."""
    keepers, found = _keepers(layer, accelerator)[operand], []
    for cuts in combinations_with_replacement(range(len(order) + 1), len(keepers)):
        belows = (0, *cuts)
        needs = {
            level.memory.name: room_bits(layer, level, operand, beside, order, cut, below)
            for level, cut, below in zip(keepers, cuts, belows, strict=False)
        }
        nest = (*beside, *order)
        own = tuple(Kept(level.memory.name, len(beside) + cut) for level, cut in zip(keepers, cuts, strict=True))
        mapping = settled(LayerMapping(nest, *(own if one == operand else () for one in CHANGES)))
        found.append((_energy_pj(layer, accelerator, mapping, accounting, operand), needs))
    return found


def _energy_pj(
    layer: Layer, accelerator: Accelerator, mapping: LayerMapping, accounting: Accounting, operand: str
) -> float:
    return sum(
        energy_pj(one, access_of(accelerator, one.memory))
        for one in layer_accesses(accelerator, boundaries(layer, LayerProblem(layer, accelerator), mapping, accounting))
        if one.operand == operand
    )


def _fit(accelerator: Accelerator, needs: Sequence[dict[str, int]]) -> bool:
    return all(
        sum(one.get(level.memory.name, 0) for one in needs) <= 8 * level.memory.capacity_bytes
        for level in accelerator.levels
    )


def filled_mappings(layer: Layer, accelerator: Accelerator) -> Iterator[LayerMapping]:
    """Yield LOMA's mappings: every order of factors, memories filled from the units up with least traffic from above.

    Units that share an input memory have neighbouring tiles: their loops are inside those of other units.
    """
    beside, turns = unrolled(layer, accelerator)
    keepers = _keepers(layer, accelerator)
    apart = {loop: [not serves(level, loop) for level in keepers["input"]] for loop in beside}
    beside.sort(key=lambda loop: max((at for at, is_apart in enumerate(apart[loop]) if is_apart), default=-1))
    for order in orders(factors(turns)):
        cuts: dict[str, tuple[int, ...]] | None = dict.fromkeys(CHANGES, ())
        for level in accelerator.levels:
            held = [str(one) for one in level.memory.holds if level in keepers[one]]
            cuts = _filled(layer, level, held, beside, order, cuts) if cuts is not None else None
        if cuts is not None:
            yield placed(layer, accelerator, beside, order, cuts)


def _filled(
    layer: Layer,
    level: MemoryLevel,
    held: Sequence[str],
    beside: Sequence[Loop],
    order: Sequence[Loop],
    cuts: dict[str, tuple[int, ...]],
) -> dict[str, tuple[int, ...]] | None:
    below = [max(cuts[operand], default=0) for operand in held]
    best: tuple[float, tuple[int, ...]] | None = None
    for ends in product(*(range(first, len(order) + 1) for first in below)):
        rooms = [
            room_bits(layer, level, operand, beside, order, end, first)
            for operand, end, first in zip(held, ends, below, strict=True)
        ]
        moved = sum(room * prod(loop.size for loop in order[end:]) for room, end in zip(rooms, ends, strict=True))
        if sum(rooms) <= 8 * level.memory.capacity_bytes and (best is None or moved <= best[0]):
            best = moved, ends
    if best is None:
        return None
    return cuts | {operand: (*cuts[operand], end) for operand, end in zip(held, best[1], strict=True)}
