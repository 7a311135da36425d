from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Objective, Order, Problem
from onchip.answer.program import Allocate, Compute, Free, Plan
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory, Operand
from onchip.formats.own.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import greatest_need, greatest_needs
from onchip.reports.explain.history import History, ReloadPurpose, full_steps, moves, reload_causes
from onchip.verify.verifier import verify
from support.diamond import diamond_fields
from support.programs import HELD, MOVED, READ_TWICE, SPILLED, TWO_SCRATCHPADS, Case, graph, linked
from support.several import REQUESTS, real_plan
from support.strategies import graphs


def diamond(capacity_bytes: int, alignment_bytes: int = 1) -> History:
    graph = graph_from_json(json.dumps(diamond_fields()), "diamond")
    return history_of(Problem(graph, (Memory("sram", capacity_bytes, alignment_bytes),)))


def history_of(problem: Problem, method: str = "exact") -> History:
    plan = plan_problem(problem, method).answer
    assert plan is not None
    return History(problem, plan)


def resident_in_step(plan: Plan) -> list[set[str]]:
    """Return the residents of each step in one scratchpad, computed instruction by instruction."""
    present: set[str] = set()
    steps = []
    for instruction in plan.instructions:
        if isinstance(instruction, Allocate):
            present.add(instruction.tensor)
        elif isinstance(instruction, Free):
            present.discard(instruction.tensor)
        elif isinstance(instruction, Compute):
            steps.append(set(present))
    return steps


def test_the_spill_of_the_diamond_is_the_first_side_s_pushed_out_by_the_second() -> None:
    history = diamond(130)
    (cause,) = reload_causes(history)

    assert cause.tensor.name in "lr"
    assert (cause.spill_cost, cause.reload_cost, cause.cost) == (50, 50, 100)
    assert (cause.left, cause.returned, cause.tightest_step) == (2, 3, 2)
    assert {one.tensor for one in cause.pushed_out_by} == {"s", "l", "r"} - {cause.tensor.name}
    assert cause.bytes_to_stay == 160
    assert cause.is_forced


def test_with_the_capacity_that_makes_it_vanish_it_vanishes() -> None:
    assert reload_causes(diamond(159)) != ()
    assert reload_causes(diamond(160)) == ()


def test_what_a_spill_needs_to_vanish_is_rounded_up_to_the_alignment() -> None:
    (cause,) = reload_causes(diamond(160, 16))

    assert cause.bytes_to_stay == 64 + 64 + 64


def test_the_step_that_pushes_out_is_full_and_so_is_one_without_a_free_byte() -> None:
    history = diamond(130)

    full = full_steps(history, reload_causes(history))

    assert [(one.step, one.footprint_bytes, one.free_bytes) for one in full] == [(2, 110, 20), (3, 130, 0)]


def test_no_step_is_full_where_there_is_room() -> None:
    history = diamond(1000)

    assert full_steps(history, reload_causes(history)) == ()


def test_every_operator_of_the_greatest_need_is_named() -> None:
    problem = diamond(1000).problem
    assert [need.operator.name for need in greatest_needs(problem)] == ["join"]

    fields = diamond_fields()
    fields["tensors"][1]["shape"] = [1, 80]  # s: left and right need the same bytes as join
    graph = graph_from_json(json.dumps(fields), "diamond")
    names = [need.operator.name for need in greatest_needs(Problem(graph, problem.memories))]
    assert names == ["left", "right", "join"]


def test_without_spills_the_diamond_needs_160_bytes() -> None:
    assert diamond(130).bytes_without_spills == 160


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(0, 24), st.sampled_from(("exact", "belady", "greedy")), st.sampled_from((1, 4)))
def test_absences_account_for_all_that_is_not_compulsory(graph: Graph, slack: int, method: str, alignment: int) -> None:
    problem = Problem(graph, (Memory("sram", 1, alignment),), order=Order.GIVEN)
    memory = Memory("sram", greatest_need(problem).need_bytes + slack, alignment)
    problem = Problem(graph, (memory,), order=Order.GIVEN)
    result = plan_problem(problem, method)
    if result.answer is None:
        return
    history = History(problem, result.answer)
    figures = verify(problem, result.answer).figures

    assert sum(cause.cost for cause in reload_causes(history)) == figures.non_compulsory


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(0, 24))
def test_footprints_are_the_bytes_of_those_present(graph: Graph, slack: int) -> None:
    problem = Problem(graph, (Memory("sram", 1),))
    memory = Memory("sram", greatest_need(problem).need_bytes + slack)
    history = history_of(Problem(graph, (memory,)))
    size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    present = resident_in_step(history.plan)

    assert history.footprint("sram") == tuple(sum(size[name] for name in names) for names in present)
    assert [{one.tensor for one in history.residents("sram", step)} for step in range(len(present))] == present
    for step, operator in enumerate(history.operators):
        operands = sum(tensor.size_bytes for tensor in history.problem.operands(operator))
        assert history.footprint_of_operands("sram")[step] == operands


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(graphs())
def test_no_plan_without_spills_has_a_lower_peak_in_its_order(graph: Graph) -> None:
    size_bytes = sum(tensor.size_bytes for tensor in graph.tensors)
    problem = Problem(graph, (Memory("sram", size_bytes),), Objective.PEAK, Order.GIVEN)
    history = history_of(problem)
    figures = verify(problem, history.plan).figures

    assert history.bytes_without_spills <= figures.peak_bytes
    if figures.arena_bytes == figures.peak_bytes:
        assert history.bytes_without_spills == figures.peak_bytes


def history_of_case(case: Case) -> History:
    assert verify(case.problem, case.plan).is_legal
    return History(case.problem, case.plan)


DETOUR = Case(
    Problem(
        graph("x:input:4 a:activation:3 y:output:5", f="x -> a", g="a -> y"),
        (Memory("inputs", 12, holds=(Operand.INPUT,)), Memory("outputs", 12, holds=(Operand.OUTPUT,))),
    ),
    """
    allocate x inputs 0
    copy x dram inputs
    allocate a outputs 0
    compute f
    copy a outputs dram
    free a outputs
    free x inputs
    allocate a inputs 0
    copy a dram inputs
    allocate y outputs 0
    compute g
    copy y outputs dram
    """,
)
"""A write to a scratchpad from which no operator can read, without a link."""

COPIED = Case(
    TWO_SCRATCHPADS.problem,
    """
    allocate x left 0
    copy x dram left
    allocate a right 0
    compute f
    allocate x right 4
    copy x dram right
    allocate y left 4
    compute g
    copy y left dram
    """,
)
"""A network input is loaded into a second scratchpad while it still is in the first."""


def test_what_no_scratchpad_passes_on_goes_through_dram_however_much_room_there_is() -> None:
    history = history_of_case(DETOUR)
    (cause,) = reload_causes(history)

    assert (cause.tensor.name, cause.way, cause.target) == ("a", ReloadPurpose.DETOUR, "inputs")
    assert (cause.left, cause.returned, cause.spill_cost, cause.reload_cost) == (1, 1, 3, 3)
    assert not cause.is_forced
    assert full_steps(history, (cause,)) == ()


def test_where_a_link_leads_on_the_same_plan_is_a_choice() -> None:
    (cause,) = reload_causes(history_of_case(linked(DETOUR, ("outputs", "inputs"))))

    assert cause.way is ReloadPurpose.BACK
    assert not cause.is_forced


def test_a_tensor_that_is_still_in_another_scratchpad_is_not_away() -> None:
    (cause,) = reload_causes(history_of_case(COPIED))

    assert (cause.tensor.name, cause.way, cause.target) == ("x", ReloadPurpose.COPY, "right")
    assert (cause.left, cause.returned, cause.tightest_step) == (1, 1, None)


def test_a_move_is_no_absence() -> None:
    for case, tensor, source, target in ((HELD, "a", "outputs", "inputs"), (MOVED, "x", "left", "right")):
        history = history_of_case(case)
        (move,) = moves(history)

        assert reload_causes(history) == ()
        assert (move.tensor, move.source, move.target) == (tensor, source, target)


def test_a_tensor_could_stay_in_the_scratchpad_with_most_room() -> None:
    problem = replace(SPILLED.problem, memories=(Memory("sram", 12), Memory("other", 3)))
    (cause,) = reload_causes(history_of_case(replace(SPILLED, problem=problem)))

    # In step 1, x and b take 8 of 12 bytes, and the 3 bytes of `other` are free: 1 byte too few for the tensor.
    assert (cause.memory.name, cause.bytes_to_stay, cause.is_forced) == ("sram", 12, False)


def test_without_spills_each_tensor_takes_what_the_alignments_have_in_common() -> None:
    problem = replace(SPILLED.problem, memories=(Memory("sram", 64, 4), Memory("other", 64, 6)))
    case = replace(SPILLED, problem=problem)

    assert History(case.problem, case.plan).common_alignment_bytes == 2
    assert History(case.problem, case.plan).bytes_without_spills == 12


@pytest.mark.parametrize("name", REQUESTS)
def test_absences_and_moves_account_for_all_that_is_not_compulsory_in_several_scratchpads(name: str) -> None:
    problem, plan = real_plan(name)
    history = History(problem, plan)
    costs = sum(cause.cost for cause in reload_causes(history)) + sum(map(history.cost, moves(history)))

    assert costs == verify(problem, plan).figures.non_compulsory_cost


@pytest.mark.parametrize("name", ["roles", "alike, in tiles"])
def test_peaks_of_scratchpads_are_the_bytes_of_those_present_after_each_instruction(name: str) -> None:
    problem, plan = real_plan(name)
    history = History(problem, plan)
    for memory in problem.memories:
        present: dict[str, int] = {}
        sums = [0]
        for line in plan.instructions:
            if isinstance(line, Allocate) and line.memory == memory.name:
                present[line.tensor] = problem.graph.tensor[line.tensor].size_bytes
            elif isinstance(line, Free) and line.memory == memory.name:
                del present[line.tensor]
            sums.append(sum(present.values()))

        assert history.peak_bytes(memory.name) == max(sums)


def test_a_tensor_with_one_residency_has_a_place_for_life() -> None:
    spilled, kept = History(SPILLED.problem, SPILLED.plan), History(READ_TWICE.problem, READ_TWICE.plan)

    assert [tensor.name for tensor in spilled.without_place_for_life] == ["a"]
    assert [tensor.name for tensor in spilled.with_place_for_life] == ["x", "b", "y"]
    assert kept.without_place_for_life == ()
