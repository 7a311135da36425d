"""Costs of plans compared with figures by hand, and three clocks of one program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Durations, Objective, Problem, Rate, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Instruction, Plan
from onchip.arch.memory import DRAM, Operand
from onchip.model.timeline.plan_timeline import latency_of_plan
from onchip.transform.slices.emission import ChannelBands
from onchip.verify.latency import latency_cycles
from onchip.verify.verifier import verify
from oracles.byte_clock import clocked
from support.plan_states import BOTH
from support.plan_tables import WORKED, Worked
from support.programs import CHAIN, LEFT_AND_RIGHT, SPILLED, TWO_SCRATCHPADS, graph, instructions
from support.series import series
from support.timed_problems import problem_of_several, random_program, timed_graph, timed_problem


@pytest.mark.parametrize("worked", WORKED, ids=str)
def test_figures_are_those_worked_out_by_hand(worked: Worked) -> None:
    verdict = verify(worked.case.problem, worked.case.plan)
    assert verdict.figures == worked.figures
    assert worked.agrees_with(verdict.figures, is_legal=verdict.is_legal)


def test_a_tensor_reloaded_at_another_offset_is_legal() -> None:
    verdict = verify(SPILLED.problem, SPILLED.plan)
    assert verdict.violations == ()
    assert verdict.figures.reloads == 4


def test_non_compulsory_traffic_is_what_remains_of_the_total() -> None:
    figures = verify(SPILLED.problem, SPILLED.plan).figures
    assert (figures.total, figures.compulsory, figures.non_compulsory) == (16, 8, 8)


def test_the_objective_traffic_is_the_cost_beyond_the_compulsory() -> None:
    by_name = {worked.what: worked.case for worked in WORKED}
    cycles = by_name["costs that are no bytes"]
    figures = verify(cycles.problem, cycles.plan).figures
    assert figures.non_compulsory == 0
    assert figures.objective_value(Objective.TRAFFIC) == figures.non_compulsory_cost == 50


def test_the_objective_peak_is_the_arena_not_the_live_bytes() -> None:
    figures = verify(CHAIN.problem, CHAIN.plan).figures
    assert (figures.objective_value(Objective.PEAK), figures.peak_bytes) == (12, 8)


@pytest.mark.parametrize(("cycles", "value"), [(None, 0), (0, 0), (7, 7)])
def test_the_objective_latency_is_the_latency_or_zero_if_it_is_unknown(cycles: int | None, value: int) -> None:
    figures = replace(verify(CHAIN.problem, CHAIN.plan).figures, latency_cycles=cycles)
    assert figures.objective_value(Objective.LATENCY) == value


def test_the_arena_of_several_scratchpads_is_their_sum() -> None:
    figures = verify(TWO_SCRATCHPADS.problem, TWO_SCRATCHPADS.plan).figures
    assert figures.arenas == (("left", 9), ("right", 8))
    assert figures.arena_bytes == 17


def test_a_plan_that_leaves_out_a_network_output_has_less_than_the_compulsory() -> None:
    figures = verify(CHAIN.problem, CHAIN.edited(8).plan).figures
    assert figures.non_compulsory == -5


def problem_of(seed: int) -> tuple[Problem, Random]:
    random = Random(seed)
    graph = timed_graph(random, random.randint(1, 5))
    splits = {one.name: one.stated.splits for one in graph.operators}
    parts = {name: one.ways[0][0] for name, one in splits.items() if one is not None and random.random() < 0.5}
    return timed_problem(ChannelBands(parts)(graph), random.randint(6, 14), random), random


def problem_in_several(seed: int) -> tuple[Problem, Random]:
    random = Random(seed)
    graph = timed_graph(random, random.randint(1, 5))
    capacities = [random.randint(3, 9) for _ in range(random.choice([2, 2, 3]))]
    return problem_of_several(graph, capacities, random), random


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from([problem_of, problem_in_several]))
def test_three_clocks_agree_on_random_programs(seed: int, problems: Callable[[int], tuple[Problem, Random]]) -> None:
    problem, random = problems(seed)
    plan = random_program(problem, random)
    if plan is None:
        return
    verdict = verify(problem, plan)
    assert verdict.is_legal, verdict.violations
    latency = clocked(problem, plan.instructions)
    assert problem.durations is not None
    assert latency_of_plan(problem, plan) == latency
    assert latency_cycles(problem, problem.durations, plan) == latency
    assert verdict.figures.latency_cycles == latency


@pytest.mark.slow
@pytest.mark.parametrize("thousand", series(range(10), 1))
def test_three_clocks_agree_on_ten_thousand_programs(thousand: int) -> None:
    programs = 0
    for seed in range(2_000 * thousand, 2_000 * (thousand + 1)):
        problem, random = problem_of(seed)
        plan = random_program(problem, random)
        if plan is None:
            continue
        programs += 1
        assert (
            verify(problem, plan).figures.latency_cycles
            == clocked(problem, plan.instructions)
            == latency_of_plan(problem, plan)
        )
    assert programs >= 1_000


def test_what_has_a_place_before_it_is_copied_there_is_read_where_it_is() -> None:
    graph = timed_graph(Random(0), 1, channels=1, widths=(1,))
    operator = graph.operators[0]
    problem = problem_of_several(graph, (4, 4), Random(0), links=0)
    problem = replace(problem, memories=tuple(replace(one, holds=tuple(Operand)) for one in problem.memories))
    first, second = (memory.name for memory in problem.memories)
    moved: list[Instruction] = [Allocate("x", second, 0), Copy("x", DRAM, second), Allocate("x", first, 0)]
    weights = [
        each
        for number, name in enumerate(operator.parameters)
        for each in (Allocate(name, second, 2 + 2 * number), Copy(name, DRAM, second))
    ]
    output = operator.outputs[0]
    run: list[Instruction] = [
        Allocate(output, first, 2),
        Compute(operator.name),
        Copy("x", DRAM, first),
        Copy(output, first, DRAM),
    ]
    plan = Plan(problem.memories, (*moved, *weights, *run))
    assert problem.durations is not None
    assert verify(problem, plan).violations == ()
    assert latency_cycles(problem, problem.durations, plan) == latency_of_plan(problem, plan)
    assert clocked(problem, plan.instructions) == latency_of_plan(problem, plan)


@pytest.mark.parametrize(("cycles", "latency"), [((0, 0), 0), ((2, 0), 2), ((2, 3), 5)])
def test_operators_on_kept_states_wait_only_for_the_operators_before_them(
    cycles: tuple[int, int], latency: int
) -> None:
    problem, durations = BOTH.problem, Durations(dict(zip("fg", cycles, strict=True)))
    assert latency_cycles(problem, durations, BOTH.plan) == latency


@pytest.mark.parametrize(("has_one_channel", "latency"), [(False, 20), (True, 24)])
def test_all_scratchpads_share_dram(has_one_channel: bool, latency: int) -> None:
    """Loads of 4 bytes and stores of 8 take turns: in cycles 0, 4, 4 and 12, or one channel in 0, 4, 8 and 16."""
    network = graph("x:input:4 y:input:4 a:output:8 b:output:8", f="x -> a", g="y -> b")
    rates = {way: Rate() for name in ("left", "right") for way in ((DRAM, name), (name, DRAM))}
    durations = Durations({"f": 0, "g": 0}, queues=4, has_one_channel=has_one_channel)
    problem = Problem(network, LEFT_AND_RIGHT, Objective.LATENCY, transfers=Transfers((), rates), durations=durations)
    program = """
    allocate x left 0
    copy x dram left
    allocate y right 0
    copy y dram right
    allocate a left 4
    compute f
    allocate b right 4
    compute g
    copy a left dram
    copy b right dram
    """
    plan = Plan(problem.memories, instructions(program))
    assert verify(problem, plan).violations == ()
    assert latency_cycles(problem, durations, plan) == clocked(problem, plan.instructions) == latency
    assert latency_of_plan(problem, plan) == latency


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_no_program_is_slower_where_dram_is_faster_or_the_scratchpad_larger(seed: int) -> None:
    problem, random = problem_of(seed)
    plan = random_program(problem, random)
    if plan is None:
        return
    rates = {
        way: replace(rate, terms=tuple((2 * unit_bits, cost) for unit_bits, cost in rate.terms))
        for way, rate in problem.transfers.rates.items()
    }
    faster = replace(problem, transfers=Transfers((), rates))
    assert latency_of_plan(faster, plan) <= latency_of_plan(problem, plan)
    memory = problem.memories[0]
    larger = replace(problem, memories=(replace(memory, capacity_bytes=2 * memory.capacity_bytes),))
    assert verify(larger, plan).figures.latency_cycles == latency_of_plan(problem, plan)
