"""First loads and last stores as ZigZag counts them: inputs share ports, or load during computation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortTransfer:
    """A kind of transfer at a port, with its `cycles` per transfer.

    `least` is the cycles of the nearest memory's tile, which cannot be hidden; `average_bits` is the average traffic
    per cycle. A transfer is `once` if all of it comes before or after the loops. `boundary` numbers an operand's
    boundaries between memories; it is None at the MACs.
    """

    operand: str
    boundary: int | None
    port: tuple[str, int]
    bits_per_cycle: int
    cycles: float
    least: int
    average_bits: int
    once: bool


def unhidden(transfers: Sequence[PortTransfer], cycles: int) -> dict[PortTransfer, float]:
    """Return the cycles left of each transfer after one-time transfers use idle port cycles within `cycles`.

    The longest transfers are hidden first.
    """
    left: dict[PortTransfer, float] = {one: one.cycles for one in transfers}
    ports: dict[tuple[str, int], list[PortTransfer]] = defaultdict(list)
    for one in transfers:
        ports[one.port].append(one)
    for at_port in ports.values():
        bits = at_port[0].bits_per_cycle
        taken = sum(one.average_bits for one in at_port if not one.once)
        free = max(0.0, (bits - taken) / bits * cycles)
        for one in sorted((one for one in at_port if one.once), key=lambda one: -one.cycles):
            hidden = min(max(0.0, one.cycles - one.least), free)
            left[one] -= hidden
            free -= hidden
    return left


def side_by_side(
    left: Mapping[PortTransfer, float], operands: Sequence[str], is_shared: Callable[[tuple[str, int]], bool]
) -> float:
    """Return the cycles to load all operands: serial if both ends share ports, else in parallel."""
    shared, apart = defaultdict[str, float](float), defaultdict[str, float](float)
    for (operand, _), ends in _ends(left).items():
        longest = max(left[one] for one in ends)
        both = all(is_shared(one.port) for one in ends)
        (shared if both else apart)[operand] += longest
    if len(operands) == 1:
        return shared[operands[0]] + apart[operands[0]]
    orders = (tuple(operands), tuple(reversed(operands)))
    return min(shared[one] + max(shared[two] + apart[two], apart[one]) for one, two in orders)


def over_ports(left: Mapping[PortTransfer, float]) -> float:
    """Return the cycles if an operand's transfers are serial and different operands wait for shared ports."""
    operands, ports = defaultdict[str, float](float), defaultdict[tuple[str, int], float](float)
    for (operand, _), ends in _ends(left).items():
        operands[operand] += max(left[one] for one in ends)
        for one in ends:
            ports[one.port] += left[one]
    return max([*operands.values(), *ports.values()], default=0)


def one_by_one(left: Mapping[PortTransfer, float]) -> float:
    """Return the cycles of transfers that run boundary after boundary."""
    return sum(max(left[one] for one in ends) for ends in _ends(left).values())


def overlapping(left: Mapping[PortTransfer, float]) -> float:
    """Return the cycles of the transfer to the topmost memory, plus one cycle for each memory below it."""
    hops = {boundary: max(left[one] for one in ends) for (_, boundary), ends in _ends(left).items()}
    return hops[max(hops)] + len(hops) - 1 if hops else 0.0


def _ends(transfers: Iterable[PortTransfer]) -> dict[tuple[str, int], list[PortTransfer]]:
    found: dict[tuple[str, int], list[PortTransfer]] = defaultdict(list)
    for one in transfers:
        if one.boundary is not None:
            found[one.operand, one.boundary].append(one)
    return found
