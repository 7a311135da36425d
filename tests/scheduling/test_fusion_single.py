from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest

from onchip.answer.options.fusion_options import Combination, FusionOptions, Placements
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.result import Status
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace, shared_spaces, space_of
from onchip.scheduling.choice.search import FoundWay
from onchip.scheduling.choice.solve import Solver
from onchip.scheduling.choice.ways import Arc
from onchip.scheduling.fronts.cost_table import Ledger
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import StackChoice, legal_spans, stack_of, whole
from support.fusable_networks import chain_network
from support.fusion_spaces import SCARCE_CHIP, RandomCosts, ways_through


def maps_shrink(sizes: Sequence[tuple[int, int]]) -> FusableNetwork:
    """A chain_network whose maps have these rows and columns."""
    network = chain_network(len(sizes))
    layers = tuple(
        replace(layer, output=replace(layer.output, rows=rows, columns=columns))
        for layer, (rows, columns) in zip(network.layers, sizes, strict=True)
    )
    return replace(network, layers=layers)


def share_a_tiling(network: FusableNetwork, way: Sequence[StackChoice], options: FusionOptions) -> bool:
    """The definition: some tiling, each stack's own map apart, is that of every stack of several layers."""
    largest = range(1, 1 + max(max(one.output.rows, one.output.columns) for one in network.layers))
    sizes = [options.tile] if options.tile else list(product(largest, largest))

    def runs_in(choice: StackChoice, shared: Tiling) -> bool:
        output = stack_of(network, choice.span).output
        is_one_tile = choice.span.length == 1 and choice.tiling == whole(output)
        return is_one_tile or choice.tiling == shared.within(output.columns, output.rows)

    return any(all(runs_in(choice, Tiling(*size, mode)) for choice in way) for size in sizes for mode in options.modes)


@pytest.mark.parametrize("tile", [None, (2, 4), (3, 3), (1, 2)])
@pytest.mark.parametrize("mode", [None, OverlapMode.FULLY_CACHED])
@pytest.mark.parametrize("sizes", [TileSizes.HALVES, TileSizes.SWEEP])
@pytest.mark.parametrize("shape", [((4, 4), (3, 4), (2, 1)), ((5, 3), (5, 3), (3, 5)), ((2, 2), (4, 5), (4, 5))])
def test_single_is_what_of_best_runs_in_one_tiling_cut_to_each_map(
    tile: tuple[int, int] | None, mode: OverlapMode | None, sizes: TileSizes, shape: Sequence[tuple[int, int]]
) -> None:
    """So it never leaves the space of `best`; tilings cut to a small map were once imposed on larger ones."""
    network = maps_shrink(shape)
    options = FusionOptions(tile=tile, mode=mode, tile_sizes=sizes, placements=Placements.DRAM)
    space = space_of(network, SCARCE_CHIP, legal_spans(network), options)

    def ways(one: StackSpace) -> set[tuple[StackChoice, ...]]:
        arcs, last = one.arcs()
        own = [Arc(a.source, a.target, tuple(each for c in a.choices for each in c.singly())) for a in arcs]
        return set(ways_through(own, last))

    shared = set().union(*map(ways, shared_spaces(space, options)))
    assert shared == {way for way in ways(space) if share_a_tiling(network, way, options)}
    assert shared


@pytest.mark.parametrize("seconds", [0.0, None])
def test_a_single_tiling_that_is_not_listed_in_time_has_the_bound_of_all(seconds: float | None) -> None:
    """With no time only the first part is listed, so no proof may be of that one alone."""
    network, options = maps_shrink(((4, 4), (3, 4), (2, 2))), FusionOptions(combination=Combination.SINGLE)
    costs, whole_run = RandomCosts(7, 1), Run()

    def solved(run: Run) -> FoundWay[StackChoice]:
        solver = Solver(Ledger(costs), (0,), 1, run)
        space = space_of(network, SCARCE_CHIP, legal_spans(network), options)
        return solver.best_shared(lambda: shared_spaces(space, options))[0]

    least = solved(whole_run)
    found = solved(Run(Limits(time_limit_seconds=seconds)))
    assert least.way is not None
    assert found.lower_bound <= least.way.value
    assert (found.status is Status.OPTIMAL) == (seconds is None)
