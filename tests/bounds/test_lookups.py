"""Cost, bound and verifier count only the rows of an embedding table that are looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.schedule import ScheduledStack
from onchip.api.map import moved_operators
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.arch.memory import Operand
from onchip.bounds.network.relaxation import relaxation
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision, layers_of
from onchip.ops.nests import moved_operators as moved_outside
from onchip.ops.nests import operands_of
from onchip.transform.groups.tiled import tile_graph

ROWS, WIDTH, LOOKED_UP = 400, 24, 5


def network(kind: str = "Gather", role: Role = Role.PARAMETER, rows: int = ROWS) -> Graph:
    """Return a graph that reads five rows of a table and multiplies each row by a matrix."""
    tensors = (
        Tensor.of_shape("ids", (LOOKED_UP,), 8, Role.INPUT),
        Tensor.of_shape("table", (rows, WIDTH), 8, role),
        Tensor.of_shape("e", (LOOKED_UP, WIDTH), 8, Role.ACTIVATION),
        Tensor.of_shape("w", (WIDTH, 8), 8, Role.PARAMETER),
        Tensor.of_shape("y", (LOOKED_UP, 8), 8, Role.OUTPUT),
    )
    is_kept = role is Role.PARAMETER
    inputs, parameters = (("ids",), ("table",)) if is_kept else (("table", "ids"), ())
    embed = Operator("embed", kind, inputs, ("e",), parameters)
    return Graph("table", tensors, (embed, Operator("mm", "MatMul", ("e",), ("y",), ("w",))))


@pytest.mark.parametrize("role", [Role.PARAMETER, Role.INPUT])
def test_each_element_that_is_written_was_read_once(role: Role) -> None:
    """A loop over the indices reads one row of the table for each index."""
    elements_read = 0
    for _place in range(LOOKED_UP):
        elements_read += WIDTH
    graph = network(role=role)
    bits = {one.bands[0].name: one.bits for one in operands_of(graph, graph.operator["embed"])}
    assert bits == {"ids": 8 * LOOKED_UP, "table": 8 * elements_read, "e": 8 * LOOKED_UP * WIDTH}


def test_a_table_shorter_than_what_is_looked_up_is_read_once() -> None:
    graph = network(rows=2)
    bits = {one.bands[0].name: one.bits for one in operands_of(graph, graph.operator["embed"])}
    assert bits["table"] == 8 * 2 * WIDTH


def test_another_kind_reads_all_of_it() -> None:
    graph = network("Scan")
    (table,) = (one for one in operands_of(graph, graph.operator["embed"]) if one.operand is Operand.WEIGHT)
    assert table.bits == 8 * ROWS * WIDTH


def test_map_counts_the_rows() -> None:
    (moved,) = moved_operators(layers_of(network()), load_accelerator("simba"))
    assert moved.read_bits == 8 * LOOKED_UP * (WIDTH + 1)


@pytest.mark.parametrize("role", [Role.PARAMETER, Role.INPUT])
@pytest.mark.parametrize("objective", [ScheduleObjective.TRAFFIC, ScheduleObjective.ENERGY])
def test_a_schedule_reads_the_rows_and_its_bound_knows_it(
    tmp_path: Path, role: Role, objective: ScheduleObjective
) -> None:
    """The independent verifier accepts the schedule; a table on the chip would first be read whole."""
    path = tmp_path / "table.json"
    write_graph(network(role=role), path)
    outcome = schedule_network(
        ScheduleRequest(
            str(path), "edge-tpu-like", objective, ScheduleOptions(uses_cache=False), reading=Reading(bits=8)
        )
    )
    least = LOOKED_UP * (1 + WIDTH) + WIDTH * 8 + LOOKED_UP * 8

    assert outcome.figures is not None
    assert outcome.figures.traffic_bytes == least
    assert outcome.result.lower_bound <= (outcome.result.objective_value or 0)


def test_the_bound_never_asks_for_more_than_the_rows() -> None:
    graph = network()
    tiles = tile_graph(graph, [ScheduledStack((one.name,)) for one in graph.operators], Precision(8))
    nests = {name: origin.nests for name, origin in tiles.operators.items()}
    bound = relaxation(tiles.graph, nests, load_accelerator("simba"))
    assert bound.dram_read_bits <= 8 * (LOOKED_UP * (1 + WIDTH) + WIDTH * 8)
    assert bound.dram_read_bits >= 8 * (LOOKED_UP * WIDTH + WIDTH * 8)


@pytest.mark.parametrize("kind", ["Gather", "Slice", "Softmax"])
def test_outside_of_fused_stacks_as_much_is_read(kind: str) -> None:
    graph = network(kind)
    (moved,) = moved_outside(graph, ["embed"], 8)
    assert moved.operands == tuple((one.operand, one.bits) for one in operands_of(graph, graph.operator["embed"]))
