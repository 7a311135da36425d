"""What every memory reads and writes while a layer runs as its mapping says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access
from onchip.cost.layer_accounting import INTERPRETER, Accounting
from onchip.cost.layer_tiles import MACS, Boundary, Sizes, boundaries
from onchip.ir.loopnest import OUTPUT, RELEVANT, Layer
from onchip.plan.mapping import Mapping, Move


@dataclass(frozen=True, slots=True)
class Accesses:
    """All that a memory, over all its instances, does of one move with one operand.

    `sizes` are pairs of elements moved at once and how often, `bits` those of one element in this memory.
    """

    memory: str
    operand: str
    move: Move
    sizes: Sizes
    bits: int

    @property
    def elements(self) -> int:
        """In all."""
        return sum(size * times for size, times in self.sizes)

    def words(self, access: Access) -> float:
        """How many accesses of `access_bits` it takes, the part of one that each moment needs rounded up."""
        shortest = access.shortest_access_bits or access.access_bits
        units = sum(-(-size * self.bits // shortest) * times for size, times in self.sizes)
        return units * shortest / access.access_bits


def layer_accesses(
    layer: Layer, accelerator: Accelerator, mapping: Mapping, accounting: Accounting = INTERPRETER
) -> tuple[Accesses, ...]:
    """Of every memory, operand and move; what never happens is left out. `layer` is the one executed."""
    found: list[Accesses] = []
    for operand in layer.operands:
        crossed = boundaries(layer, accelerator, mapping, operand, accounting)
        found.extend(_of_sums(crossed) if operand == OUTPUT else _of_reads(crossed))
    return tuple(accesses for accesses in found if accesses.elements)


def output_bits_in(boundary: Boundary) -> int:
    """Bits of an output in the upper memory of a boundary: those of a partial sum unless all arrive complete."""
    return boundary.layer.partial_bits if is_pending(boundary) else boundary.layer.output_bits


def bits_below(boundary: Boundary, below: Boundary) -> int:
    """Bits of an output in the lower memory of a boundary, as it moves over that; `below` is the next boundary."""
    return output_bits_in(boundary if boundary.accounting.finished_sums_leave_short else below)


def is_pending(boundary: Boundary) -> bool:
    """Whether sums that arrive in the upper memory are to be added to later."""
    return any(
        loop.dimension not in RELEVANT[OUTPUT]
        and loop.size > 1
        and (at >= boundary.lower.cut if loop.along is None else boundary.upper.has_beside_it(loop))
        for at, loop in enumerate(boundary.mapping.nest)
    )


def _of_reads(crossed: tuple[Boundary, ...]) -> Iterator[Accesses]:
    for boundary in crossed:
        operand, bits = boundary.operand, boundary.layer.bits(boundary.operand)
        yield Accesses(boundary.upper.memory, operand, Move.READ_FOR_BELOW, boundary.upper_sizes(), bits)
        if boundary.lower.memory != MACS:
            yield Accesses(boundary.lower.memory, operand, Move.WRITE_FROM_ABOVE, boundary.lower_sizes(), bits)


def _of_sums(crossed: tuple[Boundary, ...]) -> Iterator[Accesses]:
    """A tile of sums comes back from above unless the sums of the tile above were only begun with it."""
    begun = crossed[0].layer.elements(OUTPUT)
    for boundary in reversed(crossed):
        above, below = boundary.upper.memory, boundary.lower.memory
        bits, size = output_bits_in(boundary), boundary.upper_sizes()[0][0]
        arrived = _elements(boundary.upper_sizes())
        returned = arrived - begun
        if boundary.accounting.begun_sums_are_read:
            returned = arrived if is_pending(boundary) else 0
        yield Accesses(above, OUTPUT, Move.WRITE_FROM_BELOW, boundary.upper_sizes(), bits)
        yield Accesses(above, OUTPUT, Move.READ_FOR_BELOW, ((size, returned // size),), bits)
        if below != MACS:
            own_bits = bits_below(boundary, crossed[crossed.index(boundary) - 1])
            ((own_size, _),) = boundary.lower_sizes()
            yield Accesses(below, OUTPUT, Move.READ_FOR_ABOVE, boundary.lower_sizes(), own_bits)
            own_returned = returned
            if boundary.accounting.begun_sums_are_read:
                own_returned = _elements(boundary.lower_sizes()) if returned else 0
            yield Accesses(below, OUTPUT, Move.WRITE_FROM_ABOVE, ((own_size, own_returned // own_size),), own_bits)
            begun = _elements(boundary.lower_sizes()) - returned


def _elements(sizes: Sizes) -> int:
    return sum(size * times for size, times in sizes)
