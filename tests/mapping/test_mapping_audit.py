"""The second prover of mappings against all mappings of small cases: confirms the optimum, refutes values above."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from random import Random

import numpy as np
import pytest

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.audits.finding import Ruling
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import LOOPS, Layer
from onchip.mapping.tile_search.exact import solve_exactly
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapping_audit import Chains, Ways, audit_mapping, mappings_of
from oracles.mapping_audit_terms import NEVER, NestTiling, Terms, grid_of
from oracles.mapspace import homed_toy, lean_toy, least_values, narrow_toy, toy
from support.series import series

MOST_MAPPINGS = 300
TOYS = (toy, lean_toy, homed_toy, narrow_toy)
Toy = Callable[[int], LayerProblem]


def claim(objective: MappingObjective, bound: float) -> Claim:
    return Claim("exact", Status.OPTIMAL, str(objective), bound, bound)


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("seed", series(range(100, 120), 1))
def test_the_truth_is_confirmed_and_a_bound_above_it_refuted(make: Toy, seed: int) -> None:
    problem = make(seed)
    values = least_values(problem, MOST_MAPPINGS)
    if values is None:
        pytest.skip("too many mappings to look at each")
    for objective, least in values.items():
        if not isfinite(least):
            nothing = Claim("exact", Status.INFEASIBLE, str(objective), 0, 0)
            assert audit_mapping(problem, nothing, 60).ruling is Ruling.CONFIRMED
            continue
        found = audit_mapping(problem, claim(objective, round(least)), 60)
        assert found.ruling is Ruling.CONFIRMED, found
        above = round(least) + max(2, round(3e-9 * least))
        found = audit_mapping(problem, claim(objective, above), 60)
        assert found.ruling is Ruling.REFUTED, found
        assert isinstance(found.better, LayerMapping)
        assert verify_mapping(problem, found.better) == ()
        assert found.better_value is not None
        assert least - 1 <= found.better_value < above


def random_mapping(random: Random, problem: LayerProblem) -> tuple[Terms, Chains, list[int], list[Loop]] | None:
    """Return a spatial unrolling, its chains and a random chain of tiles."""
    assert problem.accelerator.array is not None
    ways, terms = Ways.of(problem.layer, problem.accelerator.array), Terms(problem)
    assert ways is not None
    way = random.randrange(len(ways.sizes))
    beside = [
        Loop(loop, int(size), name)
        for name, own in zip(ways.dimensions, ways.sizes[way], strict=True)
        for loop, size in zip(LOOPS, own, strict=True)
        if size > 1
    ]
    grid = grid_of(tuple(ways.turns[way].tolist()))
    turns = {loop: size[-1:] for loop, size in grid.sizes.items()}
    arrays = {(str(one.along), one.dimension): np.array([one.size]) for one in beside}
    chain = [0]
    for _ in problem.levels:
        chain.append(random.choice(grid.larger(chain[-1], "".join(LOOPS)).tolist()))
    return terms, Chains(terms, grid, NestTiling(grid.sizes, turns, arrays)), chain[1:], beside


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("seed", series(range(25), 6))
def test_what_is_ruled_out_by_sums_is_never_below_the_cost(make: Toy, seed: int) -> None:
    """Random mappings cost at least the lower bounds of their unrolling, of its boundaries, and of the least chain."""
    problem = make(seed)
    random, array = Random(seed), problem.accelerator.array
    found = random_mapping(random, problem)
    assert found is not None
    terms, chains, chain, beside = found
    ways = Ways.of(problem.layer, array) if array else None
    assert ways is not None
    units = [[int(terms_size(beside, name, loop)) for loop in LOOPS] for name in ways.dimensions]
    way = next(at for at, sizes in enumerate(ways.sizes.tolist()) if sizes == units)
    tiles = [{loop: int(size[at]) for loop, size in chains.grid.sizes.items()} for at in (0, *chain, -1)]
    base = terms.mac_energy + terms.constant() + chains.fixed()
    for mapping in mappings_of(problem, beside, tiles, is_timed=False):
        try:
            energy = layer_cost(problem, mapping).energy_pj * 1000 * terms.unit
        except MappingError:
            continue
        assert ways.floors(terms)[way] <= energy + 1
        assert base + chains.floor() <= energy + 1
        assert base + chains.least() <= energy + 1
        assert tuple(chain) in set(chains.below(int(energy) - base + terms.unit))


def terms_size(beside: list[Loop], name: str, loop: str) -> int:
    return next((one.size for one in beside if (one.along, one.dimension) == (name, loop)), 1)


def test_where_nothing_fits_no_chain_is_below_any_limit() -> None:
    found = random_mapping(Random(1), LayerProblem(Layer(k=4, c=4), load_accelerator("simba")))
    assert found is not None
    assert found[1].least() < NEVER
    assert Operand.INPUT in found[0].chains


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("conv:n1k64c64p14q14r3s3:pad1", marks=pytest.mark.slow),
        "conv:n1k16c3p9q9r5s5:stride2:pad2x2x1x1",
        pytest.param("conv:n1k16c3p8q8r7s7:stride2:pad3x3x2x2", marks=pytest.mark.slow),
    ],
)
def test_layers_of_simba_are_confirmed_and_one_thousandth_more_is_refuted(text: str) -> None:
    layer, accelerator = Layer.of_text(text), load_accelerator("simba")
    value = solve_exactly(LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run()).objective_value
    assert value is not None
    assert (
        audit_mapping(LayerProblem(layer, accelerator), claim(MappingObjective.ENERGY, value), 300).ruling
        is Ruling.CONFIRMED
    )
    found = audit_mapping(LayerProblem(layer, accelerator), claim(MappingObjective.ENERGY, round(value * 1.001)), 300)
    assert found.ruling is Ruling.REFUTED


def test_no_time_leaves_it_undecided() -> None:
    layer, accelerator = Layer(k=64, c=64, p=14), load_accelerator("simba")
    assert (
        audit_mapping(LayerProblem(layer, accelerator), claim(MappingObjective.LATENCY, 10**9), 0).ruling
        is Ruling.UNDECIDED
    )


def test_another_objective_is_not_ruled_on() -> None:
    layer, accelerator = Layer(k=4), load_accelerator("simba")
    asked = Claim("cosa", Status.OPTIMAL, "cosa", 3.5, 3.5)
    assert audit_mapping(LayerProblem(layer, accelerator), asked, 10).ruling is Ruling.UNDECIDED
