"""How long a loop nest keeps ports busy at least, wherever its operands lie and however it is mapped and tiled.

It holds for mappings in which every memory keeps what it holds (docs/schedule.md, section 8): all that the units take
of an operand passes the addressed memory nearest to them that holds it, be that its home or a memory on its way; or
DRAM, where no addressed memory holds it. Sums leave likewise.
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
from onchip.model.layer.ports import port_for, ports_of
from onchip.model.program.rates import MemoryRates


@dataclass(frozen=True, slots=True)
class MovedOperand:
    """Bits that are all read, or all written, once, each in one of the memories."""

    way: Direction
    bits: int
    memories: Sequence[str]


@dataclass(slots=True)
class PortFloors:
    """The floors of one machine."""

    accelerator: Accelerator
    _addressed: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._addressed = frozenset(level.memory.name for level in self.accelerator.addressed)

    def cycles(self, layer: Layer, work: NestWork, *, weight_is_an_input: bool) -> Fraction:
        """The cycles of the busiest port, for the part `work` of a nest in all tiles together.

        Raises AcceleratorError for a memory with ports, none of which moves what has to pass it.
        """
        busy: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
        for memory, move, bits in self._passing(layer, work, weight_is_an_input=weight_is_an_input):
            ports = ports_of(self.accelerator, memory)
            if ports and bits:
                port = port_for(memory, ports, move)
                busy[memory, port] += Fraction(bits, ports[port].bits_per_cycle)
        return max(busy.values(), default=Fraction(0))

    def _passing(self, layer: Layer, work: NestWork, *, weight_is_an_input: bool) -> Iterator[tuple[str, Move, int]]:
        """The memories that have to read or write each element at least once, on the side of the units; in bits."""
        problem = LayerProblem(layer, self.accelerator, weight_is_an_input=weight_is_an_input)
        counts = {Operand.INPUT: work.inputs, Operand.WEIGHT: work.weights, Operand.OUTPUT: work.outputs}
        for operand in layer.operands:
            memory = self._nearest(problem, Operand(operand))
            if memory is not None:
                move = Move.WRITE_FROM_BELOW if operand == Operand.OUTPUT else Move.READ_FOR_BELOW
                yield memory, move, counts[Operand(operand)] * layer.bits(operand)

    def _nearest(self, problem: LayerProblem, operand: Operand) -> str | None:
        """Of the addressed memories that hold it; None where that has no room for an element, and so is passed by."""
        for level, kept in zip(problem.levels, problem.kept, strict=True):
            if level.memory.name in self._addressed and operand in level.memory.holds:
                return level.memory.name if operand in kept else None
        return DRAM


def least_cycles_to_move(rates: MemoryRates, moved: Sequence[MovedOperand]) -> Fraction:
    """Of operands read or written once, in parts, each part in one of its memories, which all work side by side.

    The slowest operand, where it is fastest. And with any shares of the memories that add up to one, the busiest of
    them takes at least the mean over memories of what they take, to which an operand adds least where its cycles times
    the share are least: shares are in proportion to how fast memories are. Raises AcceleratorError for a memory with
    ports, but none of the direction.
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
