"""Why buffers have no addresses together: as few of them as are easily found."""

from __future__ import annotations

from dataclasses import replace

from onchip.answer.packing import PackingProblem
from onchip.memory.allocate.exact.branching import Knowledge
from onchip.memory.allocate.exact.postponed import core_of
from onchip.memory.allocate.exact.sections import sections_of
from onchip.memory.allocate.exact.windows import clipped, finding_of, unpackable_stretch
from onchip.memory.allocate.overflow.kept_buffers import Conflict
from onchip.memory.effort import STEP
from onchip.search.budget.limits import Run

MOST_SECTIONS = 40
APART = 4


def conflict_in(problem: PackingProblem, stretch: range, run: Run) -> Conflict:
    """Return what is to blame in a stretch that is proven not to pack: what can be left out of the proof is."""
    cut = clipped(problem, stretch)
    parts = [cut.buffers[index] for index in core_of(cut).kept] or list(cut.buffers)
    for part in sorted(parts, key=lambda part: part.size_bytes * (part.stop - part.start)):
        rest = list(parts)
        rest.remove(part)
        if (
            run.stop is None
            and finding_of(replace(cut, buffers=tuple(rest)), run, STEP.stretch_nodes) is Knowledge.UNPACKABLE
        ):
            parts = rest
    return Conflict(stretch, tuple(parts))


def unpackable_stretches(problem: PackingProblem, run: Run) -> list[range]:
    """Look around the fullest sections, which lie apart, for stretches that do not pack."""
    spans, steps = sections_of(problem.buffers)
    live = [0] * len(steps)
    for (first, stop), buffer in zip(spans, problem.buffers, strict=True):
        for section in range(first, stop):
            live[section] += buffer.size_bytes
    stretches: list[range] = []
    looked_at: list[int] = []
    for section in sorted(range(len(steps)), key=lambda at: -live[at]):
        if len(looked_at) == MOST_SECTIONS or run.stop is not None:
            break
        step = steps[section]
        if any(abs(section - other) < APART for other in looked_at) or any(
            _is_near(step, found) for found in stretches
        ):
            continue
        looked_at.append(section)
        stretch = unpackable_stretch(problem, run, step, STEP.stretch_nodes)
        if stretch is not None:
            stretches.append(stretch)
    return stretches


def _is_near(step: int, stretch: range) -> bool:
    """Whether a step lies in a stretch or within its length of it: looking there would find it again."""
    return stretch.start - len(stretch) <= step < stretch.stop + len(stretch)
