"""Cycles of operators by mappings: never below their work over the array, for tiles and several nests too."""

from __future__ import annotations

from math import ceil

import pytest

from onchip.api.plan import cycles_by_mapping
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.timeline.mac_count import MacCount
from onchip.search.budget.limits import Run
from support.tiled import problem_of, tiled_to_fit

UNITS = 4
ACCESS = Access(8, 1.0, 1.0)
PORTS = (Port(Direction.READ_WRITE, 64),)


def machine(*memories: Memory) -> Accelerator:
    levels = tuple(MemoryLevel(memory, is_scratchpad=True, access=ACCESS, ports=PORTS) for memory in memories)
    return Accelerator(
        "chip", memories, levels, array=ComputeArray({"unit": UNITS}, mac_energy_pj=1.0), dram=Dram(ACCESS, PORTS)
    )


ONE = machine(Memory("sram", 4096))


def operator(
    kind: str, read: tuple[int, ...], written: tuple[int, ...], weight: tuple[int, ...] = (), **how: AttributeValue
) -> Graph:
    tensors = [Tensor.of_shape("x", read, 8, Role.INPUT), Tensor.of_shape("y", written, 8, Role.OUTPUT)]
    parameters = [Tensor.of_shape("w", weight, 8, Role.PARAMETER)] if weight else []
    names = tuple(tensor.name for tensor in parameters)
    return Graph("one", (*tensors, *parameters), (Operator("op", kind, ("x",), ("y",), names, how),))


CONVOLUTION = operator("Conv", (1, 8, 10, 10), (1, 8, 8, 8), (8, 8, 3, 3), kernel_shape=[3, 3])
TRANSPOSED = operator("ConvTranspose", (1, 4, 5, 5), (1, 4, 11, 11), (4, 4, 3, 3), kernel_shape=[3, 3], strides=[2, 2])
PRODUCT = operator("Gemm", (6, 64), (6, 10), (64, 10))
POOL = operator("MaxPool", (1, 8, 8, 8), (1, 8, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
ALL = {"convolution": CONVOLUTION, "transposed": TRANSPOSED, "product": PRODUCT, "pool": POOL}


def cycles(graph: Graph, accelerator: Accelerator = ONE) -> int:
    found = cycles_by_mapping(graph, accelerator, Run())
    assert set(found) == {one.name for one in graph.operators}
    return sum(found.values())


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
def test_no_operator_takes_less_than_its_work_over_the_array(graph: Graph) -> None:
    """The scratchpad also holds weights, which a pool does not have."""
    (operator,) = graph.operators
    assert cycles(graph) >= ceil(MacCount(graph).macs(operator) / UNITS)


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
@pytest.mark.parametrize("share", [2, 4])
def test_tiles_take_no_less_than_what_they_are_tiles_of(graph: Graph, share: int) -> None:
    """Rounding adds less than a cycle per tile, without the moves between tiles."""
    need = sum(tensor.size_bytes for tensor in graph.tensors)
    tiles = tiled_to_fit(problem_of(graph, need // share))
    found = cycles_by_mapping(tiles, ONE, Run())
    own = [found[one.name] for one in tiles.operators if one.tile is not None and one.tile.operator == "op"]
    assert len(own) > 1
    assert cycles(graph) <= sum(own) < cycles(graph) + len(own)


def test_wider_elements_take_longer_over_the_same_ports() -> None:
    wide = Graph(
        "wide",
        tuple(Tensor.of_shape(one.name, one.shape or (), 64, one.role) for one in PRODUCT.tensors),
        PRODUCT.operators,
    )
    assert cycles(wide) > cycles(PRODUCT)


def test_operands_need_room_in_all_scratchpads_together_alone() -> None:
    """The plan decides which of two scratchpads of the same kind an operand lies in."""
    holds = (Operand.INPUT, Operand.WEIGHT)
    several = (
        Memory("one", 800, holds=holds),
        Memory("other", 800, holds=holds),
        Memory("out", 800, holds=(Operand.OUTPUT,)),
    )
    assert cycles(CONVOLUTION, machine(*several)) > 0
