"""Limits that end a first composition: nests with fallback mappings are lighter than all mapped nests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import ScheduledStack
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.scheduling.mappings.mapped import KnownMappings, key_of
from onchip.scheduling.mappings.nest_mapper import SECONDS_OF_A_MAKESHIFT, BestMapper
from onchip.scheduling.program.composition import Composer, Composition
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import TiledNetwork
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph
from support.small_schedules import PRECISION, skip_chip

CHANNELS = (2, 6, 4, 4, 4, 12, 8, 2, 2, 16, 3)
"""Before the first convolution, and after each: neither the first nor the last is the heaviest."""
CHIP = skip_chip(4000, 40_000)


def chain() -> Graph:
    """Convolutions of many sizes, the third and the fourth alike."""
    roles = (Role.INPUT, *[Role.ACTIVATION] * (len(CHANNELS) - 2), Role.OUTPUT)
    maps = [
        Tensor.of_shape(f"m{at}", (1, count, 4, 4), 8, role)
        for at, (count, role) in enumerate(zip(CHANNELS, roles, strict=True))
    ]
    sizes = [(CHANNELS[at + 1], CHANNELS[at], 3, 3) for at in range(len(CHANNELS) - 1)]
    weights = [Tensor.of_shape(f"w{at}", size, 8, Role.PARAMETER) for at, size in enumerate(sizes)]
    operators = (
        Operator(
            f"conv{at}", "Conv", (f"m{at}",), (f"m{at + 1}",), (f"w{at}",), {"kernel_shape": [3, 3], "pads": [1] * 4}
        )
        for at in range(len(sizes))
    )
    return Graph("chain", (*maps, *weights), tuple(operators))


@dataclass(frozen=True, slots=True)
class Ending(Deadline):
    """A deadline after a number of mapping searches; each check of the time counts as one."""

    needs: list[float] = field(default_factory=list, kw_only=True)
    searches: int = field(default=0, kw_only=True)

    def is_too_short_for(self, processor_seconds: float) -> bool:
        """Return True after that many checks."""
        self.needs.append(processor_seconds)
        return len(self.needs) > self.searches


def composed_within(run: Run) -> tuple[Composition, BestMapper]:
    """Layer by layer, everything streamed, with mappings that are found at once."""
    network = chain()
    stacks = tuple(ScheduledStack((operator.name,)) for operator in network.operators)
    mapper = BestMapper(CHIP, MappingObjective.LATENCY, run)
    tiles = TiledNetwork.of(tile_graph(network, stacks, PRECISION))
    composer = Composer(stacks, tiles, CHIP, KnownMappings(mapper), run)
    with mapper.quick(is_sure=True):
        return composer.composed(Places()), mapper


def weights_of(composition: Composition, mapper: BestMapper) -> tuple[list[float], list[float]]:
    """Of the nests that have makeshifts, and of the others: their least cycles, times how often they occur."""
    nests = list(composition.nests)
    times = Counter(key_of(nest) for nest, _, _ in nests)
    weighed = [
        (times[key_of(nest)] * mapper.floors.least_cycles(nest.layer, weight_is_an_input=False), mapped.is_makeshift)
        for nest, _, mapped in nests
    ]
    return [one for one, is_makeshift in weighed if is_makeshift], [one for one, made in weighed if not made]


@pytest.mark.parametrize("searches", range(9))
def test_makeshifts_are_on_nests_that_are_no_heavier_than_any_that_is_mapped(searches: int) -> None:
    makeshifts, mapped = weights_of(*composed_within(Run(deadline=Ending(searches=searches))))
    assert makeshifts
    assert bool(mapped) is (searches > 0)
    assert max(makeshifts) <= min(mapped, default=max(makeshifts))


def test_the_heaviest_nest_is_mapped_first_wherever_it_stands() -> None:
    """In the order of the program the first convolution would be mapped first."""
    composition, _ = composed_within(Run(deadline=Ending(searches=3)))
    first, *_ = composition.nests
    assert first[2].is_makeshift


@pytest.mark.parametrize("searches", range(10))
def test_time_is_kept_back_for_makeshifts_of_all_nests_that_have_no_mapping_yet(searches: int) -> None:
    """Two of the ten are alike. Once there is no time for more, none is searched for, though time is left."""
    deadline = Ending(searches=searches)
    composition, _ = composed_within(Run(deadline=deadline))
    looks = min(searches + 1, 9)
    assert deadline.needs[:looks] == [pytest.approx(SECONDS_OF_A_MAKESHIFT * (9 - at)) for at in range(looks)]
    mapped = {key_of(nest): one.is_makeshift for nest, _, one in composition.nests}
    assert len(mapped) == 9
    assert sum(mapped.values()) == 9 - searches
