"""Packing, its features and fixed offsets, held against trying every place and MiniMalloc's published instances."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onchip as oc
from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.audits.finding import Ruling
from onchip.audits.packing import audit_arena
from onchip.errors import OnchipError
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate.exact import (
    Attempt,
    Knowledge,
    clipped,
    finding_of,
    least_arena_bytes,
    pack_by_cp_sat,
    requests_of,
)
from onchip.memory.allocate.pack import least_capacity, pack
from onchip.memory.allocate.sections import greatest_sum, sections_of
from onchip.native import least_arena
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from onchip.verify.rules import Rule
from oracles.packing import fits, most_bytes_alive
from support.diamond import Program
from support.packable import brimful, drawn_buffers, full_at_every_step, is_packable
from support.packing_features import faults
from support.series import HALVES, series

# Packing, held equal to trying every place, and to MiniMalloc's published instances


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


# Gaps, alignments, fixed offsets, memories and groups, held equal to trying every place


@pytest.mark.parametrize("seed", series(range(1, 11), 1))
def test_random_cases_agree_with_trying_every_place(seed: int) -> None:
    assert [fault for _, fault in faults(60, seed) if fault] == []


def test_another_buffer_uses_the_bytes_of_a_gap() -> None:
    buffers = {"a": Buffer(0, 9, 8, gaps=((3, 5),)), "b": Buffer(3, 5, 8), "c": Buffer(0, 9, 4)}
    found = oc.pack(buffers)
    assert (found.status, found.arena_bytes) == (Status.OPTIMAL, 12)
    assert found.offsets["a"] == found.offsets["b"]


def test_the_verifier_counts_gaps_and_alignments() -> None:
    problem = PackingProblem((Buffer(0, 9, 8, gaps=((3, 5),)), Buffer(2, 5, 8, alignment_bytes=4)), 16, 2)
    assert verify_packing(problem, Packing((0, 8))) == ()
    assert {one.rule for one in verify_packing(problem, Packing((0, 0)))} == {Rule.OVERLAP}
    assert {one.rule for one in verify_packing(problem, Packing((8, 2)))} == {Rule.MISALIGNED, Rule.OVERLAP}
    inside = PackingProblem((Buffer(0, 9, 8, gaps=((3, 5),)), Buffer(3, 5, 8)), 8)
    assert verify_packing(inside, Packing((0, 0)), 8) == ()


def test_the_audit_counts_gaps_and_alignments() -> None:
    buffers = (Buffer(0, 9, 8, None, 4, ((3, 5),)), Buffer(3, 6, 3), Buffer(0, 4, 3, None, 4))
    least = int(oc.pack(buffers).arena_bytes or 0)
    assert audit_arena(PackingProblem(buffers, 64), least, 20).ruling is Ruling.CONFIRMED
    assert audit_arena(PackingProblem(buffers, 64), least + 1, 20).ruling is Ruling.REFUTED


def test_each_allocation_may_end_with_a_buffer_that_is_not_padded() -> None:
    options = oc.PackOptions(splits=True, alignment_bytes=2)
    found = oc.pack({"a": Buffer(0, 1, 5), "b": Buffer(0, 1, 5)}, 5, options=options)
    assert (found.status, found.objective) == (Status.OPTIMAL, 2)


def test_a_conflict_is_named() -> None:
    found = oc.pack({"a": Buffer(0, 2, 6), "b": Buffer(1, 3, 5), "c": Buffer(4, 5, 9)}, 10)
    assert (found.status, found.conflict) == (Status.INFEASIBLE, ("a", "b"))


def test_memories_are_filled_by_preference() -> None:
    buffers = {"a": Buffer(0, 2, 6), "b": Buffer(0, 2, 5, memories=("slow",)), "c": Buffer(0, 2, 4)}
    found = oc.pack(buffers, memories=[oc.Memory("fast", 8), oc.Memory("slow", 16)])
    assert (found.status, found.objective) == (Status.OPTIMAL, 4)
    assert found.memories == {"a": "fast", "b": "slow", "c": "slow"}


@pytest.mark.parametrize(
    ("gaps", "alignment"), [(((0, 9),), 1), (((3, 2),), 1), (((2, 4), (3, 5)), 1), (((5, 10),), 1), ((), 0)]
)
def test_an_invalid_buffer_is_refused(gaps: tuple[tuple[int, int], ...], alignment: int) -> None:
    with pytest.raises(OnchipError):
        Buffer(0, 9, 8, None, alignment, gaps)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(OnchipError, match="no buffer 'z'"):
        oc.pack({"a": Buffer(0, 1, 1)}, 4, options=oc.PackOptions(together=(("a", "z"),)))
    with pytest.raises(OnchipError, match="may lie in 'dram'"):
        oc.pack({"a": Buffer(0, 1, 1, memories=("dram",))}, memories=[oc.Memory("sram", 4)])


# Packing with fixed offsets, held equal to trying every place


FILE = Path(__file__).parents[1] / "found" / "files" / "pack-fixed.csv"


def random_problem(random: Random) -> PackingProblem:
    """Return a tiny problem with a capacity that is always enough, unless fixed buffers overlap."""
    alignment = random.choice((1, 1, 2, 3))
    share, greatest = random.choice((0.2, 0.4, 0.7)), random.choice((3, 6))
    buffers = []
    for _ in range(random.randint(2, 6)):
        start = random.randint(0, 5)
        offset = alignment * random.randint(0, 7) if random.random() < share else None
        buffers.append(Buffer(start, start + random.randint(1, 4), random.randint(1, greatest), offset))
    problem = PackingProblem(tuple(buffers), 1, alignment)
    return replace(problem, capacity_bytes=problem.roomy_bytes)


def packs(problem: PackingProblem) -> bool:
    rectangles = [(one.start, one.stop, one.size_bytes) for one in problem.buffers]
    return fits(
        rectangles, problem.capacity_bytes, problem.alignment_bytes, [one.offset_bytes for one in problem.buffers]
    )


def least_capacity_of(problem: PackingProblem) -> int | None:
    """Return the least capacity by brute force over all places, or None if no capacity is enough."""
    capacities = range(1, problem.capacity_bytes + 1)
    return next((each for each in capacities if packs(replace(problem, capacity_bytes=each))), None)


def cases(group: int, count: int) -> list[PackingProblem]:
    random = Random(group)
    return [random_problem(random) for _ in range(count)]


@pytest.mark.parametrize("group", series(range(20), 2))
def test_the_least_arena_is_that_of_trying_every_place(group: int) -> None:
    for problem in cases(group, 250):
        result, least = least_capacity(problem, Run(Limits())), least_capacity_of(problem)
        if least is None:
            assert (result.status, result.answer) == (Status.INFEASIBLE, None), problem
            continue
        assert (result.status, result.objective_value, result.lower_bound) == (Status.OPTIMAL, least, least), problem
        assert result.answer is not None
        assert verify_packing(problem, result.answer, least) == ()
        assert pack(replace(problem, capacity_bytes=least), Run(Limits())).answer is not None
        tighter = pack(replace(problem, capacity_bytes=max(least - 1, 1)), Run(Limits()))
        assert least == 1 or tighter.status is Status.INFEASIBLE, problem


@pytest.mark.parametrize("group", series(range(20, 40), 2))
def test_the_exact_search_finds_a_packing_exactly_if_there_is_one(group: int) -> None:
    for problem in cases(group, 250):
        least = least_capacity_of(problem)
        top = problem.capacity_bytes if least is None else least
        for capacity in {max(top - 2, 1), max(top - 1, 1), top, top + 1}:
            asked = replace(problem, capacity_bytes=capacity)
            attempt = Attempt(asked, Run(Limits()))
            is_packed = attempt.search() is Knowledge.PACKED
            assert is_packed == packs(asked), asked
            assert not is_packed or verify_packing(asked, Packing(attempt.offsets_bytes or ())) == ()


@pytest.mark.slow
def test_bounds_are_never_above_the_least_arena() -> None:
    for problem in cases(40, 400):
        least = least_capacity_of(problem)
        overlaps = any(
            one.overlaps(other)
            and one.offset_bytes < other.offset_bytes + other.size_bytes
            and other.offset_bytes < one.offset_bytes + one.size_bytes
            for one, other in combinations(problem.buffers, 2)
            if one.offset_bytes is not None and other.offset_bytes is not None
        )
        assert least_arena(requests_of(problem))[1] == overlaps == (least is None)
        assert least is None or least_arena_bytes(problem) <= least


def test_greedy_packings_keep_fixed_buffers() -> None:
    for problem in (one for one in cases(41, 400) if not least_arena(requests_of(one))[1]):
        result = least_capacity(problem, Run(Limits()), 1)
        assert result.answer is not None
        assert verify_packing(problem, result.answer, result.objective_value) == ()


def test_cp_sat_and_the_audit_agree() -> None:
    for problem in cases(42, 40):
        least = least_capacity_of(problem)
        for capacity in {max((least or 9) - 1, 1), least or 9}:
            asked = replace(problem, capacity_bytes=capacity)
            assert (pack_by_cp_sat(asked, Run(Limits())).answer is not None) == packs(asked), asked
        if least is not None:
            assert audit_arena(problem, least, 20).ruling is Ruling.CONFIRMED
            assert audit_arena(problem, least + 1, 20).ruling is Ruling.REFUTED


def test_the_verifier_names_a_fixed_buffer_that_moved() -> None:
    problem = PackingProblem((Buffer(0, 2, 4, 8), Buffer(0, 2, 4)), 16)
    assert verify_packing(problem, Packing((8, 0))) == ()
    (violation,) = verify_packing(problem, Packing((4, 0)))
    assert (violation.rule, violation.subject) == (Rule.FIXED_MOVED, "buffer 0")


def test_a_file_with_fixed_offsets_is_packed_written_and_audited(onchip: Program, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    ended = onchip("pack", FILE, "--minimize", "-o", out, "--json")
    assert (ended.code, ended.json["arena_bytes"], ended.json["offsets"]["A"]) == (0, 192, 128)
    assert "A,0,4,64,128" in out.read_text().splitlines()
    assert onchip("audit", out, FILE, "--minimize").code == 0
    assert onchip("pack", FILE, "--capacity", "191").code == 3
    moved = tmp_path / "moved.csv"
    moved.write_text(out.read_text().replace("A,0,4,64,128", "A,0,4,64,192"))
    assert onchip("audit", moved, FILE, "--minimize").code == 2


@pytest.mark.parametrize(("options", "expected"), [(("--minimize", "--alignment", "3"), "a multiple of 3")])
def test_what_cannot_be_packed_with_fixed_offsets_is_refused(
    options: tuple[str, ...], expected: str, onchip: Program
) -> None:
    ended = onchip("pack", FILE, *options)
    assert ended.code == 2
    assert expected in ended.err


def test_fixed_buffers_that_overlap_are_infeasible(onchip: Program, tmp_path: Path) -> None:
    file = tmp_path / "overlap.csv"
    file.write_text("id,lower,upper,size,offset\na,0,4,64,0\nb,3,5,64,32\nc,0,5,1,\n")
    assert onchip("pack", file, "--minimize").code == 3
    assert onchip("pack", file, "--capacity", "1MiB").code == 3
