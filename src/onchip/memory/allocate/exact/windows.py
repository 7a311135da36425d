"""Which stretch of time does not pack: a proof that is small, found around the hardest step."""

from __future__ import annotations

from collections.abc import Iterator

from onchip.answer.packing import Buffer, PackingProblem
from onchip.memory.allocate.exact.branching import BranchingSearch, Knowledge
from onchip.memory.allocate.exact.postponed import core_of
from onchip.memory.allocate.exact.sections import sections_of
from onchip.search.budget.limits import Run

FIRST_SECTIONS = 4
NODES = 4_000


def clipped(problem: PackingProblem, stretch: range) -> PackingProblem:
    """Return the problem of what lives in a stretch of steps, as long as it does.

    Its sizes may have a greater common divisor, its buffers have fewer neighbours: what has no
    packing here has none anywhere, and that is sooner found out.
    """
    buffers = tuple(
        Buffer(max(b.start, stretch.start), min(b.stop, stretch.stop), b.size_bytes, b.offset_bytes)
        for b in problem.buffers
        if b.start < stretch.stop and b.stop > stretch.start
    )
    return PackingProblem(buffers, problem.capacity_bytes, problem.alignment_bytes)


def finding_of(problem: PackingProblem, run: Run, nodes: float = NODES) -> Knowledge:
    """Say whether a small problem packs, if so many nodes are enough for that."""
    core = core_of(problem).problem
    return BranchingSearch(core, run).search(nodes) if core.buffers else Knowledge.PACKED


def unpackable_stretch(problem: PackingProblem, run: Run, step: int, nodes: float = NODES) -> range | None:
    """Return a stretch of steps around `step` that is proven not to pack, as short as it is easily made."""
    finding, stretch = _narrowest(problem, run, step, nodes)
    return stretch if finding is Knowledge.UNPACKABLE else None


def hard_stretch(problem: PackingProblem, run: Run, step: int, nodes: float = NODES) -> range:
    """Return a stretch proven not to pack, else the narrowest that stays open, else all steps."""
    _, stretch = _narrowest(problem, run, step, nodes)
    if stretch is None:
        stretch = range(min(b.start for b in problem.buffers), max(b.stop for b in problem.buffers))
    return stretch


def _narrowest(problem: PackingProblem, run: Run, step: int, nodes: float) -> tuple[Knowledge, range | None]:
    _, steps = sections_of(problem.buffers)
    middle = max(index for index, at in enumerate(steps) if index == 0 or at <= step)
    still_open: range | None = None
    for low, high in _widening(middle, len(steps)):
        if run.stop is not None:
            break
        stretch = _stretch(steps, low, high)
        finding = finding_of(clipped(problem, stretch), run, nodes)
        if finding is Knowledge.UNPACKABLE:
            return finding, _trimmed(problem, run, steps, (low, high))
        if finding is Knowledge.OPEN and still_open is None:
            still_open = stretch
    return Knowledge.OPEN, still_open


def _widening(middle: int, sections: int) -> Iterator[tuple[int, int]]:
    """Yield ever wider ranges of sections that end, begin or lie around the middle; never all of them."""
    width = FIRST_SECTIONS
    while width < sections:
        for low, high in ((middle + 1 - width, middle + 1), (middle, middle + width), (middle - width, middle + width)):
            if low > 0 or high < sections:
                yield max(0, low), min(sections, high)
        width += width // 2


def _stretch(steps: list[int], low: int, high: int) -> range:
    return range(steps[low], steps[high - 1] + 1)


def _is_unpackable(problem: PackingProblem, run: Run, stretch: range, nodes: float = NODES) -> bool:
    return finding_of(clipped(problem, stretch), run, nodes) is Knowledge.UNPACKABLE


def _trimmed(problem: PackingProblem, run: Run, steps: list[int], sections: tuple[int, int]) -> range:
    """Take away at either end, by halves, while the rest stays unpackable."""
    low, high = sections
    size = (high - low) // 2
    while size and run.stop is None:
        if high - low > size and _is_unpackable(problem, run, _stretch(steps, low + size, high)):
            low += size
        elif high - low > size and _is_unpackable(problem, run, _stretch(steps, low, high - size)):
            high -= size
        else:
            size //= 2
    return _stretch(steps, low, high)
