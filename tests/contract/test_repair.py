"""Repair of a schedule that does not pack: it is cut at cheap positions."""

from __future__ import annotations

from onchip.answer.packing import Packing
from onchip.answer.problem import Count, Order, Problem
from onchip.answer.result import Status
from onchip.api.target import roomy_problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import load_network
from onchip.memory.allocate.pack import pack, pack_schedule
from onchip.memory.allocate.repair import place_or_cut, place_or_cut_by_time
from onchip.memory.allocate.residencies import packing_problem
from onchip.memory.decisions import OperatorSchedule, compose, non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.transform.rewrite.activations import fuse
from onchip.verify.packing import verify_packing
from onchip.verify.verifier import verify
from oracles.one_scratchpad import random_graph
from support.series import in_one_test


def optimum_in_bytes(problem: Problem) -> tuple[IndexedProblem, OperatorSchedule, int]:
    indexed = IndexedProblem.of(problem)
    outcome = BestFirstSearch(indexed, Run()).solve()
    assert outcome.moves is not None
    assert outcome.cost is not None
    return indexed, schedule_of_moves(indexed, outcome.moves), outcome.cost


def nasnet() -> Problem:
    graph = fuse(load_network("nasnetalarge").with_bits(8))
    need = greatest_need(roomy_problem(graph, Count.ACTIVATIONS)).need_bytes
    return Problem(graph, (Memory("sram", need),), order=Order.GIVEN)


def test_the_optimum_in_bytes_of_nasnet_at_its_own_order_does_not_pack() -> None:
    indexed, schedule, _ = optimum_in_bytes(nasnet())
    problem = packing_problem(indexed, schedule)

    assert pack(problem, Run()).status is Status.INFEASIBLE
    assert pack_schedule(indexed, schedule, Run()) is None


def test_nasnet_is_mended_for_a_tenth_more() -> None:
    indexed, schedule, cost = optimum_in_bytes(nasnet())

    placed, offsets = place_or_cut(indexed, schedule)

    verdict = verify(indexed.problem, compose(indexed, placed, offsets))
    assert verdict.violations == ()
    assert cost < verdict.figures.non_compulsory == non_compulsory_cost(indexed, placed) <= 1.1 * cost


@in_one_test("seed", range(40))
def test_small_graphs_are_mended_legally_and_never_worse_than_without_search(seed: int) -> None:
    graph = random_graph(seed, operators=12)
    need = greatest_need(roomy_problem(graph, Count.ACTIVATIONS)).need_bytes
    indexed, schedule, cost = optimum_in_bytes(Problem(graph, (Memory("sram", need),), order=Order.GIVEN))

    placed, offsets = place_or_cut(indexed, schedule)
    by_time, _ = place_or_cut_by_time(indexed, schedule)

    assert verify(indexed.problem, compose(indexed, placed, offsets)).violations == ()
    assert verify_packing(packing_problem(indexed, placed), Packing(offsets)) == ()
    assert cost <= non_compulsory_cost(indexed, placed) <= non_compulsory_cost(indexed, by_time)
