"""Bounds on layers that run alone: at most their cost, and equal to the DRAM bits if memories are large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.arch.memory import DRAM
from onchip.bounds.group.network_floor import alone_bound
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.scheduling.fronts.costs import criteria_of
from onchip.scheduling.fronts.workers import Costing
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, whole
from support.fused_files import CHIP

Shape = tuple[int, ...]
ROUNDED_OFF = 2
"""Of a whole number, whatever is lost by adding up."""
ROOMY = accelerator_from_yaml(CHIP.replace("capacity: 512B", "capacity: 64KiB"), "chip.yaml")
TIGHT = accelerator_from_yaml(CHIP.replace("capacity: 512B", "capacity: 24B"), "chip.yaml")


def graph_of(
    kind: str, output: Shape, *shapes: Shape, weight: Shape | None = None, strides: list[AttributeValue] | None = None
) -> Graph:
    """One operator of maps, and perhaps of a weight."""
    names = [f"m{at}" for at in range(len(shapes))]
    tensors = [Tensor.of_shape(name, shape, 8, Role.INPUT) for name, shape in zip(names, shapes, strict=True)]
    tensors.append(Tensor.of_shape("y", output, 8, Role.OUTPUT))
    parameters = () if weight is None else ("w",)
    attributes: dict[str, AttributeValue] = {"strides": strides} if strides else {}
    tensors += [Tensor.of_shape("w", weight, 8, Role.PARAMETER)] if weight else []
    return Graph("one", tuple(tensors), (Operator("y", kind, tuple(names), ("y",), parameters, attributes),))


@st.composite
def alone(draw: st.DrawFn) -> Graph:
    """A product of two maps, a reduction over channels."""
    batch, rows, depth, columns = (draw(st.integers(2, 4)) for _ in range(4))
    made = {
        "product": graph_of("MatMul", (batch, rows, columns), (batch, rows, depth), (batch, depth, columns)),
        "reduction": graph_of("ReduceSum", (1, 1, rows, columns), (1, batch, rows, columns)),
    }
    return made[draw(st.sampled_from(sorted(made)))]


@given(alone(), st.sampled_from(FusionObjective), st.booleans(), st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_layer_alone_costs_at_least_its_bound(
    graph: Graph, objective: FusionObjective, is_tight: bool, at_home: list[bool]
) -> None:
    network = partly_fusable_of(graph).network
    (layer,) = network.layers
    assert layer.runs_alone
    costs = Costing(network, TIGHT if is_tight else ROOMY, objective, "loma", use_cache=False).costs(Run())
    homes = tuple((one.name, "global") for one, is_there in zip(network.inputs, at_home, strict=False) if is_there)
    choice = StackChoice(LayerSpan(0, 1), whole(layer.output), homes, "global" if at_home[2] else DRAM)
    cost = criteria_of(objective, costs.cost(choice).sums)
    chip = TIGHT if is_tight else ROOMY
    machine = MachineFloors(chip, AnyUnrolling(chip, every_memory_keeps=True))
    least = alone_bound(layer, network.maps, dict(homes), choice.output_home, machine)
    own = objective.criteria(least.energy_pj, least.cycles, least.dram_bits)
    assert all(map(float.__le__, map(float, own), (part + ROUNDED_OFF for part in map(float, cost))))
    if not any(at_home):  # what comes into the network and leaves it lies in DRAM
        bound = costs.bound(choice)
        assert bound is not None
        assert all(map(int.__le__, bound, cost))
        if objective is FusionObjective.DRAM and not is_tight:
            assert bound == (max(cost[0] - ROUNDED_OFF, 0),)


@pytest.mark.parametrize(("strides", "bits"), [([1, 1], 8 * (49 + 49 + 1)), ([3, 3], 8 * (9 + 1))])
def test_of_a_map_that_strides_pass_by_nothing_is_counted(strides: list[AttributeValue], bits: int) -> None:
    """A convolution of one tap whose weight is a map."""
    side = 7 if strides == [1, 1] else 3
    network = partly_fusable_of(
        graph_of("Conv", (1, 1, side, side), (1, 1, 7, 7), (1, 1, 1, 1), strides=strides)
    ).network
    (layer,) = network.layers
    costs = Costing(network, ROOMY, FusionObjective.DRAM, "loma", use_cache=False).costs(Run())
    assert costs.bound(StackChoice(LayerSpan(0, 1), whole(layer.output))) == (bits - ROUNDED_OFF,)
