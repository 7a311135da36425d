"""Checks of Vela's and XLA's files."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onchip.api.check import check_file
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.target import Target
from onchip.errors import InputError
from onchip.verify.rules import Rule
from oracles.packing import least_capacity
from support.micro_models import int8
from support.tflite_models import TfliteOperator, network

HEADER = """Warning: No memory mode specified.
################################################################################
Allocation, memory Sram, usage mask: FeatureMap|Staging
Start Time - End Time  : Start Addr -   End Addr: Tensor Size: Memory Usage: Format         : Name
"""
ROWS = (
    "         0 -          1:        0x0 -       0x40:          64:          128: NHWC           : x",
    "         0 -          3:       0x40 -       0x80:          64:          128: NHCWB16        : a",
    "         2 -          3:        0x0 -       0x40:          64:          128: NHWC           : y",
)
FOOTER = "Allocation Peak Tensor Size: 128 bytes == 0.125 KiB\n"


def checked(folder: Path, *rows: str, footer: str = FOOTER) -> AnswerCheck:
    operators = [TfliteOperator("RELU", ["x"], ["a"]), TfliteOperator("RELU", ["a"], ["y"])]
    model = network([int8(name, 1, 64) for name in "xay"], operators, ["x"], ["y"]).write(folder / "m.tflite")
    file = folder / "vela.txt"
    file.write_text(HEADER + "".join(f"{row}\n" for row in rows) + footer)
    check = check_file(CheckRequest(file, str(model)))
    assert isinstance(check, AnswerCheck)
    return check


def broken(folder: Path, *rows: str, footer: str = FOOTER) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in checked(folder, *rows, footer=footer).violations]


def test_an_allocation_is_legal_and_its_figures_are_recomputed(tmp_path: Path) -> None:
    check = checked(tmp_path, *ROWS)
    assert check.is_legal
    (figures,) = check.recomputed
    assert figures == {"names": "Sram (FeatureMap|Staging)", "tensors": 3, "arena_bytes": 128, "most_live_bytes": 128}


def test_the_end_of_a_time_range_belongs_to_it(tmp_path: Path) -> None:
    until_2 = ROWS[0].replace("0 -          1:", "0 -          2:")
    assert broken(tmp_path, until_2, *ROWS[1:]) == [(Rule.OVERLAP, "y")]


def test_two_names_of_one_buffer_share_it(tmp_path: Path) -> None:
    assert broken(tmp_path, *ROWS, ROWS[1].replace(": a", ": b")) == []
    later = ROWS[1].replace("0 -          3:", "1 -          3:").replace(": a", ": b")
    assert broken(tmp_path, *ROWS, later) == [(Rule.OVERLAP, "b")]


def test_places_are_multiples_of_16(tmp_path: Path) -> None:
    moved = ROWS[1].replace("0x40 -       0x80", "0x48 -       0x88")
    footer = FOOTER.replace("128 bytes", "136 bytes")
    assert broken(tmp_path, ROWS[0], moved, ROWS[2], footer=footer) == [(Rule.MISALIGNED, "a")]


@pytest.mark.parametrize("said", [127, 129])
def test_the_peak_is_the_end_of_the_highest_tensor(said: int, tmp_path: Path) -> None:
    footer = FOOTER.replace("128 bytes", f"{said} bytes")
    assert broken(tmp_path, *ROWS, footer=footer) == [(Rule.ARENA_MISCOUNTED, "Sram (FeatureMap|Staging)")]


def test_inputs_and_outputs_are_whole(tmp_path: Path) -> None:
    half = ROWS[2].replace("0x40:          64:", "0x20:          32:")
    assert broken(tmp_path, *ROWS[:2], half) == [(Rule.OUTPUT_NOT_RESIDENT, "y")]
    half = ROWS[0].replace("0x40:          64:", "0x20:          32:")
    assert broken(tmp_path, half, *ROWS[1:]) == [(Rule.OPERAND_NOT_RESIDENT, "x")]
    assert broken(tmp_path, ROWS[0], ROWS[2], footer=FOOTER.replace("128 bytes", "64 bytes")) == []


def test_what_is_not_listed_is_said_to_be_unchecked(tmp_path: Path) -> None:
    """Vela renames some tensors, and does not list the tensors that it leaves to the host."""
    check = checked(tmp_path, *ROWS[1:])
    assert check.is_legal
    assert check.not_checked[0] == "where 'x' lies, which it does not list under that name"


@pytest.mark.parametrize(
    ("rows", "footer", "line"),
    [
        ((ROWS[0], "nonsense"), FOOTER, "line 6 is no row of the table it stands in"),
        ((ROWS[0].replace("64:", "65:"),), FOOTER, "line 5: 65 bytes over [0, 1] do not lie at 0 to 64"),
        ((ROWS[0].replace("0 -          1:", "2 -          1:"),), FOOTER, "line 5: 64 bytes over [2, 1] do not lie"),
        ((ROWS[0].replace("0 -          1:", f"0 - {10**20}:"),), FOOTER, "line 5 is no row of the table"),
        ((ROWS[0],), "", "line 3: its table breaks off"),
    ],
)
def test_what_cannot_be_read_is_one_line(rows: tuple[str, ...], footer: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        checked(tmp_path, *rows, footer=footer)
    assert str(caught.value).startswith(f"{tmp_path / 'vela.txt'}: {line}")


def test_a_file_without_a_table_and_options_that_it_does_not_take_are_refused(tmp_path: Path) -> None:
    checked(tmp_path, *ROWS)
    file, model = tmp_path / "vela.txt", str(tmp_path / "m.tflite")
    with pytest.raises(InputError, match="says its own memories"):
        check_file(CheckRequest(file, model, Target(sram=4096)))
    with pytest.raises(InputError, match="does not record it"):
        check_file(CheckRequest(file, model, insisted={"bits": 8}))
    file.write_text("Network summary for m\n")
    with pytest.raises(InputError, match="the file has an unknown format"):
        check_file(CheckRequest(file, model))


# The verifier names each fault of an XLA buffer assignment, and the reduced size is the minimum


DATA = Path(__file__).parents[1] / "data" / "xla"
RANGES = """HloLiveRange (max 9):
  InstructionSequence:
    0:x
  BufferLiveRange:
{}
  Live ranges at 3 (peak):
"""


def checked_xla(
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


def broken_xla(check: AnswerCheck) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in check.violations]


def test_values_one_after_the_other_share_bytes(tmp_path: Path) -> None:
    assert checked_xla(tmp_path, 64, ("a", 64, 0, 1, 2), ("b", 64, 0, 3, 4)).is_legal


def test_a_value_may_be_written_over_the_one_read_last(tmp_path: Path) -> None:
    check = checked_xla(tmp_path, 64, ("a", 64, 0, 1, 3), ("b", 64, 0, 3, 4))
    assert check.is_legal
    assert check.not_checked == ["whether 1 value may be written over the one read last"]


def test_values_that_live_at_two_instructions_together_overlap(tmp_path: Path) -> None:
    check = checked_xla(tmp_path, 128, ("a", 64, 0, 1, 4), ("b", 64, 32, 3, 5))
    assert broken_xla(check) == [(Rule.OVERLAP, "b{}")]
    assert "'a{}'" in check.violations[0].detail


def test_two_values_that_begin_together_overlap(tmp_path: Path) -> None:
    assert broken_xla(checked_xla(tmp_path, 64, ("a", 64, 0, 3, 3), ("b", 64, 0, 3, 5))) == [(Rule.OVERLAP, "b{}")]


def test_a_value_within_the_life_of_another_overlaps(tmp_path: Path) -> None:
    assert broken_xla(checked_xla(tmp_path, 64, ("a", 64, 0, 1, 5), ("b", 64, 0, 3, 3))) == [(Rule.OVERLAP, "b{}")]


def test_a_value_that_ends_beyond_its_allocation_is_found(tmp_path: Path) -> None:
    assert broken_xla(checked_xla(tmp_path, 64, ("a", 64, 16, 1, 2))) == [(Rule.BEYOND_CAPACITY, "a{}")]


def test_parameters_are_verified_and_not_packed(tmp_path: Path) -> None:
    check = checked_xla(tmp_path, 64, ("a", 64, 0, 1, 2), kind="parameter 0, shape |f32[16]| at ShapeIndex {}")
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
    check = checked_xla(tmp_path, at, *rows)
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
