"""The exported tables compile without warnings, and a C program walks them with the header alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.memory import Memory
from onchip.backends.c.calls import number, string, unique_identifiers
from onchip.backends.c.exports import c_program, header_of, source_of
from onchip.errors import PlanError
from onchip.ir.operator import Operator
from support.exported import BY_HAND, figures_of, planned
from support.programs import CHAIN
from support.several import REQUESTS, real_plan

WALKER = Path(__file__).parent / "walk_plan.c"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
WALKS = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def walk(problem: Problem, plan: Plan, folder: Path, name: str = "plan") -> str:
    """Return the output of the C program that walks the tables; it ends with an error if they are inconsistent."""
    program = c_program(problem, plan, name)
    (folder / f"{name}.h").write_text(header_of(program))
    (folder / f"{name}.c").write_text(source_of(program, f"{name}.h"))
    names = (
        f"-DPLAN_HEADER=<{name}.h>",
        f"-DIN_CAPITALS(what)={program.prefix}_##what",
        f"-DPLAN(what)={program.stem}_##what",
    )
    command = ("cc", *STRICT, f"-I{folder}", *names, folder / f"{name}.c", WALKER, "-o", folder / "walk")
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert built.returncode == 0, built.stderr
    ended = subprocess.run([folder / "walk"], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode(errors="surrogateescape")


def read_back(printed: str) -> tuple[tuple[Instruction, ...], dict[str, int]]:
    """Return the program that was walked, and its totals; fields end in tabs, lines in the byte 1."""
    instructions: list[Instruction] = []
    totals: dict[str, int] = {}
    for line in printed.split("\x01")[:-1]:
        match line.split("\t"):
            case ["allocate", tensor, memory, offset]:
                instructions.append(Allocate(tensor, memory, int(offset)))
            case ["copy", tensor, source, target]:
                instructions.append(Copy(tensor, source, target))
            case ["compute", operator]:
                instructions.append(Compute(operator))
            case ["free", tensor, memory]:
                instructions.append(Free(tensor, memory))
            case ["total", what, value]:
                totals[what] = int(value)
            case _:
                raise AssertionError(line)
    return tuple(instructions), totals


def the_walk_finds_the_plan(problem: Problem, plan: Plan, folder: Path) -> None:
    instructions, totals = read_back(walk(problem, plan, folder))
    assert instructions == plan.instructions
    figures = figures_of(problem, plan)
    arenas = {f"arena {name}": arena_bytes for name, arena_bytes in figures.arenas}
    assert totals == {
        "loads": figures.loads,
        "write-backs": figures.write_backs,
        "moved": figures.moved,
        "peak": figures.peak_bytes,
        "operators": len(problem.graph.operators),
        "resident at the end": sum(isinstance(line, Allocate) for line in plan.instructions)
        - sum(isinstance(line, Free) for line in plan.instructions),
        **arenas,
    }


@WALKS
@pytest.mark.parametrize("name", BY_HAND)
def test_the_tables_of_a_plan_by_hand_can_be_walked(name: str, tmp_path: Path) -> None:
    the_walk_finds_the_plan(BY_HAND[name].problem, BY_HAND[name].plan, tmp_path)


@WALKS
@pytest.mark.parametrize("name", REQUESTS)
def test_the_tables_of_a_plan_for_several_scratchpads_can_be_walked(name: str, tmp_path: Path) -> None:
    the_walk_finds_the_plan(*real_plan(name), tmp_path)


@pytest.mark.slow
@WALKS
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(planned())
def test_the_tables_of_a_random_plan_can_be_walked(tmp_path: Path, made: tuple[Problem, Plan]) -> None:
    the_walk_finds_the_plan(*made, tmp_path)


def renamed(names: dict[str, str]) -> tuple[Problem, Plan]:
    """Return CHAIN under other names of tensors, operators and the scratchpad."""

    def new(name: str) -> str:
        return names.get(name, name)

    def operator(old: Operator) -> Operator:
        inputs, outputs = (tuple(map(new, tensors)) for tensors in (old.inputs, old.outputs))
        return replace(old, name=new(old.name), inputs=inputs, outputs=outputs)

    graph = CHAIN.problem.graph
    tensors = tuple(replace(tensor, name=new(tensor.name)) for tensor in graph.tensors)
    operators = tuple(operator(old) for old in graph.operators)
    memories = tuple(replace(memory, name=new(memory.name)) for memory in CHAIN.problem.memories)
    lines: list[Instruction] = []
    for line in CHAIN.plan.instructions:
        match line:
            case Allocate(tensor, memory, offset):
                lines.append(Allocate(new(tensor), new(memory), offset))
            case Copy(tensor, source, target):
                lines.append(Copy(new(tensor), new(source), new(target)))
            case Free(tensor, memory):
                lines.append(Free(new(tensor), new(memory)))
            case Compute(name):
                lines.append(Compute(new(name)))
    changed = replace(graph, tensors=tensors, operators=operators)
    return replace(CHAIN.problem, graph=changed, memories=memories), Plan(memories, tuple(lines))


@WALKS
@pytest.mark.parametrize(
    "names",
    [
        {"x": 'a"b\\c', "a": "*/ /* //", "y": "??/ %s ??=", "f": "line\nend\r", "g": "é中\x7f\x02"},
        {"x": "a.b", "a": "a/b", "y": "A_B", "f": "int", "g": "INT"},
        {"x": "s", "a": "s_2", "y": "S", "f": "1", "g": "_"},
        {"sram": "DRAM", "x": "count", "a": "DRAM", "y": "SRAM"},
        {"sram": "on chip\n#define x", "x": "dos\\"},
        {"x": "éa1", "a": "éa2", "y": "Éa"},
        {"x": "n" * 3000, "a": "n" * 3000 + "a"},
    ],
    ids=["strings", "identifiers", "numbered", "reserved", "scratchpad", "accents", "long"],
)
def test_any_name_can_be_written(names: dict[str, str], tmp_path: Path) -> None:
    the_walk_finds_the_plan(*renamed(names), tmp_path)


@WALKS
@pytest.mark.parametrize("name", ["2-plans", "int", "ÉTÉ", "_", "uint8_t"])
def test_any_file_name_can_be_written(name: str, tmp_path: Path) -> None:
    instructions, _ = read_back(walk(CHAIN.problem, CHAIN.plan, tmp_path, name))

    assert instructions == CHAIN.plan.instructions


@WALKS
def test_two_plans_can_be_in_one_program(tmp_path: Path) -> None:
    for name in ("one", "two"):
        program = c_program(CHAIN.problem, CHAIN.plan, name)
        (tmp_path / f"{name}.h").write_text(header_of(program))
        (tmp_path / f"{name}.c").write_text(source_of(program, f"{name}.h"))
    main = '#include "one.h"\n#include "two.h"\nint main(void) { return ONE_TENSORS == TWO_TENSORS ? 0 : 1; }\n'
    (tmp_path / "main.c").write_text(main)
    files = [tmp_path / name for name in ("one.c", "two.c", "main.c")]
    subprocess.run(["cc", *STRICT, *files, "-o", tmp_path / "both"], check=True, timeout=60)
    subprocess.run([tmp_path / "both"], check=True, timeout=60)


@WALKS
def test_sizes_beyond_32_bits_are_written(tmp_path: Path) -> None:
    large = tuple(replace(tensor, size_bytes=tensor.size_bytes << 40) for tensor in CHAIN.problem.graph.tensors)
    memories = (Memory("sram", 2**64 - 1, 1 << 40),)
    problem = replace(CHAIN.problem, graph=replace(CHAIN.problem.graph, tensors=large), memories=memories)
    lines = tuple(
        replace(line, offset_bytes=line.offset_bytes << 40) if isinstance(line, Allocate) else line
        for line in CHAIN.plan.instructions
    )

    the_walk_finds_the_plan(problem, Plan(memories, lines), tmp_path)


def test_the_arena_is_a_macro() -> None:
    header = header_of(c_program(CHAIN.problem, CHAIN.plan, "plan"))

    assert "#define PLAN_ARENA_BYTES_SRAM 12u\n" in header
    assert "typedef uint32_t plan_bytes;" in header


def test_numbers_beyond_64_bits_and_strings_beyond_c_are_refused() -> None:
    with pytest.raises(PlanError, match=f"a size is {2**64}"):
        number(2**64, "a size")
    with pytest.raises(PlanError, match="5000 bytes"):
        string("n" * 5000)


@given(st.lists(st.text("ab_2.é", max_size=3)))
def test_identifiers_are_unique_whatever_the_names(names: list[str]) -> None:
    found = unique_identifiers("P_", names)

    assert len(set(found)) == len(names)
    assert all(re.fullmatch("P_[A-Z0-9_]*", one) for one in found)
