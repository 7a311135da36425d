"""Our own exact packing: what lies on the floor of one section, decided again and again.

A section is a largest set of buffers that live at once; its floor is the lowest offset that is left
for any of them. In a valley of the floors each decision takes one section and says which buffer
lies on its floor, or that none does. `docs/packing.md` has the argument why nothing is missed;
the decisions are in `native/packing.hpp`.

Offsets from the ground up, bounds per section and parts that are packed one by one are MiniMalloc's
(Moffitt, ASPLOS 2023); decisions on valleys, passing over, restarts by blame and memory are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from enum import Enum
from itertools import islice
from typing import Any, Final

from onchip.answer.packing import Packing, PackingProblem
from onchip.memory.allocate.exact.sections import PackingInUnits, packing_in_units, sections_of
from onchip.native import PackingOutcome, PackingSearch, StopToken
from onchip.search.budget.limits import Run
from onchip.search.strategy.interruptible import run_watched

NODES_PER_BUFFER: Final = 8


class Knowledge(Enum):
    """What the search knows of a problem: a packing, that there is none, or neither."""

    PACKED = "packed"
    UNPACKABLE = "unpackable"
    OPEN = "open"


class BranchingSearch:
    """One packing problem with at least one buffer; goes on where it stopped, for ever more nodes at a time.

    Each worker of the run searches for itself, with other restarts: the first to know ends the others.
    """

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self.packing: Packing | None = None
        self._problem = problem
        self._run = run
        counted = packing_in_units(problem)
        self._unit_bytes = counted.unit_bytes
        self._lanes = [_Lane(problem, counted, number) for number in range(run.limits.workers)]

    @property
    def nodes(self) -> int:
        """Return how many nodes all workers have done so far."""
        return sum(lane.nodes for lane in self._lanes)

    def search(self, nodes: float = float("inf")) -> Knowledge:
        """Go on for so many nodes, or until the run has to stop."""
        token, each = StopToken(), nodes / len(self._lanes)
        return run_watched(lambda: self._race(each, token), token.ask, self._run)

    @property
    def hardest_step(self) -> int:
        """A step of the section that was most to blame so far."""
        _, steps = sections_of(self._problem.buffers)
        return steps[self._lanes[0].search.hardest_section]

    def _race(self, nodes: float, token: StopToken) -> Knowledge:
        first, *others = self._lanes
        if not others:
            return self._known(first, first.go_on(nodes, self._run, token))
        known = Knowledge.OPEN
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            racing = {pool.submit(lane.go_on, nodes, self._run, token): lane for lane in self._lanes}
            try:
                while known is Knowledge.OPEN and racing:
                    done = next(as_completed(racing))
                    known = self._known(racing.pop(done), done.result())
            finally:
                token.ask()
        return known

    def _known(self, lane: _Lane, finding: Knowledge) -> Knowledge:
        if finding is Knowledge.PACKED:
            self.packing = Packing(tuple(offset * self._unit_bytes for offset in lane.search.offsets))
        return finding


class _Lane:
    """One worker's search: what it has learnt, and which restart comes next."""

    def __init__(self, problem: PackingProblem, counted: PackingInUnits, number: int) -> None:
        self.nodes = 0
        self.search = PackingSearch(counted.buffers, counted.limits)
        self._ranks = islice(_ranks(problem, counted), number, None)
        self._round = number
        self._least_nodes = NODES_PER_BUFFER * len(problem.buffers)

    def go_on(self, nodes: float, run: Run, token: StopToken) -> Knowledge:
        """Restart after restart, until that many nodes are done or it is asked to stop."""
        limit = self.nodes + nodes
        while self.nodes < limit and run.stop is None and not token.is_asked:
            self._round += 1
            own = luby(self._round) * self._least_nodes
            outcome = self.search.run(next(self._ranks), int(min(own, max(1, limit - self.nodes))), token)
            self.nodes += max(1, self.search.nodes)
            if outcome is PackingOutcome.FOUND:
                return Knowledge.PACKED
            if outcome is PackingOutcome.EXHAUSTED:
                return Knowledge.UNPACKABLE
        return Knowledge.OPEN


def luby(index: int) -> int:
    """Return the term of 1, 1, 2, 1, 1, 2, 4, ...: restarts of all lengths, each length as much in all."""
    while index & index + 1:
        index -= (1 << index.bit_length() - 1) - 1
    return index + 1 >> 1


def _ranks(problem: PackingProblem, counted: PackingInUnits) -> Iterator[list[int]]:
    """Yield, in turn, by how many sections, by size, by life: the greatest first."""
    widths = [one.stop - one.first for one in counted.buffers]
    lives = [buffer.stop - buffer.start for buffer in problem.buffers]
    sizes = [one.size for one in counted.buffers]
    areas = [life * size for life, size in zip(lives, sizes, strict=True)]
    ranks = [_descending(keys) for keys in (zip(widths, areas, strict=True), sizes, lives)]
    while True:
        yield from ranks


def _descending(keys: Iterable[Any]) -> list[int]:
    """Return each one's place from the greatest key down."""
    keyed = list(keys)
    order = sorted(range(len(keyed)), key=keyed.__getitem__, reverse=True)
    rank = [0] * len(order)
    for place, index in enumerate(order):
        rank[index] = place
    return rank
