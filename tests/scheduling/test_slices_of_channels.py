"""Schedules with groups in slices of channels: files, values, and the bound of tiny networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check_schedule import check_schedule_document
from onchip.api.run import RunValues, execution_of
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.schedule_json import schedule_from_json, schedule_to_json
from onchip.ir.graph import Graph
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tiled import tile_graph
from support.random_schedules import assert_bound_holds, channel_case
from support.series import series
from support.tiled import Network, conv


def test_a_schedule_in_slices_of_channels_is_legal_and_has_the_values_of_the_network(tmp_path: Path) -> None:
    """The weights fit no memory of simba, and a map of the addition does not fit next to the convolution's."""
    network = Network(8)
    source, beside = network.input(1, 32, 7, 7), network.input(1, 2048, 7, 7)
    widened = conv(network, source, 2048, 1)
    network.add("Add", [widened, beside], network.shape(widened))
    path = tmp_path / "block.json"
    write_graph(network.graph(), path)
    options, machine = ScheduleOptions("one"), load_accelerator("simba")
    request = ScheduleRequest(
        str(path), machine, ScheduleObjective.TRAFFIC, replace(options, uses_cache=False), reading=Reading(bits=8)
    )
    found = schedule_network(request).document
    assert found is not None
    (stack,) = found.answer.stacks
    assert stack.tiling is not None
    assert stack.tiling.channels is not None
    again = schedule_from_json(schedule_to_json(found), "block.schedule.json")
    assert again.answer == found.answer
    checked = check_schedule_document(again, str(path))
    assert checked.verdict.figures is not None
    assert checked.verdict.figures.traffic_bytes == 49 * (32 + 2 * 2048) + 32 * 2048
    run = execution_of(checked, str(path), RunValues(7))
    assert run.is_right
    assert run.relative_difference == 0


@pytest.mark.parametrize("objective", ["traffic", "energy"])
@pytest.mark.parametrize("seed", series(range(200), 8))
def test_no_schedule_in_slices_of_channels_is_below_the_bound(seed: int, objective: str) -> None:
    assert_bound_holds(channel_case(seed), objective)


def test_weights_that_several_operators_read_are_not_cut() -> None:
    """Slices of one operator would leave the other one without its weights."""
    network = Network(8)
    first = conv(network, network.input(1, 3, 4, 4), 3, 1)
    conv(network, first, 3, 1)
    whole = network.graph()
    one, other = whole.operators
    shared = replace(other, parameters=one.parameters)
    unread = set(other.parameters) - set(one.parameters)
    graph = Graph(whole.name, tuple(each for each in whole.tensors if each.name not in unread), (one, shared))
    sliced = ScheduledStack((one.name,), Tiling(4, 4, OverlapMode.RECOMPUTE, 1))
    with pytest.raises(ScheduleError, match="has several readers, and slices would cut it"):
        tile_graph(graph, (sliced, ScheduledStack((other.name,))), Precision())
