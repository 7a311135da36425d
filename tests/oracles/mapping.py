"""The cost of a mapping, from the definitions in docs/layer_cost.md: executed by element, cycles marked one by one.

Accesses are those of `simulate.nest`, which runs the nest with real values in the buffer of every instance. No formula
for a sum over tiles is used; layers of a few hundred multiply-accumulates take some milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

from onchip.answer.layer_mapping import LayerMapping, Loop, Move
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, MemoryLevel, Port
from oracles.loop_nest import Accesses, run_nest

CHANGES = {"input": "NCPQRSG", "weight": "KCRSG", "output": "NKPQG"}
"""The loops along which an operand changes."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """A holder of an operand's tiles: the units (empty name), a memory, or its home."""

    name: str
    cut: int
    serves: frozenset[str]
    level: MemoryLevel | None


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A transfer over one boundary at one port: `busy` cycles each time, in the windows `moved`.

    `windows` are all windows in which it may move, including `moved`: pairs of a first cycle and the cycle after the
    last.
    """

    port: tuple[str, int]
    busy: int
    windows: tuple[tuple[int, int], ...]
    moved: tuple[tuple[int, int], ...]
    is_first: bool
    is_last: bool
    crossing: tuple[str, int, bool]


def energy_and_cycles(problem: LayerProblem, mapping: LayerMapping) -> tuple[float, int]:
    """Return the energy in pJ and the cycles of a legal mapping."""
    accesses = run_nest(problem, mapping).accesses
    cycles = _executed(problem, mapping)
    transfers = [
        one for operand in problem.layer.operands for one in _transfers(problem, mapping, operand, accesses, cycles)
    ]
    ports = {one.port for one in transfers}
    stall = max((_stall([one for one in transfers if one.port == port]) for port in ports), default=0)
    firsts = _one_after_the_other([one for one in transfers if one.is_first])
    lasts = _one_after_the_other([one for one in transfers if one.is_last])
    return _energy_pj(problem, mapping, accesses), len(cycles) + stall + firsts + lasts


# Energy


def _energy_pj(problem: LayerProblem, mapping: LayerMapping, accesses: Accesses) -> float:
    array = problem.accelerator.array
    energy = problem.layer.macs * ((array.mac_energy_pj if array else None) or 0.0)
    for (memory, operand, move), sizes in accesses.items():
        access = _access(problem.accelerator, memory)
        shortest = access.shortest_access_bits or access.access_bits
        reads = move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE)
        pj = (access.read_energy_pj if reads else access.write_energy_pj) * shortest / access.access_bits
        bits = _bits_in(problem, mapping, operand, memory)
        energy += sum(-(-size * bits // shortest) * times for size, times in sizes.items()) * pj
    return energy


def _access(accelerator: Accelerator, memory: str) -> Access:
    levels = {level.memory.name: level.access for level in accelerator.levels}
    access = levels.get(memory, accelerator.dram.access if accelerator.dram else None)
    if access is None:
        raise ValueError(f"nothing says what an access to {memory} costs")
    return access


def _bits_in(problem: LayerProblem, mapping: LayerMapping, operand: str, memory: str) -> int:
    """Return the bits per element in a memory: for outputs the partial width, unless all sums arrive complete."""
    if operand != "output":
        return problem.layer.bits(operand)
    for lower, upper in pairwise(_chain(problem, mapping, operand)):
        if upper.name == memory:
            for at, loop in enumerate(mapping.nest):
                is_above = at >= lower.cut if loop.along is None else loop.along not in upper.serves
                if loop.size > 1 and loop.dimension not in CHANGES["output"] and is_above:
                    return problem.layer.partial_bits
    return problem.layer.output_bits


def _chain(problem: LayerProblem, mapping: LayerMapping, operand: str) -> list[_Holder]:
    levels = {level.memory.name: level for level in problem.accelerator.levels}
    everywhere = frozenset(str(loop.along) for loop in mapping.nest if loop.along is not None)
    chain = [_Holder("", 0, frozenset(), None)]
    for kept in mapping.kept(operand):
        level = levels[kept.memory]
        serves = everywhere if level.serves is None else frozenset(level.serves)
        chain.append(_Holder(kept.memory, kept.loops, serves, level))
    home = problem.home(operand)
    return [*chain, _Holder(home, len(mapping.nest), everywhere, levels.get(home))]


# Time


def _transfers(
    problem: LayerProblem, mapping: LayerMapping, operand: str, accesses: Accesses, cycles: list[dict[int, int]]
) -> list[_Transfer]:
    found: list[_Transfer] = []
    for number, (lower, upper) in enumerate(pairwise(_chain(problem, mapping, operand))):
        windows, returning = _windows(cycles, mapping, operand, lower)
        downs, ups = (Move.READ_FOR_BELOW, Move.WRITE_FROM_ABOVE), (Move.WRITE_FROM_BELOW, Move.READ_FOR_ABOVE)
        kinds = [(ups, windows, False), (downs, returning, True)]
        for moves, moved, returns in kinds if operand == "output" else [(downs, windows, False)]:
            is_first = bool(lower.name) and operand != "output"
            is_last = bool(lower.name) and operand == "output" and not returns
            for holder, move, measured in zip((upper, lower), moves, ups if returns else moves, strict=True):
                ports = _ports(problem.accelerator, holder)
                largest = max(accesses.get((holder.name, operand, measured), {0: 1}))
                bits = largest * _bits_in(problem, mapping, operand, holder.name)
                if ports and bits and (moved or is_first or is_last):
                    port = _port(ports, move)
                    busy = -(-bits // ports[port].bits_per_cycle)
                    found.append(
                        _Transfer(
                            (holder.name, port), busy, _marked(windows, len(cycles)), moved,
                            is_first, is_last, (operand, number, returns),
                        )
                    )  # fmt: skip
    return found


def _executed(problem: LayerProblem, mapping: LayerMapping) -> list[dict[int, int]]:
    """Return, cycle by cycle, the digits of the temporal loops by position in the nest; none beyond a bound."""
    temporal = [(at, loop) for at, loop in enumerate(mapping.nest) if loop.along is None]
    bounds = mapping.layer(problem.layer).bounds
    found = []
    for digits in product(*(range(loop.size) for _, loop in reversed(temporal))):
        digit = {at: one for (at, _), one in zip(reversed(temporal), digits, strict=True)}
        if all(_index(mapping, digit, dimension) < bound for dimension, bound in bounds.items()):
            found.append(digit)
    return found


def _index(mapping: LayerMapping, digit: dict[int, int], dimension: str) -> int:
    """Return the index of the first unit."""
    index, weight = 0, 1
    for at, loop in enumerate(mapping.nest):
        if loop.dimension == dimension:
            index += digit.get(at, 0) * weight
            weight *= loop.size
    return index


Windows = tuple[tuple[int, int], ...]


def _windows(
    cycles: list[dict[int, int]], mapping: LayerMapping, operand: str, lower: _Holder
) -> tuple[Windows, Windows]:
    """Return the windows in which each next tile may arrive, and those for tiles that return.

    The units take a tile in each cycle. A double-buffered memory accepts the next tile once the previous one has
    arrived. Otherwise a tile may arrive once only loops inside the innermost one that the previous tile needs still
    advance.
    """
    above = [at for at in cycles[0] if at >= lower.cut and _changes(operand, mapping.nest[at])]
    needed = sorted(at for at in cycles[0] if at < lower.cut)
    while needed and (mapping.nest[needed[-1]].size == 1 or not _changes(operand, mapping.nest[needed[-1]])):
        needed.pop()
    begun, before, seen, windows, returning = 0, None, set(), [], []
    for cycle, digit in enumerate(cycles):
        tile = tuple(digit[at] for at in above)
        if tile == before and lower.name:
            continue
        start = cycle
        if lower.name and lower.level is not None and lower.level.double_buffered:
            start = begun
        elif lower.name:
            while start > begun and all(
                cycles[start - 1][at] == cycles[cycle - 1][at] for at in digit if at not in needed
            ):
                start -= 1
        window = (start, cycle) if lower.name else (cycle, cycle + 1)
        if cycle or not lower.name:
            windows.append(window)
            if tile in seen:
                returning.append(window)
        begun, before = cycle, tile
        seen.add(tile)
    return tuple(windows), tuple(returning)


def _marked(windows: Windows, cycles: int) -> Windows:
    """Return the windows; the last tile has none, except if a tile arrives in every cycle."""
    return (*windows, (cycles - 1, cycles)) if len(windows) == cycles - 1 else windows


def _changes(operand: str, loop: Loop) -> bool:
    return loop.dimension in CHANGES[operand]


def _ports(accelerator: Accelerator, holder: _Holder) -> tuple[Port, ...]:
    if holder.level is not None:
        return holder.level.ports
    return accelerator.dram.ports if accelerator.dram and holder.name == DRAM else ()


def _port(ports: tuple[Port, ...], move: Move) -> int:
    """Return the index of the port: the first one of the direction serves the units' side, the last one DRAM's."""
    wanted = "read" if move in (Move.READ_FOR_BELOW, Move.READ_FOR_ABOVE) else "write"
    fitting = [at for at, port in enumerate(ports) if port.direction in (wanted, "read_write")]
    return fitting[0] if move in (Move.READ_FOR_BELOW, Move.WRITE_FROM_BELOW) else fitting[-1]


def _stall(transfers: list[_Transfer]) -> int:
    """Return the stall at one port; every cycle in the window of a transfer with a successor is marked."""
    moving = [one for one in transfers if one.moved]
    marked = {cycle for one in moving for start, stop in one.windows for cycle in range(start, stop)}
    alone = sum(max(one.busy - (stop - start), 0) for one in moving for start, stop in one.moved)
    together = sum(one.busy * len(one.moved) for one in moving) - len(marked)
    return max(alone, together, 0)


def _one_after_the_other(transfers: list[_Transfer]) -> int:
    """Return the cycles of transfers: memories in sequence; operands in parallel, except at shared ports."""
    ports: dict[object, int] = {}
    crossings: dict[tuple[str, int, bool], int] = {}
    for one in transfers:
        ports[one.port] = ports.get(one.port, 0) + one.busy
        crossings[one.crossing] = max(crossings.get(one.crossing, 0), one.busy)
    operands: dict[str, int] = {}
    for (operand, _, _), busy in crossings.items():
        operands[operand] = operands.get(operand, 0) + busy
    return max([0, *ports.values(), *operands.values()])
