"""A compact picture of a plan: its memory map as SVG, with the standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from onchip.arch.memory import Memory, Operand

if TYPE_CHECKING:
    from onchip.answer.problem import Problem
    from onchip.answer.program import Plan
    from onchip.answer.result import Result
    from onchip.answer.schedule import Schedule

WIDTH, HEIGHT_OF_A_MAP = 860, 230
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 26, 40
LEGEND_HEIGHT = 26
MOST_STACKS, MOST_INSTRUCTIONS = 40, 4000
"""Limits of a notebook's schedule: further stacks are counted, and a longer program is not drawn."""
COLOURS = {
    "input": "#2a9d8f",
    "activation": "#4c78c8",
    "output": "#8a63c4",
    "parameter": "#8a8f98",
    "came back": "#ee854a",
    "moved": "#7cb342",
}


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A tensor in a scratchpad over steps [start, stop); `size_bytes` is None where only the plan is known."""

    tensor: str
    memory: str
    offset_bytes: int
    size_bytes: int | None
    start: int
    stop: int
    colour: str


def svg_of_plan(plan: Plan, problem: Problem | None, background: str | None = None) -> str:
    """Return steps against addresses, with a rectangle for each residency and a map for each scratchpad.

    A plan names no sizes: without its problem, each residency is a line at its offset.
    """
    rectangles, steps = _rectangles(plan, problem)
    height = len(plan.memories) * HEIGHT_OF_A_MAP + LEGEND_HEIGHT
    title = "memory map" if problem is None else f"memory map of {problem.graph.name}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="11" '
        f'fill="{"currentColor" if background is None else "#1f2328"}" style="max-width:100%;height:auto">'
    )
    paper = "" if background is None else f'<rect width="{WIDTH}" height="{height}" fill="{background}"/>'
    maps = (
        line
        for index, memory in enumerate(plan.memories)
        for line in _map([one for one in rectangles if one.memory == memory.name], memory, steps, index)
    )
    body = "\n".join((head + paper, f"<title>{escape(title)}</title>", *maps, *_legend(rectangles, height), "</svg>"))
    return body + "\n"


def html_of_plan(plan: Plan) -> str:
    """Return the picture of a plan for notebooks."""
    count = sum(1 for one in plan.instructions if type(one).__name__ == "Compute")
    note = "" if plan.problem else " Lines stand at the offsets: without its problem a plan knows no sizes."
    caption = f"<figcaption>{count:,} steps, {len(plan.instructions):,} instructions.{note}</figcaption>"
    return f'<figure style="margin:0">{svg_of_plan(plan, plan.problem)}{caption}</figure>'


def html_of_result(result: Result[object]) -> str:
    """Return a result for notebooks: its figures, and the picture of its answer."""
    parts = [f"<strong>{result.status}</strong> by {escape(result.method)}"]
    if result.objective_value is not None and result.gap is not None:
        parts.append(f"objective value {result.objective_value:,}")
        parts.append(f"lower bound {result.lower_bound:,} (gap {result.gap:.1%})")
    elif result.bound is not None:
        parts.append(f"lower bound {result.bound:,}")
    parts.append(f"{result.seconds:.2f} s, {escape(result.stopped_by)}")
    draw = getattr(result.answer, "_repr_html_", None)
    return f"<div><div>{' · '.join(parts)}</div>{draw() if draw else ''}</div>"


def html_of_schedule(schedule: Schedule) -> str:
    """Return a schedule for notebooks: its stacks, and the memory map of a program that is not too long."""
    rows = [
        f"<tr><td>{number}</td><td>{len(stack.operators)}</td><td>{escape(', '.join(stack.operators))}</td>"
        f"<td>{escape(str(stack.tiling or 'whole'))}</td></tr>"
        for number, stack in enumerate(schedule.stacks[:MOST_STACKS])
    ]
    count, program = len(schedule.stacks), schedule.program
    caption = f"{count:,} stacks, {len(schedule.mappings):,} mappings, {len(program.instructions):,} instructions"
    head = "<tr><th>stack</th><th>operators</th><th></th><th>tiles</th></tr>"
    table = f"<table><caption>{caption}</caption><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return table + (html_of_plan(program) if len(program.instructions) <= MOST_INSTRUCTIONS else "")


def _rectangles(plan: Plan, problem: Problem | None) -> tuple[list[Rectangle], int]:
    """Replay the plan; a reloaded tensor `came back`, a copy from another scratchpad `moved`."""
    from onchip.answer.program import Allocate, Compute, Copy, Free

    begun: dict[tuple[str, str], tuple[int, int, str]] = {}
    rectangles: list[Rectangle] = []
    seen: set[str] = set()
    names = {memory.name for memory in plan.memories}
    step = 0

    def end(tensor: str, memory: str) -> None:
        if (tensor, memory) in begun:
            offset_bytes, start, colour = begun.pop((tensor, memory))
            size_bytes = problem.graph.tensor[tensor].size_bytes if problem else None
            rectangles.append(Rectangle(tensor, memory, offset_bytes, size_bytes, start, step, colour))

    for instruction in plan.instructions:
        match instruction:
            case Allocate(tensor, memory, offset_bytes):
                end(tensor, memory)
                role = str(problem.graph.tensor[tensor].role) if problem else "activation"
                begun[tensor, memory] = (offset_bytes, step, role)
            case Copy(tensor, source, target) if (tensor, target) in begun:
                offset_bytes, start, colour = begun[tensor, target]
                if source in names or tensor in seen:
                    colour = "moved" if source in names else "came back"
                begun[tensor, target] = (offset_bytes, start, colour)
                seen.add(tensor)
            case Copy(tensor, _, _):
                seen.add(tensor)
            case Free(tensor, memory):
                end(tensor, memory)
            case Compute():
                step += 1
    for tensor, memory in tuple(begun):
        end(tensor, memory)
    return rectangles, max(step, 1)


def _map(rectangles: list[Rectangle], memory: Memory, steps: int, index: int) -> Iterator[str]:
    top = index * HEIGHT_OF_A_MAP + TOP
    across = (WIDTH - LEFT - RIGHT) / steps
    down = (HEIGHT_OF_A_MAP - TOP - BOTTOM) / memory.capacity_bytes
    floor = top + memory.capacity_bytes * down
    right = WIDTH - RIGHT
    title = f"{escape(memory.name)}, {memory.capacity_bytes:,} bytes"
    if len(memory.holds) < len(Operand):
        title += f", for {' and '.join(memory.holds)}"
    yield f'<text x="{LEFT}" y="{top - 9}" font-weight="600">{title}</text>'
    gap = 0.6 if across > 4 else 0
    for one in rectangles:
        size_bytes = one.size_bytes or 0
        x, y = LEFT + one.start * across, floor - (one.offset_bytes + size_bytes) * down
        width, height = max((one.stop - one.start) * across - gap, 0.5), max(size_bytes * down - gap, 1.5)
        size = "" if one.size_bytes is None else f", {one.size_bytes:,} bytes"
        note = f"{one.tensor}{size} at {one.offset_bytes:,}, steps {one.start} to {one.stop - 1}"
        yield (
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{COLOURS[one.colour]}">'
            f"<title>{escape(note)}</title></rect>"
        )
    yield (
        f'<path d="M{LEFT} {top}V{floor:.2f}H{right}" fill="none" stroke="currentColor" stroke-opacity=".5"/>'
        f'<path d="M{LEFT} {top}H{right}" stroke="currentColor" stroke-dasharray="5 4" stroke-opacity=".7"/>'
    )
    for address in _addresses(memory.capacity_bytes):
        y = floor - address * down
        yield f'<text x="{LEFT - 6}" y="{y + 4:.2f}" text-anchor="end">{_size(address)}</text>'
    for step in _ticks(steps):
        x = LEFT + (step + 0.5) * across
        yield f'<text x="{x:.2f}" y="{floor + 15:.2f}" text-anchor="middle">{step:,}</text>'
    yield f'<text x="{(LEFT + right) / 2}" y="{floor + 31:.2f}" text-anchor="middle">step</text>'


def _legend(rectangles: list[Rectangle], height: int) -> Iterator[str]:
    x, y = LEFT, height - 12
    for name, colour in COLOURS.items():
        if any(one.colour == name for one in rectangles):
            yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" rx="2" fill="{colour}"/>'
            yield f'<text x="{x + 15}" y="{y}">{name}</text>'
            x += 32 + 6 * len(name)


def _ticks(steps: int) -> range:
    size = 1
    while steps / size > 12:
        size = size * 5 // 2 if str(size)[0] == "2" else size * 2
    return range(0, steps, size)


def _addresses(capacity_bytes: int) -> range:
    return range(0, capacity_bytes + 1, 1 << max(0, (capacity_bytes // 3).bit_length() - 1))


def _size(size_bytes: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.3g} {name}"
    return f"{size_bytes:.4g} B" if size_bytes else "0"
