"""Lower bounds on the busy cycles of memory ports in a loop nest, for any homes, mapping and tiling.

They hold for mappings without bypass (docs/schedule.md, section 8). All elements of an operand that the units read pass
the addressed memory nearest to them that holds the operand: its home, or a memory on its way. They pass DRAM if no
addressed memory holds the operand. The same holds for sums that leave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from onchip.answer.layer_mapping import Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Direction, Operand
from onchip.bounds.layer.nest_work import NestWork
from onchip.ir.layer import Layer
from onchip.model.layer.limits import port_for, ports_of
from onchip.model.program.compute_cost import MemoryRates


@dataclass(frozen=True, slots=True)
class MovedOperand:
    """Bits that are each read (or each written) once, in one of the memories."""

    way: Direction
    bits: int
    memories: Sequence[str]


@dataclass(slots=True)
class PortFloors:
    """The port floors of one machine."""

    accelerator: Accelerator
    _addressed: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._addressed = frozenset(level.memory.name for level in self.accelerator.addressed)

    def cycles(self, layer: Layer, work: NestWork, *, weight_is_an_input: bool) -> Fraction:
        """Return the cycles of the busiest port, for the part `work` of a nest in all tiles together.

        Raises AcceleratorError if a memory has ports, but none for a required direction.
        """
        busy: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
        for memory, move, bits in self._passing(layer, work, weight_is_an_input=weight_is_an_input):
            ports = ports_of(self.accelerator, memory)
            if ports and bits:
                port = port_for(memory, ports, move)
                busy[memory, port] += Fraction(bits, ports[port].bits_per_cycle)
        return max(busy.values(), default=Fraction(0))

    def _passing(self, layer: Layer, work: NestWork, *, weight_is_an_input: bool) -> Iterator[tuple[str, Move, int]]:
        """Yield the memories that move each element of an operand at least once to or from the units, and the bits."""
        problem = LayerProblem(layer, self.accelerator, weight_is_an_input=weight_is_an_input)
        counts = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
        for operand in layer.operands:
            memory = self._nearest(problem, Operand(operand))
            if memory is not None:
                move = Move.WRITE_FROM_BELOW if operand == Operand.OUTPUT else Move.READ_FOR_BELOW
                yield memory, move, counts[Operand(operand)] * layer.bits(operand)

    def _nearest(self, problem: LayerProblem, operand: Operand) -> str | None:
        """Return the nearest addressed memory that holds the operand, or DRAM.

        Returns None if that memory has no room for an element, so that the operand bypasses it.
        """
        for level, kept in zip(problem.levels, problem.kept, strict=True):
            if level.memory.name in self._addressed and operand in level.memory.holds:
                return level.memory.name if operand in kept else None
        return DRAM


def least_cycles_to_move(rates: MemoryRates, moved: Sequence[MovedOperand]) -> Fraction:
    """Return a lower bound on the cycles to move operands once, split in any way over memories that work in parallel.

    The bound is the larger of two. First, the slowest operand takes the cycles of its fastest memory. Second, for any
    weights of the memories with sum one, the busiest memory takes at least the weighted mean over memories; an operand
    adds least to it in the memory with the least product of cycles and weight. The weights used are proportional to the
    speeds of the memories. Raises AcceleratorError if a memory has ports, but none of the direction.
    """
    slowest = max((min(rates.cycles(one, each.way, each.bits) for one in each.memories) for each in moved), default=0)
    speeds: dict[str, int | None] = {}
    for each in moved:
        for one in each.memories:
            speeds.setdefault(one, rates.bits_per_cycle(one, each.way))
    known = {name: speed for name, speed in speeds.items() if speed is not None}
    if not known or len(known) < len(speeds):
        return Fraction(slowest)
    mean = sum(
        min(Fraction(known[one] * each.bits, rates.bits_per_cycle(one, each.way) or 1) for one in each.memories)
        for each in moved
    )
    return max(Fraction(slowest), Fraction(mean) / sum(known.values()))
