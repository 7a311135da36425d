"""From a chain of tiles, with the orders of the loops between them, to its mapping."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.memory import Operand
from onchip.cost.layer.limits import array_of
from onchip.cost.layer.tables import OPERANDS
from onchip.ir.layer import INPUT, LOOPS
from onchip.solve.mapping.exact.room import DescentState
from onchip.solve.mapping.exact.tables import CLASSES, Tables
from onchip.solve.mapping.exact.work import Work


def mapping_of(tables: Tables, work: Work, room: DescentState, problem: LayerProblem) -> LayerMapping:
    """The mapping at which the descent stands, all its places filled."""
    nest: list[Loop] = []
    stop: dict[int, int] = {}
    beside = _spatial(tables, work, room, problem)
    for tile, loops in _pieces(work, room):
        stop.setdefault(tile, len(nest))
        nest.extend(beside.pop(tile, ()))
        nest.extend(loops)
    stop.setdefault(int(room.tile[-1]), len(nest))
    nest.extend(beside.pop(int(room.tile[-1]), ()))
    names = [level.memory.name for level in problem.levels]
    kept = {
        operand: tuple(
            Kept(name, stop[int(room.cut[number, level])])
            for level, name in enumerate(names)
            if tables.space.holds[number, level]
        )
        for number, operand in enumerate(OPERANDS)
    }
    return LayerMapping(tuple(nest), *(kept[operand] for operand in Operand))


def _pieces(work: Work, room: DescentState) -> Iterator[tuple[int, list[Loop]]]:
    """From the units up: a tile, and the loops right above it up to the next tile at which anything may be cut."""
    for place in range(room.tile.size - 1):
        lower, upper = int(room.tile[place]), int(room.tile[place + 1])
        if lower == upper:
            continue
        inner, outer = int(room.inner[place]), int(room.outer[place])
        sizes = [int(above // below) for below, above in zip(work.loops[:, lower], work.loops[:, upper], strict=True)]
        groups = [
            [
                Loop(*one)
                for one, own in zip(zip(LOOPS, sizes, strict=True), CLASSES, strict=True)
                if own == group and one[1] > 1
            ]
            for group in range(4)
        ]
        yield lower, groups[inner]
        if inner != outer:
            end = lower - int(work.part[inner, lower]) + int(work.part[inner, upper])
            between = [loop for group in range(4) if group not in (inner, outer) for loop in groups[group]]
            yield end, between + groups[outer]


def _spatial(tables: Tables, work: Work, room: DescentState, problem: LayerProblem) -> dict[int, list[Loop]]:
    """Above which tile loops beside each other stand: right above the input's tile that they have beside it."""
    found: dict[int, list[tuple[int, Loop]]] = {}
    number = OPERANDS.index(INPUT)
    held = [level for level in range(work.fits.shape[0]) if tables.space.holds[number, level]]
    for along, name in enumerate(array_of(problem.accelerator).sizes):
        below, passed = 0, 0
        for level in held:
            if tables.machine.serves[level, along]:
                break
            below, passed = int(room.cut[number, level]), passed + 1
        sizes = tables.sides.sizes[work.way[along]].tolist()
        loops = [(passed, Loop(loop, size, name)) for loop, size in zip(LOOPS, sizes, strict=True) if size > 1]
        found.setdefault(below, []).extend(loops)
    return {below: [loop for _, loop in sorted(loops, key=lambda one: one[0])] for below, loops in found.items()}
