"""Results of softmaxes and of operators element by element in the bytes of their inputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions
from onchip.answer.program import Allocate
from onchip.answer.result import Status
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check_schedule import check_schedule_document
from onchip.api.run import RunValues, execution_of
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from onchip.transform.groups.tiled import tile_graph
from onchip.verify.rules import Rule
from onchip.verify.schedule.nests import NestDerivation
from onchip.verify.schedule.tiles import verify_tiles


def network_of(shapes: dict[str, tuple[int, ...]], *operators: Operator) -> Graph:
    """Return a network; tensors that nothing writes are inputs, and those that nothing reads outputs."""
    written = {name for one in operators for name in one.outputs}
    read = {name for one in operators for name in one.inputs}
    roles = dict.fromkeys(read - written, Role.INPUT) | dict.fromkeys(written - read, Role.OUTPUT)
    roles |= dict.fromkeys((name for one in operators for name in one.parameters), Role.PARAMETER)
    return Graph(
        "n",
        tuple(Tensor.of_shape(name, shape, 8, roles.get(name, Role.ACTIVATION)) for name, shape in shapes.items()),
        operators,
    )


CHAIN = network_of(
    dict.fromkeys("xaby", (4, 8)),
    Operator("a", "Exp", ("x",), ("a",)),
    Operator("b", "Softmax", ("a",), ("b",), attributes={"axis": -1}),
    Operator("y", "Add", ("b", "a"), ("y",)),
)
ATTENTION = network_of(
    {"q": (1, 16, 4), "k": (1, 4, 16), "v": (1, 16, 4), "s": (1, 16, 16), "p": (1, 16, 16), "o": (1, 16, 4)},
    Operator("s", "MatMul", ("q", "k"), ("s",)),
    Operator("p", "Softmax", ("s",), ("p",), attributes={"axis": -1}),
    Operator("o", "MatMul", ("p", "v"), ("o",)),
)


def machine(capacity: int) -> Accelerator:
    memory, port = Memory("sram", capacity), Port(Direction.READ_WRITE, 8)
    level = MemoryLevel(memory, is_scratchpad=True, access=Access(8, 1, 2), ports=(port,))
    return Accelerator(
        "tiny", (memory,), (level,), None, ComputeArray({"lane": 1}, None, 0.0), Dram(Access(8, 10, 20), (port,))
    )


@pytest.mark.parametrize(("network", "capacity", "traffic"), [(CHAIN, 64, 64), (ATTENTION, 256 + 64 + 8, 4 * 64)])
def test_no_schedule_of_a_softmax_in_place_moves_less(
    network: Graph, capacity: int, traffic: int, tmp_path: Path
) -> None:
    """Without shared bytes the softmax alone would need twice its input."""
    path = tmp_path / "network.json"
    write_graph(network, path)
    request = ScheduleRequest(
        str(path),
        machine(capacity),
        ScheduleObjective.TRAFFIC,
        ScheduleOptions(partial_bits=8, uses_cache=False),
        reading=Reading(bits=8),
    )
    outcome = schedule_network(request)
    assert (outcome.result.status, outcome.result.objective_value) == (Status.OPTIMAL, traffic)
    assert outcome.document is not None
    allocated = [one for one in outcome.document.answer.program.instructions if isinstance(one, Allocate)]
    assert max(Counter((one.memory, one.offset_bytes) for one in allocated).values()) > 1
    run = execution_of(check_schedule_document(outcome.document, str(path)), str(path), RunValues(7))
    assert run.is_right


def test_an_operator_that_reads_its_input_again_may_not_write_there() -> None:
    stacks = (ScheduledStack(("s", "p", "o"), Tiling(1, 8, OverlapMode.RECOMPUTE)),)
    tiles = tile_graph(ATTENTION, stacks, Precision(8)).graph
    band = tiles.operator["p#1"].outputs[0]

    def rules(name: str, pair: InPlace) -> list[tuple[Rule, str]]:
        changed = tuple(replace(one, in_place=(pair,)) if one.name == name else one for one in tiles.operators)
        found = verify_tiles(ATTENTION, replace(tiles, operators=changed), stacks, NestDerivation(ATTENTION, 8))
        return [(one.rule, one.subject) for one in found]

    (pair,) = tiles.operator["p#1"].in_place
    assert rules("p#1", pair) == []
    (factor, _), (written,) = tiles.operator["o#1"].inputs, tiles.operator["o#1"].outputs
    assert factor == band
    assert rules("o#1", InPlace(factor, written)) == [(Rule.TILE_DIFFERS, "o#1")]
