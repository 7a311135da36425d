"""COSMA's and the thesis's formulations against the exact method and enumeration."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from onchip.answer.document import Claim, Granularity, Reading
from onchip.answer.problem import Count, Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.api.networks import read_network
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import UsageError
from onchip.formats.own.graph_json import load_network
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.published.paper import solve_as_paper
from onchip.memory.published.pinning import PinningModel, schedule_of, solve_as_thesis
from onchip.memory.spill.exact import solve_exactly
from onchip.model.capacity.bounds import greatest_need, operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem, bits
from onchip.search.budget.limits import Limits, MipSolver, Run
from onchip.search.strategy.interruptible import solve_mip
from onchip.transform.rewrite.activations import fuse
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, long_lived_graph, packs, random_graph
from support.series import series, with_slow

# COSMA's formulation, our exact method and the exhaustive oracle, on the same tiny networks


SEEDS = range(40)
ROOM = 10_000
EXHAUSTIVE_ROOM = 60


def tight_problem(seed: int, order: Order = Order.FREE, operators: int = 5) -> Problem:
    """Return a tiny network in a scratchpad of 0 to 2 bytes more than its greatest operator needs."""
    alignment = 3 if seed % 3 == 2 else 1
    count = Count.ALL if seed % 2 else Count.ACTIVATIONS
    roomy = Problem(random_graph(seed, operators), (Memory("sram", ROOM, alignment),), order=order, count=count)
    capacity = greatest_need(roomy).need_bytes + seed % 3
    return replace(roomy, memories=(Memory("sram", capacity, alignment),))


def solve(problem: Problem, solver: MipSolver = MipSolver.CP_SAT) -> SearchResult[Plan]:
    result = solve_as_paper(problem, Run(Limits(time_limit_seconds=60, solver=solver)))
    assert result.answer is not None
    assert verify(problem, result.answer).violations == ()
    return result


@pytest.mark.parametrize("order", [Order.FREE, Order.GIVEN])
@pytest.mark.parametrize("seed", with_slow(SEEDS, {23}.__contains__))
def test_the_formulation_agrees_with_the_oracle_and_the_search(seed: int, order: Order) -> None:
    problem = tight_problem(seed, order)
    result = solve(problem)
    assert result.status is Status.OPTIMAL
    assert result.objective_value == result.lower_bound == least_traffic(problem)
    assert result.objective_value == solve_exactly(problem, Run()).objective_value


@pytest.mark.parametrize("solver", [MipSolver.HIGHS, MipSolver.SCIP])
@pytest.mark.parametrize("seed", range(4))
def test_every_solver_finds_the_same_optimum(seed: int, solver: MipSolver) -> None:
    problem = tight_problem(seed, operators=4)
    result = solve(problem, solver)
    assert (result.status, result.objective_value) == (Status.OPTIMAL, least_traffic(problem))


def test_too_small_a_scratchpad_is_infeasible() -> None:
    tight = tight_problem(0)
    problem = replace(tight, memories=(Memory("sram", greatest_need(tight).need_bytes - 1),))
    assert solve_as_paper(problem, Run()).status is Status.INFEASIBLE


def test_a_solver_that_is_absent_is_named_in_one_line() -> None:
    with pytest.raises(UsageError, match="gurobi is not installed"):
        solve_as_paper(tight_problem(0), Run(Limits(solver=MipSolver.GUROBI)))


def test_a_network_too_large_to_write_down_is_unknown() -> None:
    graph = load_network("darts_v2")
    result = solve_as_paper(Problem(graph, (Memory("sram", 2**40),)), Run(Limits(time_limit_seconds=20)))
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.MEMORY_LIMIT)


@pytest.mark.slow
def test_the_time_limit_also_ends_the_writing_of_the_model() -> None:
    run = Run(Limits(time_limit_seconds=0.5))
    roomy = Problem(fuse(load_network("transformer")), (Memory("sram", 1),))
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = solve_as_paper(problem, run)
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.TIME_LIMIT)


def test_an_interruption_ends_in_unknown_or_a_legal_plan() -> None:
    run = Run(Limits(time_limit_seconds=60))
    run.interrupt.set()
    result = solve_as_paper(tight_problem(3), run)
    assert result.status in Status
    assert result.answer is None or not verify(tight_problem(3), result.answer).violations


@pytest.mark.slow
def test_no_tensors_overlap_in_a_plan_by_highs_in_a_large_scratchpad() -> None:
    """HiGHS's default tolerance put choices off by up to 40 of 41 million bytes; two tensors overlapped by three."""
    graph = read_network("r2plus1d_18", Reading(bits=8, granularity=Granularity.FUSED))
    problem = Problem(graph, (Memory("sram", 41_829_520),), order=Order.GIVEN, count=Count.ALL)
    found = solve_as_paper(problem, Run(Limits(time_limit_seconds=6, solver=MipSolver.HIGHS))).answer
    assert found is None or verify(problem, found).violations == ()


# The thesis's formulation against all mappings, and the cost of its plans


EVERYTHING = tuple(Operand)
HOLDS = (EVERYTHING, EVERYTHING, (Operand.INPUT, Operand.WEIGHT), (Operand.OUTPUT,))
Mapping = tuple[int, ...]  # per tensor the scratchpads it is in, a mask


def tiny_problem(seed: int) -> Problem:
    """Return up to five operators on one or two scratchpads that hold every operator; some transfers cost more."""
    chance = random.Random(seed)
    memories = tuple(Memory(f"s{i}", 1, chance.choice((1, 1, 2)), chance.choice(HOLDS)) for i in range(1 + seed % 2))
    ways = [way for memory in memories for way in ((DRAM, memory.name), (memory.name, DRAM))]
    rates = {way: Rate(chance.randint(0, 2), ((8, chance.randint(1, 3)),)) for way in ways} if seed % 3 == 0 else {}
    objective = Objective.DMA_CYCLES if rates else Objective.TRAFFIC
    make = random_graph if seed % 4 else long_lived_graph
    graph = make(seed, operators=chance.randint(4, 5), greatest_size=4)
    problem = Problem(graph, memories, objective, Order.GIVEN, Count.ACTIVATIONS, Transfers(rates=rates))
    for turn in range(100):
        if not operators_that_do_not_fit(IndexedProblem.of(problem)):
            break
        problem = replace(
            problem, memories=tuple(_grown(m, i == turn % len(memories), turn) for i, m in enumerate(problem.memories))
        )
    return problem


def _grown(memory: Memory, is_grown: bool, turn: int) -> Memory:
    holds = memory.holds if turn < 30 else EVERYTHING
    return replace(memory, capacity_bytes=memory.capacity_bytes + is_grown, holds=holds)


TINY = [tiny_problem(seed) for seed in range(30)]


def least_transitions(problem: Problem) -> int:
    """Return the minimum of the thesis's objective by dynamic programming over all mappings in each step."""
    indexed = IndexedProblem.of(problem)
    best: dict[Mapping, int] = {}
    for step in range(indexed.operator_count):
        mappings = list(legal_mappings(indexed, step))
        best = {
            after: min((cost + _transition(indexed, before, after) for before, cost in best.items()), default=0)
            for after in mappings
        }
    return min(best.values())


def legal_mappings(indexed: IndexedProblem, step: int) -> list[Mapping]:
    uses = indexed.uses(range(indexed.operator_count))
    everywhere = range(1 << len(indexed.views))
    choices: list[list[int]] = []
    for tensor, used in enumerate(uses):
        if step in used:
            is_written = indexed.producer[tensor] == step
            taken_in = (indexed.written_in if is_written else indexed.read_in)[tensor]
            choices.append([1 << memory for memory in bits(taken_in)])
        else:
            choices.append(list(everywhere) if used and used[0] < step < used[-1] else [0])
    return [mapping for mapping in product(*choices) if _fits(indexed, mapping)]


def _fits(indexed: IndexedProblem, mapping: Mapping) -> bool:
    for memory, view in enumerate(indexed.views):
        alignment = view.memory.alignment_bytes
        used = sum(view.room.units[tensor] * alignment for tensor, mask in enumerate(mapping) if mask >> memory & 1)
        if used > -(-view.memory.capacity_bytes // alignment) * alignment:
            return False
    return True


def _transition(indexed: IndexedProblem, before: Mapping, after: Mapping) -> int:
    return sum(
        view.load_costs[tensor] * (new & ~old) + view.store_costs[tensor] * (old & ~new)
        for memory, view in enumerate(indexed.views)
        for tensor in range(len(before))
        for old, new in [(before[tensor] >> memory & 1, after[tensor] >> memory & 1)]
    )


def held_against_the_verifier(problem: Problem, result: SearchResult[Plan]) -> int:
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim("pinning", result.status, problem.objective, result.objective_value, result.lower_bound)
    assert verify(problem, result.answer, claim).violations == ()
    return result.objective_value


@pytest.mark.parametrize("solver", [MipSolver.HIGHS, MipSolver.CP_SAT])
@pytest.mark.parametrize("problem", TINY)
def test_the_model_s_optimum_is_that_of_every_mapping(problem: Problem, solver: MipSolver) -> None:
    indexed = IndexedProblem.of(problem)
    thesis = PinningModel(indexed, range(indexed.operator_count), Run())
    outcome = solve_mip(thesis.model, Run(Limits(solver=solver)))
    assert outcome.values is not None
    assert outcome.stopped_by is Stop.COMPLETED
    assert outcome.lower_bound * thesis.cost_unit == least_transitions(problem)


def test_the_tiny_problems_are_worth_it() -> None:
    """Some of the problems cost more than every mapping pays at the start and end of live ranges."""
    without_limits = [replace(p, memories=tuple(replace(m, capacity_bytes=64) for m in p.memories)) for p in TINY]
    pairs = zip(TINY, without_limits, strict=True)
    assert sum(least_transitions(tight) > least_transitions(roomy) for tight, roomy in pairs) >= 5


@pytest.mark.parametrize("problem", TINY)
def test_its_residencies_hold_each_operand_in_a_scratchpad_that_may_take_it(problem: Problem) -> None:
    indexed = IndexedProblem.of(problem)
    thesis = PinningModel(indexed, range(indexed.operator_count), Run())
    schedule = schedule_of(thesis, solve_mip(thesis.model, Run()))
    for step, operator in enumerate(schedule.order):
        for tensor in indexed.operand_lists[operator]:
            (residency,) = (r for r in schedule.residencies if r.tensor == tensor and r.start <= step < r.stop)
            is_written = indexed.producer[tensor] == operator
            assert (indexed.written_in if is_written else indexed.read_in)[tensor] >> residency.memory & 1


def test_where_its_residencies_have_no_addresses_nothing_is_mended() -> None:
    roomy = Problem(long_lived_graph(380, operators=9), (Memory("sram", 1000),), order=Order.GIVEN)
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    indexed = IndexedProblem.of(problem)
    thesis = PinningModel(indexed, range(indexed.operator_count), Run())
    chosen = schedule_of(thesis, solve_mip(thesis.model, Run())).residencies
    rectangles = tuple(sorted((r.start, r.stop, indexed.sizes_bytes[r.tensor]) for r in chosen))
    assert not packs(rectangles, problem.memories[0].capacity_bytes, 1)

    result = solve_as_thesis(problem, Run())
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, Stop.NO_PACKING)
    assert result.answer is None


def test_to_drop_what_dram_has_counts_as_a_transfer() -> None:
    """`w` (5 bytes) would leave for free and return for 5; `t` (4 bytes) leaves for 4 and returns for 4.

    Either pays twice for a pair of transitions, so the thesis lets the smaller go: 8 bytes moved, where 5 are enough.
    """
    tensors = (
        Tensor("w", 5, Role.INPUT),
        Tensor("t", 4, Role.ACTIVATION),
        Tensor("u", 5, Role.ACTIVATION),
        Tensor("y", 1, Role.OUTPUT),
    )
    operators = (
        Operator("f", "F", ("w",), ("t",)),
        Operator("g", "G", ("u0",), ("u",)),
        Operator("h", "H", ("t", "w"), ("y",)),
    )
    graph = Graph("g", (*tensors, Tensor("u0", 1, Role.INPUT)), operators)
    problem = Problem(graph, (Memory("sram", 11),), order=Order.GIVEN)
    assert held_against_the_verifier(problem, solve_as_thesis(problem, Run())) == 8
    assert solve_exactly(problem, Run()).objective_value == 5


def test_an_operator_that_does_not_fit_is_infeasible() -> None:
    graph = Graph("g", (Tensor("x", 3, Role.INPUT), Tensor("y", 3, Role.OUTPUT)), (Operator("f", "F", ("x",), ("y",)),))
    problem = Problem(graph, (Memory("a", 3), Memory("b", 2)), order=Order.GIVEN)
    assert solve_as_thesis(problem, Run()).status is Status.INFEASIBLE


@pytest.mark.parametrize("solver", series([MipSolver.HIGHS, MipSolver.CP_SAT], 1))
def test_the_greatest_network_of_the_thesis_is_planned(solver: MipSolver) -> None:
    capacity = 32 << 10
    whole = load_network("resnet50_smaug")
    capped = tuple(Tensor(tensor.name, min(tensor.size_bytes, capacity), tensor.role) for tensor in whole.tensors)
    problem = Problem(
        replace(whole, tensors=capped),
        tuple(Memory(name, capacity) for name in ("a", "b", "c")),
        order=Order.GIVEN,
        count=Count.ALL,
    )
    result = solve_as_thesis(problem, Run(Limits(solver=solver)))
    assert held_against_the_verifier(problem, result) >= (solve_exactly(problem, Run()).objective_value or 0)
