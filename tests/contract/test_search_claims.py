"""Claims of `docs/search.md` on the search: switching off one rule at a time does not change the optimum."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Count, Order, Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.memory.decisions import SearchMove, non_compulsory_cost, schedule_of_moves
from onchip.memory.spill.search import BestFirstSearch, SearchOutcome
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.search.budget.limits import Run
from oracles.joint_evictions import Choice, Listing
from oracles.joint_search import PlainSearch
from oracles.joint_state import SearchState
from oracles.one_scratchpad import least_traffic, random_graph
from support.series import in_one_test
from support.strategies import graphs


class WithoutSafeMoves(PlainSearch):
    def _safe_move(self, state: SearchState) -> int | None:
        return None


class WithoutDominance(PlainSearch):
    def _is_undominated(self, state: SearchState) -> bool:
        return True


class WithEveryEviction(PlainSearch):
    """A search over all sets that make room, not the inclusion-minimal sets alone."""

    def _least_evictions(self, state: SearchState, choice: Choice) -> Listing:
        operands = self._indexed.operands[choice.operator]
        everything = state.resident | operands
        others = tuple(bits(state.resident & ~operands))
        listing = Listing()
        for chosen in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
            evicted = mask_of(chosen)
            if self._room.holds(everything & ~evicted, self._room.units_of(everything & ~evicted)):
                listing.sets.append((evicted, sum(self._evict_cost(tensor, state.copied) for tensor in chosen)))
        return listing


WEAKER_SEARCHES = (WithoutSafeMoves, WithoutDominance, WithEveryEviction)


@st.composite
def problems(draw: st.DrawFn, max_operators: int = 6) -> Problem:
    """Draw a random graph with a capacity between the need of one operator and the least peak."""
    graph = draw(graphs(max_operators=max_operators))
    alignment = draw(st.sampled_from((1, 1, 2, 4)))
    order = draw(st.sampled_from((Order.FREE, Order.FREE, Order.GIVEN)))
    count = draw(st.sampled_from(Count))
    return at_a_budget(graph, alignment, order, count, draw(st.integers(0, 12)))


def at_a_budget(graph: Graph, alignment: int, order: Order, count: Count, slack_bytes: int) -> Problem:
    need = greatest_need(Problem(graph, (Memory("sram", 1, alignment),), count=count)).need_bytes
    return Problem(graph, (Memory("sram", need + slack_bytes, alignment),), order=order, count=count)


def searched(problem: Problem) -> SearchOutcome:
    return BestFirstSearch(IndexedProblem.of(problem), Run()).solve()


def searched_plainly(search: type[PlainSearch], problem: Problem) -> SearchOutcome:
    return search(IndexedProblem.of(problem)).solve()


@settings(max_examples=120)
@given(problem=problems())
@pytest.mark.parametrize("weaker", WEAKER_SEARCHES)
def test_what_makes_the_search_fast_changes_no_optimum(weaker: type[PlainSearch], problem: Problem) -> None:
    assert searched(problem).cost == searched_plainly(weaker, problem).cost


@pytest.mark.parametrize("weaker", WEAKER_SEARCHES)
def test_nor_does_it_on_graphs_where_evictions_are_needed(weaker: type[PlainSearch]) -> None:
    needed = 0
    for seed in range(60):
        problem = at_a_budget(random_graph(seed), (1, 4)[seed % 2], Order.FREE, Count.ACTIVATIONS, seed % 3)
        cost = searched(problem).cost
        assert cost == searched_plainly(weaker, problem).cost, f"seed {seed}"
        needed += cost != 0
    assert needed >= 15


@pytest.mark.slow
@settings(max_examples=80)
@given(problem=problems(max_operators=5))
def test_the_bound_in_bytes_is_the_oracle_s_without_addresses(problem: Problem) -> None:
    """The alignment is 1, where the oracle and the search count the same bytes."""
    packed = at_a_budget(problem.graph, 1, problem.order, problem.count, problem.memories[0].capacity_bytes % 5)

    assert searched(packed).cost == least_traffic(packed, with_addresses=False)


@settings(max_examples=150)
@given(problem=problems())
def test_what_the_search_charges_is_what_its_schedule_costs(problem: Problem) -> None:
    """A reload is charged when the tensor leaves; in the end it is the same."""
    outcome = searched(problem)
    assert outcome.moves is not None
    indexed = IndexedProblem.of(problem)

    assert non_compulsory_cost(indexed, schedule_of_moves(indexed, outcome.moves)) == outcome.cost


def test_outputs_no_larger_than_all_freed_inputs_together_are_not_safe() -> None:
    """The weaker condition, right for the peak, is wrong with spills: some graph needs the stronger one."""

    class Weaker(PlainSearch):
        def _can_stand_in(self, state: SearchState, outputs: list[int], freed: int) -> bool:
            size = self._room.units_of(mask_of(outputs))
            return size <= self._room.units_of(state.resident & ~mask_of(outputs))

    differs = 0
    for seed in range(200):
        problem = at_a_budget(random_graph(seed), 1, Order.FREE, Count.ACTIVATIONS, seed % 3)
        differs += searched(problem).cost != searched_plainly(Weaker, problem).cost
    assert differs


class WithEveryStateKept(PlainSearch):
    """Remembers which state was dropped for which."""

    def __init__(self, indexed: IndexedProblem) -> None:
        super().__init__(indexed)
        self.dropped: list[tuple[SearchState, SearchState]] = []

    def _dominates(self, better: SearchState, worse: SearchState) -> bool:
        is_dropped = super()._dominates(better, worse)
        if is_dropped:
            self.dropped.append((better, worse))
        return is_dropped


def least_completion(indexed: IndexedProblem, state: SearchState) -> int:
    """Return the least cost of a plan completed from this state, by brute force over orders and evictions."""
    search = WithEveryEviction(indexed)
    best: dict[tuple[int, int, int], int] = {}

    def completed(one: SearchState) -> int:
        if one.executed == indexed.all_operators:
            return 0
        key = (one.executed, one.resident, one.copied)
        if key not in best:
            best[key] = min(
                cost + completed(_after(search, one, SearchMove(operator, tuple(bits(evicted)))))
                for operator in bits(one.ready)
                for evicted, cost in search._least_evictions(one, Choice(operator)).sets
            )
        return best[key]

    return state.cost + completed(state)


def _after(search: PlainSearch, state: SearchState, move: SearchMove) -> SearchState:
    search._after_safe_moves = lambda state: state  # type: ignore[method-assign]
    return search._child(state, move, 0)


@in_one_test("seed", range(30))
def test_a_dominated_state_has_no_better_completion(seed: int) -> None:
    graph = random_graph(seed, operators=6)
    problem = at_a_budget(graph, (1, 2, 4)[seed % 3], Order.FREE, Count.ACTIVATIONS, seed % 3)
    search = WithEveryStateKept(IndexedProblem.of(problem))
    search.solve()

    for better, worse in search.dropped[:20]:
        assert least_completion(search._indexed, better) <= least_completion(search._indexed, worse)


@in_one_test("seed", range(30))
def test_every_bound_on_the_way_is_below_the_optimum(seed: int) -> None:
    indexed = IndexedProblem.of(at_a_budget(random_graph(seed), 1 + seed % 3, Order.FREE, Count.ALL, seed % 4))
    optimum = BestFirstSearch(indexed, Run()).solve().cost
    assert optimum is not None

    for limit in range(1, 40, 3):
        assert BestFirstSearch(indexed, Run(), limit).solve().lower_bound <= optimum
