"""M_R counts a state that is updated in place once, and an objective value is reported with its own bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from adversary.frame import Program

FILES = Path(__file__).parent / "state"
IN_PLACE = FILES / "state-in-place.graph.json"
TWO_STATES = FILES / "state-bound.graph.json"


@pytest.mark.parametrize(
    ("options", "least"), [((), 0), (("--tiles", "auto"), 0), (("--order", "given"), 0), (("--objective", "peak"), 4)]
)
def test_state_in_place_fits_in_its_own_bytes(options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    program, plan = Program(tmp_path), tmp_path / "plan.json"
    answer = program.ask("plan", IN_PLACE, "--sram", 4, *options, "-o", plan, "--json").answer
    assert (answer["status"], answer["objective_value"], answer["required_bytes"]) == ("OPTIMAL", least, 4)
    assert program.ask("check", plan, IN_PLACE).code == 0
    assert program.ask("run", plan, IN_PLACE, "--steps", 3).code == 0


def test_plan_by_hand_is_legal_at_m_r(tmp_path: Path) -> None:
    assert Program(tmp_path).ask("check", FILES / "state-in-place.hand.plan.json", IN_PLACE).code == 0


def test_too_small_scratchpad_is_infeasible_by_one_byte_and_without_a_bound(tmp_path: Path) -> None:
    asked = ("plan", IN_PLACE, "--sram", 3)
    ended = Program(tmp_path).ask(*asked, "--json")
    assert ended.code == 3
    names = ("status", "need_bytes", "excess_bytes", "required_bytes", "lower_bound")
    assert [ended.answer[name] for name in names] == ["INFEASIBLE", 4, 1, 4, None]
    assert "lower bound" not in Program(tmp_path).ask(*asked).out


def test_info_and_capacity_print_the_same_m_r_and_m_p(tmp_path: Path) -> None:
    program = Program(tmp_path)
    described = program.ask("info", IN_PLACE, "--json").answer
    assert (described["required_bytes"], described["min_peak_bytes"]) == (4, 4)
    curve = program.ask("capacity", IN_PLACE, "--json").answer
    assert (curve["required_bytes"], curve["min_peak_bytes"]) == (4, 4)
    assert curve["steps"][0]["from_bytes"] == 4


def test_objective_value_with_loaded_state_stands_beside_its_bound(tmp_path: Path) -> None:
    lines = Program(tmp_path).ask("plan", TWO_STATES, "--sram", 8).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("lower bound"))
    assert lines[at - 1].endswith("non-compulsory traffic and state loaded and written: 16 bytes")
    assert "16 bytes (gap 0.0%)" in lines[at]


def test_objective_value_with_operators_run_again_stands_beside_its_bound(tmp_path: Path) -> None:
    """`p` runs again for 1 instead of keeping 8 bytes of `a` while `b` and `c` are live."""
    sizes = {"x": (1, "input"), "a": (8, "activation"), "b": (4, "activation"), "c": (4, "activation")}
    tensors = [
        {"name": name, "bytes": size, "role": role} for name, (size, role) in {**sizes, "y": (1, "output")}.items()
    ]
    reads = {"p": (["x"], "a", 1), "q": (["a"], "b", 50), "r": (["b"], "c", 50), "s": (["c", "a"], "y", 50)}
    operators = [
        {"name": name, "kind": "Op", "inputs": inputs, "outputs": [output], "cycles": cycles}
        for name, (inputs, output, cycles) in reads.items()
    ]
    graph = {"format": "onchip-graph", "version": 1, "name": "g", "tensors": tensors, "operators": operators}
    program = Program(tmp_path)
    options = ("--sram", 13, "--recompute", "allowed", "--recompute-price", 1_000_000)
    lines = program.ask("plan", program.write("graph.json", graph), *options).out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("lower bound"))
    assert lines[at - 1].endswith("non-compulsory traffic and operators run again: 1 byte")
    assert "1 byte (gap 0.0%)" in lines[at]
