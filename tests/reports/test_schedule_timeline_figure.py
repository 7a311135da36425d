from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from onchip.reports.schedule.timeline_figure import (
    HEIGHT,
    PERIODS,
    TimelineSlice,
    in_periods,
    slices_of,
    timeline_figure,
)
from support.diamond import Json
from support.schedule_outcomes import three_in_tiles


def random_slices(seed: int, total_cycles: int) -> list[TimelineSlice]:
    """Two lanes, on each one slice after the other, some of no length."""
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


def test_every_compute_copy_and_turn_at_dram_is_drawn_from_its_start_to_its_stop(tmp_path: Path) -> None:
    outcome = three_in_tiles(tmp_path)
    assert outcome.figures is not None
    timeline = outcome.figures.timeline
    figure: Json = timeline_figure(timeline, 1)
    drawn = Counter(
        (lane, start, start + cycles)
        for trace in figure["traces"]
        for lane, start, cycles in zip(trace["y"], trace["base"], trace["x"], strict=True)
    )
    expected = Counter(("array" if one.queue is None else "DMA 0", one.start, one.stop) for one in timeline.activities)
    expected.update(("DRAM", one.start, one.start + one.dram_cycles) for one in timeline.activities if one.dram_cycles)
    assert drawn == expected
    assert figure["x"] == [0, timeline.latency_cycles]
    assert {kind for one in slices_of(timeline.activities) for kind in [one.kind]} >= {
        "compute",
        "load",
        "turn at DRAM",
    }


@pytest.mark.parametrize("seed", range(20))
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


@pytest.mark.parametrize("seed", range(20))
def test_kinds_of_one_period_stand_upon_each_other_within_their_lane(seed: int) -> None:
    levels: dict[tuple[str, int], float] = {}
    for one in in_periods(random_slices(seed, 5000), 5000):
        assert one.bottom == pytest.approx(levels.get((one.lane, one.start), 0.0))
        levels[one.lane, one.start] = one.bottom + one.height
    assert all(level <= HEIGHT * (1 + 1e-9) for level in levels.values())
