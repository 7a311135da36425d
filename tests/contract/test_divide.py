"""Divide and conquer: legal, never better than the optimum, with a bound for all orders."""

from __future__ import annotations

from dataclasses import replace

import pytest

import onchip.memory.baselines.divide as divide
from onchip.answer.problem import Count, Problem
from onchip.answer.result import Status
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import load_network
from onchip.memory.baselines.divide import DivideParams, crossing_bytes, regions
from onchip.memory.methods import method_named
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Limits, Run
from onchip.transform.rewrite.activations import fuse
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_traffic, random_graph
from support.series import with_slow


def tight_problem(seed: int, operators: int) -> Problem:
    count = Count.ALL if seed % 2 else Count.ACTIVATIONS
    roomy = Problem(random_graph(seed, operators), (Memory("sram", 10_000),), count=count)
    return replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes + seed % 4),))


@pytest.mark.parametrize("seed", with_slow(range(30), {29}.__contains__))
def test_a_divided_plan_is_legal_and_its_bound_holds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divide, "PARAMS", DivideParams(largest_regions=(2, 3)))
    problem = tight_problem(seed, 7)
    result = method_named("divide")(problem, Run())
    best = least_traffic(problem)
    assert result.answer is not None
    assert result.objective_value is not None
    assert best is not None
    assert verify(problem, result.answer).violations == ()
    assert result.lower_bound <= best <= result.objective_value


@pytest.mark.parametrize("seed", range(10))
def test_a_joined_order_is_topological(seed: int) -> None:
    indexed = IndexedProblem.of(tight_problem(seed, 30))
    order = divide.joined_order(indexed, Run(), 5)
    assert sorted(order) == list(range(indexed.operator_count))
    done = 0
    for operator in order:
        assert not indexed.predecessors[operator] & ~done
        done |= 1 << operator


def test_one_region_that_holds_everything_is_the_exact_method() -> None:
    problem = tight_problem(3, 7)
    result = method_named("divide")(problem, Run())
    exact = method_named("exact")(problem, Run())
    assert (result.status, result.objective_value) == (Status.OPTIMAL, exact.objective_value)


@pytest.mark.parametrize("seed", range(10))
def test_regions_cover_all_operators_and_are_bounded(seed: int) -> None:
    indexed = IndexedProblem.of(tight_problem(seed, 30))
    found = regions(indexed, 6)
    assert [operator for region in found for operator in region] == list(range(indexed.operator_count))
    assert max(map(len, found)) <= 6


def test_a_network_is_cut_where_little_crosses() -> None:
    # densenet121 narrows between its blocks: no cut crosses more than the median position does.
    indexed = IndexedProblem.of(Problem(load_network("densenet121"), (Memory("sram", 2**30),)))
    crossing = crossing_bytes(indexed)
    cuts = [region.start for region in regions(indexed, 160)[1:]]
    assert cuts
    assert max(crossing[cut] for cut in cuts) < sorted(crossing)[len(crossing) // 2]


@pytest.mark.slow
def test_amoebanet_at_its_tightest_is_solved_in_parts() -> None:
    roomy = Problem(fuse(load_network("amoebanetd_18_256").with_bits(8)), (Memory("sram", 1),))
    problem = replace(roomy, memories=(Memory("sram", greatest_need(roomy).need_bytes),))
    result = method_named("divide")(problem, Run(Limits(time_limit_seconds=60)))
    assert result.answer is not None
    assert result.objective_value is not None
    assert verify(problem, result.answer).violations == ()
    assert result.lower_bound <= 2_107_392 <= result.objective_value < 12_242_944  # optimum; optimum of the given order
