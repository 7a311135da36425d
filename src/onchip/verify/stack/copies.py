"""What it costs to move parts of maps between memories before a layer runs (docs/fused.md, section 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from onchip.arch.memory import DRAM, Direction, Operand
from onchip.verify.stack.chip import ChipInUse


@dataclass(frozen=True, slots=True)
class MovedPart:
    """So many bits, from a memory where they lie as one operand to one where they are wanted as another."""

    bits: int
    source: str
    source_operand: Operand
    target: str
    target_operand: Operand


@dataclass(frozen=True, slots=True)
class MovedTogether:
    """What copies cost that begin together: pJ by memory, cycles until the last port is done, bits that DRAM moves.

    The energy of a memory is None if the machine does not state it.
    """

    energies_pj: tuple[tuple[str, float | None], ...]
    cycles: int
    dram_bits: int


def moved_together(parts: Sequence[MovedPart], chip: ChipInUse) -> MovedTogether:
    """Every hop of a copy waits for the one before, and keeps a port at both ends busy until the slower end is done.

    A port is done when its last hop is, and not before all its hops would be done one after the other. A copy to where
    the data lie has no hop, and costs nothing.
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
    """From memory to memory, and whether that is away from the MACs.

    Up through memories that hold what it is, to the lowest that holds both, and down through those that hold what it
    is wanted as.
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
    """Return the energy in accesses as short as the memory has them, or None if the machine does not state it."""
    access = chip.access(memory)
    if access is None:
        return None
    shortest = access.shortest_access_bits or access.access_bits
    each_pj = access.read_energy_pj if direction is Direction.READ else access.write_energy_pj
    return -(-bits // shortest) * shortest / access.access_bits * each_pj
