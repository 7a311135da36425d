"""The mapping of the exact mapper's map space that corresponds to another tool's mapping, if there is one.

Another tool's mapping may have level boundaries per operand, bypass memories, interleave classes of loops, or have
spatial loops elsewhere. Its temporal order, its spatial loops and its level boundaries define the counterpart in the
map space, which can then be costed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, pairwise

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Schedule
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Operand
from onchip.errors import AcceleratorError
from oracles.mapping import CHANGES
from oracles.mapspace import units_of


def like_in_mapspace(problem: LayerProblem, mapping: LayerMapping, *, any_order: bool) -> LayerMapping | None:
    """Return the mapping of the map space with the same loops and boundaries, or None without one.

    With `any_order` (as for energy) loops of a class may be separated between two memories.
    """
    if mapping.bounds != problem.layer.bounds:
        return None
    temporal = [loop for loop in mapping.nest if loop.along is None and loop.size > 1]
    for operand in problem.layer.operands:
        names = [level.memory.name for level in problem.keepers(operand)]
        if [kept.memory for kept in mapping.kept(operand)] != names:
            return None
    cuts = list(_common_cuts(problem, mapping, temporal))
    if len(cuts) != len(problem.levels):
        return None
    pieces = [temporal[lower:upper] for lower, upper in pairwise([0, *cuts, len(temporal)])]
    if not any_order and not all(map(_classes_stand_together, pieces)):
        return None
    return _built(problem, mapping, temporal, cuts)


def has_uneven_tiles(accelerator: Accelerator, schedule: Schedule) -> bool:
    """Return True if a mapping has separate level boundaries per operand, as LOMA's do, and so no counterpart."""
    for one in schedule.mappings:
        for weight_is_an_input in (False, True):
            with suppress(AcceleratorError):
                problem = LayerProblem(one.layer, accelerator, one.homes, weight_is_an_input=weight_is_an_input)
                if like_in_mapspace(problem, one.mapping, any_order=False) is None:
                    return True
    return False


def _common_cuts(problem: LayerProblem, mapping: LayerMapping, temporal: list[Loop]) -> Iterator[int]:
    """Yield, for each level, the lowest boundary that suits all its operands; stop if there is none."""
    lowest = 0
    for level in problem.levels:
        wanted = []
        for operand in problem.layer.operands:
            for kept in mapping.kept(operand):
                if kept.memory == level.memory.name:
                    inside = sum(loop.along is None and loop.size > 1 for loop in mapping.nest[: kept.loops])
                    wanted.append((operand, _extended(temporal, operand, inside)))
        fitting = [
            cut
            for cut in range(lowest, len(temporal) + 1)
            if all(_extended(temporal, operand, cut) == place for operand, place in wanted)
        ]
        if not fitting:
            return
        lowest = fitting[0]
        yield lowest


def _extended(temporal: list[Loop], operand: str, cut: int) -> int:
    """Return the boundary extended over the loops directly above along which the operand does not change."""
    while cut < len(temporal) and temporal[cut].dimension not in CHANGES[operand]:
        cut += 1
    return cut


def _classes_stand_together(loops: list[Loop]) -> bool:
    classes = [
        own for own, _ in groupby(tuple(o for o in CHANGES if loop.dimension not in CHANGES[o]) for loop in loops)
    ]
    return len(classes) == len(set(classes))


def _built(problem: LayerProblem, mapping: LayerMapping, temporal: list[Loop], cuts: list[int]) -> LayerMapping:
    """Return the mapping, with spatial loops directly above the input's last tile that excludes them."""
    beside: dict[int, list[Loop]] = {}
    above: dict[str, tuple[int, int]] = {}
    for name in units_of(problem.accelerator):
        place, passed = 0, 0
        for level, cut in zip(problem.levels, cuts, strict=True):
            if level in problem.keepers(Operand.INPUT):
                if level.serves is None or name in level.serves:
                    break
                place, passed = _extended(temporal, "input", cut), passed + 1
        above[name] = place, passed
    for name in sorted(above, key=lambda one: above[one][1]):
        side = [loop for loop in mapping.nest if loop.along == name and loop.size > 1]
        beside.setdefault(above[name][0], []).extend(side)
    nest: list[Loop] = []
    at: list[int] = []
    for place in range(len(temporal) + 1):
        at.append(len(nest))
        nest += [*beside.get(place, ()), *temporal[place : place + 1]]
    kept = {
        operand: tuple(
            Kept(level.memory.name, at[_extended(temporal, operand, cut)])
            for level, cut in zip(problem.levels, cuts, strict=True)
            if level in problem.keepers(operand)
        )
        if operand in problem.layer.operands
        else ()
        for operand in Operand
    }
    return LayerMapping(tuple(nest), kept[Operand.INPUT], kept[Operand.WEIGHT], kept[Operand.OUTPUT])
