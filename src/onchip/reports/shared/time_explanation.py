"""Where the time of an answer goes, why the array waits longest, and what of the machine would help most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onchip.model.timeline.activity import Activity
from onchip.model.timeline.array_waits import array_waits, latency_parts
from onchip.reports.explain.machine_changes import RetimedChange
from onchip.reports.shared.latency import latency_words, wait_lines, wait_objects
from onchip.reports.shared.words import exact_bytes, percent, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

LONGEST: Final = 3
"""So many waits are told in words."""


@dataclass(frozen=True, slots=True)
class TimeExplanation:
    """A timeline's activities, and the changes of the machine that help most, each timed."""

    activities: Sequence[Activity]
    changes: tuple[RetimedChange, ...]

    @property
    def latency_cycles(self) -> int:
        """The cycle in which everything has ended."""
        return max((one.end for one in self.activities), default=0)


def time_object(explanation: TimeExplanation) -> dict[str, object]:
    """Return the latency, its parts, every wait of the array, and the changes."""
    return {
        "latency_cycles": explanation.latency_cycles,
        "latency_parts": latency_parts(explanation.activities).by_name,
        "waits": wait_objects(explanation.activities),
        "changes": [
            {
                "change": one.change.kind,
                "memory": one.change.memory,
                "words": one.change.words,
                "latency_cycles": one.latency_cycles,
                "saved_cycles": explanation.latency_cycles - one.latency_cycles,
                "need_bytes": one.need_bytes,
            }
            for one in explanation.changes
        ],
    }


def time_tables(explanation: TimeExplanation) -> Iterator[RenderableType]:
    """Yield the same in words, the longest waits alone."""
    from rich.table import Table
    from rich.text import Text

    latency = explanation.latency_cycles
    yield Text(f"\nlatency {latency:,} cycles: {latency_words(latency_parts(explanation.activities))}")
    waits = sorted(array_waits(explanation.activities), key=lambda one: -one.cycles)
    if waits:
        yield Text("the array waits longest in")
    for wait in waits[:LONGEST]:
        lines = [printable(line) for line in wait_lines(wait, explanation.activities)]
        yield Text("\n    ".join(("  " + lines[0], *lines[1:])))
    if not explanation.changes:
        yield Text("more of no part of the machine makes this program end sooner")
        return
    table = Table(box=None, title="what would help most, with the same program", title_justify="left")
    for name, side in (("change", "left"), ("cycles", "right"), ("less", "right"), ("", "left")):
        table.add_column(name, justify="right" if side == "right" else "left")
    for one in explanation.changes:
        saved = percent((latency - one.latency_cycles) / latency)
        need = "" if one.need_bytes is None else f"{exact_bytes(one.need_bytes)} in use at once"
        table.add_row(printable(one.change.words), f"{one.latency_cycles:,}", saved, need)
    yield table
