"""Rule 11: an output in bytes of an input, and each way in which that can be wrong."""

from __future__ import annotations

import pytest

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import DRAM, Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.verify.rules import Rule
from onchip.verify.verifier import Verdict, verify

SIZES = {"x": (8, Role.INPUT), "y": (8, Role.ACTIVATION), "z": (8, Role.OUTPUT), "side": (4, Role.OUTPUT)}
NETWORK = Graph(
    "overwriting",
    tuple(Tensor(name, size, role) for name, (size, role) in SIZES.items()),
    (
        Operator("first", "Relu", ("x",), ("y",), in_place=(InPlace("x", "y"),)),
        Operator("second", "Relu", ("y",), ("z",)),
        Operator("third", "Op", ("x",), ("side",)),
    ),
)
BEGIN: list[Instruction] = [Allocate("x", "sram", 0), Copy("x", DRAM, "sram")]
OVERWRITE: list[Instruction] = [Allocate("y", "sram", 0), Compute("first"), Free("x", "sram")]
SECOND: list[Instruction] = [
    *(Allocate("z", "sram", 8), Compute("second"), Free("y", "sram"), Copy("z", "sram", DRAM), Free("z", "sram")),
]
THIRD: list[Instruction] = [
    *(Allocate("x", "sram", 0), Copy("x", DRAM, "sram"), Allocate("side", "sram", 8), Compute("third")),
    Copy("side", "sram", DRAM),
]


def checked(*instructions: Instruction, network: Graph = NETWORK, capacity: int = 24) -> Verdict:
    memory = Memory("sram", capacity)
    return verify(Problem(network, (memory,)), Plan((memory,), instructions))


def rules(*instructions: Instruction) -> list[Rule]:
    return [one.rule for one in checked(*instructions).violations]


def test_an_output_takes_over_the_bytes_of_its_input() -> None:
    verdict = checked(*BEGIN, *OVERWRITE, *SECOND, *THIRD, capacity=16)
    assert verdict.is_legal
    assert verdict.figures.peak_bytes == 16  # y beside z; x and y are the same bytes
    assert verdict.figures.non_compulsory == 8  # x again


def test_without_the_pair_it_is_an_overlap() -> None:
    graph = Graph("apart", NETWORK.tensors, (Operator("first", "Relu", ("x",), ("y",)), *NETWORK.operators[1:]))
    found = checked(*BEGIN, *OVERWRITE, *SECOND, *THIRD, network=graph).violations
    assert [one.rule for one in found] == [Rule.OVERLAP]


@pytest.mark.parametrize("offset", [1, 4, 7])
def test_it_lies_where_the_pair_says(offset: int) -> None:
    allocate = Allocate("y", "sram", offset)
    assert rules(*BEGIN, allocate, *OVERWRITE[1:], *SECOND, *THIRD)[0] is Rule.OVERLAP


@pytest.mark.parametrize("copied", [Copy("x", "sram", DRAM), Copy("y", "sram", DRAM)])
def test_neither_is_copied_before_the_input_is_freed(copied: Copy) -> None:
    found = rules(*BEGIN, *OVERWRITE[:2], copied, OVERWRITE[2], *SECOND, *THIRD)
    assert found == [Rule.OVERWRITTEN_NOT_FREED]


def test_the_input_is_freed_before_anything_else_runs() -> None:
    allocated: list[Instruction] = [Allocate("z", "sram", 8), Compute("second"), Free("x", "sram")]
    assert rules(*BEGIN, *OVERWRITE[:2], *allocated, *SECOND[2:], *THIRD) == [Rule.OVERWRITTEN_NOT_FREED]


def test_no_other_operator_runs_in_between() -> None:
    side: list[Instruction] = [Allocate("side", "sram", 16), Compute("third"), Copy("side", "sram", DRAM)]
    found = rules(*BEGIN, OVERWRITE[0], *side, *OVERWRITE[1:], *SECOND)
    assert found == [Rule.OVERWRITTEN_NOT_FREED]


def test_the_input_is_not_freed_before_the_operator_has_run() -> None:
    assert Rule.OVERWRITTEN_NOT_FREED in rules(*BEGIN, OVERWRITE[0], OVERWRITE[2], OVERWRITE[1], *SECOND, *THIRD)


def test_the_input_is_freed_at_last() -> None:
    assert rules(*BEGIN, *THIRD[2:], *SECOND[:0], *OVERWRITE[:2])[-1] is Rule.OVERWRITTEN_NOT_FREED


def test_what_is_overwritten_and_read_again_has_to_be_loaded() -> None:
    side: list[Instruction] = [Allocate("side", "sram", 16), Compute("third"), Copy("side", "sram", DRAM)]
    assert rules(*BEGIN, *OVERWRITE, *SECOND, *side) == [Rule.OPERAND_NOT_RESIDENT]


def test_what_lies_beside_the_input_is_not_overwritten() -> None:
    """A third tensor in the rest of the bytes that the output would take."""
    graph = Graph(
        "joined",
        (Tensor("x", 4, Role.INPUT), Tensor("w", 4, Role.INPUT), Tensor("y", 8, Role.OUTPUT)),
        (Operator("join", "Concat", ("x", "w"), ("y",), in_place=(InPlace("x", "y"), InPlace("w", "y", -4))),),
    )
    loads: list[Instruction] = [Allocate("x", "sram", 0), Copy("x", DRAM, "sram"), Copy("w", DRAM, "sram")]
    ends: list[Instruction] = [Compute("join"), Free("x", "sram"), Free("w", "sram"), Copy("y", "sram", DRAM)]
    peaks = {4: 8, 6: None, 8: 12}
    for at, peak_bytes in peaks.items():
        program = (loads[0], Allocate("w", "sram", at), *loads[1:], Allocate("y", "sram", 0), *ends)
        verdict = checked(*program, network=graph)
        assert {one.rule for one in verdict.violations} == ({Rule.OVERLAP} if peak_bytes is None else set())
        assert peak_bytes in (None, verdict.figures.peak_bytes)


def test_parts_lie_in_the_whole_and_outlive_it() -> None:
    graph = Graph(
        "taken apart",
        (Tensor("x", 8, Role.INPUT), Tensor("low", 3, Role.OUTPUT), Tensor("high", 4, Role.OUTPUT)),
        (Operator("cut", "Split", ("x",), ("low", "high"), in_place=(InPlace("x", "low"), InPlace("x", "high", 3))),),
    )
    program: list[Instruction] = [
        *(Allocate("x", "sram", 2), Copy("x", DRAM, "sram"), Allocate("low", "sram", 2), Allocate("high", "sram", 5)),
        *(Compute("cut"), Free("x", "sram"), Copy("low", "sram", DRAM), Copy("high", "sram", DRAM)),
    ]
    verdict = checked(*program, network=graph, capacity=10)
    assert verdict.is_legal
    assert verdict.figures.peak_bytes == 8
    assert dict(verdict.figures.arenas) == {"sram": 10}
    free_again: list[Instruction] = [
        Allocate("x", "sram", 9),
        Copy("x", DRAM, "sram"),
    ]  # beside the parts, in what the whole has left
    assert checked(*program, *free_again, network=graph, capacity=17).is_legal
    assert not checked(*program, Allocate("x", "sram", 8), network=graph, capacity=17).is_legal
