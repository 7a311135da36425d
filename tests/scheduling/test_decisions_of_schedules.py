"""The decisions of a schedule compose it again, with no more traffic and energy, also on other machines."""

from __future__ import annotations

import random

import pytest

from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.program.composition import Composer, Composition, NoMappingError
from onchip.scheduling.program.from_schedule import decisions_of_schedule
from onchip.scheduling.program.places import Places
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.series import series
from support.small_schedules import composer, skip_chip, skip_network

STACKS = {
    "layers": tuple(ScheduledStack((name,)) for name in ("first", "second", "add", "soft")),
    "cached": (
        ScheduledStack(("first", "second", "add"), Tiling(2, 2, OverlapMode.FULLY_CACHED)),
        ScheduledStack(("soft",)),
    ),
    "recomputed": (
        ScheduledStack(("first", "second", "add"), Tiling(2, 3, OverlapMode.RECOMPUTE)),
        ScheduledStack(("soft",)),
    ),
    "alone": (
        ScheduledStack(("first",), Tiling(4, 1, OverlapMode.RECOMPUTE)),
        ScheduledStack(("second",), Tiling(2, 4, OverlapMode.RECOMPUTE)),
        ScheduledStack(("add",), Tiling(4, 2, OverlapMode.RECOMPUTE)),
        ScheduledStack(("soft",)),
    ),
}
NAMES = ("x", "a", "b", "c", "y", "w0", "w1")


def random_places(chance: random.Random, stacks: int) -> Places:
    keys = [(stack, name) for stack in range(stacks) for name in NAMES]
    read = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    written = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.6}
    waiting = {key: chance.choice(("near", "far", None)) for key in keys if chance.random() < 0.4}
    return Places(read, written, waiting)


def composed(composing: Composer, chance: random.Random, stacks: int) -> Composition:
    try:
        return composing.addressed(composing.composed(random_places(chance, stacks)))
    except NoMappingError:
        return composing.addressed(composing.composed(Places()))


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", series(range(60), 12))
def test_a_schedule_composed_again_moves_no_more_and_takes_no_more_energy(
    stacks: tuple[ScheduledStack, ...], seed: int
) -> None:
    chance = random.Random(seed)
    accelerator = skip_chip(chance.choice((40, 60)), chance.choice((60, 90, 400)))
    tiles, composing = composer(stacks, accelerator)
    found = composed(composing, chance, len(stacks))
    decisions = decisions_of_schedule(found.schedule, tiles, accelerator)
    again = composing.addressed(composing.composed(decisions.places))
    assert decisions.stacks == stacks
    assert again.traffic_bytes <= found.traffic_bytes
    assert again.energy_fj <= found.energy_fj


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
def test_decisions_hold_the_mapping_of_each_loop_nest_at_its_homes(stacks: tuple[ScheduledStack, ...]) -> None:
    tiles, composing = composer(stacks, skip_chip())
    schedule = composing.composed(Places()).schedule
    decisions = decisions_of_schedule(schedule, tiles, skip_chip())
    for one in schedule.mappings:
        assert decisions.mappings[one.layer, one.homes] == one.mapping


@pytest.mark.parametrize("stacks", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("seed", series(range(20), 4))
def test_decisions_of_one_machine_compose_a_legal_schedule_on_a_larger_one(
    stacks: tuple[ScheduledStack, ...], seed: int
) -> None:
    chance, small, large = random.Random(seed), skip_chip(40, 90), skip_chip(80, 1000)
    tiles, composing = composer(stacks, small)
    found = composed(composing, chance, len(stacks))
    decisions = decisions_of_schedule(found.schedule, tiles, large)
    _, on_large = composer(stacks, large)
    again = on_large.addressed(on_large.composed(decisions.places))
    assert not verify_schedule(
        ScheduleSetting(skip_network(), large, tiles.graph, 16), again.schedule, None, nest_cost
    ).violations
    assert again.traffic_bytes <= found.traffic_bytes


def test_what_lies_in_a_memory_that_a_machine_lacks_is_streamed() -> None:
    accelerator = skip_chip(100, 400)
    tiles, composing = composer(STACKS["layers"], accelerator)
    places = Places({(1, "a"): "near", (2, "a"): "far"}, {(0, "a"): "near"}, {(1, "a"): "far"})
    schedule = composing.composed(places).schedule
    assert decisions_of_schedule(schedule, tiles, accelerator).places == places
    without_near = Accelerator("far", (accelerator.levels[1].memory,), accelerator.levels[1:], None, accelerator.array)
    left = decisions_of_schedule(schedule, tiles, without_near).places
    assert left == Places({(2, "a"): "far"}, {}, {(1, "a"): "far"})


def test_with_everything_in_dram_nothing_has_a_place() -> None:
    tiles, composing = composer(STACKS["cached"], skip_chip())
    assert decisions_of_schedule(composing.composed(Places()).schedule, tiles, skip_chip()).places == Places()
