"""A map times a constant for each pixel: no bound of a stack exceeds its cost, which `fuse` checks itself."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.limits import Limits
from support.series import series


def windowed(rows: int, columns: int, constant: tuple[int, ...]) -> Graph:
    """Return a network that weights a signal for a transform."""
    tensors = (
        Tensor.of_shape("x", (1, rows, columns), 8, Role.INPUT),
        Tensor.of_shape("window", constant, 8, Role.PARAMETER),
        Tensor.of_shape("a", (1, rows, columns), 8, Role.ACTIVATION),
        Tensor.of_shape("b", (1, rows, columns), 8, Role.ACTIVATION),
        Tensor.of_shape("y", (1, rows, columns), 8, Role.OUTPUT),
    )
    operators = (
        Operator("square", "Mul", ("x", "x"), ("a",)),
        Operator("weigh", "Mul", ("a",), ("b",), ("window",)),
        Operator("subtract", "Sub", ("b", "x"), ("y",)),
    )
    return Graph("windowed", tensors, operators)


CASES = list(
    product(("simba", "meta-prototype-df"), ((1, 40, (40,)), (6, 10, (6, 10)), (6, 10, (10,))), FusionObjective)
)
MIXED = [CASES[5 * at % len(CASES)] for at in range(len(CASES))]
"""A permutation of the cases, so that the first few contain every machine, window and objective."""


@pytest.mark.parametrize(("machine", "window", "objective"), series(MIXED, 4))
def test_no_stack_costs_less_than_its_bound(
    tmp_path: Path, machine: str, window: tuple[int, int, tuple[int, ...]], objective: FusionObjective
) -> None:
    network = tmp_path / "windowed.json"
    write_graph(windowed(*window), network)
    found = fuse_network(FusionRequest(str(network), machine, objective, limits=Limits(5.0), use_cache=False, bits=8))
    assert found.result.objective_value is not None
    assert found.result.bound_among is not None
    assert found.result.lower_bound <= found.result.bound_among <= found.result.objective_value
