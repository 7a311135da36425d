"""Pareto fronts of schedules as a table, a JSON object and a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from onchip.answer.result import Stop
from onchip.reports.program.terminal import columns_table
from onchip.reports.schedule.outcome import ScheduleOutcome, schedule_object
from onchip.reports.shared.page import Card, Page
from onchip.reports.shared.words import amount, counted, percent
from onchip.scheduling.search.front import FrontAxis


@dataclass(frozen=True, slots=True)
class ShownPoint:
    """A schedule on the front with its values along the axes."""

    values: tuple[int, ...]
    outcome: ScheduleOutcome


@dataclass(frozen=True, slots=True)
class FrontOutcome:
    """Verified schedules that do not dominate one another, in the order of the first axis.

    `bounds` hold along each axis for every schedule; `points` are some of the `found` schedules on the front.
    """

    network: str
    accelerator: str
    axes: Sequence[FrontAxis]
    bounds: tuple[int, ...]
    points: Sequence[ShownPoint]
    found: int
    space: Mapping[str, str]
    stopped_by: Stop
    seconds: float

    def gap_of(self, point: ShownPoint) -> float:
        """Return the share by which a schedule could at most be better than the point along all axes at once."""
        pairs = zip(point.values, self.bounds, strict=True)
        return min((value - bound) / value if value else 0.0 for value, bound in pairs)


def name_of_point(number: int) -> str:
    """Return the file name of a point in its front's folder, by its number from 1."""
    return f"{number:02d}.schedule.json.gz"


def front_tables(front: FrontOutcome) -> Iterator[RenderableType]:
    """Yield a line for each point, and the lower bounds."""
    if not front.points:
        yield Text("no schedule was found")
    headings = ("point", *(f"{axis}, {axis.unit}" for axis in front.axes), "stacks", "gap")
    table = columns_table((heading, "", True) for heading in headings)
    for number, point in enumerate(front.points, 1):
        stacks = point.outcome.document.answer.stacks if point.outcome.document else ()
        values = (f"{value:,}" for value in point.values)
        table.add_row(str(number), *values, f"{len(stacks):,}", percent(front.gap_of(point)))
    yield table
    bounds = (f"{axis} {amount(bound, axis.unit)}" for axis, bound in zip(front.axes, front.bounds, strict=True))
    yield Text(f"no schedule is below: {', '.join(bounds)}; none is better than a point by more than its gap in all")
    hidden = front.found - len(front.points)
    if hidden:
        yield Text(f"{counted(hidden, 'schedule')} between these are left out")
    yield Text(f"{front.seconds:.3f} seconds")


def front_object(front: FrontOutcome) -> dict[str, object]:
    """Return the axes, their bounds, and each point with its schedule's object."""
    return {
        "network": front.network,
        "accelerator": front.accelerator,
        "pareto": list(front.axes),
        "units": {axis: axis.unit for axis in front.axes},
        "lower_bounds": dict(zip(front.axes, front.bounds, strict=True)),
        "points": [
            {
                **dict(zip(front.axes, point.values, strict=True)),
                "gap": front.gap_of(point),
                "schedule": schedule_object(point.outcome),
            }
            for point in front.points
        ],
        "found": front.found,
        "space": dict(front.space),
        "stopped_by": front.stopped_by,
        "seconds": front.seconds,
    }


def front_html(front: FrontOutcome, typed: str) -> str:
    """Return the page's text; `typed` is the command line. Raises UsageError if a package for pages is missing."""
    least = [min((point.values[at] for point in front.points), default=0) for at in range(len(front.axes))]
    triples = zip(front.axes, least, front.bounds, strict=True)
    cards = [
        Card(f"least {axis}", amount(value, axis.unit), f"no schedule is below {amount(bound, axis.unit)}")
        for axis, value, bound in triples
    ]
    axes = [f"{axis}, {axis.unit}" for axis in front.axes]
    facts: dict[str, object] = {"axes": axes, "points": [list(point.values) for point in front.points]}
    rows = [
        (name_of_point(number), *(f"{value:,}" for value in point.values), percent(front.gap_of(point)))
        for number, point in enumerate(front.points, 1)
    ]
    values = {
        "title": f"{front.network} on {front.accelerator}",
        "cards": cards,
        "command_line": typed,
        "headings": ("point", *axes, "gap"),
        "rows": rows,
    }
    return Page("front.html.j2", ("canvas.js", "front.js"), facts, values, has_plotly=False).html()
