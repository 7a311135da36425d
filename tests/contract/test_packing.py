"""Packing, held equal to trying every place, and to MiniMalloc's published instances."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.exact import Attempt, Knowledge, clipped, finding_of, least_arena_bytes, pack_by_cp_sat
from onchip.memory.allocate.pack import least_capacity, pack
from onchip.memory.allocate.sections import greatest_sum, sections_of
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from oracles.packing import most_bytes_alive
from support.packable import brimful, drawn_buffers, full_at_every_step, is_packable
from support.series import HALVES, series

INSTANCES = Path(__file__).parent.parent / "data" / "minimalloc"
CAPACITY = 1048576


@st.composite
def problems(draw: st.DrawFn, greatest_size: int = 6) -> PackingProblem:
    """Draw a tiny problem, often with a full memory."""
    found = tuple(draw(drawn_buffers(greatest_size, 9)))
    alignment = draw(st.sampled_from((1, 1, 2, 3)))
    rectangles = tuple((b.start, b.stop, b.size_bytes) for b in found)
    capacity = most_bytes_alive(rectangles) + draw(st.integers(0, 4))
    return PackingProblem(found, capacity, alignment)


def is_legal(problem: PackingProblem, packing: Packing | None) -> bool:
    return packing is not None and verify_packing(problem, packing) == ()


def instance(name: str) -> PackingProblem:
    return PackingProblem(read_buffers(INSTANCES / f"{name}.{CAPACITY}.csv").buffers, CAPACITY)


@HALVES
@settings(max_examples=120, deadline=None)
@given(problem=problems())
def test_the_exact_search_alone_agrees_with_trying_every_place(half: int, problem: PackingProblem) -> None:
    attempt = Attempt(problem, Run())

    finding = attempt.search()

    assert finding is (Knowledge.PACKED if is_packable(problem) else Knowledge.UNPACKABLE)
    if finding is Knowledge.PACKED:
        assert is_legal(problem, Packing(attempt.offsets_bytes or ()))


@pytest.mark.parametrize("part", series(range(2), 1))
def test_brimful_problems_are_packed_or_proven_unpackable(part: int) -> None:
    problems = [problem for seed in range(2000 * part, 2000 * (part + 1)) if (problem := brimful(seed)) is not None]

    findings = [Attempt(problem, Run()).search() for problem in problems]

    assert findings == [Knowledge.PACKED if is_packable(p) else Knowledge.UNPACKABLE for p in problems]
    assert findings.count(Knowledge.UNPACKABLE) >= 20


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_the_core_packs_exactly_if_the_whole_does(problem: PackingProblem) -> None:
    core = Attempt(problem, Run()).core

    assert is_packable(problem, [problem.buffers[index] for index in core]) is is_packable(problem)


@settings(max_examples=30, deadline=None)
@given(problem=problems())
def test_cp_sat_agrees_with_trying_every_place(problem: PackingProblem) -> None:
    result = pack_by_cp_sat(problem, Run(), 20)

    assert (result.answer is not None) is is_packable(problem)
    if result.answer is not None:
        assert is_legal(problem, result.answer)


@settings(max_examples=40, deadline=None)
@given(problem=problems(greatest_size=3))
def test_no_packing_is_below_the_bound(problem: PackingProblem) -> None:
    below = PackingProblem(problem.buffers, least_arena_bytes(problem) - 1, problem.alignment_bytes)

    assert below.capacity_bytes == 0 or not is_packable(below)


def test_an_unpackable_stretch_is_unpackable_and_shorter_than_the_whole() -> None:
    found = 0
    for seed in range(120):
        parts = [full_at_every_step(Random(3 * seed + part), 8, 6, 4, 0.45) for part in range(3)]
        shifted = [
            replace(one, start=one.start + 8 * part, stop=one.stop + 8 * part)
            for part, buffers in enumerate(parts)
            for one in buffers
        ]
        problem = PackingProblem(tuple(shifted), 6)
        attempt = Attempt(problem, Run())
        is_open = attempt.go_on(1) is Knowledge.OPEN
        stretches = attempt.unpackable_stretches() if is_open else [attempt.stretch] if attempt.stretch else []
        for stretch in stretches:
            found += len(stretch) < len(problem.steps)
            assert not is_packable(clipped(problem, stretch))
    assert found >= 2


def test_sections_are_the_largest_sets_that_live_at_once() -> None:
    buffers = (Buffer(0, 3, 1), Buffer(1, 4, 1), Buffer(3, 5, 1), Buffer(7, 9, 1))

    spans, steps = sections_of(buffers)

    assert spans == [(0, 1), (0, 2), (1, 2), (2, 3)]
    assert steps == [1, 3, 7]


def test_the_greatest_sum_within_a_limit() -> None:
    assert greatest_sum([6, 6, 10], 15) == 12
    assert greatest_sum([6, 6, 10], 100) == 22
    assert greatest_sum([5], 4) == 0


@pytest.mark.parametrize("name", ["B", "E", "F", "G", "H", "I"])
def test_minimalloc_instances_pack_at_their_capacity(name: str) -> None:
    problem = instance(name)

    result = pack(problem, Run())

    assert result.answer is not None
    assert verify_packing(problem, result.answer) == ()


def test_full_instances_do_not_pack_in_a_byte_less() -> None:
    problem = instance("A")

    result = pack(PackingProblem(problem.buffers, CAPACITY - 1), Run())

    assert (result.status, result.lower_bound) == (Status.INFEASIBLE, CAPACITY)


def test_three_large_buffers_in_a_row_that_cannot_all_be_moved_around_do_not_pack() -> None:
    """The core of a byte-optimal schedule of NASNet-A: each moment fits, each transition fits, the three do not."""
    core = (
        "182-218:6 182-217:1 182-183:6 182-216:1 193-217:1 204-217:1 206-217:1 209-217:1 215-217:1 216-256:6 "
        "217-219:6 218-255:1 219-221:6 220-254:1 231-255:1 242-255:1 244-255:1 247-255:1 253-255:1 254-293:6 "
        "255-257:6 256-293:1 257-259:6 258-292:1 269-293:1 280-293:1 282-293:1 285-293:1 291-293:1 292-293:6"
    )
    buffers = []
    for text in core.split():
        life, size = text.split(":")
        start, stop = life.split("-")
        buffers.append(Buffer(int(start), int(stop), int(size)))
    problem = PackingProblem(tuple(buffers), 18)

    assert least_arena_bytes(problem) == 18
    assert finding_of(problem, Run(), 100_000) is Knowledge.UNPACKABLE
    assert pack_by_cp_sat(problem, Run(), 60).status is Status.INFEASIBLE
    for left_out in range(len(buffers)):
        rest = PackingProblem((*problem.buffers[:left_out], *problem.buffers[left_out + 1 :]), 18)
        assert is_legal(rest, pack(rest, Run()).answer)


def test_nothing_to_pack_is_packed() -> None:
    result = pack(PackingProblem((), 1), Run())

    assert (result.status, result.answer, result.objective_value) == (Status.OPTIMAL, Packing(()), 0)


def _without_end() -> SearchResult[Packing]:
    """Return the result after 1.5 s on an instance whose minimum arena stays unproven for long."""
    problem = instance("J")
    return least_capacity(problem, Run(Limits(time_limit_seconds=1.5)))


@pytest.mark.slow
def test_a_time_limit_holds_and_leaves_the_best_packing() -> None:
    result = _without_end()

    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.TIME_LIMIT)
    assert result.answer is not None
    assert verify_packing(instance("J"), result.answer) == ()
    assert result.lower_bound <= (result.objective_value or 0)


@pytest.mark.slow
def test_an_interruption_ends_the_compiled_search_at_once() -> None:
    pack(instance("E"), Run())
    run = Run()
    attempt = Attempt(PackingProblem(instance("D").buffers, 990_000), run)
    threading.Timer(0.3, run.interrupt.set).start()

    finding = attempt.search()

    assert finding is Knowledge.OPEN


def test_another_solver_is_not_even_imported_when_there_is_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)  # importing it raises
    run = Run(Limits(time_limit_seconds=0))
    result = pack_by_cp_sat(PackingProblem((Buffer(0, 1, 1),), 1), run, 1.0)
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.TIME_LIMIT)
