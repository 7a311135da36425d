"""The cost of moving parts of maps between memories before a layer runs (docs/fused.md, section 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from onchip.arch.memory import DRAM, Direction, Operand
from onchip.verify.stack.chip import ChipInUse


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A copy of `bits` from a memory where they are one operand to a memory where they are another operand."""

    bits: int
    source: str
    source_operand: Operand
    target: str
    target_operand: Operand


@dataclass(frozen=True, slots=True)
class MovedTogether:
    """The cost of copies that begin together: pJ by memory, cycles until the last port is idle, bits at DRAM.

    The energy of a memory is None if the machine does not state it.
    """

    energies_pj: tuple[tuple[str, float | None], ...]
    cycles: int
    dram_bits: int


def moved_together(parts: Sequence[MovedPart], chip: ChipInUse) -> MovedTogether:
    """Return the cost of copies that begin together.

    Each hop of a copy follows the hop before it and occupies a port at both ends for the cycles of the slower end. A
    port is done when its last hop is, and not before the sum of its hops' cycles has passed since its first hop. A copy
    to the memory that the data are in has no hop and costs nothing.
    """
    energies: list[tuple[str, float | None]] = []
    hops_of_port: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    dram_bits = 0
    for part in parts:
        begin = 0
        for source, target, is_upwards in _hops(part, chip):
            ends = ((source, Direction.READ, not is_upwards), (target, Direction.WRITE, is_upwards))
            ports = [(memory, chip.port(memory, way, towards_macs=near)) for memory, way, near in ends]
            cycles = max((-(-part.bits // found[1].bits_per_cycle) for _, found in ports if found), default=0)
            for memory, way, _ in ends:
                energies.append((memory, _energy_pj(part.bits, memory, way, chip)))
                dram_bits += part.bits * (memory == DRAM)
            for memory, found in ports:
                if found:
                    hops_of_port[memory, found[0]].append((begin, begin + cycles))
            begin += cycles
    done = 0
    for hops in hops_of_port.values():
        first, lasting = min(begin for begin, _ in hops), sum(end - begin for begin, end in hops)
        done = max(done, first + lasting, *(end for _, end in hops))
    return MovedTogether(tuple(energies), done, dram_bits)


def _hops(part: MovedPart, chip: ChipInUse) -> Iterator[tuple[str, str, bool]]:
    """Yield each hop of a copy as source, target, and True if it leads away from the MACs.

    The hops go up through memories that hold the source operand, to the lowest memory that holds both operands, and
    down through memories that hold the target operand.
    """
    begin, end = chip.rank(part.source), chip.rank(part.target)
    top = next(
        rank
        for rank, name in enumerate(chip.names)
        if rank >= max(begin, end)
        and chip.may_hold(name, part.source_operand)
        and chip.may_hold(name, part.target_operand)
    )
    up = [name for name in chip.names[begin : top + 1] if chip.may_hold(name, part.source_operand)]
    down = [name for name in chip.names[end:top] if chip.may_hold(name, part.target_operand)]
    yield from ((*hop, True) for hop in pairwise(up))
    yield from ((*hop, False) for hop in pairwise([chip.names[top], *reversed(down)]))


def _energy_pj(bits: int, memory: str, direction: Direction, chip: ChipInUse) -> float | None:
    """Return the energy in pJ, in accesses of the memory's shortest length; None if the machine does not state it."""
    access = chip.access(memory)
    if access is None:
        return None
    shortest = access.shortest_access_bits or access.access_bits
    each_pj = access.read_energy_pj if direction is Direction.READ else access.write_energy_pj
    return -(-bits // shortest) * shortest / access.access_bits * each_pj
