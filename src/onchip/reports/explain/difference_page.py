"""The page of a difference: figures side by side, and both memory maps above one axis of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onchip.answer.residencies import Residency
from onchip.reports.explain.answer_difference import AnswerDifference
from onchip.reports.explain.difference import change_words, tensor_words
from onchip.reports.explain.history import History
from onchip.reports.shared.page import Card, Json, Page
from onchip.reports.shared.words import exact_bytes, short_bytes

GAP: Final = 0.08
"""Between the two maps, as a share of the height of one."""
MOST_RECTANGLES: Final = 20_000
"""Of both maps together: of more the largest are drawn."""


def difference_html(difference: AnswerDifference, histories: tuple[History, History] | None, command_line: str) -> str:
    """The page's text; raises UsageError where a package is missing that makes pages."""
    maps = {} if histories is None else _maps(histories, {one.tensor for one in difference.tensors})
    values = {
        "title": f"{difference.before} and {difference.after}",
        "cards": _cards(difference),
        "command_line": command_line,
        "difference": difference,
        "figures": [(one, *change_words(one)) for one in difference.figures],
        "tensors": [tensor_words(one) for one in difference.tensors],
        "maps": list(maps),
    }
    return Page("difference.html.j2", ("plain.js",), {"figures": maps}, values).html()


def _cards(difference: AnswerDifference) -> list[Card]:
    changed = [one for one in difference.figures if one.before != one.after]
    cards = [
        Card(one.name, change_words(one)[1] or str(one.after), f"{one.before} to {one.after}", _tone(one.change))
        for one in changed
        if one.change is not None
    ]
    return cards[:4] or [Card("figures", "equal", f"{len(difference.figures)} of each")]


def _tone(change: float | None) -> str:
    return "good" if change is not None and change < 0 else "fair"


def _maps(histories: tuple[History, History], changed: set[str]) -> dict[str, Json]:
    """A figure for each scratchpad of either plan: the first one's map above, the second's below, one axis of steps."""
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
    traces += [_level(steps, value, name) for value, name in levels]
    ticks = [0, capacities[1], lift, lift + capacities[0]]
    words = ["0", short_bytes(capacities[1]), "0", short_bytes(capacities[0])]
    y = {"title": f"{memory}: second below, first above", "tickvals": ticks, "ticktext": words}
    return {"traces": traces, "x": {"title": "step"}, "y": y, "height": 720, "bars": "overlay"}


def _bars(ones: Sequence[Residency], name: str, paint: str, base: int) -> Json:
    return {
        "type": "bar",
        "name": name,
        "x": [(one.start_step + one.stop_step) / 2 for one in ones],
        "width": [max(one.stop_step - one.start_step, 0.05) for one in ones],
        "base": [base + one.offset_bytes for one in ones],
        "y": [one.size_bytes for one in ones],
        "customdata": [
            [_escaped(one.tensor), exact_bytes(one.size_bytes), one.offset_bytes, one.start_step, one.stop_step]
            for one in ones
        ],
        "marker": {"opacity": 0.85},
        "meta": {"paint": paint},
        "hovertemplate": "%{customdata[0]}: %{customdata[1]} at %{customdata[2]:,}<br>steps %{customdata[3]} to "
        "%{customdata[4]}<extra></extra>",
    }


def _level(steps: int, value: int, name: str) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [0, steps],
        "y": [value, value],
        "line": {"dash": "dash", "width": 1.5},
        "meta": {"paint": "capacity"},
        "hoverinfo": "skip",
    }


def _escaped(name: str) -> str:
    """A name that plotly shows as it is."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
