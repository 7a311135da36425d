"""How many operators, and which share of the operations, run in which way."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.reports.shared.words import counted, percent
from onchip.reports.stack.outcome import FusionOutcome


@dataclass(frozen=True, slots=True)
class Coverage:
    """Operators that run in one way, with their operations and the `share` of all (0 to 1; None: there are none).

    Operations are the multiply-accumulates of layers, each counted once, and of an operator outside of all stacks those
    of its loop nests; of one without any one for each element that it writes.
    """

    way: str
    operators: int
    operations: int
    share: float | None


def coverage(outcome: FusionOutcome) -> tuple[Coverage, ...]:
    """Return what each way covers: stacks of several layers, of one, what only moves data, what is seen through."""
    stacks = [[layer.layer.macs for layer in one.stack.layers] for one in outcome.stacks]
    several = [macs for own in stacks for macs in own if len(own) > 1]
    single = [macs for own in stacks for macs in own if len(own) == 1]
    moved = [one.macs_not_costed or one.written_elements for one in outcome.outside]
    views = outcome.operators - len(several) - len(single) - len(moved)
    ways = {"fused": several, "layer by layer": single, "data movement": moved, "views": [0] * views}
    total = sum(map(sum, ways.values()))
    return tuple(Coverage(way, len(own), sum(own), sum(own) / total if total else None) for way, own in ways.items())


def coverage_words(outcome: FusionOutcome) -> str:
    """Return one line about the ways that cover any operator."""
    parts = ", ".join(_words(one) for one in coverage(outcome) if one.operators)
    return f"{counted(outcome.operators, 'operator')}: {parts}"


def _words(one: Coverage) -> str:
    share = "" if one.share is None or one.way == "views" else f" ({percent(one.share)} of the operations)"
    return f"{one.operators} {one.way}{share}"
