from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from diamond import diamond_fields
from onchip.analysis.absences import absences, full_steps, operators_that_need_most
from onchip.analysis.bounds import greatest_need
from onchip.analysis.history import History
from onchip.arch.memory import Memory
from onchip.frontends.graph_json import graph_from_json
from onchip.ir.graph import Graph
from onchip.pipeline import plan_problem
from onchip.plan.plan import Allocate, Compute, Free, Plan
from onchip.plan.problem import Objective, Order, Problem
from onchip.verify.verifier import verify
from strategies import graphs


def diamond(capacity_bytes: int, alignment_bytes: int = 1) -> History:
    graph = graph_from_json(json.dumps(diamond_fields()), "diamond")
    return history_of(Problem(graph, (Memory("sram", capacity_bytes, alignment_bytes),)))


def history_of(problem: Problem, method: str = "exact") -> History:
    plan = plan_problem(problem, method).answer
    assert plan is not None
    return History(problem, plan)


def resident_in_step(plan: Plan) -> list[set[str]]:
    """Another way to the residents of each step: instruction by instruction, in one scratchpad."""
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
    (absence,) = absences(history)

    assert absence.tensor.name in "lr"
    assert (absence.spill_cost, absence.reload_cost, absence.cost) == (50, 50, 100)
    assert (absence.left, absence.returned, absence.tightest_step) == (2, 3, 2)
    assert {one.tensor for one in absence.pushed_out_by} == {"s", "l", "r"} - {absence.tensor.name}
    assert absence.bytes_to_stay == 160
    assert absence.is_forced


def test_with_the_capacity_that_makes_it_vanish_it_vanishes() -> None:
    assert absences(diamond(159)) != ()
    assert absences(diamond(160)) == ()


def test_what_a_spill_needs_to_vanish_is_rounded_up_to_the_alignment() -> None:
    (absence,) = absences(diamond(160, 16))

    assert absence.bytes_to_stay == 64 + 64 + 64


def test_the_step_that_pushes_out_is_full_and_so_is_one_without_a_free_byte() -> None:
    history = diamond(130)

    full = full_steps(history, absences(history))

    assert [(one.step, one.footprint_bytes, one.free_bytes) for one in full] == [(2, 110, 20), (3, 130, 0)]


def test_no_step_is_full_where_there_is_room() -> None:
    history = diamond(1000)

    assert full_steps(history, absences(history)) == ()


def test_every_operator_of_the_greatest_need_is_named() -> None:
    problem = diamond(1000).problem
    assert [need.operator.name for need in operators_that_need_most(problem)] == ["join"]

    fields = diamond_fields()
    fields["tensors"][1]["shape"] = [1, 80]  # s: left and right need as much as join
    graph = graph_from_json(json.dumps(fields), "diamond")
    names = [need.operator.name for need in operators_that_need_most(Problem(graph, problem.memories))]
    assert names == ["left", "right", "join"]


def test_without_spills_the_diamond_needs_160_bytes() -> None:
    assert diamond(130).bytes_without_spills == 160


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

    assert sum(absence.cost for absence in absences(history)) == figures.non_compulsory


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
