"""Schedules in stacks through slices of channels and repeated pixels: legal, and not below their bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.stacks import OverlapMode
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.formats.own.graph_json import graph_to_json
from onchip.ir.graph import Graph
from onchip.search.budget.limits import Limits
from support.series import series
from support.small_schedules import chip
from support.tiled import Attributes, Network, conv

NEAREST: Attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def halves() -> Graph:
    """Return one half of a map plus a convolution of the other half."""
    network = Network(8)
    wide = conv(network, network.input(1, 2, 8, 8), 4, 1)
    first, second = network.split(wide, [(1, 2, 8, 8)] * 2, 1)
    network.add("Add", [first, conv(network, second, 2, 3)], (1, 2, 8, 8))
    return network.graph()


def grown() -> Graph:
    """Return a map that is enlarged and added to a convolution of itself, as where a decoder meets its encoder."""
    network = Network(8)
    small = conv(network, network.input(1, 2, 4, 4), 2, 3)
    large = network.add("Resize", [small], (1, 2, 8, 8), (), NEAREST)
    network.add("Add", [large, conv(network, large, 2, 3)], (1, 2, 8, 8))
    return network.graph()


@pytest.mark.parametrize("mode", series(OverlapMode, 1))
@pytest.mark.parametrize(
    ("network", "objective", "tile"),
    series(
        [
            (grown, ScheduleObjective.TRAFFIC, (8, 1)),
            (halves, ScheduleObjective.ENERGY, (3, 5)),
            (halves, ScheduleObjective.TRAFFIC, (8, 1)),
            (grown, ScheduleObjective.ENERGY, (3, 5)),
        ],
        1,
    ),
)
def test_one_stack_is_legal_and_costs_no_less_than_its_bound(
    network: Callable[[], Graph], objective: ScheduleObjective, tile: tuple[int, int], mode: OverlapMode, tmp_path: Path
) -> None:
    """The schedule is legal, as `schedule` raises if the verifier rejects it."""
    path = tmp_path / "network.json"
    path.write_text(graph_to_json(network()))
    options = ScheduleOptions("one", tile, mode)
    request = ScheduleRequest(
        str(path), chip(), objective, replace(options, uses_cache=False), reading=Reading(bits=8), limits=Limits(5.0)
    )
    found = schedule_network(request)
    assert found.result.answer is not None
    assert [len(stack.operators) for stack in found.result.answer.stacks] == [len(found.network.operators)]
    assert (found.result.objective_value or 0) >= found.result.lower_bound > 0
