"""The `info` use case: the contents of a network and its capacity budgets."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from onchip.answer.document import Reading
from onchip.answer.problem import Problem
from onchip.api.networks import Network, is_model, network_to_plan
from onchip.api.phases import phase
from onchip.api.plan import can_be_tiled
from onchip.api.target import budgets_of, roomy_problem
from onchip.arch.sharing import Share, SharedKinds
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import compulsory_bytes
from onchip.model.timeline.mac_count import MacCount
from onchip.reports.program.outcome import Description, NeedInTiles, RecomputingNeed, SharedNeed
from onchip.scheduling.tiles.bounds import least_peak_of_tilings, smallest_need
from onchip.scheduling.tiles.tilings import least_peaks_found
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.search.strategy.start import RunStarter, silent_run
from onchip.transform.rewrite.shared_bytes import SharedBytes, declared_in

PERCENTAGES: Final = (10.0, inf)
"""Limits on recomputation in percent, for which the least peak is stated."""


@phase("searching")
def describe_network(network: Network, reading: Reading, limits: Limits, start: RunStarter = silent_run) -> Description:
    """Return a description of a network and its capacity budgets."""
    deadline = Deadline.after(limits.time_limit_seconds)
    whole = network_to_plan(network, replace(reading, sharing=SharedKinds.of(Share.ALL)))
    shares = tuple(Share) if whole.shares_bytes else (Share.NONE,)
    problems = {share: roomy_problem(_sharing(whole, share), reading.count) for share in shares}
    budgets = {share: budgets_of(problem, limits, start, deadline) for share, problem in problems.items()}
    needs = tuple(SharedNeed(share, one.required_bytes, one.min_peak_bytes) for share, one in budgets.items())
    alone, own = problems[Share.NONE], budgets[Share.NONE]
    shared, in_tiles = needs if len(needs) > 1 else (), _need_in_tiles(alone, network, deadline)
    return Description(alone, own.required, own.least_peak, compulsory_bytes(alone), shared, in_tiles)


def _need_in_tiles(whole: Problem, network: Network, deadline: Deadline) -> NeedInTiles | None:
    """Return the least capacities of a network in tiles; None if no operator can be tiled, or with states."""
    of_model = is_model(network)
    if whole.graph.states or not can_be_tiled(whole, is_model=of_model):
        return None

    def is_late() -> bool:
        return deadline.is_past

    least = smallest_need(whole, is_model=of_model)
    bound = least_peak_of_tilings(whole, is_model=of_model, is_late=is_late)
    (peak, _), *others = least_peaks_found(whole, of_model, (0.0, *(one / 100 for one in PERCENTAGES)), is_late)
    recomputing = tuple(
        RecomputingNeed(None if limit == inf else limit, *found)
        for limit, found in zip(PERCENTAGES, others, strict=True)
    )
    count = MacCount(whole.graph)
    macs = sum(map(count.macs, whole.graph.operators))
    return NeedInTiles(least.need_bytes, least.operator.name, bound, peak, macs, recomputing)


def _sharing(whole: Graph, share: Share) -> Graph:
    """Return the network with byte sharing restricted to `share`."""
    return SharedBytes(SharedKinds.of(share), declared_in(whole, whole))(whole)
