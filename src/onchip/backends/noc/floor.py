"""Cycles that a mapping, or any mapping of a layer, cannot do without on CoSA's network: what each endpoint has to do.

An endpoint does one task at a time, and a port passes a flit a cycle: the work of each is a floor, and so is it with
what must come before the first of its tasks and what must follow the last (docs/network_on_chip.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from onchip.answer.layer_problem import LayerProblem
from onchip.backends.noc.mesh import COSA_DRAM, COSA_ELEMENTS, COSA_NETWORK, MeshNetwork
from onchip.backends.noc.rounds import ElementRounds, Movement, TileFlow, element_dimensions
from onchip.bounds.layer.needed import touched_positions
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer


def floor_of_rounds(rounds: ElementRounds, network: MeshNetwork = COSA_NETWORK) -> int:
    """Return cycles that no simulation of all rounds of a mapping ends before."""
    return _Work(rounds, network).floor


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
        _cycles_of_a_read(network) * sum(read.values()),
        network.packet_flits * (read.get(INPUT, 0) + sums),
        -(-computed // COSA_ELEMENTS),
    )


def _needed(layer: Layer, operand: str) -> int:
    """How many elements some product reads."""
    if operand != INPUT:
        return layer.elements(operand)
    needed = layer.n * layer.c * layer.g
    for axis in layer.axes:
        outputs = frozenset(range(layer.bounds[axis.output_loop]))
        touched = touched_positions(axis, outputs, layer.bounds[axis.filter_loop])
        needed *= len(touched.intersection(range(axis.size)))
    return needed


def _cycles_of_a_read(network: MeshNetwork) -> int:
    """How long DRAM takes for a packet."""
    return max(network.endpoints[COSA_DRAM].read_cycles + 1, network.packet_flits)


@dataclass(frozen=True, slots=True)
class _Work:
    """What the endpoints do in all rounds of a mapping, in packets unless a name says cycles."""

    rounds: ElementRounds
    network: MeshNetwork

    @property
    def floor(self) -> int:
        """The most that one of them needs, with what must lie before and behind."""
        flits, reading = self.network.packet_flits, _cycles_of_a_read(self.network)
        last_sums = flits * self._stored_at_once
        leaving = flits * self._packets(self._sums.element.bits)
        element = self.rounds.count * self.rounds.cycles + leaving * (self.rounds.count // self._sums.element.period)
        return max(
            reading * self._read_from_dram + self.rounds.cycles + leaving + last_sums,
            self._before_the_first_round + element + last_sums,
            flits * self._sent_by_the_shared_memory,
            flits * self._received_by_the_shared_memory + last_sums,
        )

    @property
    def _sums(self) -> Movement:
        return self.rounds.movements[OUTPUT]

    @property
    def _stored_at_once(self) -> int:
        """From the shared memory to DRAM, after the last round."""
        return 0 if self._sums.shared is None else self._packets(self._sums.shared.bits)

    @property
    def _before_the_first_round(self) -> int:
        """Cycles of DRAM until element 0 has its first tiles, which are those of the first group of each operand."""
        first = 0
        for operand, movement in self.rounds.movements.items():
            if operand != OUTPUT:
                first += self._packets((movement.shared or movement.element).bits)
        return _cycles_of_a_read(self.network) * first

    @property
    def _read_from_dram(self) -> int:
        """To the shared memory, or to each group of elements where an operand passes by it."""
        return sum(
            self._brought(operand, movement.shared) if movement.shared is not None
            else len(movement.groups) * self._brought(operand, movement.element)
            for operand, movement in self.rounds.movements.items()
        )  # fmt: skip

    @property
    def _sent_by_the_shared_memory(self) -> int:
        """To groups of elements, and sums to DRAM."""
        held = [(operand, one) for operand, one in self.rounds.movements.items() if one.shared is not None]
        return self._stored + sum(len(one.groups) * self._brought(operand, one.element) for operand, one in held)

    @property
    def _received_by_the_shared_memory(self) -> int:
        """From DRAM, and sums from the last element of each group."""
        held = [(operand, one.shared) for operand, one in self.rounds.movements.items() if one.shared is not None]
        given = 0
        if self._sums.shared is not None:
            flow = self._sums.element
            given = len(self._sums.groups) * self._packets(flow.bits) * (self.rounds.count // flow.period)
        return given + sum(self._brought(operand, flow) for operand, flow in held)

    @property
    def _stored(self) -> int:
        flow = self._sums.shared
        return 0 if flow is None else self._packets(flow.bits) * (self.rounds.count // flow.period)

    def _brought(self, operand: str, flow: TileFlow) -> int:
        """In all rounds; of sums those that are gone on with, and those that come back within a round."""
        times = -(-self.rounds.count // flow.period)
        if operand != OUTPUT:
            return times * self._packets(flow.bits)
        begun, turned = 1, 1
        for loop in self.rounds.outer:
            begun *= loop.size if turned >= flow.period and loop.dimension in RELEVANT[OUTPUT] else 1
            turned *= loop.size
        return (times - begun) * self._packets(flow.bits) + begun * self._packets(flow.revisited_bits)

    def _packets(self, bits: int) -> int:
        return self.network.packets(bits) if bits else 0
