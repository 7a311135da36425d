from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.problem import Objective, Recomputation
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Direction, Dram, Memory, Port
from onchip.errors import AcceleratorError, UsageError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.recomputation import recomputation_on

GRAPH = Graph(
    "two",
    (
        Tensor("x", 12, Role.INPUT, (1, 12), 8),
        Tensor("a", 12, Role.ACTIVATION, (1, 12), 8),
        Tensor("y", 12, Role.OUTPUT, (1, 12), 8),
    ),
    (Operator("first", "Relu", ("x",), ("a",)), Operator("second", "Relu", ("a",), ("y",), stated=StatedCost(7, 2.5))),
)
PLAIN = Accelerator("sram", (Memory("sram", 100),))
MACHINE = replace(
    PLAIN, array=ComputeArray(free=4, mac_energy_pj=0.5), dram=Dram(ports=(Port(Direction.READ_WRITE, 24),))
)


@pytest.mark.parametrize(
    ("accelerator", "objective", "price", "costs"),
    [
        (PLAIN, Objective.RECOMPUTATION, None, (12, 7)),
        (MACHINE, Objective.RECOMPUTATION, None, (3, 7)),
        (MACHINE, Objective.DMA_CYCLES, None, (3, 7)),
        (MACHINE, Objective.TRAFFIC, None, (9, 21)),
        (MACHINE, Objective.DMA_ENERGY, None, (6000, 2500)),
        (PLAIN, Objective.TRAFFIC, 500_000.0, (6, 4)),
        (MACHINE, Objective.TRAFFIC, 0.0, (0, 0)),
    ],
)
def test_a_further_run_costs_cycles_energy_or_the_bytes_of_dram_s_time(
    accelerator: Accelerator, objective: Objective, price: float | None, costs: tuple[int, int]
) -> None:
    found = recomputation_on(accelerator, GRAPH, objective, price=price)
    assert tuple(found.cost(operator) for operator in GRAPH.operators) == costs


def test_what_nothing_says_is_refused() -> None:
    with pytest.raises(UsageError, match="DRAM bandwidth"):
        recomputation_on(PLAIN, GRAPH, Objective.TRAFFIC)
    with pytest.raises(AcceleratorError, match="what energy operator 'first' takes"):
        recomputation_on(PLAIN, GRAPH, Objective.DMA_ENERGY)
    with pytest.raises(UsageError, match=r"-1\.0 is invalid"):
        recomputation_on(MACHINE, GRAPH, Objective.TRAFFIC, price=-1.0)
    with pytest.raises(UsageError, match="counts cycles as they are"):
        recomputation_on(MACHINE, GRAPH, Objective.RECOMPUTATION, price=1.0)
    with pytest.raises(UsageError, match=r"costs\.f is -1"):
        Recomputation({"f": -1})
