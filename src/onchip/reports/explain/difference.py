"""The difference between two answers: figures, order, tensors and mappings; as lines, JSON and an HTML page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from operator import attrgetter
from re import fullmatch
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from onchip.answer.program import Allocate, Compute, Copy, Free, Plan, Residency
from onchip.answer.words import counted, exact_bytes, picked, printable, short_bytes
from onchip.arch.memory import DRAM
from onchip.arch.sizes import parse_size
from onchip.errors import UsageError
from onchip.reports.explain.history import History
from onchip.reports.shared.facts import DataTable, shown
from onchip.reports.shared.figures import Json, trace
from onchip.reports.shared.page import AnswerPage, Part, Section, details, lead, section, still, table

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class TensorStay:
    """A tensor in a scratchpad at an offset while the operators of the steps [start, stop) run."""

    memory: str
    offset_bytes: int
    start_step: int
    stop_step: int

    @property
    def steps(self) -> int:
        """Number of operators that run during the stay."""
        return self.stop_step - self.start_step


@dataclass(slots=True)
class TensorLife:
    """Stays of one tensor in the order of their ends, and numbers of its copies to and from DRAM."""

    stays: list[TensorStay] = field(default_factory=list)
    write_backs: int = 0
    loads: int = 0

    @property
    def steps(self) -> int:
        """Number of operators that run while it is on the chip, counted once for each copy."""
        return sum(stay.steps for stay in self.stays)

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Scratchpads and offsets in the order of its stays."""
        by_start = attrgetter("start_step", "memory", "offset_bytes")
        return tuple((stay.memory, stay.offset_bytes) for stay in sorted(self.stays, key=by_start))


def order_of(plan: Plan) -> tuple[str, ...]:
    """Return the operators in execution order."""
    return tuple(line.operator for line in plan.instructions if isinstance(line, Compute))


def lives_of(plan: Plan) -> dict[str, TensorLife]:
    """Map each tensor of the program to its stays and copies."""
    lives: dict[str, TensorLife] = {}
    here: dict[tuple[str, str], tuple[int, int]] = {}
    step = 0
    for line in plan.instructions:
        if isinstance(line, Compute):
            step += 1
            continue
        life = lives.setdefault(line.tensor, TensorLife())
        match line:
            case Allocate(tensor=tensor, memory=memory, offset_bytes=offset_bytes):
                here[tensor, memory] = offset_bytes, step
            case Copy(source=source, target=target):
                life.loads += source == DRAM
                life.write_backs += target == DRAM
            case Free(tensor=tensor, memory=memory) if (tensor, memory) in here:
                life.stays.append(TensorStay(memory, *here.pop((tensor, memory)), step))
    for (tensor, memory), place in here.items():
        lives[tensor].stays.append(TensorStay(memory, *place, step))
    return lives


Figure: TypeAlias = "int | float | str | None"


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of the first answer and of the second; None where an answer does not have it."""

    name: str
    before: Figure
    after: Figure

    @property
    def change(self) -> int | float | None:
        """Growth of the figure; None unless both are numbers."""
        if isinstance(self.before, int | float) and isinstance(self.after, int | float):
            return self.after - self.before
        return None

    @property
    def percent(self) -> float | None:
        """Growth in percent of the first; None if that is 0 or no number."""
        change = self.change
        if change is None or not isinstance(self.before, int | float) or not self.before:
            return None
        return 100 * change / self.before


@dataclass(frozen=True, slots=True)
class OrderDifference:
    """Difference of two orders: length of the longest common subsequence, and the operators outside of it."""

    common: int
    moved: tuple[str, ...] = ()
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if the same operators run in the same order."""
        return not (self.moved or self.only_before or self.only_after)


class TensorChangeKind(StrEnum):
    """Change of a tensor's life, the most important first."""

    SPILLS = "now moves to DRAM and back"
    STAYS = "no longer moves to DRAM and back"
    MORE_MOVES = "moves more often"
    FEWER_MOVES = "moves less often"
    APPEARS = "is only in the second"
    DISAPPEARS = "is only in the first"
    LONGER = "lives longer on the chip"
    SHORTER = "lives shorter on the chip"
    MOVED = "lies elsewhere"


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor whose life differs; `why` says what the plan's own causes say of it, None where they do not."""

    tensor: str
    kind: TensorChangeKind
    before: TensorLife | None
    after: TensorLife | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class MappingChange:
    """The loops of a layer side by side; None where an answer has no mapping of it."""

    layer: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """Difference between two answers of one kind; `figures` include the equal ones."""

    kind: str
    before: str
    after: str
    figures: tuple[FigureChange, ...]
    order: OrderDifference | None = None
    tensors: tuple[TensorChange, ...] = ()
    mappings: tuple[MappingChange, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if the two answers are equal."""
        order_differs = self.order is not None and not self.order.is_equal
        figures_differ = any(figure.before != figure.after for figure in self.figures)
        return not (figures_differ or order_differs or self.tensors or self.mappings or self.notes)

    def figure(self, name: str) -> FigureChange | None:
        """Return the figure of that name, or None."""
        return next((figure for figure in self.figures if figure.name == name), None)


def figure_changes(before: Mapping[str, Figure], after: Mapping[str, Figure]) -> tuple[FigureChange, ...]:
    """Return the figures of two answers by name, in the first one's order."""
    return tuple(FigureChange(name, before.get(name), after.get(name)) for name in dict.fromkeys((*before, *after)))


def order_difference(before: Sequence[str], after: Sequence[str]) -> OrderDifference:
    """Compare two orders, each of which names an operator once, by their longest common subsequence."""
    place = {name: at for at, name in enumerate(before)}
    shared = [name for name in after if name in place]
    kept = set(_longest_ascending([place[name] for name in shared]))
    there = set(after)
    return OrderDifference(
        len(kept),
        tuple(name for name in shared if place[name] not in kept),
        tuple(name for name in before if name not in there),
        tuple(name for name in after if name not in place),
    )


def _longest_ascending(numbers: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of a longest ascending subsequence, last first, in n log n time."""
    ends: list[int] = []
    last_at: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        length = bisect_left(ends, number)
        before.append(last_at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(number)
            last_at.append(at)
        else:
            ends[length], last_at[length] = number, at
    at = last_at[-1] if last_at else -1
    while at >= 0:
        yield numbers[at]
        at = before[at]


def plan_difference(before: Plan, after: Plan) -> tuple[OrderDifference, tuple[TensorChange, ...]]:
    """Return the differences in order and in the lives of tensors, the most important changes first."""
    first, second = lives_of(before), lives_of(after)
    changes = [
        TensorChange(name, kind, first.get(name), second.get(name))
        for name in dict.fromkeys((*first, *second))
        if (kind := _kind(first.get(name), second.get(name))) is not None
    ]
    ranks = list(TensorChangeKind)
    changes.sort(key=lambda change: ranks.index(change.kind))
    return order_difference(order_of(before), order_of(after)), tuple(changes)


def _kind(before: TensorLife | None, after: TensorLife | None) -> TensorChangeKind | None:
    if before is None or after is None:
        return TensorChangeKind.APPEARS if before is None else TensorChangeKind.DISAPPEARS
    moves = before.write_backs + before.loads, after.write_backs + after.loads
    returns = min(before.write_backs, before.loads), min(after.write_backs, after.loads)
    if bool(returns[0]) != bool(returns[1]):
        return TensorChangeKind.SPILLS if returns[1] else TensorChangeKind.STAYS
    if moves[0] != moves[1]:
        return TensorChangeKind.MORE_MOVES if moves[1] > moves[0] else TensorChangeKind.FEWER_MOVES
    if before.steps != after.steps:
        return TensorChangeKind.LONGER if after.steps > before.steps else TensorChangeKind.SHORTER
    return None if before.places == after.places else TensorChangeKind.MOVED


def mapping_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[MappingChange, ...]:
    """Return the layers whose loops differ."""
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(MappingChange(name, one, other) for name, one, other in pairs if one != other)


MOST_SHOWN: Final = 20
"""Limit on the entries of each list on a terminal; `--json` and the page have all."""
ANY: Final = "any"
"""Name of all figures in a condition."""
OTHER_NAMES: Final = {
    "traffic": ("traffic_bytes", "objective_value"),
    "energy": ("energy_pj", "objective_value"),
    "latency": ("latency_cycles", "objective_value"),
    "peak": ("peak_bytes",),
    "arena": ("arena_bytes",),
    "objective": ("objective_value",),
}


@dataclass(frozen=True, slots=True)
class GrowthLimit:
    """Limit on the growth of a figure, in its own unit or, with `is_percent`, in percent."""

    text: str
    name: str
    limit: float
    is_percent: bool
    allows_limit: bool

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read `traffic > 1 %` or `peak >= 64KiB`; raises UsageError."""
        match = fullmatch(r"\s*([^<>=]*[^<>=\s])\s*(>=?)\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[KMG]?i?B|)\s*", text)
        if match is None:
            expected = "a figure and by how much it may grow: 'traffic > 1 %'"
            raise UsageError(f"{text!r} is no condition", "fail_if", expected)
        name, compared, number, unit = match.groups()
        limit = float(parse_size(number + unit)) if unit.endswith("B") else float(number)
        return cls(text, name, limit, unit == "%", compared == ">")

    def is_exceeded_in(self, difference: AnswerDifference) -> bool:
        """Return True if the figure has grown too much or vanished; raises UsageError for an unknown figure."""
        if self.name == ANY:
            return any(self._is_exceeded_by(figure) for figure in difference.figures)
        names = (*OTHER_NAMES.get(self.name, ()), self.name)
        found = [figure for name in names if (figure := difference.figure(name)) is not None]
        if not found:
            known = [figure.name for figure in difference.figures if figure.change is not None]
            raise UsageError(f"neither has a figure {self.name!r}", "fail_if", f"a figure: {', '.join((*known, ANY))}")
        return self._is_exceeded_by(found[0])

    def _is_exceeded_by(self, figure: FigureChange) -> bool:
        if figure.change is None:
            return isinstance(figure.before, int | float)
        growth = figure.change if not self.is_percent else figure.percent
        if growth is None:
            return figure.change > 0
        return growth > self.limit or (growth == self.limit and not self.allows_limit)


def difference_object(difference: AnswerDifference) -> dict[str, object]:
    """Say all that differs between two answers."""
    order = difference.order
    return {
        **picked(difference, "kind", "before", "after"),
        "equal": difference.is_equal,
        "figures": [picked(one, "name", "before", "after", "change", "percent") for one in difference.figures],
        "order": order and asdict(order),
        "tensors": [
            {
                "tensor": one.tensor,
                "what": str(one.kind),
                "before": _life_object(one.before),
                "after": _life_object(one.after),
                "why": one.why,
            }
            for one in difference.tensors
        ],
        "mappings": [asdict(one) for one in difference.mappings],
        "notes": list(difference.notes),
    }


def _life_object(life: TensorLife | None) -> dict[str, object] | None:
    if life is None:
        return None
    stays = [[stay.memory, stay.offset_bytes, stay.start_step, stay.stop_step] for stay in life.stays]
    return {"stays": stays, "loads": life.loads, "write_backs": life.write_backs}


def difference_lines(difference: AnswerDifference) -> Iterator[RenderableType]:
    """Yield a table of the figures that differ, and a line for each other change."""
    from rich.text import Text

    yield from (Text(printable(note)) for note in difference.notes)
    changed = [figure for figure in difference.figures if figure.before != figure.after]
    if changed:
        yield _figures_grid(changed[:MOST_SHOWN])
        yield from map(Text, _more(len(changed), "figure"))
    lines = [*_order_lines(difference), *map(tensor_words, difference.tensors[:MOST_SHOWN])]
    lines += _more(len(difference.tensors), "tensor")
    for change in difference.mappings[:MOST_SHOWN]:
        lines.append(f"mapping of {change.layer}")
        lines += [f"  first:  {change.before or 'none'}", f"  second: {change.after or 'none'}"]
    lines += _more(len(difference.mappings), "mapping")
    yield from (Text(printable(line)) for line in lines)
    yield Text(_verdict(difference))


def _figures_grid(figures: Iterable[FigureChange], title: str = "") -> DataTable:
    rows = [(one.name, one.before, one.after, *change_words(one)) for one in figures]
    return DataTable(("figure", "first", "second", "change", ""), rows, title=title)


def _verdict(difference: AnswerDifference) -> str:
    kinds = f"{difference.kind[:-1]}ies" if difference.kind.endswith("y") else f"{difference.kind}s"
    return f"the two {kinds} are equal" if difference.is_equal else f"the two {kinds} differ"


def change_words(figure: FigureChange) -> tuple[str, str]:
    """Return the growth of a figure with its sign, and in percent."""
    change, percent = figure.change, figure.percent
    return ("" if change is None else f"{change:+,}", "" if percent is None else f"{percent:+.2f} %")


def html_of_difference(difference: AnswerDifference) -> str:
    """Return tables of the figures that differ and of the changed tensors."""
    changed = _figures_grid([one for one in difference.figures if one.before != one.after], _verdict(difference))
    tensors = DataTable(("tensor", "what", "why"), [(one.tensor, str(one.kind), one.why) for one in difference.tensors])
    return changed.html() + (tensors.html() if tensors.rows else "")


def tensor_words(change: TensorChange) -> str:
    """Return the change of a tensor and its reason."""
    return f"{change.tensor} {change.kind}" + (f" ({change.why})" if change.why else "")


def _order_lines(difference: AnswerDifference) -> Iterator[str]:
    order = difference.order
    if order is None or order.is_equal:
        return
    yield f"order: {counted(order.common, 'operator')} in the same order, {len(order.moved):,} moved"
    for what, names in (("moved", order.moved), ("only first", order.only_before), ("only second", order.only_after)):
        if names:
            more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
            yield f"  {what}: {', '.join(names[:MOST_SHOWN])}{more}"


def _more(count: int, noun: str) -> Iterator[str]:
    if count > MOST_SHOWN:
        yield f"and {counted(count - MOST_SHOWN, f'more {noun}')}"


GAP: Final = 0.08
"""Gap between the two maps, as a share of the height of one."""
MOST_CARDS: Final = 4
MOST_RECTANGLES: Final = 20_000
"""Limit on the rectangles of both maps together; larger ones are drawn first."""


def difference_html(difference: AnswerDifference, histories: tuple[History, History] | None, command_line: str) -> str:
    """Return the page's text; raises UsageError if a package for pages is missing."""
    maps = {} if histories is None else _maps(histories, {one.tensor for one in difference.tensors})
    numbers = [one for one in difference.figures if one.before != one.after and one.change is not None]
    words = ((one.name.replace("_", " "), change_words(one), one) for one in numbers[:MOST_CARDS])
    rows = [("verdict", _verdict(difference))]
    rows += [
        (name, f"{percent or change}: {shown(one.before)} to {shown(one.after)}")
        for name, (change, percent), one in words
    ]
    sections = [
        section(
            "figures",
            "Figures",
            "Figures of both, and the change from the first to the second.",
            table(_figures_grid(difference.figures)),
        )
    ]
    if maps:
        text = "Both plans over one axis of steps: the first plan above, the second below."
        drawn = (still(name, "Memory maps of both plans") for name in maps)
        sections.append(section("memory-map", "Memory maps", text, *drawn))
    sections.append(Section("changes", "Changes", [*_change_parts(difference)]))
    title = f"{difference.before} and {difference.after}"
    return AnswerPage(title, rows, {}, command_line, sections, {**maps}, difference.notes).html()


def _change_parts(difference: AnswerDifference) -> Iterator[Part]:
    order = difference.order
    if order is not None:
        yield lead(f"{counted(order.common, 'operator')} in the same order, {len(order.moved):,} moved.")
        if order.moved:
            yield details("Operators that moved", lead(", ".join(order.moved)))
    if difference.tensors:
        rows = [(one.tensor, str(one.kind), one.why) for one in difference.tensors]
        yield table(DataTable(("tensor", "change", "reason"), rows))
    if difference.mappings:
        yield table(
            DataTable(
                ("mapping of", "first", "second"), [(one.layer, one.before, one.after) for one in difference.mappings]
            )
        )
    if difference.is_equal:
        yield lead("There is no change.")


def _maps(histories: tuple[History, History], changed: set[str]) -> dict[str, Json]:
    """Return a figure for each scratchpad: the first plan's map above, the second's below, on one axis of steps."""
    names = dict.fromkeys(memory.name for history in histories for memory in history.problem.memories)
    return {f"map-{at}": _map(histories, name, changed) for at, name in enumerate(names)}


def _map(histories: tuple[History, History], memory: str, changed: set[str]) -> Json:
    capacities = [
        max((one.capacity_bytes for one in history.problem.memories if one.name == memory), default=0)
        for history in histories
    ]
    lift = round(capacities[1] * (1 + GAP))
    steps = max(history.step_count for history in histories)
    traces: list[Json] = []
    for plan, history, base in (("first", histories[0], lift), ("second", histories[1], 0)):
        ones = [one for one in history.residencies if one.memory == memory]
        ones = sorted(ones, key=lambda one: -one.size_bytes)[: MOST_RECTANGLES // 2]
        for is_changed, paint in ((False, "role-activation"), (True, "role-output")):
            chosen = [one for one in ones if (one.tensor in changed) is is_changed]
            if chosen:
                traces.append(_bars(chosen, f"{plan}, {'different' if is_changed else 'the same'}", paint, base))
    levels = (
        (lift + capacities[0], f"first: {short_bytes(capacities[0])}"),
        (capacities[1], f"second: {short_bytes(capacities[1])}"),
    )
    line = {"dash": "dash", "width": 1.5}
    traces += [trace("lines", name, [0, steps], [value, value], "capacity", line=line) for value, name in levels]
    ticks = [0, capacities[1], lift, lift + capacities[0]]
    words = ["0", short_bytes(capacities[1]), "0", short_bytes(capacities[0])]
    y = {"title": f"{memory}: second below, first above", "tickvals": ticks, "ticktext": words}
    return {"traces": traces, "x": {"title": "step"}, "y": y, "height": 720, "bars": "overlay"}


def _bars(ones: Sequence[Residency], name: str, paint: str, base: int) -> Json:
    words = [
        [escape(one.tensor, quote=False), exact_bytes(one.size_bytes), one.offset_bytes, one.start_step, one.stop_step]
        for one in ones
    ]
    return trace(
        "bar",
        name,
        [(one.start_step + one.stop_step) / 2 for one in ones],
        [one.size_bytes for one in ones],
        paint,
        "%{customdata[0]}: %{customdata[1]} at %{customdata[2]:,}<br>steps %{customdata[3]} to %{customdata[4]}",
        width=[max(one.stop_step - one.start_step, 0.05) for one in ones],
        base=[base + one.offset_bytes for one in ones],
        customdata=words,
        marker={"opacity": 0.85},
    )
