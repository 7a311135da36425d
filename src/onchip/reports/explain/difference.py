"""A difference in words and as an object, and what of it is a failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from re import fullmatch
from typing import TYPE_CHECKING, Final, Self

from onchip.errors import UsageError
from onchip.formats.sizes import parse_size
from onchip.reports.explain.answer_difference import AnswerDifference, FigureChange, TensorChange
from onchip.reports.explain.plan_lives import TensorLife
from onchip.reports.shared.html_table import html_table
from onchip.reports.shared.words import counted, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_SHOWN: Final = 20
"""Of each list on a terminal; `--json` and the page have all."""
ANY: Final = "any"
"""In a condition: whichever figure."""
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
    """A figure that must not grow by more than so much, in its own unit or, with `is_percent`, in percent."""

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
            raise UsageError(f"it is {text!r}", place="--fail-if", expected=expected)
        name, compared, number, unit = match.groups()
        limit = float(parse_size(number + unit)) if unit.endswith("B") else float(number)
        return cls(text, name, limit, unit == "%", compared == ">")

    def is_exceeded_in(self, difference: AnswerDifference) -> bool:
        """Whether the figure has grown too much, or is there no more; raises UsageError for one that there is not."""
        if self.name == ANY:
            return any(self._is_exceeded_by(figure) for figure in difference.figures)
        names = (*OTHER_NAMES.get(self.name, ()), self.name)
        found = [figure for name in names if (figure := difference.figure(name)) is not None]
        if not found:
            known = [figure.name for figure in difference.figures if figure.change is not None]
            raise UsageError(
                f"neither has a figure {self.name!r}", place="--fail-if", expected=f"one of {', '.join((*known, ANY))}"
            )
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
        "kind": difference.kind,
        "before": difference.before,
        "after": difference.after,
        "equal": difference.is_equal,
        "figures": [
            {
                "name": one.name,
                "before": one.before,
                "after": one.after,
                "change": one.change,
                "percent": one.percent,
            }
            for one in difference.figures
        ],
        "order": order
        and {
            "common": order.common,
            "moved": list(order.moved),
            "only_before": list(order.only_before),
            "only_after": list(order.only_after),
        },
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
        "mappings": [{"layer": one.layer, "before": one.before, "after": one.after} for one in difference.mappings],
        "notes": list(difference.notes),
    }


def _life_object(life: TensorLife | None) -> dict[str, object] | None:
    if life is None:
        return None
    stays = [[stay.memory, stay.offset_bytes, stay.start_step, stay.stop_step] for stay in life.stays]
    return {"stays": stays, "loads": life.loads, "write_backs": life.write_backs}


def difference_lines(difference: AnswerDifference) -> Iterator[RenderableType]:
    """Yield a table of the figures that differ, and a line for each other change."""
    from rich.table import Table
    from rich.text import Text

    for note in difference.notes:
        yield Text(printable(note))
    changed = [figure for figure in difference.figures if figure.before != figure.after]
    if changed:
        table = Table(box=None)
        for name in ("figure", "first", "second", "change", ""):
            table.add_column(name, justify="left" if name == "figure" else "right")
        for figure in changed[:MOST_SHOWN]:
            table.add_row(
                *map(printable, (figure.name, _shown(figure.before), _shown(figure.after), *change_words(figure)))
            )
        yield table
        yield from map(Text, _more(len(changed), "figure"))
    lines = [*_order_lines(difference), *_tensor_lines(difference), *_mapping_lines(difference)]
    yield from (Text(printable(line)) for line in lines)
    kinds = f"{difference.kind[:-1]}ies" if difference.kind.endswith("y") else f"{difference.kind}s"
    yield Text(f"the two {kinds} are equal" if difference.is_equal else f"the two {kinds} differ")


def change_words(figure: FigureChange) -> tuple[str, str]:
    """By how much a figure has grown, with its sign, and in percent."""
    change, percent = figure.change, figure.percent
    return ("" if change is None else f"{change:+,}", "" if percent is None else f"{percent:+.2f} %")


def html_of_difference(difference: AnswerDifference) -> str:
    """The figures that differ, and what became of tensors, as tables."""
    changed = [one for one in difference.figures if one.before != one.after]
    figures = [(one.name, one.before, one.after, *change_words(one)) for one in changed]
    end = "equal" if difference.is_equal else "different"
    title = f"two {difference.kind}s, {end}"
    tables = [html_table(("figure", "first", "second", "change", ""), figures, title)]
    if difference.tensors:
        rows = [(one.tensor, str(one.kind), one.why) for one in difference.tensors]
        tables.append(html_table(("tensor", "what", "why"), rows))
    return "".join(tables)


def tensor_words(change: TensorChange) -> str:
    """What has become of a tensor, and why."""
    return f"{change.tensor} {change.kind}" + (f" ({change.why})" if change.why else "")


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "" if value is None else str(value)


def _order_lines(difference: AnswerDifference) -> Iterator[str]:
    order = difference.order
    if order is None or order.is_equal:
        return
    yield f"order: {counted(order.common, 'operator')} in the same order, {len(order.moved):,} moved"
    for what, names in (("moved", order.moved), ("only first", order.only_before), ("only second", order.only_after)):
        if names:
            more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
            yield f"  {what}: {', '.join(names[:MOST_SHOWN])}{more}"


def _tensor_lines(difference: AnswerDifference) -> Iterator[str]:
    for change in difference.tensors[:MOST_SHOWN]:
        yield tensor_words(change)
    yield from _more(len(difference.tensors), "tensor")


def _mapping_lines(difference: AnswerDifference) -> Iterator[str]:
    for change in difference.mappings[:MOST_SHOWN]:
        yield f"mapping of {change.layer}"
        yield f"  first:  {change.before or 'none'}"
        yield f"  second: {change.after or 'none'}"
    yield from _more(len(difference.mappings), "mapping")


def _more(count: int, noun: str) -> Iterator[str]:
    if count > MOST_SHOWN:
        yield f"and {counted(count - MOST_SHOWN, f'more {noun}')}"
