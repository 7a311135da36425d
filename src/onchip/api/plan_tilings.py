"""The tilings among which `plan` chooses, as problems whose operators are tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import OperatorTiles, TilesOption
from onchip.answer.problem import Order, Problem
from onchip.answer.program import Plan
from onchip.answer.result import SearchResult, Status
from onchip.api.networks import Network, fitted_to_scratchpads, is_model, text_of
from onchip.errors import UntiledError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.model.capacity.bounds import InfeasibleOperator, infeasible_operator, operator_need
from onchip.ops.entries import has_bounded_operand
from onchip.scheduling.tiles.bounds import SmallestNeed, smallest_need
from onchip.scheduling.tiles.single_operators import tiles_that_fit
from onchip.scheduling.tiles.tilings import tilings
from onchip.transform.rewrite.shared_bytes import SharedBytes
from onchip.transform.slices.emission import counted_geometries

WHOLE_OPERATORS: Final = "plans of whole operators"
THIS_TILING: Final = "plans of this tiling"
NO_PLAN: Final = "the tilings tried have no plan that fits; others may"


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

    def of_this(self, result: SearchResult[Plan]) -> SearchResult[Plan]:
        """Return a result for the ordered problem as one for the problem."""
        answer = result.answer
        if answer is None or not self.order:
            return result
        own = self.problem
        if answer.problem is not None:
            own = replace(answer.problem, graph=self.problem.graph, order=self.problem.order)
        return replace(result, answer=replace(answer, problem=own))


def can_be_tiled(problem: Problem, *, is_model: bool, operator: Operator | None = None) -> bool:
    """Return True if the operator, or some operator, can run in tiles, whether or not it fits whole."""
    geometries = counted_geometries(problem, is_model=is_model)
    asked = geometries.values() if operator is None else (geometries[operator.name],)
    return any(axis.size > 1 and not axis.is_reduction for one in asked if one is not None for axis in one.axes)


def searches_tilings(tiles: TilesOption | None, whole: Problem, network: Network, reading: Reading) -> bool:
    """Return True if tilings are searched: if asked, or by default if an operator does not fit the only scratchpad."""
    if reading.cap_tensors:
        return False
    if not can_be_tiled(whole, is_model=is_model(network)):
        return tiles is TilesOption.AUTO and infeasible_operator(whole) is not None
    if tiles is None:
        has_one_scratchpad = len(whole.memories) == 1
        return has_one_scratchpad and whole.order is Order.FREE and infeasible_operator(whole) is not None
    return tiles is TilesOption.AUTO


def tilings_to_plan(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool]
) -> Iterator[TiledProblem]:
    """Yield fused groups in tiles; then whole operators or, if they do not fit, operators tiled one by one.

    Raises UntiledError if no tiles are found in which all operators fit, proven if some tile of an operator exceeds the
    only scratchpad in every tiling.
    """
    misfit = infeasible_operator(whole)
    if misfit is not None:
        _ensure_some_tile_fits(whole, network, misfit)
    yield from _in_fused_groups(whole, network, reading, is_late)
    if misfit is None:
        yield TiledProblem(reading, whole)
    else:
        yield tiled_one_by_one(whole, network, reading)


def tiled_one_by_one(whole: Problem, network: Network, reading: Reading) -> TiledProblem:
    """Return the problem with single operators in few tiles, so that all fit.

    Raises UntiledError if no tiles are found, proven if some tile of an operator exceeds the only scratchpad.
    """
    misfit = infeasible_operator(whole)
    if misfit is None:
        return TiledProblem(reading, whole)
    _ensure_some_tile_fits(whole, network, misfit)

    def emitted(tiles: Mapping[str, OperatorTiles]) -> Graph:
        return fitted_to_scratchpads(whole, network, replace(reading, tiles=tiles)).graph

    alone = tiles_that_fit(whole, emitted, is_model=is_model(network))
    if alone is None:
        least = SmallestNeed(misfit.operator, misfit.need_bytes)
        raise _untiled(whole, network, least, "no tiling is found in which all operators fit", is_proven=False)
    own = replace(reading, tiles=alone)
    return TiledProblem(own, fitted_to_scratchpads(whole, network, own))


def _ensure_some_tile_fits(whole: Problem, network: Network, misfit: InfeasibleOperator) -> None:
    """Raise UntiledError if an operator does not fit the only scratchpad in any tiling."""
    if len(whole.memories) > 1:
        return
    least = smallest_need(whole, is_model=is_model(network))
    if least.need_bytes == 0 and not can_be_tiled(whole, is_model=is_model(network), operator=misfit.operator):
        least = SmallestNeed(misfit.operator, misfit.need_bytes)
    if least.need_bytes > whole.memories[0].capacity_bytes:
        raise _untiled(whole, network, least, "no tiling of it fits", is_proven=True)


def _untiled(whole: Problem, network: Network, least: SmallestNeed, why: str, *, is_proven: bool) -> UntiledError:
    need = operator_need(whole, least.operator).need_bytes
    part = "" if least.need_bytes == need else f", its smallest tile {least.need_bytes}"
    if has_bounded_operand(least.operator, whole.graph):
        part += ", and it is cut along no axis, as shapes are known only when it runs"
    listed = ", ".join(f"{memory.capacity_bytes} of {memory.name!r}" for memory in whole.memories)
    return UntiledError(
        f"{why}: its operands take {need} bytes ({least.operator.kind}){part}",
        operator=least.operator.name,
        need_bytes=need,
        smallest_part_bytes=least.need_bytes,
        capacity_bytes=sum(memory.capacity_bytes for memory in whole.memories),
        is_proven=is_proven,
        expected=f"operands that fit, each in one scratchpad: bytes {listed}",
    ).in_file(text_of(network))


def _in_fused_groups(
    whole: Problem, network: Network, reading: Reading, is_late: Callable[[], bool]
) -> Iterator[TiledProblem]:
    """Yield the tilings of fused groups: in one scratchpad, in any order, where no file states the cost of tiles."""
    states_tiles = any(operator.stated.splits or operator.tile for operator in whole.graph.operators)
    if len(whole.memories) > 1 or whole.order is not Order.FREE or states_tiles or reading.bands:
        return
    apart = replace(whole, graph=SharedBytes()(whole.graph))
    for tiling in tilings(apart, is_model=is_model(network), is_late=is_late):
        if tiling.tiles:
            tiled = replace(reading, tiles=tiling.tiles)
            yield TiledProblem(tiled, fitted_to_scratchpads(whole, network, tiled), tiling.order)


def for_all_tilings(result: SearchResult[Plan], least: int) -> SearchResult[Plan]:
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
