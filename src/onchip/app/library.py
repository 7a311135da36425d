"""The functions of `import onchip`: what the verbs do, on Python's terms.

Each returns what its verb shows; `answer`, `gap` and the like are there by the names of a result's fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Objective
from onchip.arch.sharing import Share
from onchip.errors import UsageError
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.solve.run.limits import Limits

if TYPE_CHECKING:
    from onchip.app.check import Checked
    from onchip.reports.mapping.outcome import MappingOutcome
    from onchip.reports.packing import PackingOutcome
    from onchip.reports.program.execution import Execution
    from onchip.reports.program.explanation import Explanation
    from onchip.reports.program.outcome import Outcome
    from onchip.reports.schedule.execution import ScheduleExecution
    from onchip.reports.schedule.explanation import ScheduleExplanation
    from onchip.reports.schedule.front import FrontOutcome
    from onchip.reports.stack.outcome import FusionOutcome
    from onchip.solve.schedule.options import ScheduleOptions
    from onchip.solve.stacks.options import FusionOptions

ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
File: TypeAlias = str | Path


@dataclass(frozen=True, slots=True)
class Elements:
    """How a network becomes layers: bits of an element and of a sum in the making (None: as many as there is room for).

    Without `bits`, of which `schedule` alone knows, each tensor has its own. `dims`, `shapes` and `values` stand for
    what a network file leaves open, as in `Reading`.
    """

    bits: int | None = 8
    partial_bits: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    granularity: Granularity = Granularity.FUSED
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def bindings(self) -> Bindings:
        """What stands for what the file leaves open."""
        return Bindings(self.dims, self.shapes, self.values)


def schedule(
    network: File,
    accelerator: File,
    objective: str = "energy",
    *,
    options: ScheduleOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> ScheduleOutcome:
    """Schedule a network on an accelerator, each a bundled name or a file, for least energy, latency, edp or traffic.

    Raises InputError for what cannot be read or used, UsageError for an objective that is none.
    """
    from onchip.app.schedule import ScheduleRequest, schedule_network
    from onchip.solve.schedule.objective import ScheduleObjective
    from onchip.solve.schedule.options import ScheduleOptions

    read_as = elements.bits, elements.partial_bits, elements.bindings, elements.granularity
    wanted = _one_of(ScheduleObjective, objective)
    asked = str(network), str(accelerator), wanted, options or ScheduleOptions()
    return schedule_network(ScheduleRequest(*asked, *read_as, limits))


def schedule_front(
    network: File,
    accelerator: File,
    pareto: str,
    *,
    options: ScheduleOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    points: int = 12,
) -> FrontOutcome:
    """Schedules that no other found beats in all of `pareto`: `energy,latency`, also `traffic` and `peak`.

    Raises InputError for what cannot be read or used, UsageError for axes that are none.
    """
    from onchip.app.schedule import ScheduleRequest
    from onchip.app.schedule_front import FrontRequest, axes_of, front_of_schedules
    from onchip.solve.schedule.objective import ScheduleObjective
    from onchip.solve.schedule.options import ScheduleOptions

    read_as = elements.bits, elements.partial_bits, elements.bindings, elements.granularity
    asked = str(network), str(accelerator), ScheduleObjective.ENERGY, options or ScheduleOptions()
    return front_of_schedules(FrontRequest(ScheduleRequest(*asked, *read_as, limits), axes_of(pareto), points))


def plan(
    network: File,
    *,
    sram: int | str | None = None,
    accelerator: File | None = None,
    objective: str = "traffic",
    reading: Reading = Reading(),  # noqa: B008 (frozen)
    share: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> Outcome:
    """Plan a network for one scratchpad (bytes, `512KiB`, or a budget: `m_r`, `m_h`, `m_p`) or an accelerator's own.

    `share` lets outputs lie in bytes of inputs: `none`, `in-place`, `alias` or `all`, else as the accelerator says.
    Raises InputError for what cannot be read, UsageError where both or neither are given.
    """
    from onchip.app.plan import Request, plan_network
    from onchip.app.target import Target

    chip = None if accelerator is None else str(accelerator)
    target = Target(sram, chip) if isinstance(sram, int) else Target.of_text(sram, chip, None)
    shared, wanted = None if share is None else _one_of(Share, share, "share"), _one_of(Objective, objective)
    return plan_network(Request(str(network), reading, target, wanted, limits=limits, share=shared))


def map_layer(
    layer: str,
    accelerator: File,
    objective: str = "energy",
    *,
    method: str = "exact",
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> MappingOutcome:
    """Map a layer (`conv:n1k64c64p56q56r3s3:pad1`, `NETWORK:LAYER`), or each layer of a network, onto an accelerator.

    Raises InputError for what cannot be read or mapped.
    """
    from onchip.app.map import MappingRequest, map_layers
    from onchip.solve.mapping.objective import MappingObjective

    wanted = _one_of(MappingObjective, objective)
    request = MappingRequest(
        layer,
        str(accelerator),
        wanted,
        method,
        _said(elements.bits),
        elements.bindings,
        elements.granularity,
        limits,
        partial_bits=elements.partial_bits,
    )
    return map_layers(request)


def fuse(
    network: File,
    accelerator: File,
    objective: str = "energy",
    *,
    options: FusionOptions | None = None,
    elements: Elements = Elements(),
    limits: Limits = Limits(),  # noqa: B008 (frozen)
) -> FusionOutcome:
    """Find which layers of a network run together tile by tile; raises InputError for what cannot be read or fused."""
    from onchip.app.fuse import FusionRequest, fuse_network
    from onchip.solve.stacks.objective import FusionObjective
    from onchip.solve.stacks.options import FusionOptions

    read_as = _said(elements.bits), elements.partial_bits, elements.bindings, elements.granularity
    asked = str(network), str(accelerator), _one_of(FusionObjective, objective), options or FusionOptions()
    return fuse_network(FusionRequest(*asked, None, *read_as, limits))


def pack(buffers: File, capacity_bytes: int | None = None, *, limits: Limits = Limits()) -> PackingOutcome:  # noqa: B008
    """Pack the buffers of a CSV file into a capacity, or into as little as possible; raises InputError."""
    from onchip.app.pack import pack_file

    return pack_file(Path(buffers), capacity_bytes, None, limits, minimize=capacity_bytes is None)


def check(answer: ScheduleOutcome | File, network: File | None = None, accelerator: File | None = None) -> Checked:
    """Verify an answer file for a network, or a schedule as `schedule` returns it, and search nothing.

    A mapping or a strategy file needs an accelerator unless it names a bundled one. Raises InputError for files that
    cannot be read, UsageError where there is no answer, or no network is named for a file.
    """
    from onchip.app.check import CheckRequest, check_file
    from onchip.app.check_schedule import check_schedule_document
    from onchip.app.target import Target

    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to check", place="answer", expected="one that was found")
        return check_schedule_document(answer.document, str(network or answer.source))
    chip = None if accelerator is None else str(accelerator)
    return check_file(CheckRequest(Path(answer), _named(network), Target(accelerator=chip)))


def run(
    answer: ScheduleOutcome | File, network: File | None = None, *, seed: int = 0, steps: int = 1
) -> ScheduleExecution | Execution:
    """Execute a schedule, or a plan or schedule file, on real bytes beside a run without it.

    A plan is run for so many inferences (`steps`), each with the state that the one before has left.

    Raises InputError for files that cannot be read, UsageError where there is no answer, or no network is named.
    """
    from onchip.app.check_schedule import ScheduleFile, check_schedule_document
    from onchip.app.kernels import RunValues
    from onchip.app.run_plan import run_plan
    from onchip.app.run_schedule import execution_of, run_schedule
    from onchip.formats.own.answer_format import AnswerFormat, format_of_answer

    values = RunValues(seed)
    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to run", place="answer", expected="one that was found")
        source = str(network or answer.source)
        return execution_of(check_schedule_document(answer.document, source), source, values)
    if format_of_answer(Path(answer)) is AnswerFormat.SCHEDULE:
        return run_schedule(ScheduleFile(Path(answer), _named(network)), values)
    return run_plan(Path(answer), _named(network), values, steps)


@overload
def explain(answer: Outcome) -> Explanation: ...


@overload
def explain(answer: ScheduleOutcome | File, network: File | None = None) -> ScheduleExplanation: ...


def explain(answer: Outcome | ScheduleOutcome | File, network: File | None = None) -> Explanation | ScheduleExplanation:
    """Say why a plan moves what it moves, or where the energy of a schedule, or of a schedule file, goes.

    Raises InputError for files that cannot be read, UsageError where there is no answer, or no network is named.
    """
    from onchip.reports.program.explanation import Explanation
    from onchip.reports.schedule.explanation import ScheduleExplanation

    if isinstance(answer, (ScheduleOutcome, str, Path)):
        return ScheduleExplanation.of(_shown(answer, network))
    if answer.history is None:
        raise UsageError("there is no plan to explain", place="outcome", expected="one that was found")
    return Explanation.of(answer.history)


def report(answer: ScheduleOutcome | File, output: File, network: File | None = None) -> None:
    """Draw a schedule, or a schedule file, as one HTML file that opens offline.

    Raises InputError for files that cannot be read, OutputError for one that cannot be written, UsageError where there
    is no answer, or no network is named for a file.
    """
    from onchip.formats.files import write_file
    from onchip.reports.schedule.html import schedule_html

    page = schedule_html(_shown(answer, network), f"onchip.report(..., {str(output)!r})")
    write_file(Path(output), page.encode())


def _shown(answer: ScheduleOutcome | File, network: File | None) -> ScheduleOutcome:
    """The schedule as it was found, or as its file says it; raises UsageError where there is none, or it is illegal."""
    if isinstance(answer, ScheduleOutcome):
        if answer.document is None:
            raise UsageError("there is no schedule to show", place="answer", expected="one that was found")
        return answer
    from onchip.app.check_schedule import ScheduleFile
    from onchip.app.show_schedule import schedule_to_show

    shown = schedule_to_show(ScheduleFile(Path(answer), _named(network)))
    if shown.outcome is None:
        first = shown.check.verdict.violations[0]
        raise UsageError(f"it is not legal: {first}", file=str(answer), expected="a legal schedule")
    return shown.outcome


def _one_of(choices: type[ChoiceT], name: str, place: str = "objective") -> ChoiceT:
    try:
        return choices(name)
    except ValueError:
        expected = f"one of {', '.join(choices)}"
        raise UsageError(f"it is {name!r}", place=place, expected=expected) from None


def _said(bits: int | None) -> int:
    if bits is None:
        raise UsageError("it says nothing", place="elements.bits", expected="a number: `schedule` alone has others")
    return bits


def _named(network: File | None) -> str:
    if network is None:
        raise UsageError("it does not say where its network is", place="network", expected="a bundled name or a file")
    return str(network)
