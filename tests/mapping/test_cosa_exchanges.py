"""Many schedules at once against one at a time, and exchanges against all that are near."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from cosa.reading import fits, objective_of

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from onchip.mapping.cosa.cosa import MOST_TIES, Column, CosaSchedule, Exchanges, best_of_equals, solve_as_cosa
from onchip.mapping.cosa.program import GIVEN_ORDER, CosaMachine, Factor, FactorPlacement, Place, factors_of
from onchip.search.budget.limits import Run

LAYERS = (
    Layer(k=64, c=32, p=14, q=14, r=3, s=3, stride=(2, 1)),
    Layer(n=6, k=12, c=10),
    Layer(g=8, p=6, q=4, r=5, s=1, has_weight=False),
    Layer(k=16, c=3, p=28, q=28, r=7, s=7, stride=(2, 2)),
)
MACHINES = ("simba", "simba-cosa", "simba-large-buffers")
Change: TypeAlias = tuple[Factor, Place, Place]
CASES = list(product(range(len(LAYERS)), MACHINES, range(4)))


def drawn(number: int, name: str, seed: int) -> tuple[CosaMachine, FactorPlacement]:
    """Place every copy of every factor at random, whether it fits or not, with a random order at the global buffer."""
    random = Random(f"{number} {name} {seed}")
    machine = CosaMachine.of(LAYERS[number], load_accelerator(name))
    counts: dict[Column, int] = {}
    for factor, count in factors_of(machine.layer.bounds).items():
        places = [place for place in machine.places if machine.may_hold(place, *factor)]
        for _ in range(count):
            place = random.choice(places)
            counts[factor, place] = counts.get((factor, place), 0) + 1
    order = tuple(random.sample(GIVEN_ORDER, len(GIVEN_ORDER)))
    return machine, FactorPlacement(counts, {machine.shared: order})


@pytest.mark.parametrize(("number", "name", "seed"), CASES)
def test_objectives_and_fit_are_those_of_each_placement(number: int, name: str, seed: int) -> None:
    machine, placement = drawn(number, name, seed)
    exchanges = Exchanges.of(machine, placement)
    own = exchanges.schedule(placement)
    assert exchanges.placement(own) == placement
    rows = np.concatenate([own.counts[None], exchanges.moved(own.counts)])
    order = placement.order(machine.shared)
    each = [exchanges.placement(CosaSchedule(row, placement.orders)) for row in rows]
    totals = [objective_of(machine, one).total for one in each]
    assert exchanges.objectives(rows, order).tolist() == pytest.approx(totals, abs=1e-9)
    assert exchanges.fits(rows).tolist() == [fits(machine, one) for one in each]


@pytest.mark.parametrize(("number", "name", "seed"), CASES[::5])
def test_exchanges_are_all_moves_of_a_copy_and_all_exchanges_of_two_of_a_prime(
    number: int, name: str, seed: int
) -> None:
    machine, placement = drawn(number, name, seed)
    held = [key for key in placement.counts if key[0][1] > 1]
    expected: set[frozenset[tuple[Column, int]]] = set()
    for (factor, place), other in product(held, machine.places):
        if other != place and machine.may_hold(other, *factor):
            expected.add(_changed(placement, ((factor, place, other),)))
    for (one, here), (two, there) in product(held, held):
        is_apart = one != two and here != there and one[1] == two[1]
        if is_apart and machine.may_hold(there, *one) and machine.may_hold(here, *two):
            expected.add(_changed(placement, ((one, here, there), (two, there, here))))
    exchanges = Exchanges.of(machine, placement)
    own = exchanges.schedule(placement)
    found = {frozenset(exchanges.placement(CosaSchedule(row)).counts.items()) for row in exchanges.moved(own.counts)}
    assert found == expected


def _changed(placement: FactorPlacement, moves: Sequence[Change]) -> frozenset[tuple[Column, int]]:
    counts = dict(placement.counts)
    for factor, source, target in moves:
        counts[factor, source] -= 1
        counts[factor, target] = counts.get((factor, target), 0) + 1
    return frozenset((key, count) for key, count in counts.items() if count)


def test_of_equal_schedules_the_cheapest_is_found_and_no_more_than_asked_are_looked_at() -> None:
    layer, accelerator = LAYERS[0], load_accelerator("simba")
    looked_at: list[LayerMapping] = []

    def all_alike(some: Sequence[LayerMapping]) -> list[float]:
        looked_at.extend(some)
        return [0.0] * len(some)

    assert solve_as_cosa(LayerProblem(layer, accelerator), Run(), tie_break=all_alike).answer == looked_at[0]
    assert 1 < len(looked_at) <= MOST_TIES
    assert len(set(looked_at)) > MOST_TIES // 3, "too many schedules differ in the order of loops of one iteration only"

    def last_is_best(some: Sequence[LayerMapping]) -> list[float]:
        return [float(one != looked_at[-1]) for one in some]

    assert solve_as_cosa(LayerProblem(layer, accelerator), Run(), tie_break=last_is_best).answer == looked_at[-1]


def test_an_impossible_schedule_gives_way_to_any_that_costs_something() -> None:
    machine = CosaMachine.of(LAYERS[1], load_accelerator("simba"))
    first = next(one for seed in range(50) if fits(machine, one := drawn(1, "simba", seed)[1]))
    seen: list[LayerMapping] = []

    def first_is_refused(some: Sequence[LayerMapping]) -> list[float]:
        seen.extend(some)
        return [float("inf") if one == seen[0] else 1.0 for one in some]

    best = best_of_equals(machine, first, first_is_refused, most=20)
    assert best.mapping(machine) == (seen[1] if len(seen) > 1 else seen[0])
    assert len(seen) <= 20
