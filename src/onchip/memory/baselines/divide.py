"""`--method divide`: COSMA's divide and conquer (section IV), with the break nodes chosen by what crosses them.

1. Cut the given order where few live bytes cross.
2. Order each region by exact search, from what the region before left in the scratchpad and in DRAM.
3. Join the orders; for the joined order, the exact method decides residencies and addresses.

The order is heuristic. The bound holds for all orders; a short search of the whole problem proves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status, Stop
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import SearchMove
from onchip.memory.spill.exact import solve_exactly
from onchip.memory.spill.min_peak import with_given_order
from onchip.memory.spill.search import BestFirstSearch
from onchip.model.capacity.bounds import operators_that_do_not_fit
from onchip.model.lifetimes.indexed import IndexedProblem, bits, mask_of
from onchip.search.budget.limits import Run
from onchip.search.strategy.start import without_bound

METHOD: Final = "divide"


@dataclass(frozen=True, slots=True)
class DivideParams:
    """Constants of divide and conquer."""

    largest_regions: tuple[int, ...] = (24, 40, 60, 100, 160)
    """Greatest number of operators of a region, one pass for each."""
    region_states: int = 3_000
    """States of the search of a region."""
    given_states: int = 50_000
    """States of the search that judges a joined order."""
    bound_states: int = 5_000
    """States of the search of the whole, for the bound."""


PARAMS: Final = DivideParams()


@dataclass(frozen=True, slots=True)
class RegionBoundary:
    """State between two regions: tensors still needed that are resident, and those with a copy in DRAM."""

    resident: int
    copied: int


def solve_by_dividing(problem: Problem, run: Run) -> SearchResult[Plan]:
    """Plan the best order found, with a bound for all orders. INFEASIBLE if a single operator does not fit."""
    if operators_that_do_not_fit(IndexedProblem.of(problem)):
        return SearchResult(Status.INFEASIBLE, None, None, 0, run.seconds, METHOD)
    best = solve_exactly(_divided(problem, run), without_bound(run))
    if best.objective_value is None:
        return SearchResult(Status.UNKNOWN, None, None, 0, run.seconds, METHOD, run.stop or Stop.COMPLETED)
    bound = _lower_bound(IndexedProblem.of(problem), run, best.objective_value)
    status = Status.OPTIMAL if bound >= best.objective_value else Status.FEASIBLE
    stop = Stop.COMPLETED if status is Status.OPTIMAL else run.stop or Stop.COMPLETED
    return SearchResult(status, best.answer, best.objective_value, bound, run.seconds, METHOD, stop)


def _divided(problem: Problem, run: Run) -> Problem:
    """Return the problem with the best joined order given: one pass per size, each from the best order so far."""
    best = with_given_order(problem, range(len(problem.graph.operators)))
    least = _least_cost(best, run)
    for largest in PARAMS.largest_regions:
        if least == 0 or run.stop is not None:
            break
        run.report(None, 0, f"regions of {largest} operators")
        order = joined_order(IndexedProblem.of(replace(best, order=Order.FREE)), run, largest)
        candidate = with_given_order(best, order)
        cost = _least_cost(candidate, run)
        if cost < least:
            best, least = candidate, cost
        if largest >= len(order):
            break
    return best


def _least_cost(problem: Problem, run: Run) -> float:
    """Return the minimum cost in bytes of the given order, infinite if it was not found."""
    cost = BestFirstSearch(IndexedProblem.of(problem), _part_of(run, PARAMS.given_states)).solve().cost
    return float("inf") if cost is None else cost


def _part_of(run: Run, node_limit: int) -> Run:
    """Return a run within a run: its own node limit, the time that is left, the same stop switch."""
    return Run(replace(run.limits, node_limit=node_limit), interrupt=run.interrupt, deadline=run.deadline)


def joined_order(indexed: IndexedProblem, run: Run, largest: int) -> tuple[int, ...]:
    """Order the regions one after another, each from where the one before it ended."""
    order: list[int] = []
    boundary = RegionBoundary(0, indexed.backed)
    for region in regions(indexed, largest):
        part = region_problem(indexed, region, boundary)
        moves = _least_cost_moves(part, run)
        boundary = _boundary_after(indexed, region, boundary, moves)
        order.extend(region[move.operator - 1] for move in moves if 1 <= move.operator <= len(region))
    return tuple(order)


def region_problem(indexed: IndexedProblem, region: range, boundary: RegionBoundary) -> IndexedProblem:
    """Return the region as a separate problem, its operators numbered from 1.

    Operator 0 writes the residents at the boundary. A tensor read later has an extra reader after the region, so
    that its eviction has its true cost. A tensor from before that is not resident was paid for when it left: its first
    load is free.
    """
    leaving = [
        tensor
        for tensor, readers in enumerate(indexed.reader_lists)
        if readers and readers[-1] >= region.stop and _is_known(indexed, tensor, region)
    ]
    within = [(0, *(b - region.start + 1 for b in indexed.predecessor_lists[o] if b in region)) for o in region]
    everything = tuple(range(len(region) + 1))
    producer = [
        0 if boundary.resident >> t & 1 else made - region.start + 1 if made in region else -1
        for t, made in enumerate(indexed.producer)
    ]
    return replace(
        indexed,
        read_lists=((), *(indexed.read_lists[o] for o in region), *((tensor,) for tensor in leaving)),
        write_lists=(tuple(bits(boundary.resident)), *(indexed.write_lists[o] for o in region), *(() for _ in leaving)),
        predecessor_lists=((), *within, *(everything for _ in leaving)),
        producer=tuple(producer),
        backed=boundary.copied | indexed.backed | mask_of(t for t, made in enumerate(producer) if made < 0),
    )


def _is_known(indexed: IndexedProblem, tensor: int, region: range) -> bool:
    """True if the tensor exists, or a source has been read, by the end of the region."""
    if indexed.producer[tensor] >= 0:
        return indexed.producer[tensor] < region.stop
    return any(reader < region.stop for reader in indexed.reader_lists[tensor][:1])


def _least_cost_moves(part: IndexedProblem, run: Run) -> tuple[SearchMove, ...]:
    """Search as far as a region's limits allow; else the given order with Belady's evictions."""
    outcome = BestFirstSearch(part, _part_of(run, PARAMS.region_states)).solve()
    return outcome.moves or belady_moves(part, range(part.operator_count))


def _boundary_after(
    indexed: IndexedProblem, region: range, boundary: RegionBoundary, moves: tuple[SearchMove, ...]
) -> RegionBoundary:
    """Replay the region's moves; return residents that are read later, and copies in DRAM."""
    resident, copied = set(bits(boundary.resident)), set(bits(boundary.copied))
    inside = [move for move in moves if 1 <= move.operator <= len(region)]
    executed: set[int] = set()
    for move in inside:
        operator = region[move.operator - 1]
        resident.difference_update(move.evicted)
        copied.update(move.evicted)
        executed.add(operator)
        resident.update(indexed.operand_lists[operator])
    read = (t for t in resident if any(r >= region.start and r not in executed for r in indexed.reader_lists[t]))
    return RegionBoundary(mask_of(read), mask_of(copied))


def _lower_bound(indexed: IndexedProblem, run: Run, value: int) -> int:
    """Return the bound of a short search of the whole."""
    if value == 0 or run.stop is not None:
        return 0
    return min(value, BestFirstSearch(indexed, _part_of(run, PARAMS.bound_states)).solve().lower_bound)


def crossing_bytes(indexed: IndexedProblem) -> tuple[int, ...]:
    """Return per position p the bytes in use on both sides of it: before operator p, and from p on.

    Positions 0 (before all) to n (after all), in the order in which the operators are indexed.
    """
    count = indexed.operator_count
    change = [0] * (count + 2)
    for tensor, size in enumerate(indexed.sizes_bytes):
        readers, producer = indexed.reader_lists[tensor], indexed.producer[tensor]
        if not readers:
            continue
        first, last = producer if producer >= 0 else readers[0], readers[-1]
        change[first + 1] += size
        change[last + 1] -= size
    live, crossing = 0, []
    for position in range(count + 1):
        live += change[position]
        crossing.append(live)
    return tuple(crossing)


def regions(indexed: IndexedProblem, largest: int) -> tuple[range, ...]:
    """Split the operators into stretches of at most `largest`, with the least sum of bytes crossing."""
    crossing = crossing_bytes(indexed)
    count = indexed.operator_count
    least = [(0, 0)]
    for stop in range(1, count + 1):
        starts = range(max(0, stop - largest), stop)
        sums = min((least[start][0] + crossing[start], start) for start in starts)
        least.append(sums)
    cuts = [count]
    while cuts[-1]:
        cuts.append(least[cuts[-1]][1])
    cuts.reverse()
    return tuple(range(start, stop) for start, stop in pairwise(cuts))
