"""Copies between memories before a layer runs: energy and cycles (DeFiNES, step 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from onchip.answer.layer_mapping import Move
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Operand, Port
from onchip.model.layer.cost import energy_pj, stated_access
from onchip.model.layer.limits import Accesses, port_for


@dataclass(frozen=True, slots=True)
class MapCopy:
    """A copy of a map from its memory and operand role to another; `bits` is the width of an element."""

    elements: int
    bits: int
    source: str
    source_operand: Operand
    target: str
    target_operand: Operand


@dataclass(frozen=True, slots=True)
class CopiesCost:
    """The cost of simultaneous copies: each access with its energy in pJ, and the cycles until the last copy ends.

    The energy of an access is None if the accelerator does not state it.
    """

    accesses: tuple[tuple[Accesses, float | None], ...] = ()
    cycles: int = 0


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a hop."""

    memory: str
    operand: Operand
    move: Move


def copies_cost(copies: Iterable[MapCopy], accelerator: Accelerator) -> CopiesCost:
    """Return the cost of copies that start together.

    Hops of a copy are serial, and both ends of a hop are busy until the slower is done. A port is free after its last
    use, and not before the sum of its busy times has passed since its first use.
    """
    accesses: list[tuple[Accesses, float | None]] = []
    busy: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for copy in copies:
        begin = 0
        for ends in _hops(copy, accelerator):
            cycles = 0
            for end in ends:
                one = Accesses(end.memory, end.operand, end.move, ((copy.elements, 1),), copy.bits)
                access = stated_access(accelerator, end.memory)
                accesses.append((one, None if access is None else energy_pj(one, access)))
                cycles = max(cycles, _cycles(copy, end, accelerator))
            for end in ends:
                if ports := _ports(end.memory, accelerator):
                    busy[end.memory, port_for(end.memory, ports, end.move)].append((begin, begin + cycles))
            begin += cycles
    return CopiesCost(tuple(accesses), max((_end_of(intervals) for intervals in busy.values()), default=0))


def _hops(copy: MapCopy, accelerator: Accelerator) -> Iterator[tuple[_End, _End]]:
    """Yield the ends of each hop; data move upwards as the source operand, downwards as the target operand."""
    ranks = {level.memory.name: rank for rank, level in enumerate(accelerator.levels)} | {DRAM: len(accelerator.levels)}
    for sender, receiver in pairwise(_way(copy, accelerator)):
        if ranks[sender] < ranks[receiver]:
            operand, moves = copy.source_operand, (Move.READ_FOR_ABOVE, Move.WRITE_FROM_BELOW)
        else:
            operand, moves = copy.target_operand, (Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE)
        yield _End(sender, operand, moves[0]), _End(receiver, operand, moves[1])


def _way(copy: MapCopy, accelerator: Accelerator) -> list[str]:
    """Return the path: up to the lowest memory that both operands share, then down, through all holders."""
    names = [*(level.memory.name for level in accelerator.levels), DRAM]
    rising = _holders(accelerator, copy.source_operand)
    falling = _holders(accelerator, copy.target_operand)
    low, high = names.index(copy.source), names.index(copy.target)
    top = next(rank for rank in range(max(low, high), len(names)) if names[rank] in rising and names[rank] in falling)
    up = [name for name in names[low : top + 1] if name in rising]
    return [*up, *reversed([name for name in names[high:top] if name in falling])]


def _holders(accelerator: Accelerator, operand: Operand) -> frozenset[str]:
    return frozenset((*(level.memory.name for level in accelerator.levels if operand in level.memory.holds), DRAM))


def _cycles(copy: MapCopy, end: _End, accelerator: Accelerator) -> int:
    """Return the cycles at one end; a memory without ports takes none."""
    ports = _ports(end.memory, accelerator)
    if not ports:
        return 0
    return ceil(copy.elements * copy.bits / ports[port_for(end.memory, ports, end.move)].bits_per_cycle)


def _ports(memory: str, accelerator: Accelerator) -> Sequence[Port]:
    if memory == DRAM:
        return accelerator.dram.ports if accelerator.dram else ()
    return next(level.ports for level in accelerator.levels if level.memory.name == memory)


def _end_of(intervals: Sequence[tuple[int, int]]) -> int:
    first = min(begin for begin, _ in intervals)
    return max(max(end for _, end in intervals), first + sum(end - begin for begin, end in intervals))
