"""Lower bound in cycles on every mapping of a layer on CoSA's network (docs/network_on_chip.md)."""

from __future__ import annotations

from math import prod

from cosa.mesh import COSA_ELEMENTS, COSA_NETWORK, MeshNetwork, cycles_of_a_read, element_dimensions

from onchip.answer.layer_problem import LayerProblem
from onchip.bounds.layer.needed import touched_positions
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer


def floor_of_layer(problem: LayerProblem, network: MeshNetwork = COSA_NETWORK) -> int:
    """Return cycles that no mapping takes fewer of, if the shared memory keeps inputs and sums.

    DRAM reads every element of inputs and weights that is needed, the shared memory sends each input and each sum, and
    the elements together do all products and send every sum. Raises InputError for a machine without such elements.
    """
    layer = problem.layer
    bits = {operand: layer.bits(operand) * _needed(layer, operand) for operand in (INPUT, WEIGHT)}
    read = {operand: network.packets(bits[operand]) for operand in (INPUT, WEIGHT) if operand in layer.operands}
    sums = network.packets(layer.partial_bits * layer.elements(OUTPUT))
    array = problem.accelerator.array
    sizes = {} if array is None else array.sizes
    lanes = prod(size for name, size in sizes.items() if name not in element_dimensions(problem))
    computed = -(-layer.macs // lanes) + network.packet_flits * sums
    return max(
        cycles_of_a_read(network) * sum(read.values()),
        network.packet_flits * (read.get(INPUT, 0) + sums),
        -(-computed // COSA_ELEMENTS),
    )


def _needed(layer: Layer, operand: str) -> int:
    """Return the number of elements that some product reads."""
    if operand != INPUT:
        return layer.elements(operand)
    needed = layer.n * layer.c * layer.g
    for axis in layer.axes:
        outputs = frozenset(range(layer.bounds[axis.output_loop]))
        touched = touched_positions(axis, outputs, layer.bounds[axis.filter_loop])
        needed *= len(touched.intersection(range(axis.size)))
    return needed
