"""Results of the Python API: an answer with its status, bound and figures, and reports about answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.packing import Overflow, Packing, StaticPacking
from onchip.answer.program import Plan
from onchip.answer.result import Status, Stop
from onchip.answer.schedule import Schedule
from onchip.answer.strategy import FusionStrategy
from onchip.answer.words import objective_amount, percent, short_amount, short_bytes, short_energy
from onchip.errors import OnchipError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from onchip.api.networks import Network
    from onchip.arch.accelerator import Accelerator
    from onchip.formats.own.answers import AnswerDocument
    from onchip.ir.layer import Layer
    from onchip.verify.rules import Violation

T = TypeVar("T")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


@dataclass(frozen=True)
class View(Generic[T]):
    """Details of a result, with the functions that convert them to a JSON object, tables, a page and figures."""

    details: T
    as_object: Callable[[T], Mapping[str, object]]
    as_tables: Callable[[T], Iterable[RenderableType]]
    as_page: Callable[[T, str], str] | None = None
    as_figures: Callable[[T], Mapping[str, dict[str, object]]] | None = None

    def picture(self) -> str:
        """Return the figures of the details as SVG, or an empty text if they have none."""
        from onchip.reports.shared.svg import svg

        figures = self.as_figures(self.details) if self.as_figures is not None else {}
        return svg(figures) if figures else ""

    def to_dict(self) -> dict[str, object]:
        """Return the details as `--json` prints them."""
        return dict(self.as_object(self.details))

    def text(self) -> str:
        """Return the tables as text."""
        from onchip.reports.shared.facts import show

        return show(*self.as_tables(self.details))

    def page(self, asked: str) -> str | None:
        """Return the HTML page of the details, or None if they have none; `asked` is the call that is shown on it."""
        return None if self.as_page is None else self.as_page(self.details, asked)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(Generic[AnswerT_co]):
    """The answer of a verb that solves, with its proof.

    Attributes
    ----------
    status
        OPTIMAL, FEASIBLE, INFEASIBLE or UNKNOWN.
    minimize, unit
        Name of the objective, and the unit of its value.
    objective, lower_bound
        Value of the answer, or None without one, and a value that no answer of the space is below.
    answer
        The answer, or None without one.
    space
        Degrees of freedom of the answers that the bound covers: `any`, or the restriction in words.
    seconds, stopped_by
        Seconds that the search took, and why it ended.
    figures
        Figures of the answer by name; each name ends in its unit.
    notes
        Sentences about the answer: why there is none, how the network was read, what the accelerator's model ignores.

    """

    status: Status
    minimize: str
    unit: str
    objective: float | None
    lower_bound: float | None
    answer: AnswerT_co | None
    space: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    stopped_by: Stop = Stop.COMPLETED
    figures: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    document: AnswerDocument | None = None
    source: Network | Layer | None = None
    machine: Accelerator | str | None = None
    view: View[Any] | None = None

    @property
    def gap(self) -> float | None:
        """Return (objective - lower bound) / objective; None without an answer or a bound."""
        if self.objective is None or self.lower_bound is None:
            return None
        return (self.objective - self.lower_bound) / self.objective if self.objective else 0.0

    def save(self, path: str | Path) -> None:
        """Write the answer file, packed if its name ends in `.gz`.

        Raises
        ------
        OnchipError
            There is no answer, or the file cannot be written.

        """
        from onchip.formats.own.answers import write_answer

        if self.document is None:
            raise self._without_answer("save")
        write_answer(self.document, Path(path))

    def report(self, path: str | Path) -> None:
        """Draw the answer as one HTML page for offline use.

        Raises
        ------
        OnchipError
            There is no answer, the answer has no page, or the file cannot be written.

        """
        from onchip.formats.files import write_file

        if self.answer is None:
            raise self._without_answer("draw")
        write_file(Path(path), self.page(f"onchip.report(..., {str(path)!r})").encode())

    def page(self, asked: str) -> str:
        """Return the HTML page; `asked` is the call that it shows. Raises UsageError for an answer without a page."""
        page = None if self.view is None else self.view.page(asked)
        if page is None:
            expected = "the answer of a verb, or a file and its network"
            raise UsageError("the answer has no page", place="answer", expected=expected)
        return page

    @property
    def shown(self) -> View[Any]:
        """The details of the answer; raises UsageError for an answer that was read from a file."""
        if self.view is None:
            raise UsageError("a file has no details", place="answer", expected="the answer of a verb")
        return self.view

    def summary(self) -> str:
        """Return the tables that the command prints."""
        return str(self) if self.view is None else self.view.text()

    def to_dict(self) -> dict[str, object]:
        """Return the result as `--json` prints it."""
        if self.view is not None:
            return self.view.to_dict()
        proof = {"status": self.status, "objective_value": self.objective, "lower_bound": self.lower_bound}
        return {"objective": self.minimize, **proof, "gap": self.gap, **self.figures}

    def __repr__(self) -> str:
        parts = [str(self.status)]
        if self.objective is not None:
            parts.append(objective_amount(self.objective, self.unit))
        if self.lower_bound is not None and self.status is not Status.INFEASIBLE:
            parts.append(f"bound {objective_amount(self.lower_bound, self.unit)}")
        if self.gap is not None:
            parts.append(f"gap {percent(self.gap)}")
        parts += [words for name, show in _SHOWN.items() if (words := self._shown(name, show)) is not None]
        return "  ".join(parts)

    def __str__(self) -> str:
        return "\n".join((repr(self), *self.notes))

    def _repr_html_(self) -> str:
        """Return the table and the pictures that a notebook shows."""
        from onchip.reports.shared.facts import DataTable

        gap = None if self.gap is None else percent(self.gap)
        value, bound = (
            None if one is None else objective_amount(one, self.unit) for one in (self.objective, self.lower_bound)
        )
        rows = [("status", str(self.status)), (f"{self.minimize} (objective)", value), ("lower bound", bound)]
        rows += [("gap", gap), *((name, _figure(name, one)) for name, one in self.figures.items())]
        table = DataTable(("figure", "value"), [row for row in rows if row[1] is not None]).html()
        notes = "".join(f"<div>{escape(note)}</div>" for note in self.notes)
        return f"<div>{table}{notes}{'' if self.view is None else self.view.picture()}</div>"

    def _shown(self, name: str, show: Callable[[Any], str]) -> str | None:
        """Return a figure in words; None if it is unknown or the objective itself."""
        value = self.figures.get(name)
        return None if value is None or name.startswith(f"{self.minimize}_") else show(value)

    def _without_answer(self, what: str) -> UsageError:
        why = self.notes[0] if self.notes else str(self.status)
        return UsageError(f"there is no answer to {what} ({why})", place="answer", expected="a result with an answer")


def _figure(name: str, value: float | None) -> str | None:
    """Return a figure in the unit in which its name ends."""
    if value is None:
        return None
    unit = {"pj": "pJ"}.get(name.rpartition("_")[2], name.rpartition("_")[2])
    if unit in ("bytes", "pJ", "cycles"):
        return short_amount(value if unit == "pJ" else round(value), unit)
    return f"{value:.1%}" if name == "utilisation" else f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


_SHOWN: Final[Mapping[str, Callable[[Any], str]]] = {
    "energy_pj": lambda value: f"energy {short_energy(value)}",
    "latency_cycles": lambda value: f"latency {value:,.0f} cycles",
    "traffic_bytes": lambda value: f"traffic {short_bytes(round(value))}",
    "peak_bytes": lambda value: f"peak {short_bytes(round(value))}",
}
"""Figures that a result shows in one line, and how."""


class Figure:
    """A figure of a result, which is None if the answer does not state it."""

    def __init__(self, description: str) -> None:
        self.__doc__ = description
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, result: Result[Any] | None, owner: type) -> float | None:
        return self if result is None else result.figures.get(self.name)  # type: ignore[return-value]


class PlanResult(Result[Plan]):
    """A plan: operator order, addresses, spills and reloads."""

    traffic_bytes = Figure("Bytes from and to DRAM, compulsory transfers included.")
    compulsory_bytes = Figure("Bytes from and to DRAM of every plan that keeps the same states on chip.")
    peak_bytes = Figure("Maximum number of bytes resident at once.")
    arena_bytes = Figure("Sum of the highest end addresses of all scratchpads.")
    required_bytes = Figure("Largest working set of one operator (M_R).")
    capacity_bytes = Figure("Capacity of all scratchpads.")
    latency_cycles = Figure("Latency of a plan of minimum latency; `time` times other plans.")


class ScheduleResult(Result[Schedule]):
    """A schedule: fused groups, tiles, loop nests, addresses and transfers in one program."""

    energy_pj = Figure("Energy in pJ; None if the accelerator does not state all of its parts.")
    latency_cycles = Figure("Latency in cycles.")
    traffic_bytes = Figure("Bytes from and to DRAM.")


class FuseResult(Result[FusionStrategy]):
    """Fused groups with their tiles and overlap modes."""

    energy_pj = Figure("Energy in pJ; None if the accelerator does not state all of its parts.")
    latency_cycles = Figure("Latency in cycles.")
    traffic_bytes = Figure("Bytes from and to DRAM.")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MappingResult(Result[LayerMapping]):
    """The mapping of one layer; `loop_nest` is its text."""

    loop_nest: str = ""

    energy_pj = Figure("Energy in pJ; None if the accelerator does not state all of its parts.")
    latency_cycles = Figure("Latency in cycles.")
    macs = Figure("Number of multiply-accumulates.")
    utilisation = Figure("Multiply-accumulates divided by those that the array can do in the latency.")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NetworkMappingResult(Result[tuple[LayerMapping, ...]]):
    """The mappings of all layers of a network; `layers` has the result of each by name."""

    layers: Mapping[str, MappingResult] = field(default_factory=dict)

    energy_pj = Figure("Energy of all layers in pJ; None if the accelerator does not state all of its parts.")
    latency_cycles = Figure("Cycles of all layers, one after the other.")
    macs = Figure("Number of multiply-accumulates.")
    utilisation = Figure("Multiply-accumulates divided by those that the array can do in the latency.")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PackResult(Result[Packing | Overflow | StaticPacking]):
    """Offsets of buffers in bytes, by name; a buffer without an offset lies outside the capacity.

    `memories` maps the names of buffers to those of their memories, if there are several. `conflict` names buffers
    that do not fit together, if the status is INFEASIBLE.
    """

    offsets: Mapping[str, int | None] = field(default_factory=dict)
    memories: Mapping[str, str | None] = field(default_factory=dict)
    conflict: tuple[str, ...] = ()
    csv: str = ""

    arena_bytes = Figure("Highest end address.")
    outside_bytes = Figure("Sum of the sizes of the buffers outside the capacity.")

    def save(self, path: str | Path) -> None:
        """Write the buffers with their offsets as MiniMalloc's CSV; raises OnchipError if there is no answer."""
        from onchip.formats.files import write_file

        if self.answer is None:
            raise self._without_answer("save")
        write_file(Path(path), self.csv.encode())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FrontResult(Result[tuple[ScheduleResult, ...]]):
    """A Pareto front of schedules, in the order of the first axis; `lower_bounds` hold along each axis."""

    lower_bounds: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> tuple[ScheduleResult, ...]:
        """The schedules of the front."""
        return self.answer or ()

    def save(self, path: str | Path) -> None:
        """Write each schedule into a folder; raises OnchipError if there is none."""
        from onchip.formats.files import make_folder
        from onchip.reports.schedule.outcome import name_of_point

        if not self.points:
            raise self._without_answer("save")
        make_folder(Path(path))
        for number, point in enumerate(self.points, 1):
            point.save(Path(path) / name_of_point(number))

    def __repr__(self) -> str:
        bounds = ", ".join(f"{axis} at least {value:,}" for axis, value in self.lower_bounds.items())
        return f"{self.status}  {len(self.points)} schedules  {bounds}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Report(Generic[T]):
    """A report about an answer; `details` has all of it."""

    headline: str
    view: View[T]

    @property
    def details(self) -> T:
        """The facts of the report."""
        return self.view.details

    def summary(self) -> str:
        """Return the tables that the command prints."""
        return self.view.text()

    def to_dict(self) -> dict[str, object]:
        """Return the report as `--json` prints it."""
        return self.view.to_dict()

    def __repr__(self) -> str:
        return self.headline

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        draw = getattr(self.details, "_repr_html_", None)
        return str(draw()) if draw else f"<pre>{escape(self.summary())}</pre>"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CheckReport(Report[Any]):
    """The verdict of the verifier about an answer: violations by rule, step and subject."""

    violations: tuple[Violation, ...] = ()

    @property
    def is_legal(self) -> bool:
        """True if the answer has no violation."""
        return not self.violations

    def raise_if_illegal(self) -> None:
        """Raise OnchipError that names the first violation, if there is one."""
        if self.violations:
            raise OnchipError(f"{self.headline}: {self.violations[0]}", place="answer", expected="a legal answer")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunReport(Report[Any]):
    """The execution of an answer on real data."""

    is_right: bool

    def raise_if_wrong(self) -> None:
        """Raise OnchipError if a tensor, an output or the number of bytes moved differs."""
        if not self.is_right:
            raise OnchipError(self.headline, place="answer", expected="the values of a run without a plan")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TimeReport(Report[Any]):
    """The timeline of an answer."""

    latency_cycles: int
    latency_ms: float | None = None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AuditReport(Report[Any]):
    """The ruling of the second prover on the bounds of an answer: confirmed, refuted or undecided."""

    rulings: Mapping[str, str]

    @property
    def is_refuted(self) -> bool:
        """True if some bound does not hold."""
        return "refuted" in self.rulings.values()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class InfoReport(Report[Any]):
    """A description of a network."""

    operators: int
    tensors: int
    required_bytes: int
    min_peak_bytes: int | None
    compulsory_bytes: int
