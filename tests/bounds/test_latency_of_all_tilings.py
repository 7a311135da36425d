"""The bound on the latency of all tilings is not above the best plan of any tiling of a tiny network."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from onchip.answer.problem import Count, Objective, Problem
from onchip.api.plan import MAPPING, bound_of_all_tilings, durations_of, plan_problem
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.recomputation import transfers_of
from onchip.model.timeline.mac_count import MACS
from onchip.search.budget.limits import Limits, Run
from oracles.tilings import every_tiling, graphs_in_tiles
from support.toy_chip import CHIP

SECONDS = 0.3
FAST_DRAM, SLOW_DRAM = "bits_per_cycle: 64", "bits_per_cycle: 4"


def network(random: Random) -> Graph:
    """Return a convolution or a pool, whose windows may skip rows, followed by an activation."""
    size, kernel, stride = random.randint(3, 5), random.randint(1, 2), random.randint(1, 3)
    pad, kind = random.randint(-1, kernel - 1), random.choice(("Conv", "MaxPool"))
    rows = (size + 2 * pad - kernel) // stride + 1
    window: dict[str, AttributeValue] = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "pads": [pad, 0, pad, 0]}
    tensors = [
        Tensor.of_shape("x", (1, 2, size, 2), 8, Role.INPUT),
        Tensor.of_shape("w", (2, 2, kernel, 1), 8, Role.PARAMETER),
        Tensor.of_shape("a", (1, 2, rows, 2), 8, Role.ACTIVATION),
        Tensor.of_shape("y", (1, 2, rows, 2), 8, Role.OUTPUT),
    ]
    weights = ("w",) if kind == "Conv" else ()
    stated = StatedCost(random.randint(1, 9)) if random.random() < 0.3 else StatedCost()
    first = Operator("first", kind, ("x",), ("a",), weights, window, stated=stated)
    second = Operator("second", "Relu", ("a",), ("y",))
    return Graph("tiny", tuple(one for one in tensors if one.name != "w" or weights), (first, second))


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_not_above_any_tiling(seed: int, tmp_path: Path) -> None:
    random, cost = Random(seed), (MACS, MAPPING)[seed % 2]
    path = tmp_path / "chip.yaml"
    path.write_text(SLOW_DRAM.join(CHIP.rsplit(FAST_DRAM, 1)))
    accelerator, graph = load_accelerator(str(path)), network(random)
    transfers = transfers_of(accelerator, Objective.LATENCY)
    durations = durations_of(graph, accelerator, cost, Run(Limits(time_limit_seconds=1)))
    whole = Problem(
        graph, accelerator.scratchpads, Objective.LATENCY, count=Count.ALL, transfers=transfers, durations=durations
    )
    bound = bound_of_all_tilings(whole, "tiny.json", accelerator, cost)
    assert bound > 0
    graphs = list(graphs_in_tiles(whole, product(*every_tiling(whole, overlaps=True))))
    for tiled in random.sample(graphs, min(len(graphs), 4)):
        own = durations_of(tiled, accelerator, cost, Run(Limits(time_limit_seconds=1)))
        result = plan_problem(replace(whole, graph=tiled, durations=own), "timed", Limits(time_limit_seconds=SECONDS))
        assert result.objective_value is not None
        assert bound <= result.objective_value
