"""The bound on the chain of a mapping's places is at most the mapping's cost, on lattices of any cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.prove.bounds import ChainsTogether
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.model.layer.cost import layer_cost
from oracles.chains import worth_of_chain
from support.longer_nests import random_long_mapping, random_long_problem
from support.nests import random_case
from support.ragged_nests import random_ragged_mapping
from support.random_chains import OwnPlace, asked_of, cell_of, kind_of, kinds_of, own_cells, places_of
from support.series import series

ROUNDED = 1 + 1e-9


@pytest.mark.parametrize("seed", series([0, 2, 5, 300004, 1, 3, 4], 4))
def test_a_mapping_costs_no_less_than_is_said_of_its_own_chain(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the chain of a mapping's places on fine and coarse lattices, and on the cells of those places alone.

    In the last one outputs meet nothing stored at both ends of one turn.
    """
    problem = random_case(seed, most_macs=1500).problem
    mapping = random_ragged_mapping(Random(seed), problem, keeps_all=True)
    _holds_of_own_chain(problem, mapping, _lattices, monkeypatch)


@pytest.mark.parametrize("first", series(range(0, 48, 12), 0))
def test_a_mapping_of_long_loops_costs_no_less_than_is_said_of_its_own_chain(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops have many ragged parts; lattices have few cells with many coordinates each, or single coordinates."""
    seen = 0
    for seed in range(first, first + 12):
        random = Random(seed)
        problem = random_long_problem(random)
        try:
            _holds_of_own_chain(problem, random_long_mapping(random, problem), _coarse_and_fine, monkeypatch)
            seen += 1
        except MappingError:
            continue
    assert seen > 5


def _holds_of_own_chain(
    problem: LayerProblem,
    mapping: LayerMapping,
    lattices: Callable[[UnrolledWays, Sequence[OwnPlace]], Iterator[Lattice]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cost, places = layer_cost(problem, mapping), list(places_of(problem, mapping))
    kinds = list(kinds_of(problem, mapping))
    for way, objective in product((kinds[0], *kinds[2:-1][:1], kind_of(problem, mapping)), MappingObjective):
        value = objective.of(cost.energy_pj, cost.cycles) / objective.of(1.0, 1.0)
        for lattice in lattices(way, places):
            chains = ChainsTogether(ChainEnergy(way, lattice), ChainTime(way, lattice))
            searched = asked_of(chains, monkeypatch, objective)
            own = worth_of_chain(searched, [cell_of(lattice, place) for place in places]) if searched else 0.0
            assert own <= value * ROUNDED, str(mapping)


def _coarse_and_fine(way: UnrolledWays, places: Sequence[OwnPlace]) -> Iterator[Lattice]:
    yield Lattice.of(way.bounds, way.units, 12)
    yield own_cells(way, places, 1200)


def _lattices(way: UnrolledWays, places: Sequence[OwnPlace]) -> Iterator[Lattice]:
    for cells in (1000, 60):
        lattice = Lattice.of(way.bounds, way.units, cells)
        yield lattice
        own = [cell_of(lattice, place) for place in places]
        kept = [
            [any(one[side] == at for one in own) for at in range(length)] for side, length in enumerate(lattice.shape)
        ]
        yield lattice.within(way.units, kept, 2 * cells)
