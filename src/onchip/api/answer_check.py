"""Checked answer files that are no programs, as lines and JSON objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onchip.answer.words import counted, printable
from onchip.reports.program.outcome import violation_object
from onchip.verify.rules import Violation

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """A checked file; `kind` is `mapping`, `strategy` or the name of another tool's file.

    `recomputed` has an object for each mapping, `claimed` one for each claim; both may be empty.
    """

    kind: str
    network: str
    accelerator: str
    violations: Sequence[Violation]
    recomputed: Sequence[Mapping[str, object]] = ()
    claimed: Sequence[Mapping[str, object]] = ()
    not_checked: Sequence[str] = ()

    @property
    def is_legal(self) -> bool:
        """True if the answer has no violation."""
        return not self.violations


def answer_check_object(check: AnswerCheck) -> dict[str, object]:
    """Return the violations of an answer, its figures and its claims."""
    return {
        "network": check.network,
        "accelerator": check.accelerator,
        "legal": check.is_legal,
        "violations": [violation_object(violation) for violation in check.violations],
        "recomputed": list(check.recomputed),
        "claimed": list(check.claimed),
        "not_checked": list(check.not_checked),
    }


def answer_check_lines(check: AnswerCheck) -> Iterator[RenderableType]:
    """Yield a line for each violation, each mapping's figures, and each unchecked rule."""
    from rich.text import Text

    for violation in check.violations:
        yield Text(printable(str(violation)))
    if check.is_legal:
        for one in check.recomputed:
            figures = ", ".join(f"{name} {value:,}" for name, value in one.items() if isinstance(value, int | float))
            yield Text(printable(f"{one.get('names')}: {figures}"))
    for what in check.not_checked:
        yield Text(f"not checked: {what}")
    yield Text(f"the {check.kind} is legal" if check.is_legal else counted(len(check.violations), "violation"))
