"""The check of an answer file of any kind, identified by its `format`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.document import Reading
from onchip.answer.words import counted, objective_amount, printable
from onchip.api.networks import Network, text_of
from onchip.api.phases import phase
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError, UsageError
from onchip.formats.files import AnswerFormat, format_of_answer
from onchip.ir.layer import Layer
from onchip.plugins import PluginGroup
from onchip.reports.program.outcome import violation_object
from onchip.verify.rules import Violation

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.reports.program.outcome import Check
    from onchip.reports.schedule.outcome import ScheduleCheck


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


Checked: TypeAlias = "Check | ScheduleCheck | AnswerCheck"


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


@phase("reading")
def check_file(request: CheckRequest) -> Checked:
    """Verify an answer file, or the plan of a TFLite file, Vela or XLA; raises InputError for an unreadable file."""
    file = request.file
    if file.suffix in (".tflite", ".txt"):
        _ensure_not_partial(request)
        return _check_of_another_tool(request)
    form = format_of_answer(file)
    if form is not AnswerFormat.MAPPING:
        _ensure_not_partial(request)
    match form:
        case AnswerFormat.SCHEDULE:
            from onchip.api.check_schedule import ScheduleFile, check_schedule_file

            return check_schedule_file(ScheduleFile(file, request.graph_source, request.accelerator, request.insisted))
        case AnswerFormat.STRATEGY:
            from onchip.api.check_strategy import StrategyFile, check_strategy_file

            insisted = {name: value for name, value in request.insisted.items() if name != "count"}
            return check_strategy_file(StrategyFile(file, request.graph_source, request.accelerator, insisted))
        case AnswerFormat.MAPPING:
            from onchip.api.check_mapping import MappingFile, check_mapping_file

            reading = _reading(request.insisted)
            return check_mapping_file(
                MappingFile(file, request.network, request.accelerator, reading, may_be_partial=request.may_be_partial)
            )
        case AnswerFormat.PLAN:
            from onchip.api.check_plan import check_plan

            return check_plan(file, request.graph_source, request.target, request.insisted)


def _ensure_not_partial(request: CheckRequest) -> None:
    if request.may_be_partial:
        raise UsageError("only a mapping file may lack layers", place="partial", expected="a mapping file")


def _check_of_another_tool(request: CheckRequest) -> AnswerCheck:
    """Check a plan that another tool wrote, such as a TFLite file or the allocation that Vela printed."""
    if request.insisted:
        what = "a plan in a TFLite file does not record it"
        if request.file.suffix != ".tflite":
            what = "the file of another compiler does not record it"
        raise UsageError(what, place=min(request.insisted), expected="nothing")
    checks = PluginGroup[[Path, str, Target], AnswerCheck | None]("onchip.file_checks", (AnswerCheck, type(None)))
    for name in checks.names:
        check = checks.find(name)
        found = None if check is None else check(request.file, text_of(request.graph_source), request.target)
        if found is not None:
            return found
    tools = ", ".join(checks.names)
    raise InputError("the file has an unknown format", file=str(request.file), expected=f"a file of one of {tools}")


def _reading(said: Mapping[str, object]) -> Reading:
    """Return the reading of layers, whose bits are those of the file."""
    for name in ("bits", "count"):
        if name in said:
            raise UsageError("a mapping file says it of each layer", place=name, expected="nothing")
    return Reading(**said)  # type: ignore[arg-type]  # bindings and granularity
