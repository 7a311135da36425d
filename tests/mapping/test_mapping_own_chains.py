"""The bound on the chain of a mapping's places is at most the mapping's cost, on lattices of any cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.chains.criteria import ChainEnergy, ChainTime
from onchip.mapping.chains.lattice import Lattice
from onchip.mapping.prove.bounds import ChainsTogether
from onchip.mapping.prove.unrolled_ways import UnrolledWays
from onchip.mapping.prove.wide import MOST_LENGTHENED, SMALL_PRIMES, WideMapper, longer_layers, solve_widely, starts
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.model.unrolling.unrolling import prime_counts
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.portfolio import Stepped
from onchip.verify.mapping import verify_mapping
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


# The spatial unrollings examined beyond the uniform mapspace, and their results


SIMBA = load_accelerator("simba")
ODD = Layer(k=31, c=37, p=11, q=11)
ON_ITS_SIDE = {"P": "Q", "Q": "P", "R": "S", "S": "R"}
WAYS = 12
Way = frozenset[tuple[str, int, str | None]]


def ways_of(layer: Layer, objective: MappingObjective) -> list[Way]:
    return [_way(mapping) for _, mapping in starts(LayerProblem(layer, SIMBA), objective, WAYS)]


def _way(mapping: LayerMapping) -> Way:
    return frozenset((loop.dimension, loop.size, loop.along) for loop in mapping.nest if loop.along)


def _mirrored(way: Way) -> Way:
    return frozenset((ON_ITS_SIDE.get(loop, loop), size, along) for loop, size, along in way)


@pytest.mark.parametrize("objective", MappingObjective)
def test_of_a_square_layer_no_way_is_another_on_its_side(objective: MappingObjective) -> None:
    ways = ways_of(ODD, objective)
    assert len(set(ways)) == len(ways) == WAYS
    assert not any(_mirrored(way) != way and _mirrored(way) in ways for way in ways)


def test_of_a_layer_whose_sides_differ_both_are_looked_at() -> None:
    for layer in (replace(ODD, q=12, p=12, stride=(2, 1)), replace(ODD, padding=(1, 0, 1, 0), p=13, q=11, r=3)):
        ways = ways_of(layer, MappingObjective.LATENCY)
        assert any({"P", "Q"} & {loop for loop, _, _ in way} for way in ways)
    sided = ways_of(replace(ODD, p=12, q=12, stride=(2, 1)), MappingObjective.LATENCY)
    assert any(_mirrored(way) != way and _mirrored(way) in sided for way in sided)


@pytest.mark.slow
def test_ways_of_equal_longer_layers_differ_where_they_are_cut_off() -> None:
    """The layer padded to even bounds takes 1,154 cycles; of ways of the same floor the first takes 1,188."""
    result = solve_widely(LayerProblem(ODD, SIMBA), MappingObjective.LATENCY, Run())
    assert result.objective_value is not None
    assert result.objective_value <= 1_154


# Layers with a loop longer than it has to be, whose even mappings are cut off where the layer ends


LAYER = Layer(n=512, k=64, c=64)


def test_each_has_one_loop_that_is_a_little_longer_and_may_be_cut_in_many_places() -> None:
    seen, before = set(), 1.0
    for longer in longer_layers(LAYER):
        (loop,) = [name for name in LOOPS if longer.bounds[name] != LAYER.bounds[name]]
        length, bound = longer.bounds[loop], LAYER.bounds[loop]
        assert bound < length <= bound + bound / MOST_LENGTHENED
        assert set(prime_counts(length)) <= set(SMALL_PRIMES)
        assert length / bound >= before
        seen.add((loop, length))
        before = length / bound
    assert seen == {("N", 540), ("N", 576), ("K", 72), ("C", 72)}


def test_a_loop_of_few_iterations_has_none() -> None:
    assert not list(longer_layers(Layer(n=1, k=3, c=5)))


@pytest.mark.slow
def test_the_best_even_mapping_is_improved_on_by_a_legal_one_that_costs_as_much_as_is_said() -> None:
    machine = load_accelerator("eyeriss-like")
    problem = LayerProblem(Precision().on(machine).of(Layer(n=32, k=64, c=64)), machine)
    even = solve_exactly(problem, MappingObjective.LATENCY, Run(Limits()))
    assert even.answer is not None
    mapper = WideMapper(problem, MappingObjective.LATENCY, Run(Limits()))
    mapper._offer(even.answer)
    before = mapper.value
    for _ in Stepped("longer", mapper._incumbent, mapper.run, mapper._look_at_longer)._steps:
        pass
    assert mapper.value < before
    assert mapper.answer is not None
    assert mapper.answer.ragged
    assert not verify_mapping(problem, mapper.answer)
    cost = layer_cost(problem, mapper.answer)
    assert MappingObjective.LATENCY.of(cost.energy_pj, cost.cycles) == mapper.value
