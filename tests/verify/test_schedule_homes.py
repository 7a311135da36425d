"""Homes of operands, found without workspaces, compared with the replay of whole programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.verify.schedule.streaming import HomesOfProgram
from support.schedule_programs import ProgramCase, operands_of, random_program, replayed


def homes_in(case: ProgramCase, program: Sequence[Instruction]) -> Mapping[str, Mapping[str, str | None]]:
    return HomesOfProgram(case.program.memories, operands_of(case.graph)).run(program)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_homes_are_those_of_the_replay(first: int) -> None:
    found = set()
    for seed in range(first, first + 100):
        case = random_program(seed)
        homes = homes_in(case, case.program.instructions)
        assert homes == replayed(case, case.program.instructions).homes, seed
        found |= {home for of_operator in homes.values() for home in of_operator.values()}
    assert found >= {None, "memory0", "memory1"}


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_homes_are_those_of_the_replay_also_where_a_program_is_wrong(first: int) -> None:
    """Wrong programs leave an instruction out, repeat it, or move it: both derivations read the same intent."""
    wrong = 0
    for seed in range(first, first + 100):
        case, random = random_program(seed), Random(seed)
        program = list(case.program.instructions)
        moved = program.pop(random.randrange(len(program)))
        for _ in range(random.randrange(3)):
            program.insert(random.randrange(len(program) + 1), moved)
        replay = replayed(case, program)
        assert homes_in(case, program) == replay.homes, seed
        wrong += bool(replay.report.violations)
    assert wrong > 50


def test_names_that_stand_for_nothing_are_passed_over() -> None:
    case = random_program(0)
    strange: list[Instruction] = [
        Allocate("nothing", "nowhere", 0),
        Copy("nothing", "nowhere", "memory0"),
        Copy("nothing", "memory0", "nowhere"),
        Free("nothing", "memory0"),
        Free("nothing", "nowhere"),
        Compute("nobody"),
    ]
    assert homes_in(case, [*strange, *case.program.instructions]) == homes_in(case, case.program.instructions)
