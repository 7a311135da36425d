"""The accesses of memories by a loop nest, and the ports that they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf

from onchip.answer.layer_mapping import Move
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Port
from onchip.errors import AcceleratorError
from onchip.ir.layer import OUTPUT, RELEVANT
from onchip.model.layer.ragged import Crossed, RaggedBoundary
from onchip.model.layer.tiles import EPSILON, MACS, Boundary, Sizes


def port_for(memory: str, ports: Sequence[Port], move: Move) -> int:
    """Return the first port for moves towards the MACs, the last for others; raises AcceleratorError if none fits."""
    reads = move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
    wanted = (Direction.READ if reads else Direction.WRITE, Direction.READ_WRITE)
    fitting = [index for index, port in enumerate(ports) if port.direction in wanted]
    if not fitting:
        place = "dram" if memory == DRAM else f"memory {memory!r}"
        raise AcceleratorError(f"no port can {wanted[0]}", place=place, expected=f"one that does, to {move}")
    return fitting[0] if move in (Move.READ_FOR_BELOW, Move.WRITE_FROM_BELOW) else fitting[-1]


def ports_of(accelerator: Accelerator, memory: str) -> Sequence[Port]:
    """Return the ports of a memory, given by name, or of DRAM."""
    if memory == DRAM:
        return accelerator.dram.ports if accelerator.dram else ()
    return next(level.ports for level in accelerator.levels if level.memory.name == memory)


def bits_per_cycle(accelerator: Accelerator, memory: str, move: Move) -> float:
    """Return the bits per cycle of one instance for a move; infinite without ports."""
    ports = ports_of(accelerator, memory)
    return ports[port_for(memory, ports, move)].bits_per_cycle if ports else inf


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a memory, over all its instances, for one operand and one kind of move.

    `sizes` are pairs of the elements moved at once and their count, `bits` the width of an element in this memory. If
    accesses are counted per cycle, at most `bits_in_a_cycle` move in one.
    """

    memory: str
    operand: str
    move: Move
    sizes: Sizes
    bits: int
    bits_in_a_cycle: float = inf

    @property
    def elements(self) -> int:
        """Return the number of elements accessed over all tiles."""
        return sum(size * times for size, times in self.sizes)

    def words(self, access: Access) -> float:
        """Return the accesses of `access_bits`; each transfer is rounded up to whole shortest accesses."""
        shortest = access.shortest_access_bits or access.access_bits
        units = sum(self._shortest_accesses(size * self.bits, shortest) * times for size, times in self.sizes)
        return units * shortest / access.access_bits

    def _shortest_accesses(self, bits: int, shortest: int) -> int:
        if bits <= self.bits_in_a_cycle:
            return -(-bits // shortest)
        return ceil(self.bits_in_a_cycle / shortest - EPSILON) * ceil(bits / self.bits_in_a_cycle - EPSILON)


def layer_accesses(accelerator: Accelerator, crossed: Crossed) -> tuple[Accesses, ...]:
    """Return the accesses of every memory, operand and move; zero counts are omitted."""
    found: list[Accesses] = []
    for operand, own in crossed.items():
        widths = [_bits_in_a_cycle(boundary, accelerator) for boundary in own]
        if operand != OUTPUT:
            found.extend(_of_reads(own, widths))
        elif ragged := [one for one in own if isinstance(one, RaggedBoundary)]:
            found.extend(_of_ragged_sums(ragged))
        else:
            found.extend(_of_sums(own, widths))
    return tuple(accesses for accesses in found if accesses.elements)


def output_bits_in(boundary: Boundary) -> int:
    """Return the bits of an output in the upper memory of a boundary: partial-sum width unless all arrive complete."""
    return boundary.layer.partial_bits if is_pending(boundary) else boundary.layer.output_bits


def bits_below(boundary: Boundary, below: Boundary) -> int:
    """Return the bits of an output in the lower memory as it crosses the boundary; `below` is the next boundary."""
    return output_bits_in(boundary if boundary.accounting.counts_from_bounds else below)


def is_pending(boundary: Boundary) -> bool:
    """Return True if sums that arrive in the upper memory are added to later."""
    return any(
        loop.dimension not in RELEVANT[OUTPUT]
        and loop.size > 1
        and (at >= boundary.lower.cut if loop.along is None else boundary.upper.has_beside_it(loop))
        for at, loop in enumerate(boundary.mapping.nest)
    )


@dataclass(frozen=True, slots=True)
class _Widths:
    """The maximum bits that cross a boundary per cycle, in each direction."""

    downwards: float = inf
    upwards: float = inf


def _bits_in_a_cycle(boundary: Boundary, accelerator: Accelerator) -> _Widths:
    """Return the width of the narrower port, with all lower instances below an upper one together."""
    if not boundary.accounting.is_defines or boundary.lower.memory == MACS:
        return _Widths()

    def width(upper: Move, lower: Move) -> float:
        below = bits_per_cycle(accelerator, boundary.lower.memory, lower) * boundary.neighbours
        return min(bits_per_cycle(accelerator, boundary.upper.memory, upper), below)

    return _Widths(width(Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE), width(Move.WRITE_FROM_BELOW, Move.READ_FOR_ABOVE))


def _of_reads(crossed: tuple[Boundary, ...], widths: Sequence[_Widths]) -> Iterator[Accesses]:
    for boundary, width in zip(crossed, widths, strict=True):
        operand, bits = boundary.operand, boundary.layer.bits(boundary.operand)
        sizes, most = boundary.upper_sizes(), width.downwards
        yield Accesses(boundary.upper.memory, operand, Move.READ_FOR_BELOW, sizes, bits, most)
        if boundary.lower.memory != MACS:
            yield Accesses(boundary.lower.memory, operand, Move.WRITE_FROM_ABOVE, boundary.lower_sizes(), bits)


def _of_sums(crossed: tuple[Boundary, ...], widths: Sequence[_Widths]) -> Iterator[Accesses]:
    """Yield the accesses of sums; a tile of sums returns from above unless its upper tile's sums begin with it."""
    begun = crossed[0].layer.elements(OUTPUT)
    for boundary, width in zip(reversed(crossed), reversed(widths), strict=True):
        above, below = boundary.upper.memory, boundary.lower.memory
        bits, size = output_bits_in(boundary), boundary.upper_sizes()[0][0]
        arrived = _elements(boundary.upper_sizes())
        returned = arrived - begun
        if boundary.accounting.counts_from_bounds:
            returned = arrived if is_pending(boundary) else 0
        yield Accesses(above, OUTPUT, Move.WRITE_FROM_BELOW, boundary.upper_sizes(), bits, width.upwards)
        yield Accesses(above, OUTPUT, Move.READ_FOR_BELOW, ((size, returned // size),), bits, width.downwards)
        if below != MACS:
            own_bits = bits_below(boundary, crossed[crossed.index(boundary) - 1])
            ((own_size, _),) = boundary.lower_sizes()
            yield Accesses(below, OUTPUT, Move.READ_FOR_ABOVE, boundary.lower_sizes(), own_bits)
            own_returned = returned
            if boundary.accounting.counts_from_bounds:
                own_returned = _elements(boundary.lower_sizes()) if returned else 0
            yield Accesses(below, OUTPUT, Move.WRITE_FROM_ABOVE, ((own_size, own_returned // own_size),), own_bits)
            begun = _elements(boundary.lower_sizes()) - returned


def _of_ragged_sums(crossed: Sequence[RaggedBoundary]) -> Iterator[Accesses]:
    below: RaggedBoundary | None = None
    for boundary in crossed:
        bits = output_bits_in(boundary)
        upper, lower = boundary.upper.memory, boundary.lower.memory
        yield Accesses(upper, OUTPUT, Move.WRITE_FROM_BELOW, boundary.upper_sizes(), bits)
        yield Accesses(upper, OUTPUT, Move.READ_FOR_BELOW, boundary.returned_sizes(joined=True), bits)
        if below is not None:
            own_bits = bits_below(boundary, below)
            yield Accesses(lower, OUTPUT, Move.READ_FOR_ABOVE, boundary.lower_sizes(), own_bits)
            yield Accesses(lower, OUTPUT, Move.WRITE_FROM_ABOVE, boundary.returned_sizes(joined=False), own_bits)
        below = boundary


def _elements(sizes: Sizes) -> int:
    return sum(size * times for size, times in sizes)
