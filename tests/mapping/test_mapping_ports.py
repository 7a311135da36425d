"""Ports in the bound on all mappings: the last cycles, and the data that comes from above at once."""

from __future__ import annotations

from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.mapping.chains.chain import OperandChain
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime, Place
from onchip.mapping.prove.bounds import ChainsTogether
from onchip.model.layer.limits import checked_boundaries, layer_accesses
from onchip.model.layer.ragged import PortMove, RaggedTime, TileFilling
from oracles.chains import without_window
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.random_chains import OwnPlace, asked_of, cell_of, kind_of, own_cells, places_of
from support.series import series
from support.ways import way_of


def _case(seed: int) -> tuple[LayerProblem, LayerMapping, dict[Place, OwnPlace]] | None:
    """Return a random mapping with the places of its tiles, or None if it is illegal."""
    problem = random_case(seed, most_macs=1500).problem
    mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
    try:
        checked_boundaries(problem, mapping)
    except MappingError:
        return None
    way = way_of(problem, mapping)
    numbers = [
        (operand, at)
        for operand in map(Operand, problem.layer.operands)
        for at in range(len(way.memories(operand)) - 1)
    ]
    return problem, mapping, dict(zip(numbers, places_of(problem, mapping), strict=True))


@pytest.mark.parametrize("first", series(range(0, 240, 20), 1))
def test_no_window_is_in_so_many_cycles_of_last_parts(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any tiles, with times and cycles enough, wait for all cycles except the union of their windows."""
    random, tight, several = Random(first), 0, 0
    for problem, mapping, places in filter(None, map(_case, range(first, first + 20))):
        if not places:
            continue
        way = kind_of(problem, mapping)
        lattice = own_cells(way, list(places.values()))
        searched = asked_of(ChainsTogether(ChainEnergy(way, lattice), ChainTime(way, lattice)), monkeypatch)
        assert searched is not None
        crossed, time = checked_boundaries(problem, mapping), RaggedTime(problem.layer, mapping)
        cells = [cell_of(lattice, place) for place in places.values()]
        for _ in range(6):
            chosen = random.sample(sorted(places), min(random.randint(1, 3), len(places)))
            moves = [
                PortMove(TileFilling.of(crossed[operand][at + 1]), 2 * time.cycles, time.cycles, returns=False)
                for operand, at in chosen
            ]
            covered = sum(one.busy * one.times for one in moves) - time.stall(moves)
            own = without_window(searched, cells, [int(one in chosen) for one in places])
            assert covered + own <= time.cycles, (str(mapping), chosen)
            is_tight = own > 0 and covered + own == time.cycles
            tight, several = tight + is_tight, several + (is_tight and len(chosen) > 1)
    assert tight > 10
    assert several > 3


@pytest.mark.parametrize("first", series(range(0, 240, 20), 4))
def test_from_above_comes_at_once_what_an_instance_has_room_for(first: int) -> None:
    """The largest tile of an input or a weight that an upper memory gives is no smaller than a block of one below."""
    seen = 0
    for problem, mapping, places in filter(None, map(_case, range(first, first + 20))):
        way, crossed = way_of(problem, mapping), checked_boundaries(problem, mapping)
        lattice = own_cells(way, list(places.values()))
        for (operand, at), place in places.items():
            lower, upper = way.memories(operand)[at : at + 2]
            given = [
                size
                for one in layer_accesses(problem.accelerator, crossed)
                if (one.memory, one.operand, one.move) == (upper, operand, Move.READ_FOR_BELOW)
                for size, _ in one.sizes
            ]
            if operand is not Operand.OUTPUT and given:
                block = OperandChain(way, lattice, operand).largest(way.served(lower), is_block=True)
                at_own = tuple(
                    min(one, side - 1) for one, side in zip(cell_of(lattice, place), block.shape, strict=True)
                )
                assert block[at_own] <= max(given), (str(mapping), operand, at)
                seen += block[at_own] == max(given)
    assert seen > 0
