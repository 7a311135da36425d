"""The tilings among which `plan` chooses, as problems whose operators are tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.document import Reading, Split
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.api.networks import Network, fitted_to_scratchpads, is_model
from onchip.errors import UnsplitError, UsageError
from onchip.model.capacity.infeasible_operator import infeasible_operator
from onchip.scheduling.candidates.split import can_split
from onchip.scheduling.tiles.tilings import least_peak_of_tilings, tilings
from onchip.transform.rewrite.shared_bytes import SharedBytes

WHOLE_OPERATORS: Final = "plans of whole operators"
THIS_TILING: Final = "plans of this tiling"
NO_PLAN: Final = "no plan of the tilings tried fits; another may"


@dataclass(frozen=True, slots=True)
class TiledProblem:
    """A problem whose operators are tiles, the reading that reproduces it, and an order of the tiles to start from."""

    reading: Reading
    problem: Problem
    order: tuple[str, ...] = ()

    @property
    def ordered(self) -> Problem:
        """Return the problem with its operators in the order to start from; its plans are plans of the problem."""
        if not self.order:
            return self.problem
        graph = self.problem.graph
        return replace(self.problem, graph=replace(graph, operators=tuple(map(graph.operator.__getitem__, self.order))))

    def of_this(self, result: Result[Plan]) -> Result[Plan]:
        """Return a result for the ordered problem as one for the problem."""
        answer = result.answer
        if answer is None or not self.order:
            return result
        own = self.problem
        if answer.problem is not None:
            own = replace(answer.problem, graph=self.problem.graph, order=self.problem.order)
        return replace(result, answer=replace(answer, problem=own))


def searches_tilings(tiles: TilesOption | None, whole: Problem, network: Network, reading: Reading) -> bool:
    """Return True if tilings are searched: if asked, or by default if an operator does not fit the only scratchpad.

    Raises UsageError if tilings are asked of an order that is not free.
    """
    if reading.cap_tensors or not can_split(whole, is_model=is_model(network)):
        return False
    if reading.split is not Split.NEVER:
        return True
    if tiles is TilesOption.AUTO and whole.order is not Order.FREE:
        raise UsageError("the order of the tiles is searched", place="--tiles auto, --order", expected="--order free")
    if tiles is None:
        has_one_scratchpad = len(whole.memories) == 1
        return has_one_scratchpad and whole.order is Order.FREE and infeasible_operator(whole) is not None
    return tiles is TilesOption.AUTO


def tilings_to_plan(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool]
) -> Iterator[TiledProblem]:
    """Yield fused groups in tiles; then whole operators or, if they do not fit, operators split one by one.

    A reading that splits operators is the only tiling. Raises UnsplitError if no tiles are found in which all operators
    fit, proven only if some tile of an operator exceeds the scratchpad in every tiling.
    """
    if reading.split is not Split.NEVER:
        yield TiledProblem(reading, fitted_to_scratchpads(whole, network, reading))
        return
    yield from _in_fused_groups(whole, network, reading, is_late)
    if infeasible_operator(whole) is None:
        yield TiledProblem(reading, whole)
        return
    alone = replace(reading, split=Split.AUTO)
    try:
        yield TiledProblem(alone, fitted_to_scratchpads(whole, network, alone))
    except UnsplitError as error:
        capacity = whole.memories[0].capacity_bytes
        error.is_proven &= len(whole.memories) == 1 and (error.smallest_part_bytes or 0) > capacity
        raise


def _in_fused_groups(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool]
) -> Iterator[TiledProblem]:
    """Yield the tilings of fused groups, in one scratchpad and where no file states the cost of tiles."""
    states_tiles = any(operator.stated.splits or operator.tile for operator in whole.graph.operators)
    if len(whole.memories) > 1 or states_tiles or reading.bands:
        return
    if least_peak_of_tilings(whole, is_model=is_model(network)) > whole.memories[0].capacity_bytes:
        return
    apart = replace(whole, graph=SharedBytes()(whole.graph))
    for tiling in tilings(apart, is_model=is_model(network), is_late=is_late):
        if tiling.tiles:
            tiled = replace(reading, tiles=tiling.tiles)
            yield TiledProblem(tiled, fitted_to_scratchpads(whole, network, tiled), tiling.order)


def for_all_tilings(result: Result[Plan], least: int) -> Result[Plan]:
    """Convert a result for one tiling to a status and a bound that hold for all tilings.

    `least` is a lower bound for all tilings. `optimal_among` keeps the proof for this tiling.
    """
    if result.status is Status.INFEASIBLE:
        return replace(result, status=Status.UNKNOWN, lower_bound=least, why_not=NO_PLAN)
    if result.objective_value is None:
        return replace(result, lower_bound=least)
    if result.objective_value <= least:
        return replace(result, status=Status.OPTIMAL, lower_bound=result.objective_value)
    among = THIS_TILING if result.status is Status.OPTIMAL else result.optimal_among
    return replace(result, status=Status.FEASIBLE, lower_bound=least, optimal_among=among)
