"""End times of all activities of a schedule, compared with timelines drawn by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from onchip.answer.program import Compute, Copy
from onchip.arch.memory import Dma, Operand
from onchip.verify.schedule.costs import Clock, Expense
from onchip.verify.schedule.streaming import TileOperand
from support.programs import instructions

READS_X = (TileOperand("x", Operand.INPUT, ("x",)), TileOperand("y", Operand.OUTPUT, ("y",)))


def ended(
    program: str,
    cycles: Mapping[str, tuple[int, int]],
    homes: tuple[str | None, str | None],
    queues: int = 1,
    overwritten: Sequence[str] = ("x",),
) -> int:
    """Return the end cycle; operators read x and write y, which may take the bytes of `overwritten`.

    `cycles` maps `compute f` to own and DRAM cycles.
    """
    found = instructions(program)
    expenses = {}
    for number, one in enumerate(found):
        if isinstance(one, Compute | Copy):
            what = f"compute {one.operator}" if isinstance(one, Compute) else f"copy {one.tensor}"
            own, at_dram = cycles.get(what, (0, 0))
            workspaces = {"near": 4} if what == "compute f" and "f@workspace" in program else {}
            expenses[number] = Expense(0, own, 0, 0, at_dram, workspaces)
    sizes = {(name, "near"): 4 for name in ("x", "y", "z", "f@workspace")}
    where = dict(zip("xy", homes, strict=True))
    operands, homes_of = dict.fromkeys("fg", READS_X), dict.fromkeys("fg", where)
    return Clock(sizes, expenses, operands, homes_of, Dma(queues), {"y": overwritten}).run(found)


RESIDENT = """
allocate x near 0
copy x dram near
allocate y near 4
compute f
free x near
allocate z near 0
copy z dram near
copy y near dram
"""


def test_what_takes_no_cycles_ends_at_once() -> None:
    assert ended(RESIDENT, {}, ("near", "near")) == 0
    assert ended("compute f\ncompute g", {}, (None, None)) == 0


@pytest.mark.parametrize(
    ("cycles", "last"),
    [
        ({"copy x": (3, 0)}, 3),
        ({"compute f": (5, 0)}, 5),
        ({"copy x": (3, 0), "compute f": (5, 0)}, 8),
        ({"copy x": (3, 0), "compute f": (5, 0), "copy y": (2, 0)}, 10),
        ({"copy x": (3, 0), "compute f": (5, 0), "copy z": (7, 0), "copy y": (2, 0)}, 17),
        ({"copy x": (1, 4), "compute f": (1, 0), "copy z": (1, 4)}, 8),
        ({"copy x": (1, 9)}, 9),
    ],
)
def test_copies_and_computes_wait_for_bytes_places_and_turns(cycles: Mapping[str, tuple[int, int]], last: int) -> None:
    """The copy of z waits for the place of x, which the Compute reads, and the copy of y for the queue."""
    assert ended(RESIDENT, cycles, ("near", "near")) == last


@pytest.mark.parametrize(("queues", "last"), [(1, 12), (2, 10), (3, 10)])
def test_copies_of_several_queues_do_not_wait_for_each_other(queues: int, last: int) -> None:
    cycles = {"copy x": (3, 0), "compute f": (5, 0), "copy z": (2, 0), "copy y": (2, 0)}
    ahead = RESIDENT.replace("copy y near dram", "copy y near dram\nfree z near\nallocate z near 0\ncopy z dram near")
    assert ended(ahead, {**cycles, "copy z": (1, 0)}, ("near", "near"), queues) == last
    assert ended(RESIDENT, cycles, ("near", "near"), queues) == last


def test_streaming_computes_take_turns_at_dram() -> None:
    cycles = {"compute f": (2, 6), "compute g": (2, 1)}
    assert ended("compute f\ncompute g", cycles, (None, None)) == 8
    assert ended("compute g\ncompute f", cycles, (None, None)) == 8
    assert ended("compute f\ncompute g", {"compute f": (9, 6), "compute g": (2, 1)}, (None, None)) == 11


IN_PLACE = """
allocate x near 0
copy x dram near
copy x near dram
allocate y near 0
compute f
free x near
"""


def test_a_result_in_the_bytes_of_its_input_waits_for_the_copy_of_the_input() -> None:
    cycles = {"copy x": (3, 0), "compute f": (5, 0)}
    assert ended(IN_PLACE, cycles, ("near", "near")) == 11
    assert ended(IN_PLACE.replace("allocate y near 0", "allocate y near 4"), cycles, ("near", "near")) == 8


@pytest.mark.parametrize(("copy_x", "last"), [(0, 5), (3, 8)])
def test_a_result_in_the_bytes_of_its_input_waits_for_the_write_of_the_input(copy_x: int, last: int) -> None:
    program = IN_PLACE.replace("copy x near dram\n", "")
    assert ended(program, {"copy x": (copy_x, 0), "compute f": (5, 0)}, ("near", "near")) == last


def test_a_result_in_the_bytes_of_an_input_that_is_never_written_waits_for_nothing() -> None:
    program = "allocate x near 0\nallocate y near 0\ncompute f"
    assert ended(program, {"compute f": (5, 0)}, (None, "near")) == 5


def test_a_result_before_its_input_waits_for_no_use_of_the_input() -> None:
    program = IN_PLACE.replace("allocate x near 0", "allocate x near 4")
    assert ended(program, {"copy x": (3, 0), "compute f": (5, 0)}, ("near", "near")) == 8


def test_a_result_in_the_bytes_of_two_inputs_waits_for_the_last_use_of_either() -> None:
    """The last copy of x ends at 6, the last copy of z at 14."""
    copies = "copy x dram near\ncopy x near dram\ncopy z dram near\ncopy z near dram"
    program = f"allocate x near 0\nallocate z near 4\n{copies}\nallocate y near 2\ncompute f"
    cycles = {"copy x": (3, 0), "copy z": (4, 0), "compute f": (5, 0)}
    assert ended(program, cycles, ("near", "near"), overwritten="xz") == 19


def test_bytes_are_in_use_until_the_end_of_the_use_that_ends_last() -> None:
    """The operator reads x until 8, and the copy of x, which comes after it in the program, until 6."""
    uses = "allocate x near 0\ncopy x dram near\nallocate y near 4\ncompute f\ncopy x near dram\nfree x near"
    program = f"{uses}\nallocate z near 0\ncopy z dram near"
    cycles = {"copy x": (3, 0), "compute f": (5, 0), "copy z": (4, 0)}
    assert ended(program, cycles, ("near", "near"), queues=2) == 12


def test_a_residency_that_nothing_uses_leaves_its_bytes_as_they_were() -> None:
    unused = "allocate z near 0\nfree z near"
    program = f"allocate x near 0\ncopy x dram near\ncopy x near dram\nfree x near\n{unused}\n"
    read = f"{unused}\nallocate y near 0\ncopy y dram near"
    assert ended(program + read, {"copy x": (3, 0), "copy y": (1, 0)}, (None, None), queues=3) == 7


WITH_WORKSPACE = """
allocate z near 4
copy z dram near
free z near
allocate f@workspace near 4
compute f
free f@workspace near
allocate x near 4
copy x dram near
"""


def test_a_workspace_waits_for_its_bytes_and_others_for_the_workspace() -> None:
    cycles = {"copy z": (3, 0), "compute f": (4, 0), "copy x": (5, 0)}
    assert ended(WITH_WORKSPACE, cycles, (None, None)) == 12


def test_what_streams_is_in_dram_when_its_writer_ends() -> None:
    program = "compute f\nallocate y near 0\ncopy y dram near"
    assert ended(program, {"compute f": (4, 1), "copy y": (2, 2)}, (None, None)) == 6
    copied = "allocate x near 0\ncopy x dram near\ncopy x near dram\nfree x near\ncompute f"
    assert ended(copied, {"copy x": (2, 0), "compute f": (1, 0)}, (None, None)) == 5
