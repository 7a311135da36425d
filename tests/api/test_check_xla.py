"""The verifier names each fault of an XLA buffer assignment, and the reduced size is the minimum."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onchip.api.check import AnswerCheck, CheckRequest, check_file
from onchip.api.target import Target
from onchip.errors import InputError
from onchip.verify.rules import Rule
from oracles.packing import least_capacity

DATA = Path(__file__).parents[1] / "data" / "xla"
RANGES = """HloLiveRange (max 9):
  InstructionSequence:
    0:x
  BufferLiveRange:
{}
  Live ranges at 3 (peak):
"""


def checked(
    folder: Path, size: int, *rows: tuple[str, int, int, int, int], kind: str = "preallocated-temp"
) -> AnswerCheck:
    """Check an assignment; rows are name, size, offset, first and last instruction."""
    values = "".join(
        f" value: <{at} {name} @0> (size={bytes_},offset={offset}): f32[{bytes_ // 4}]{{0}}\n"
        for at, (name, bytes_, offset, _, _) in enumerate(rows)
    )
    ranges = "\n".join(f"    {name}{{}}:{start}-{end}" for name, _, _, start, end in rows)
    file, lives = folder / "a-buffer-assignment.txt", folder / "a-live-range.txt"
    file.write_text(f"BufferAssignment:\nallocation 0: size {size}, {kind}:\n{values}")
    lives.write_text(RANGES.format(ranges))
    check = check_file(CheckRequest(file, str(lives)))
    assert isinstance(check, AnswerCheck)
    return check


def broken(check: AnswerCheck) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in check.violations]


def test_values_one_after_the_other_share_bytes(tmp_path: Path) -> None:
    assert checked(tmp_path, 64, ("a", 64, 0, 1, 2), ("b", 64, 0, 3, 4)).is_legal


def test_a_value_may_be_written_over_the_one_read_last(tmp_path: Path) -> None:
    check = checked(tmp_path, 64, ("a", 64, 0, 1, 3), ("b", 64, 0, 3, 4))
    assert check.is_legal
    assert check.not_checked == ["whether 1 value may be written over the one read last"]


def test_values_that_live_at_two_instructions_together_overlap(tmp_path: Path) -> None:
    check = checked(tmp_path, 128, ("a", 64, 0, 1, 4), ("b", 64, 32, 3, 5))
    assert broken(check) == [(Rule.OVERLAP, "b{}")]
    assert "'a{}'" in check.violations[0].detail


def test_two_values_that_begin_together_overlap(tmp_path: Path) -> None:
    assert broken(checked(tmp_path, 64, ("a", 64, 0, 3, 3), ("b", 64, 0, 3, 5))) == [(Rule.OVERLAP, "b{}")]


def test_a_value_within_the_life_of_another_overlaps(tmp_path: Path) -> None:
    assert broken(checked(tmp_path, 64, ("a", 64, 0, 1, 5), ("b", 64, 0, 3, 3))) == [(Rule.OVERLAP, "b{}")]


def test_a_value_that_ends_beyond_its_allocation_is_found(tmp_path: Path) -> None:
    assert broken(checked(tmp_path, 64, ("a", 64, 16, 1, 2))) == [(Rule.BEYOND_CAPACITY, "a{}")]


def test_parameters_are_verified_and_not_packed(tmp_path: Path) -> None:
    check = checked(tmp_path, 64, ("a", 64, 0, 1, 2), kind="parameter 0, shape |f32[16]| at ShapeIndex {}")
    assert check.is_legal
    assert check.recomputed == []


@pytest.mark.parametrize("seed", range(20))
def test_what_it_shrinks_to_is_the_least_there_is(seed: int, tmp_path: Path) -> None:
    """Compare with the exhaustive packing of closed live ranges, for values side by side."""
    random, at, rows = Random(seed), 0, []
    for number in range(5):
        start = random.randrange(6)
        size = 64 * random.randint(1, 4)
        rows.append((f"v{number}", size, at, start, start + random.randint(0, 3)))
        at += size
    check = checked(tmp_path, at, *rows)
    (figures,) = check.recomputed
    assert isinstance(figures["alignment_bytes"], int)
    least = least_capacity([(start, end + 1, size) for _, size, _, start, end in rows], figures["alignment_bytes"])
    assert figures["packed_bytes"] == least
    assert isinstance(figures["lower_bound_bytes"], int)
    assert figures["lower_bound_bytes"] <= least


def test_xla_s_own_dumps_are_legal() -> None:
    for name, values, size, packed in (("branches", 26, 524_800, 447_744), ("scan", 13, 2_180, 2_180)):
        check = check_file(CheckRequest(DATA / f"{name}-buffer-assignment.txt", str(DATA / f"{name}-live-range.txt")))
        assert isinstance(check, AnswerCheck)
        assert check.is_legal
        (figures,) = check.recomputed
        assert (figures["values"], figures["size_bytes"], figures["packed_bytes"]) == (values, size, packed)


@pytest.mark.parametrize(
    ("assignment", "ranges", "expected"),
    [
        ("BufferAssignment:\n", "HloLiveRange", "holds no allocation"),
        ("BufferAssignment:\nallocation 0: size x, temp:\n", "", "line 2 is no line of a buffer assignment"),
        ("BufferAssignment:\n value: <1 a @0> (size=1,offset=0): f\n", "", "line 2 is no line of a buffer"),
        ("BufferAssignment:\nallocation 0: size 1, temp:\n", "nothing", "holds no live ranges"),
        ("BufferAssignment:\nallocation 0: size 1, temp:\n", "HloLiveRange\n    a{}:3-2\n", "before it begins at 3"),
    ],
)
def test_what_is_no_dump_is_refused(assignment: str, ranges: str, expected: str, tmp_path: Path) -> None:
    file, lives = tmp_path / "a.txt", tmp_path / "b.txt"
    file.write_text(assignment)
    lives.write_text(ranges)
    with pytest.raises(InputError) as caught:
        check_file(CheckRequest(file, str(lives)))
    assert expected in str(caught.value)


def test_a_size_of_memory_is_refused() -> None:
    request = CheckRequest(DATA / "scan-buffer-assignment.txt", str(DATA / "scan-live-range.txt"), Target(sram=1024))
    with pytest.raises(InputError, match="XLA's buffer assignment says its own memory"):
        check_file(request)
