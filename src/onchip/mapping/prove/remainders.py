"""Mappings whose loops end short: found as those of a longer layer, then cut off where the layer ends."""

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
from onchip.model.unrolling.factors import padded_bound
from onchip.model.unrolling.unrolling import Unrolled
from onchip.model.unrolling.ways import Ways, some_ways

LARGEST_PRIME: Final = 5
"""Of a loop in time, so that it may be cut somewhere."""
FACTORS: Final = 5
WAYS_LOOKED_AT: Final = 400
MIRRORED: Final = {"P": "Q", "Q": "P", "R": "S", "S": "R"}


def ended_short(layer: Layer, mapping: LayerMapping) -> LayerMapping:
    """A mapping of longer loops as one of the layer's: the outermost of each run no longer than they have to."""
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
    """Longer layers, or the layer itself, each with LOMA's mapping for one of the ways that promise most."""
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
    """Those of fewest turns, or of units that are cheapest to feed; of equal ones the first.

    Of a layer that is the same on its side a way and its mirror image are one way, so that more others have a turn.
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
    """Whether height and width may change places."""
    top, left, bottom, right = layer.padding
    pairs = (layer.p, layer.q), (layer.r, layer.s), layer.stride, layer.dilation, (top, left), (bottom, right)
    return all(one == other for one, other in pairs)


def _without_mirror_images(ways: Ways) -> Ways:
    """Without each way of which one before is the same but for P and Q, R and S."""
    mirror = [LOOPS.index(MIRRORED.get(loop, loop)) for loop in LOOPS]
    seen: set[bytes] = set()
    kept = []
    for at, way in enumerate(ways):
        if way[:, mirror].tobytes() not in seen:
            kept.append(at)
        seen.add(way.tobytes())
    return ways[kept]


def _fed_pj(problem: LayerProblem, ways: Ways) -> NDArray[np.float64]:
    """Of one multiply-accumulate, about: what the memories nearest the units move for it, by way."""
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
