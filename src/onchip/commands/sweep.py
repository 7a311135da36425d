"""`onchip sweep`: compute many points of a study, a file or options, and keep them in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onchip.answer.options.choices import option
from onchip.commands.arguments import AsJson, Dask, accelerator_names, bytes_of, network_names, output_option
from onchip.commands.progress import say, watched_run
from onchip.commands.show import ExitCode, show_view, show_words
from onchip.errors import InputError, UsageError
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits
from onchip.sweeps.point import SweptVerb
from onchip.sweeps.stored_row import RowFormat, ensure_exportable

if TYPE_CHECKING:
    from onchip.sweeps.stored_row import StoredRow
    from onchip.sweeps.study import ParameterFields, Study, StudyFields


STUDY_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Arguments and options of `onchip sweep`."""

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY.yaml|NETWORK...",
            help="Study file, or networks; neither to inspect a store.",
            autocompletion=network_names,
        ),
    ] = None
    store: Annotated[Path, typer.Option(metavar="FILE", help="Store of all points; a sweep continues from it.")]
    flags: StudyFlags
    workers: int = option(1, "Processes that compute points.", "N", least=1, most=1024)
    dask: Dask = None
    point_memory: str | None = option(None, "Memory limit of a point.", "SIZE")
    point_seconds: float | None = option(None, "Time limit of a point in seconds.", "S", least=0.001)
    no_prune: bool = option(False, "Also compute points that neighbouring results imply.")
    retry_failed: bool = option(False, "Compute failed points again.")
    query: str | None = option(None, "Show only rows for which this holds: status == 'OPTIMAL'.", "EXPRESSION")
    pareto: str | None = option(None, "Show only points on the Pareto front of these columns.", "COST,COLUMN")
    export: RowFormat | None = option(None, "Write the rows to --output.")
    answer: str | None = option(None, "Write the answer's file of the point with this key to --output.", "KEY")
    output: Annotated[Path | None, output_option("FILE", "Output file of --export or --answer.")] = None
    as_json: AsJson = False

    @property
    def study(self) -> Study | None:
        """Return the requested study; None if only a store is inspected. Raises InputError for invalid options."""
        from dataclasses import replace

        from onchip.sweeps.study import PointLimits, read_study

        sources = self.sources or []
        if not sources:
            self.flags.ensure_none_is_given("a network, or a study file")
            return None
        if sources[0].endswith(STUDY_SUFFIXES):
            if len(sources) > 1:
                raise UsageError("sweep reads one study file", place=sources[1], expected="a single file, or networks")
            self.flags.ensure_none_is_given("networks instead of a study file")
            study = read_study(Path(sources[0]))
        else:
            study = self.flags.study(tuple(sources))
        memory_bytes, seconds = bytes_of(self.point_memory, "--point-memory"), self.point_seconds
        limits = PointLimits(memory_bytes or study.limits.memory_bytes, seconds or study.limits.seconds)
        return replace(study, limits=limits)

    def ensure_output_can_be_written(self) -> None:
        """Raise UsageError for a format without a file or the reverse, InputError for an unwritable file."""
        from onchip.formats.files import ensure_writable

        wanted = [one for one in (self.export, self.answer) if one is not None]
        if len(wanted) != (self.output is not None):
            place = "--export, --answer, --output"
            raise UsageError(
                "--export and --answer need --output, and --output needs one of them",
                place=place,
                expected="--export FORMAT --output FILE, or --answer KEY --output FILE",
            )
        if self.answer is not None and self.sources:
            raise UsageError(
                "--answer reads a store and cannot be combined with networks or a study file",
                place="--answer",
                expected="a store alone",
            )
        if self.export is not None:
            ensure_exportable(self.export)
        if self.output is not None:
            ensure_writable(self.output, inputs=(str(self.store),))


def sweep_command(options: SweepOptions) -> int:
    """Run a study of many configurations, and store it.

    Each configuration runs once. A study is networks x accelerators x sizes x objectives: a file, or networks with
    --sram, --accelerator, --parameter and --option. Configurations (points) in the store are not computed again; a
    sweep that was stopped or killed continues. Points that neighbouring results imply are not computed: more capacity
    never costs more. Without networks, the rows of a store are shown. Ctrl-C leaves a store that can be continued.
    """
    from onchip.api.results import View
    from onchip.sweeps.store import export_rows, query_of, rows_of_store
    from onchip.sweeps.stored_row import columns_of, progress_text, sweep_object, sweep_tables
    from onchip.sweeps.sweep import ensure_columns, front_of, names_of_front, run_sweep

    options.ensure_output_can_be_written()
    if options.answer is not None and options.output is not None:
        return _answer_written(options.answer, options.store, options.output, as_json=options.as_json)
    if options.query is not None:
        query_of(options.query)  # before the work
    front = () if options.pareto is None else names_of_front(options.pareto)
    study = options.study
    if study is not None:
        ensure_columns(front, study.columns)
    outcome = None
    if study is not None:
        flags: dict[str, Any] = {
            "processes": options.workers,
            "dask_address": options.dask,
            "retries_failed": options.retry_failed,
        }
        with watched_run(Limits(), Deadline.after(None)) as run:
            stopped, prunes = run.interrupt.is_set, not options.no_prune
            outcome = run_sweep(
                study, options.store, lambda told: say(progress_text(told)), stopped, prunes=prunes, **flags
            )
    rows: Sequence[StoredRow] = rows_of_store(options.store, options.query)
    if outcome is not None and options.query is None:
        rows = [row for row in rows if row.study_sha256 == outcome.study_sha256]
    if front:
        ensure_columns(front, columns_of([row.record for row in rows]))
        rows = front_of(rows, [row.record for row in rows], front)
    if options.export is not None and options.output is not None:
        export_rows(tuple(rows), options.export, options.output)
    show_view(View((outcome, rows), sweep_object, sweep_tables), as_json=options.as_json)
    if outcome is None:
        return ExitCode.ANSWER
    all_failed = outcome.progress.failed == outcome.progress.points
    return ExitCode.INTERRUPTED if not outcome.is_over else ExitCode.NO_ANSWER if all_failed else ExitCode.ANSWER


def _answer_written(key: str, store: Path, output: Path, *, as_json: bool) -> int:
    """Write the answer file of one point."""
    from onchip.formats.files import write_file
    from onchip.sweeps.store import answer_file

    content = answer_file(store, key)
    write_file(output, content)
    show_words({"key": key, "output": str(output), "bytes": len(content)}, str(output), as_json=as_json)
    return ExitCode.ANSWER


NAME = "sweep"
"""Name of a study defined by options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFlags:
    """Options for the parts of a study; None if not given."""

    sram: str | None = option(None, "Sizes of one scratchpad that holds everything.", "SIZE..SIZE|SIZE,SIZE")
    steps: int | None = option(None, "Values of each range.", "N", default="20", least=1)
    doubling: bool = option(False, "Double the value from point to point of a range.")
    accelerator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|FILE", help="Accelerator; repeatable.", autocompletion=accelerator_names),
    ] = None
    parameter: list[str] | None = option(
        None, "Field of the accelerators: memories.x.capacity=1MiB..2MiB; repeatable.", "PATH=VALUES"
    )
    objective: list[str] | None = option(None, "Objective of the verb; repeatable.", "NAME")
    verb: SweptVerb | None = option(None, "Verb that computes the points.", default="plan")
    option: list[str] | None = option(None, "Option of the verb, as in a study: bits=8; repeatable.", "NAME=VALUE")

    def ensure_none_is_given(self, expected: str) -> None:
        """Raise UsageError if a study option is given for a study that comes from elsewhere."""
        for one in fields(self):
            if getattr(self, one.name):
                raise UsageError("the option defines a study", place=f"--{one.name}", expected=expected)

    def study(self, networks: tuple[str, ...]) -> Study:
        """Return the study that the options define; raises UsageError that names an invalid option."""
        from onchip.sweeps.study import study_of

        asked: StudyFields = {"format": "onchip-study", "version": 1, "networks": [*networks]}
        if self.verb is not None:
            asked["verb"] = self.verb.value
        if self.accelerator:
            asked["accelerators"] = self.accelerator
        if self.objective:
            asked["objectives"] = self.objective
        given = {"sram": self.sram} if self.sram else {}
        parameters = [*given.items(), *_named(self.parameter, "--parameter", "PATH=VALUES")]
        asked["parameters"] = {name: self._parameter(values) for name, values in parameters}
        asked["options"] = {name: _parsed(text) for name, text in _named(self.option, "--option", "NAME=VALUE")}
        try:
            return study_of(asked, NAME)
        except InputError as error:
            error.place = _as_option(error.place or "")
            raise

    def _parameter(self, text: str) -> ParameterFields:
        if ".." not in text:
            return {"values": [_parsed(one) for one in text.split(",")]}
        asked: ParameterFields = {"range": text}
        if self.doubling:
            asked["doubling"] = True
        if self.steps is not None:
            asked["steps"] = self.steps
        return asked


def _named(texts: Sequence[str] | None, option: str, expected: str) -> list[tuple[str, str]]:
    """Return the texts split at their equals signs; raises UsageError without one, and for a duplicate name."""
    found: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{text!r} is not of the form {expected}", place=option, expected=expected)
        if name in found:
            raise UsageError(f"{name!r} is given twice", place=option, expected="a single value for each name")
        found[name] = value
    return [*found.items()]


def _parsed(text: str) -> object:
    """Return a value as a study has it: numbers and booleans converted, comma-separated text as a list."""
    if "," in text:
        return [_parsed(one) for one in text.split(",")]
    stripped = text.strip()
    if stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    for kind in (int, float):
        try:
            return kind(stripped)
        except ValueError:
            continue
    return stripped


def _as_option(place: str) -> str:
    """Return the place of an error as an option instead of a field of a study."""
    first, _, rest = place.partition(".")
    if first == "parameters":
        name, _, _ = rest.partition(".")
        return "--sram" if name == "sram" else f"--parameter {rest}"
    named = {"options": "--option", "objectives": "--objective", "accelerators": "--accelerator", "networks": "NETWORK"}
    option = named.get(first.partition("[")[0])
    return place if option is None else " ".join(filter(None, (option, rest)))
