"""Mappings whose loops end short: mappings of a longer layer, cut off at the layer's bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import DRAM, Operand
from onchip.bounds.layer.turns import turns_of
from onchip.ir.layer import LOOPS, RELEVANT, Layer
from onchip.mapping.baselines.best import BestRow
from onchip.mapping.baselines.loma import filled_orders, last_apart
from onchip.model.accounting.accounting import INTERPRETER
from onchip.model.layer.cost import access_of
from onchip.model.layer.limits import array_of
from onchip.model.unrolling.unrolling import Unrolled, Ways, padded_bound, some_ways

LARGEST_PRIME: Final = 5
"""Largest prime factor of a padded temporal loop, so that it can be split."""
FACTORS: Final = 5
WAYS_LOOKED_AT: Final = 400
MIRRORED: Final = {"P": "Q", "Q": "P", "R": "S", "S": "R"}


def ended_short(layer: Layer, mapping: LayerMapping) -> LayerMapping:
    """Cut a mapping of longer loops off at the layer's bounds; outermost loops shrink as far as possible."""
    nest, ragged = list(mapping.nest), []
    for name, bound in layer.bounds.items():
        own = [at for at, loop in enumerate(nest) if loop.dimension == name]
        if prod(nest[at].size for at in own) == bound:
            continue
        for number in range(len(own) - 1, -1, -1):
            inner = prod(nest[at].size for at in own[:number])
            nest[own[number]] = replace(nest[own[number]], size=-(-bound // inner))
            if inner < bound:
                break
        if prod(nest[at].size for at in own) > bound:
            ragged.append(name)
    return replace(mapping, nest=tuple(nest), ragged=tuple(ragged)).without_loops_of_one()


def starts(problem: LayerProblem, objective: MappingObjective, ways: int) -> Iterator[tuple[Layer, LayerMapping]]:
    """Yield the layer, possibly padded, with LOMA's mapping for each of the most promising unrollings."""
    for way in _promising(problem, objective, ways):
        beside = [
            Loop(loop, int(size), name)
            for name, sizes in zip(array_of(problem.accelerator).sizes, way, strict=True)
            for loop, size in zip(LOOPS, sizes, strict=True)
            if size > 1
        ]
        beside.sort(key=lambda loop: last_apart(problem, str(loop.along)))
        turns = {
            loop: padded_bound(-(-bound // int(units)), LARGEST_PRIME)
            for (loop, bound), units in zip(problem.layer.bounds.items(), np.prod(way, axis=0), strict=True)
        }
        unrolled = Unrolled(tuple(beside), turns)
        best = BestRow(problem, objective, INTERPRETER, unrolled)
        for chosen in filled_orders(problem, unrolled, FACTORS, INTERPRETER, has_stored_room=True):
            best.offer(chosen)
        if best.mapping is not None:
            yield problem.layer.padded_to(unrolled.bounds), best.mapping


def _promising(problem: LayerProblem, objective: MappingObjective, most: int) -> Ways:
    """Return the unrollings with the fewest iterations, or the cheapest accesses of the MACs; ties keep their order.

    For a layer symmetric in height and width, mirror images count as one unrolling.
    """
    found = some_ways(problem, WAYS_LOOKED_AT)
    turns, fed_pj = turns_of(problem.layer, found), _fed_pj(problem, found)
    match objective:
        case MappingObjective.ENERGY:
            order = np.lexsort((turns, fed_pj))
        case MappingObjective.LATENCY:
            order = np.lexsort((fed_pj, turns))
        case MappingObjective.EDP:
            order = np.lexsort((turns, fed_pj * turns))
    found = found[order]
    return (_without_mirror_images(found) if _is_same_on_its_side(problem.layer) else found)[:most]


def _is_same_on_its_side(layer: Layer) -> bool:
    """Return True if height and width are interchangeable."""
    top, left, bottom, right = layer.padding
    pairs = (layer.p, layer.q), (layer.r, layer.s), layer.stride, layer.dilation, (top, left), (bottom, right)
    return all(one == other for one, other in pairs)


def _without_mirror_images(ways: Ways) -> Ways:
    """Remove unrollings that equal an earlier one after swapping P with Q and R with S."""
    mirror = [LOOPS.index(MIRRORED.get(loop, loop)) for loop in LOOPS]
    seen: set[bytes] = set()
    kept = []
    for at, way in enumerate(ways):
        if way[:, mirror].tobytes() not in seen:
            kept.append(at)
        seen.add(way.tobytes())
    return ways[kept]


def _fed_pj(problem: LayerProblem, ways: Ways) -> NDArray[np.float64]:
    """Return by unrolling the approximate energy in pJ of a multiply-accumulate with its nearest memories' accesses."""
    names = list(array_of(problem.accelerator).sizes)
    found = np.full(len(ways), problem.accelerator.array.mac_energy_pj or 0.0 if problem.accelerator.array else 0.0)
    for operand in (Operand(one) for one in problem.layer.operands):
        keepers = problem.keepers(operand)
        serves = keepers[0].serves if keepers else None
        access = access_of(problem.accelerator, keepers[0].memory.name if keepers else DRAM)
        same = [at for at, loop in enumerate(LOOPS) if loop not in RELEVANT[operand]]
        along = [at for at, name in enumerate(names) if serves is None or name in serves]
        shared = np.prod(ways[:, along][:, :, same], axis=(1, 2), dtype=np.float64)
        bits = problem.layer.partial_bits if operand is Operand.OUTPUT else problem.layer.bits(operand)
        pj = access.read_energy_pj + (access.write_energy_pj if operand is Operand.OUTPUT else 0.0)
        found = found + pj * bits / access.access_bits / shared
    return found
