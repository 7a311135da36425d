"""The request of `check`, and the result for an answer other than a plan or a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onchip.answer.document import Reading
from onchip.answer.words import counted, objective_amount, printable
from onchip.api.networks import Network
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.ir.layer import Layer
from onchip.reports.program.outcome import violation_object
from onchip.verify.rules import Violation

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The request of `check`: an answer file, its network, and options.

    `target` replaces a plan's memories, and names the accelerator of a mapping or a strategy. `insisted` are values of
    fields of Reading that the file must state; a mapping file states none, so there they define the reading.
    `may_be_partial` allows a mapping file to omit layers of the network.
    """

    file: Path
    network: Network | Layer
    target: Target = field(default_factory=Target)
    insisted: Mapping[str, object] = field(default_factory=dict)
    may_be_partial: bool = False

    @property
    def graph_source(self) -> Network:
        """Return the network of an answer other than mappings; raises UsageError for a layer."""
        if isinstance(self.network, Layer):
            raise UsageError("a layer has mappings alone", file=str(self.file), place="network", expected="a network")
        return self.network

    @property
    def accelerator(self) -> str | Accelerator | None:
        """Return the accelerator of an answer other than a plan; raises UsageError for a scratchpad option."""
        if self.target.sram is not None or self.target.alignment_bytes is not None:
            what = "only a plan is checked in a scratchpad"
            raise UsageError(what, place="target, alignment_bytes", expected="`target`, or nothing")
        return self.target.accelerator

    @property
    def reading_of_layers(self) -> Reading:
        """Return the reading of the layers of a mapping file, which states their bits itself; raises UsageError."""
        for name in ("bits", "count"):
            if name in self.insisted:
                raise UsageError("a mapping file says it of each layer", place=name, expected="nothing")
        return Reading(**self.insisted)  # type: ignore[arg-type]  # bindings and granularity


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


_UNITS: Final = {"pj": "pJ", "cycles": "cycles", "macs": "MACs", "bits": "bits", "bytes": "bytes"}
"""Units by the last word of a figure's name."""


def _figures(recomputed: Mapping[str, object]) -> Iterator[str]:
    """Yield each figure with its unit in words: energies in three digits, all others exactly."""
    for name, value in recomputed.items():
        if isinstance(value, int | float):
            words = name.split("_")
            unit = _UNITS.get(words[-1])
            label = name.replace("_", " ") if unit is None else " ".join(words[:-1])
            amount = (
                f"{value:,.10g}"
                if unit is None
                else objective_amount(value * 1000, "fJ")
                if unit == "pJ"
                else f"{value:,.10g} {unit}"
            )
            yield f"{label} {amount}".strip()


def answer_check_lines(check: AnswerCheck) -> Iterator[RenderableType]:
    """Yield a line for each violation, each mapping's figures, and each unchecked rule."""
    from rich.text import Text

    for violation in check.violations:
        yield Text(printable(str(violation)))
    if check.is_legal:
        for one in check.recomputed:
            yield Text(printable(f"{one.get('names')}: {', '.join(_figures(one))}"))
    for what in check.not_checked:
        yield Text(f"not verified: {what}")
    yield Text(f"the {check.kind} is legal" if check.is_legal else counted(len(check.violations), "violation"))
