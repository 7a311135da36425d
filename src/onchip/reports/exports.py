"""Formats of exported plans, and the files of each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from onchip.answer.document import PlanDocument
from onchip.answer.problem import Problem
from onchip.errors import UsageError
from onchip.formats.files import write_files
from onchip.plugins import PluginGroup
from onchip.reports.trace import TracedWaits, TraceSpan


class ExportFormat(StrEnum):
    """Chrome trace, C99 tables, a C project, CSV tables, the ONNX or TFLite model with the plan, the graph it runs."""

    TRACE = "trace"
    C = "c"
    C_PROJECT = "c-project"
    CSV = "csv"
    ONNX = "onnx"
    GRAPH = "graph"
    TFLITE = "tflite"


class MappingFormat(StrEnum):
    """A mapping as a function of C, or as a kernel of CUDA or OpenCL."""

    C = "c"
    CUDA = "cuda"
    OPENCL = "opencl"


OUTSIDE_EXPORTS: Final = PluginGroup[[PlanDocument, Problem], bytes]("onchip.exports", bytes)
"""Plug-ins that return the content of an exported file, by name."""


@dataclass(frozen=True, slots=True)
class Export:
    """An export of a legal plan; `form` is an ExportFormat or the name of a plug-in.

    `network` is the plan's network file. `spans` are the times of a trace, one for each instruction, and `waits` the
    waits of the array; without them the trace counts steps.
    """

    form: str
    files: tuple[Path, ...]
    document: PlanDocument
    problem: Problem
    network: str
    spans: Sequence[TraceSpan] | None = None
    waits: TracedWaits | None = None

    def write(self) -> None:
        """Write all files, or none where one cannot be made.

        Raises InputError, OutputError where they cannot be written, PluginError for a broken plug-in.
        """
        write_files(*zip(self.files, self._contents(), strict=True))

    def _contents(self) -> tuple[bytes, ...]:
        plan, graph = self.document.answer, self.problem.graph
        match self.form:
            case ExportFormat.TRACE:
                from onchip.reports.trace import trace_to_json

                return (trace_to_json(self.problem, plan, self.spans, self.waits).encode(),)
            case ExportFormat.CSV:
                from onchip.formats.csv_tables import residencies_to_csv, transfers_to_csv

                return residencies_to_csv(plan, graph).encode(), transfers_to_csv(plan, graph).encode()
            case ExportFormat.ONNX:
                from onchip.formats.onnx.metadata import metadata_of, model_with_metadata

                metadata = metadata_of(self.document, graph)
                return (model_with_metadata(Path(self.network), metadata, self.files[0]),)
            case ExportFormat.GRAPH:
                from onchip.formats.own.graph_json import graph_to_json

                return (graph_to_json(graph).encode(),)
        return (_outside_export(self.form)(self.document, self.problem),)


def files_of(form: str, output: Path, network: str) -> tuple[Path, ...]:
    """Return the files of an export to `output`; raises UsageError for an unknown form or an unsuitable name."""
    if form not in tuple(ExportFormat):
        _outside_export(form)
    if form == ExportFormat.C:
        _ends_in(output, (".h", ".c"))
        _can_be_included(output)
        return output.with_suffix(".h"), output.with_suffix(".c")
    if form == ExportFormat.CSV:
        _ends_in(output, (".csv",))
        return output.with_suffix(".residencies.csv"), output.with_suffix(".transfers.csv")
    if form in (ExportFormat.ONNX, ExportFormat.TFLITE):
        if not network.endswith(f".{form}"):
            article = "an" if form == ExportFormat.ONNX else "a"
            raise UsageError("there is no model to put the plan in", file=network, expected=f"{article} .{form} file")
        _ends_in(output, (f".{form}",))
    if form == ExportFormat.GRAPH:
        _ends_in(output, (".json", ".json.gz"))
    return (output,)


def _outside_export(form: str) -> Callable[[PlanDocument, Problem], bytes]:
    export = OUTSIDE_EXPORTS.find(form)
    if export is None:
        expected = ", ".join((*ExportFormat, *OUTSIDE_EXPORTS.names))
        raise UsageError(f"nothing is exported to {form!r}", place="--to", expected=expected)
    return export


def _ends_in(output: Path, endings: tuple[str, ...]) -> None:
    if not (output.suffix and output.name.endswith(endings)):
        names = " or ".join(endings)
        raise UsageError(
            "its name says it is something else", file=str(output), expected=f"a name that ends in {names}"
        )


def _can_be_included(output: Path) -> None:
    if not output.name.isprintable() or set('"\\') & set(output.name):
        expected = "a printable name without quotes and backslashes"
        raise UsageError("no #include can name it", file=str(output), expected=expected)
