"""What `schedule` found, as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onchip.answer.document import ScheduleDocument
from onchip.answer.result import Result
from onchip.answer.schedule import Schedule
from onchip.arch.accelerator import Accelerator
from onchip.bounds.network.relaxation import Relaxation
from onchip.ir.graph import Graph
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.program.figures import ScheduleFigures
from onchip.transform.groups.tile_graph import TileGraph


@dataclass(frozen=True, slots=True)
class ScheduleSeconds:
    """The seconds that reading, solving and verifying took."""

    read: float
    solve: float
    verify: float


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """A scheduled network; without a schedule `tiles`, `figures` and `document` are None, and `why_not` says why.

    `network` has elements of the bits asked for; `space` says what the bound is proven among, `relaxation` its parts.
    `compute_costs` are those of each tile operator, by name. `not_checked` is what the verifier was handed and did not
    recompute. A `remark` says in what the answer differs from what was asked. One that `is_from_file` was searched for
    by whoever made the file: its status and bound are claims. `weighed` are the mappings of each nest that the search
    chose among; all others of the space were left out for time. `value_of_stages` is the objective value of the
    schedule stage by stage, with mappings that are each best alone, from which all choices together began;
    `are_stages_cut` is whether the time was over before the counted work of the stages was done.
    """

    source: str
    network: Graph
    accelerator: Accelerator
    objective: str
    unit: str
    result: Result[Schedule]
    relaxation: Relaxation
    space: Mapping[str, str]
    seconds: ScheduleSeconds
    tiles: TileGraph | None = None
    figures: ScheduleFigures | None = None
    document: ScheduleDocument | None = None
    compute_costs: Mapping[str, ComputeCost] = field(default_factory=dict)
    not_checked: tuple[str, ...] = ()
    why_not: str | None = None
    remark: str | None = None
    is_from_file: bool = False
    weighed: str | None = None
    value_of_stages: int | None = None
    are_stages_cut: bool | None = None

    @property
    def proven_space(self) -> dict[str, str]:
        """Restrictions of the schedules for which the bound holds, those of the accelerator among them."""
        restriction = self.accelerator.restriction
        return {**self.space, **({"accelerator": restriction} if restriction else {})}

    @property
    def answer(self) -> Schedule | None:
        """The schedule; None where none was found."""
        return self.result.answer

    @property
    def gap(self) -> float | None:
        """How far the schedule may be from the best, by its objective value; None where none was found."""
        return self.result.gap

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all tile operators, those that are computed again among them."""
        if self.tiles is None:
            return 0
        return sum(nest.macs for origin in self.tiles.operators.values() for nest in origin.nests)

    @property
    def operators_without_nest(self) -> int:
        """How many tile operators are priced without a loop nest."""
        return 0 if self.tiles is None else sum(not origin.nests for origin in self.tiles.operators.values())
