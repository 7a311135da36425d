from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from onchip.api.check import check_file
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.target import Target
from onchip.errors import InputError
from onchip.formats.tflite.arena import METADATA, read_arena_plan
from onchip.verify.rules import Rule
from support.tflite_models import TfliteOperator, TfliteTensor, network

PLACED = Target()


def planned(folder: Path, content: bytes) -> Path:
    """Write operators a -> b -> c over 64 bytes each, c reshaped to d, with that plan."""
    shape = TfliteTensor("shape", [2], "INT32", np.array([64, 1], np.int32))
    tensors = [TfliteTensor(name, [1, 64], "INT8") for name in "abc"] + [TfliteTensor("d", [64, 1], "INT8"), shape]
    operators = [
        TfliteOperator("RELU", "a", "b"),
        TfliteOperator("RELU", "b", "c"),
        TfliteOperator("RESHAPE", ["c", "shape"], "d"),
    ]
    model = network(tensors, operators, "a", "d")
    model.metadata = {METADATA: content}
    return model.write(folder / "planned.tflite")


def offsets(*places: int, count: int | None = None, version: int = 1) -> bytes:
    return np.array([version, 1, len(places) if count is None else count, *places], "<i4").tobytes()


def checked(folder: Path, places: Sequence[int], target: Target = PLACED) -> AnswerCheck:
    path = planned(folder, offsets(*places))
    check = check_file(CheckRequest(path, str(path), target))
    assert isinstance(check, AnswerCheck)
    return check


def broken(folder: Path, places: Sequence[int], target: Target = PLACED) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in checked(folder, places, target).violations]


@pytest.mark.parametrize("places", [(0, 64, 0, 0, -1), (64, 0, 64, 64, -1), (0, 64, 128, 0, -1), (0, 64, 0, -1, -1)])
def test_tensors_that_are_not_needed_at_once_may_share_bytes(places: Sequence[int], tmp_path: Path) -> None:
    assert broken(tmp_path, places) == []


def test_two_tensors_of_one_operator_share_no_byte(tmp_path: Path) -> None:
    assert broken(tmp_path, (0, 63, 0, 0, -1)) == [(Rule.OVERLAP, "b"), (Rule.OVERLAP, "c")]
    assert broken(tmp_path, (0, 64, 1, 1, -1)) == [(Rule.OVERLAP, "c")]


def test_a_view_lies_where_its_source_does_or_shares_no_byte_with_it(tmp_path: Path) -> None:
    assert broken(tmp_path, (0, 64, 0, 0, -1)) == []
    assert broken(tmp_path, (0, 64, 0, 32, -1)) == [(Rule.OVERLAP, "d")]
    assert broken(tmp_path, (0, 64, 0, 64, -1)) == []


def test_offsets_are_multiples_of_an_alignment_and_end_within_a_size_if_these_are_said(tmp_path: Path) -> None:
    assert broken(tmp_path, (0, 72, 0, 0, -1), Target(alignment_bytes=16)) == [(Rule.MISALIGNED, "b")]
    assert broken(tmp_path, (0, 64, 0, 0, -1), Target(sram=127)) == [(Rule.BEYOND_CAPACITY, "b")]
    assert broken(tmp_path, (0, 64, 0, 0, -1), Target(sram=128, alignment_bytes=16)) == []


def test_an_offset_below_the_arena_is_illegal(tmp_path: Path) -> None:
    assert (Rule.NEGATIVE_OFFSET, "a") in broken(tmp_path, (-64, 64, 0, 0, -1))


def test_an_offset_of_a_constant_is_not_checked_and_listed(tmp_path: Path) -> None:
    check = checked(tmp_path, (0, 64, 0, 0, 32))
    assert check.is_legal
    assert "the offsets of constants and empty tensors: shape" in check.not_checked
    assert broken(tmp_path, (0, 64, 0, 0, -3)) == [(Rule.NEGATIVE_OFFSET, "shape")]


def test_every_tensor_has_an_offset(tmp_path: Path) -> None:
    assert broken(tmp_path, (0, 64, 0, 0)) == [(Rule.OFFSETS_MISCOUNTED, "main")]


def test_what_the_runtime_decides_is_said_to_be_unchecked(tmp_path: Path) -> None:
    check = checked(tmp_path, (0, 64, -1, -1, -1))
    assert check.is_legal
    assert check.not_checked[0] == "where 2 tensors will lie, which the runtime decides"


def test_the_arena_and_the_bytes_that_live_at_once_are_recomputed(tmp_path: Path) -> None:
    (figures,) = checked(tmp_path, (0, 64, 128, 0, -1)).recomputed
    assert figures == {"names": "main", "tensors": 4, "arena_bytes": 192, "most_live_bytes": 128}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (offsets(0, 64, 0, 0, -1, version=2), "is of version 2"),
        (offsets(0, 64, count=3), "says 3 offsets and has 2"),
        (b"\1\0\0\0", "has 4 bytes"),
        (bytes(13), "has 13 bytes"),
        (b"", "has 0 bytes"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused(content: bytes, line: str, tmp_path: Path) -> None:
    path = planned(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_arena_plan(path)
    assert str(caught.value).startswith(f"{path}: metadata 'OfflineMemoryAllocation' {line}")


def test_a_file_without_a_plan_and_another_network_are_refused(tmp_path: Path) -> None:
    tensors = [TfliteTensor("x", [4]), TfliteTensor("y", [4])]
    path = network(tensors, [TfliteOperator("RELU", "x", "y")], "x", "y").write(tmp_path / "plain.tflite")
    with pytest.raises(InputError, match="holds no plan of an arena"):
        check_file(CheckRequest(path, str(path)))
    with pytest.raises(InputError, match="is of the network in it"):
        check_file(CheckRequest(path, "resnet50"))
    with pytest.raises(InputError, match="does not record it"):
        check_file(CheckRequest(path, str(path), insisted={"bits": 8}))
