"""Residencies by label setting: the least price of all places, whatever the capacity."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.schedule import ScheduledStack
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.scheduling.fronts.stack_front import StackPrices
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.moves.residency_path import ResidencyPath
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError
from onchip.scheduling.program.places import Places, StackPlaces
from onchip.scheduling.program.runs import TiledNetwork
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.tiled import tile_graph
from support.series import series
from support.small_schedules import PRECISION, skip_chip, skip_network

WIDE = 1000


def sums(chance: random.Random, count: int) -> Graph:
    """Return sums of one or two earlier maps of different sizes, read by softmaxes or sums."""
    names, operators = ["x"], list[Operator]()
    for at in range(count):
        inputs = tuple(chance.sample(names, min(len(names), chance.randint(1, 2))))
        operators.append(Operator(f"op{at}", ("Softmax", "Add")[len(inputs) - 1], inputs, (f"m{at}",)))
        names.append(f"m{at}")
    read = {name for one in operators for name in one.inputs}
    roles = {name: Role.ACTIVATION if name in read else Role.OUTPUT for name in names} | {"x": Role.INPUT}
    return Graph("sums", tuple(Tensor.of_shape(name, (1, 1, 1, 4), 8, roles[name]) for name in names), tuple(operators))


def composer_of(network: Graph, near_bytes: int, far_bytes: int) -> Composer:
    stacks = tuple(ScheduledStack((one.name,)) for one in network.operators)
    chip = skip_chip(near_bytes, far_bytes)
    mappings = KnownMappings(BestMapper(chip, MappingObjective.ENERGY, Run()))
    return Composer(stacks, TiledNetwork.of(tile_graph(network, stacks, PRECISION)), chip, mappings)


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


def every_place(network: Graph, at: int, memory: str) -> list[StackPlaces]:
    """Return all places of an operator with one memory, and all sets of its tensors that may leave behind it."""
    operator = network.operators[at]
    names = [*operator.inputs, *operator.outputs]
    read_later = {name for one in network.operators[at + 1 :] for name in one.inputs}
    return [
        StackPlaces(
            frozenset((name, memory) for name in on_chip if name in operator.inputs),
            frozenset((name, memory) for name in on_chip if name in operator.outputs),
            frozenset(),
            frozenset(leaving),
        )
        for on_chip in subsets(names)
        for leaving in subsets([name for name in names if name in read_later])
    ]


def composed(composer: Composer, places: Places) -> Composition | None:
    try:
        return composer.composed(places)
    except NoMappingError:
        return None


@pytest.mark.parametrize("objective", [ScheduleObjective.ENERGY, ScheduleObjective.TRAFFIC])
@pytest.mark.parametrize("seed", series(range(8), 2))
def test_no_places_are_cheaper_than_those_of_the_path(seed: int, objective: ScheduleObjective) -> None:
    chance = random.Random(seed)
    network = sums(chance, 2 if seed % 2 else 3)
    composer = composer_of(network, 1, chance.choice((8, 10, 12, 16)))

    places = ResidencyPath(composer, StackPrices(objective), WIDE).found(Places(), Run())

    options = [every_place(network, at, "far") for at in range(len(network.operators))]
    tried = (composed(composer, Places.of_stacks(one)) for one in product(*options))
    values = [(one.energy_fj, one.traffic_bytes) for one in tried if one is not None]
    assert places is not None
    path = composer.composed(places)
    at = 0 if objective is ScheduleObjective.ENERGY else 1
    assert (path.energy_fj, path.traffic_bytes)[at] == min(one[at] for one in values)


@pytest.mark.parametrize("width", [1, 2, 8])
def test_more_labels_never_cost_more_on_a_skip_connection(width: int) -> None:
    composer = composer_of(skip_network(), 60, 200)
    prices = StackPrices(ScheduleObjective.ENERGY)
    some, more = (ResidencyPath(composer, prices, one).found(Places(), Run()) for one in (width, WIDE))
    assert some is not None
    assert more is not None
    assert composer.composed(more).energy_fj <= composer.composed(some).energy_fj


def test_a_search_without_time_keeps_the_given_places() -> None:
    composer = composer_of(skip_network(), 60, 200)
    given = Places({(1, "a"): "far"}, {(0, "a"): "far"})
    path = ResidencyPath(composer, StackPrices(ScheduleObjective.ENERGY), 8)
    assert path.found(given, Run(Limits(0.0))) == given
    composer.run = Run(Limits(0.0))
    assert path.found(given, Run()) is None
