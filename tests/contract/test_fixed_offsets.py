"""Packing with fixed offsets, held equal to trying every place."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.result import Status
from onchip.audits.finding import Ruling
from onchip.audits.packing import audit_arena
from onchip.memory.allocate.exact import Attempt, Knowledge, least_arena_bytes, pack_by_cp_sat, requests_of
from onchip.memory.allocate.pack import least_capacity, pack
from onchip.native import least_arena
from onchip.search.budget.limits import Limits, Run
from onchip.verify.packing import verify_packing
from onchip.verify.rules import Rule
from oracles.packing import fits
from support.diamond import Program
from support.series import series

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
