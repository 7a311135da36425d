"""Fronts of stacks: nothing that is dropped is missed, and floors of tiles hold."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import Tiling
from onchip.scheduling.fronts.stack_front import (
    StackDemand,
    StackFront,
    StackOption,
    StackPrices,
    cheapest_cuts,
)
from onchip.scheduling.mappings.cycle_floors import CycleFloors
from onchip.scheduling.mappings.even_tiles import EvenTiles
from onchip.scheduling.program.places import Places
from onchip.transform.groups.tiled import tile_graph
from support.series import series
from support.small_schedules import ALONE, FULLY, PRECISION, TILED, alone, grid_chip, maker, skip_chip, skip_network

Runs = Mapping[tuple[str, ...], Sequence[StackOption]]


def some_figures(chance: random.Random) -> StackDemand:
    held = {name: chance.randint(0, 4) for name in ("near", "far")}
    return StackDemand(held, chance.randint(1, 4), chance.randint(1, 4), chance.randint(1, 4))


def some_runs(chance: random.Random, order: Sequence[str]) -> Runs:
    """Each operator, and some runs of several, with a few options."""
    runs = [order[start:stop] for start, stop in product(range(len(order)), range(1, len(order) + 1)) if start < stop]
    kept = [tuple(one) for one in runs if len(one) == 1 or chance.random() < 0.5]
    return {
        one: [
            StackOption(ScheduledStack(one, Tiling(1, 1, FULLY)), Places(), some_figures(chance))
            for _ in range(chance.randint(1, 6))
        ]
        for one in kept
    }


def front_of(options: Sequence[StackOption]) -> StackFront:
    front = StackFront()
    for one in options:
        front = front.with_option(one)
    return front


def least_of_all(runs: Runs, order: tuple[str, ...], prices: StackPrices) -> int:
    """Every cut with every option, dominated ones too."""
    if not order:
        return 0
    return min(
        prices.of(option.figures) + least_of_all(runs, order[len(operators) :], prices)
        for operators, options in runs.items()
        if order[: len(operators)] == operators
        for option in options
    )


@pytest.mark.parametrize("objective", ScheduleObjective)
@pytest.mark.parametrize("seed", range(8))
def test_no_cut_of_options_that_are_dropped_costs_less_than_the_cheapest_of_the_fronts(
    objective: ScheduleObjective, seed: int
) -> None:
    chance = random.Random(seed)
    order = ("a", "b", "c", "d")
    runs = some_runs(chance, order)
    prices = StackPrices(objective, chance.randint(1, 5), chance.randint(1, 5))
    fronts = {operators: front_of(options) for operators, options in runs.items()}

    chosen = cheapest_cuts([ScheduledStack((name,)) for name in order], fronts, prices)

    assert tuple(name for one in chosen for name in one.stack.operators) == order
    assert sum(prices.of(one.figures) for one in chosen) == least_of_all(runs, order, prices)


@pytest.mark.parametrize("seed", range(8))
def test_in_every_room_the_front_has_an_option_that_is_as_cheap_as_any(seed: int) -> None:
    chance = random.Random(seed)
    options = some_runs(chance, ("a",))["a",]
    front = front_of(options)
    for objective, near, far in product(ScheduleObjective, range(5), range(5)):
        prices = StackPrices(objective, 3, 2)

        def least(
            some: Sequence[StackOption], near: int = near, far: int = far, prices: StackPrices = prices
        ) -> int | None:
            held = ((one.figures.held_bytes, prices.of(one.figures)) for one in some)
            return min(
                (price for bytes_, price in held if bytes_["near"] <= near and bytes_["far"] <= far), default=None
            )

        assert least(front.options) == least(options)


def test_stacks_without_a_front_stay_as_they_are() -> None:
    cheap, dear = (StackDemand({}, at, at, at) for at in (1, 5))
    both = ("first", "second")
    one = [StackOption(ScheduledStack((name,)), Places(), dear) for name in both]
    fronts = {each.stack.operators: front_of([each]) for each in one}
    prices = StackPrices(ScheduleObjective.LATENCY)
    assert cheapest_cuts(ALONE, fronts, prices) == tuple(one)

    together = StackOption(ScheduledStack(both, Tiling(2, 2, FULLY)), Places(), cheap)
    assert cheapest_cuts(ALONE, {**fronts, both: front_of([together])}, prices) == (together,)


@pytest.mark.parametrize("stacks", [ALONE, (TILED, ALONE[3])])
@pytest.mark.parametrize("keeps_inside", [False, True])
def test_stacks_that_keep_nothing_for_each_other_take_no_more_together_than_each_alone(
    stacks: tuple[ScheduledStack, ...], *, keeps_inside: bool
) -> None:
    """Energy and traffic are the sums of theirs, and nothing waits longer than for all that stands before it."""
    making = maker(skip_chip(40, 400), skip_network())
    inner = {(0, name): "far" for name in ("a", "b")} if keeps_inside and len(stacks) == 2 else {}
    reads = {(0, "x"): "far"} if keeps_inside else {}
    places = Places({**inner, **reads}, inner)

    together = making.made(stacks, places).figures
    each = [alone(making, one, places.renumbered({at: 0})).figures for at, one in enumerate(stacks)]

    assert together.energy_fj == sum(one.energy_fj for one in each)
    assert together.traffic_bytes == sum(one.traffic_bytes for one in each)
    assert together.latency_cycles <= sum(one.latency_cycles for one in each)
    for memory, size in together.memories.items():
        assert size.peak_bytes <= max(one.memories[memory].peak_bytes for one in each)


GRIDS: Sequence[Mapping[str, int]] = (
    {"OX": 4},
    {"OX": 2, "OY": 4},
    {"any": 3},
    {"K": 2, "OY": 3},
    {"one": 2, "two": 4},
)


@pytest.mark.parametrize("units", GRIDS)
@pytest.mark.parametrize("seed", series(range(4), 1))
def test_tiles_take_no_fewer_cycles_than_their_floors(units: Mapping[str, int], seed: int) -> None:
    """Of mappings whose loops are whole factors, which are all that schedules have."""
    chance = random.Random(seed)
    rows, columns = chance.randint(3, 7), chance.randint(3, 7)
    network, accelerator = skip_network(rows, columns), grid_chip(units)
    making, even = maker(accelerator, network), EvenTiles(CycleFloors(accelerator))
    looked_at = 0
    for name, _ in product(("first", "add"), range(3)):
        whole = tile_graph(network, ALONE, PRECISION).operators[name]
        tiling = Tiling(chance.randint(1, columns), chance.randint(1, rows), FULLY)
        stack = ScheduledStack((name,), tiling)
        found = alone(making, stack, Places())
        ((nest, *_),) = [list(one.mapped) for one in found.improver.best.composition.composed]
        (layer,) = whole.nests
        looked_at += 1
        assert found.figures.latency_cycles >= even.least_cycles_in(layer, tiling)
        assert found.figures.latency_cycles >= even.least_cycles_at_ports(replace(nest, layer=layer), tiling)
    assert looked_at == 6


def test_a_floor_of_tiles_is_reached_where_units_alone_count() -> None:
    even = EvenTiles(CycleFloors(grid_chip({"OX": 4, "OY": 4})))
    (layer,) = tile_graph(skip_network(5, 5), ALONE, PRECISION).operators["first"].nests
    work = layer.macs // 25
    assert even.least_cycles(layer, 5, 5) == 25 * work
    best, *others = even.of(layer)
    assert (best.tiling.columns, best.tiling.rows, best.least_cycles) == (4, 4, 4 * work)
    assert [one.least_cycles for one in others] == sorted(one.least_cycles for one in others)
