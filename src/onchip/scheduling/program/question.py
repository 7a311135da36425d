"""The input and the answer of a schedule search."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.arch.accelerator import Accelerator
from onchip.ir.graph import Graph
from onchip.model.program.figures import ScheduleFigures
from onchip.ops.layers_of import Precision
from onchip.scheduling.program.composition import Composition
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class ScheduleQuestion:
    """The network as read, the accelerator, the bits of elements and partial sums, and the objective.

    Concatenations that are `views` are not materialised: their readers read the parts.
    """

    network: Graph
    accelerator: Accelerator
    precision: Precision
    objective: ScheduleObjective
    lower_bound: int = 0
    uses_cache: bool = True
    views: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A schedule with what its Computes cost, the tile graph that it runs, and its figures.

    Where stacks are given and none were found, every operator runs alone, and `why_alone` says it. Where some runs of
    operators have none, `left_alone` has these by their first and last.
    """

    composition: Composition
    tiles: TileGraph
    figures: ScheduleFigures
    why_alone: str | None = None
    left_alone: tuple[tuple[str, str], ...] = ()
