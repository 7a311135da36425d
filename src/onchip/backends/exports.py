"""Exports of answers for other tools: traces, tables, C, models, kernels, and mappings in the formats of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from onchip.answer.document import NamedMapping
from onchip.api.answers import Answer, answer_file, machine_of_answer, network_of_answer
from onchip.api.check import Check, Checked
from onchip.api.check_mapping import accelerator_named, mapping_violations
from onchip.api.check_request import AnswerCheck, CheckRequest
from onchip.api.inputs import NetworkLike, TargetLike
from onchip.api.networks import Network, text_of
from onchip.api.phases import phase
from onchip.api.run import RunValues
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.backends.c.calls import unique_identifiers
from onchip.backends.nests import MappingFormat
from onchip.backends.nests.c_source import nest_source
from onchip.backends.nests.gpu_source import DIALECTS, gpu_kernel
from onchip.errors import InputError, UsageError
from onchip.formats.files import AnswerFormat, ensure_writable, format_of_answer, write_files
from onchip.formats.foreign_files import accelerator_text, load_any_accelerator
from onchip.formats.own.mapping_yaml import read_mappings
from onchip.ir.layer import Layer
from onchip.reports.exports import Export, ExportFormat, files_of

if TYPE_CHECKING:
    from onchip.reports.exports import TracedWaits, TraceSpan


FUNCTION_PREFIX: Final = "nest_"
"""Begins the name of every exported function: a layer may be called `main`, `int` or as a helper in its file."""
LEFT_OUT: Final = "layer {name!r}, which has no weights and is not written"
Traced: TypeAlias = "tuple[tuple[TraceSpan, ...], TracedWaits]"
"""The times of the instructions, and the reasons why the array waits."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The request of `export`: an answer file and its network (None for mappings), the format and the output.

    The accelerator gives the times of a plan's trace, and is that of mappings. `values` are those of a C project.
    """

    file: Path
    network: Network | None
    to: str
    output: Path
    accelerator: str | Accelerator | None = None
    values: RunValues = field(default_factory=RunValues)


@dataclass(frozen=True, slots=True)
class Exported:
    """The check of the answer and the files written, none for an illegal answer.

    `facts` are further fields of the JSON object, `lines` further lines of text.
    """

    check: Checked
    files: tuple[Path, ...]
    facts: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


def export(
    answer: Answer,
    output: str | Path,
    *,
    to: str,
    network: NetworkLike | None = None,
    target: TargetLike | None = None,
    seed: int = 0,
    random_weights: int | None = None,
) -> tuple[Path, ...]:
    """Write an answer for other tools.

    Parameters
    ----------
    answer
        A result or a file: a plan, a schedule or mappings.
    output
        The file to write; `c` and `csv` write two files of this name, `c-project` a folder.
    to
        `trace`, `c`, `c-project`, `csv`, `graph`, `tflite` or a plug-in; of mappings `c`, `cuda` or `opencl`.
    network
        As for `check`.
    target
        The accelerator that times a plan's trace, or that mappings are for.
    seed, random_weights
        Of a C project: seed of the inputs, and of random parameters instead of the model's.

    Returns
    -------
    tuple of Path
        The files written.

    Raises
    ------
    OnchipError
        The answer is illegal or cannot be exported so, or a file cannot be written.

    """
    with answer_file(answer) as file:
        is_mapping = format_of_answer(file) is AnswerFormat.MAPPING
        source = None if is_mapping else network_of_answer(answer, network)
        if isinstance(source, Layer):
            raise UsageError("it is a layer", place="network", expected="the network of the answer")
        machine = machine_of_answer(answer if is_mapping else file, target)
        values = RunValues(seed, random_weights)
        request = ExportRequest(file, source, to, Path(output), machine, values)
        exported = export_answer(request)
    if not exported.files:
        raise UsageError("it is not legal; `check` names the violations", place="answer", expected="a legal answer")
    return exported.files


def export_answer(request: ExportRequest) -> Exported:
    """Verify an answer and, if it is legal, write it for other tools.

    Raises InputError for an answer that cannot be exported so, UsageError for options that do not fit the format,
    OutputError for a file that cannot be written.
    """
    file, to = request.file, request.to
    form = format_of_answer(file)
    if form is AnswerFormat.MAPPING:
        return _mappings(request)
    if request.network is None:
        raise UsageError("it is not given", place="network", expected="the network of the answer")
    source = text_of(request.network)
    if to == ExportFormat.C_PROJECT:
        return _project(request, source, is_schedule=form is AnswerFormat.SCHEDULE)
    files = files_of(to, request.output, source)
    machine = source if request.accelerator is None else accelerator_text(request.accelerator)
    for one in files:
        ensure_writable(one, inputs=(str(file), source, machine))
    if form is AnswerFormat.SCHEDULE:
        from onchip.backends.c.exports import export_schedule

        asked = CheckRequest(file, request.network, Target(accelerator=request.accelerator))
        checked = export_schedule(asked, to, files)
        return Exported(checked, files if checked.is_legal else ())
    if to == ExportFormat.TFLITE:
        return _arena(request, source, files)
    return _plan(request, request.network, files)


def _plan(request: ExportRequest, network: Network, files: tuple[Path, ...]) -> Exported:
    check, times = _checked(request.file, network, request.accelerator)
    if not check.is_legal:
        return Exported(check, ())
    source = text_of(network)
    if request.to == ExportFormat.C and source.endswith(".tflite"):
        from onchip.api.check import ensure_joined_as_stored

        ensure_joined_as_stored(request.file, source, check)
    with phase("writing"):
        if request.to == ExportFormat.C:
            from onchip.backends.c.exports import write_plan_in_c

            write_plan_in_c(files, check.problem, check.document.answer)
        else:
            Export(request.to, files, check.document, check.problem, source, *(times or ())).write()
    return Exported(check, files)


def _project(request: ExportRequest, source: str, *, is_schedule: bool) -> Exported:
    from onchip.backends.c.exports import export_project, project_export_lines, project_export_object

    if is_schedule:
        what = "a schedule's tiles have no kernels in C"
        raise UsageError(what, file=str(request.file), expected="a plan")
    check, project = export_project(request.file, source, request.output, request.values)
    if project is None:
        return Exported(check, ())
    files = tuple(request.output / name for name in project.files)
    return Exported(check, files, {"project": project_export_object(project)}, tuple(project_export_lines(project)))


def _arena(request: ExportRequest, source: str, files: tuple[Path, ...]) -> Exported:
    from onchip.backends.tflm.export_arena import arena_export_lines, arena_export_object, export_arena

    check, export = export_arena(request.file, source, files[0])
    if export is None:
        return Exported(check, ())
    return Exported(check, files, {"arena": arena_export_object(export)}, tuple(arena_export_lines(export)))


def _checked(plan: Path, network: Network, accelerator: str | Accelerator | None) -> tuple[Check, Traced | None]:
    """Return the check of a plan and, if it is legal, the times of its instructions.

    The times are those on an accelerator, or the plan's own; None if neither is known.
    """
    from onchip.api.run import own_timeline, time_network
    from onchip.reports.exports import timed_spans, traced_waits

    if accelerator is None:
        from onchip.api.check import check_plan

        check, clock_mhz = check_plan(plan, network, Target(), {}), None
        timeline = own_timeline(check.problem, check.document.answer) if check.is_legal else None
    else:
        timing = time_network(plan, network, accelerator)
        check, timeline, clock_mhz = timing.check, timing.timeline, timing.accelerator.clock_mhz
    if timeline is None:
        return check, None
    spans = timed_spans(check.document.answer, timeline.activities, timeline.places, clock_mhz)
    return check, (spans, traced_waits(timeline.activities, clock_mhz))


def _mappings(request: ExportRequest) -> Exported:
    """Write each mapping of a file as a function if all are legal; layers without weights are left out."""
    if request.to not in tuple(MappingFormat):
        what = f"mappings are not exported to {request.to!r}"
        raise UsageError(what, place="to", expected=f"one of {', '.join(MappingFormat)}")
    form, file, output = MappingFormat(request.to), request.file, request.output
    ending = DIALECTS[form].ending if form in DIALECTS else ".c"
    if output.suffix != ending:
        expected = f"a name that ends in {ending}, of one function"
        raise UsageError("its name says it is something else", file=str(output), expected=expected)
    with phase("reading"):
        document = read_mappings(file)
        machine = load_any_accelerator(accelerator_named(request.accelerator, document.accelerator.name, file))
        violations = mapping_violations(document.answer, machine)
    mappings = [one for one in document.answer if one.layer.has_weight]
    left_out = [LEFT_OUT.format(name=name) for one in document.answer if not one.layer.has_weight for name in one.names]
    check = AnswerCheck("mapping", "", machine.name, violations, not_checked=left_out if not violations else ())
    if violations:
        return Exported(check, ())
    if not mappings:
        raise InputError("none of its layers has weights", file=str(file), expected="a product or a convolution")
    names = [name.lower() for name in unique_identifiers("", (one.names[0] for one in mappings))]
    files = [output] if len(mappings) == 1 else [output.with_suffix(f".{name}{ending}") for name in names]
    source = str(file) if request.accelerator is None else accelerator_text(request.accelerator)
    with phase("writing"):
        for path in files:
            ensure_writable(path, inputs=(str(file), source))
        functions = [f"{FUNCTION_PREFIX}{name}" for name in names]
        sources = [_source(one, name, file, machine, form) for one, name in zip(mappings, functions, strict=True)]
        write_files(*((path, text.encode()) for path, text in zip(files, sources, strict=True)))
    return Exported(check, tuple(files))


def _source(one: NamedMapping, function: str, file: Path, machine: Accelerator, form: MappingFormat) -> str:
    try:
        if dialect := DIALECTS.get(form):
            return gpu_kernel(one.layer, one.mapping, machine, dialect, function, one.names[0]).source
        return nest_source(one.layer, one.mapping, function, one.names[0])
    except InputError as error:
        error.place = f"layer {one.names[0]!r}"
        raise error.in_file(str(file)) from None
