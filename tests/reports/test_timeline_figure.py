from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from onchip.arch.memory import Memory
from onchip.model.timeline.activity import PlaceUse, array_waits
from onchip.model.timeline.schedule_timeline import ScheduleTimeline
from onchip.reports.shared.figures import RESIDENCY_PAINTS, address_cells
from onchip.reports.shared.timeline import HEIGHT, PERIODS, TimelineFigure, TimelineSlice, in_periods
from support.diamond import Json
from support.schedule_outcomes import three_in_tiles
from support.series import in_one_test


def random_slices(seed: int, total_cycles: int) -> list[TimelineSlice]:
    """Return two lanes of consecutive slices, some with no length."""
    random, found = Random(seed), list[TimelineSlice]()
    for lane in ("array", "DMA 0"):
        at = random.randint(0, 5)
        while at < total_cycles:
            stop = min(at + random.choice((0, 1, 2, 50, 700)), total_cycles)
            found.append(TimelineSlice(lane, random.choice(("load", "move")), at, stop, "x"))
            at = stop + random.choice((0, 0, 1, 30))
            if stop == at and random.random() < 0.05:
                at += 1
    return found


def figure_of(timeline: ScheduleTimeline, memories: Sequence[Memory] = ()) -> TimelineFigure:
    return TimelineFigure(timeline.activities, timeline.places, memories, 1, lambda _: "activation")


def test_every_compute_copy_turn_at_dram_and_wait_is_drawn_from_its_start_to_its_stop() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    figure: Json = figure_of(timeline).figure()
    drawn = Counter(
        (lane, start, start + cycles)
        for trace in figure["traces"]
        for lane, start, cycles in zip(trace["y"], trace["base"], trace["x"], strict=True)
    )
    expected = Counter(("array" if one.queue is None else "DMA 0", one.start, one.stop) for one in timeline.activities)
    expected.update(("DRAM", one.start, one.start + one.dram_cycles) for one in timeline.activities if one.dram_cycles)
    expected.update(("array", one.start, one.stop) for one in array_waits(timeline.activities))
    assert drawn == expected
    assert figure["x"] == [0, timeline.latency_cycles]
    assert {one.kind for one in figure_of(timeline).slices()} >= {"compute", "load", "DRAM transfer", "preload"}


def test_the_array_computes_or_waits_in_every_cycle() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    on_array = sorted((one.start, one.stop) for one in figure_of(timeline).slices() if one.lane == "array")
    busy = [one for one in on_array if one[0] < one[1]]
    assert busy[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(busy))
    assert busy[-1][1] == timeline.latency_cycles


def test_each_residency_is_a_rectangle_over_the_cycles_of_its_use() -> None:
    outcome = three_in_tiles()
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    memories = [level.memory for level in outcome.accelerator.addressed]
    figure: Json = figure_of(timeline, memories).figure()
    axes = {f"y{number}": row["name"] for number, row in enumerate(figure["memories"], start=2)}
    drawn = Counter(
        (axes[trace["yaxis"]], start, start + cycles, middle - width / 2, middle + width / 2)
        for trace in figure["traces"]
        if trace.get("yaxis")
        for start, cycles, middle, width in zip(trace["base"], trace["x"], trace["y"], trace["width"], strict=True)
    )
    expected = Counter(
        (one.memory, one.start, one.stop, one.offset_bytes, one.offset_bytes + one.size_bytes)
        for one in timeline.places
        if one.stop is not None
    )
    assert drawn == expected


@pytest.mark.parametrize("seed", range(10))
def test_cells_of_too_many_residencies_are_of_what_takes_most(seed: int) -> None:
    random = Random(seed)
    uses: dict[str, list[PlaceUse]] = {"input": [], "output": []}
    for address in range(0, 30, 3):
        cycle = 0
        while cycle < 90:
            stop = min(cycle + random.randint(1, 20), 90)
            one = PlaceUse(0, "t", "m", address, random.randint(1, 3), cycle, stop)
            uses[random.choice(["input", "output"])].append(one)
            cycle = stop + random.choice([0, 0, 7])
    boxes = [
        (kind, one.start, one.stop or 0, one.offset_bytes, one.offset_bytes + one.size_bytes)
        for kind, ones in uses.items()
        for one in ones
    ]
    cells: Json = address_cells(boxes, (90, 30), RESIDENCY_PAINTS)
    kinds = list(RESIDENCY_PAINTS)
    for address in range(30):
        for cycle in range(90):
            there = {
                kinds.index(kind)
                for kind, ones in uses.items()
                for one in ones
                if one.start <= cycle < (one.stop or 0) and 0 <= address - one.offset_bytes < one.size_bytes
            }
            found = cells["z"][address][cycle]
            assert ({found} if found is not None else set()) == there


@in_one_test("seed", range(20))
def test_periods_have_as_many_busy_cycles_as_the_slices_cycle_by_cycle(seed: int) -> None:
    total_cycles = Random(seed).choice((3, 499, 500, 1234))
    slices = random_slices(seed, total_cycles)
    periods = list(in_periods(slices, total_cycles))
    busy = Counter((one.lane, one.kind, cycle) for one in slices for cycle in range(one.start, one.stop))
    expected: Counter[tuple[str, str, int, int]] = Counter()
    count = min(PERIODS, total_cycles)
    edges = [total_cycles * number // count for number in range(count + 1)]
    for start, stop in pairwise(edges):
        for (lane, kind, cycle), times in busy.items():
            if start <= cycle < stop:
                expected[lane, kind, start, stop] += times
    found = {(one.lane, one.kind, one.start, one.stop): one.height / HEIGHT * one.cycles for one in periods}
    assert {key: cycles for key, cycles in found.items() if cycles} == pytest.approx(dict(expected))


@in_one_test("seed", range(20))
def test_kinds_of_one_period_stand_upon_each_other_within_their_lane(seed: int) -> None:
    levels: dict[tuple[str, int], float] = {}
    for one in in_periods(random_slices(seed, 5000), 5000):
        assert one.bottom == pytest.approx(levels.get((one.lane, one.start), 0.0))
        levels[one.lane, one.start] = one.bottom + one.height
    assert all(level <= HEIGHT * (1 + 1e-9) for level in levels.values())
