"""Our own exact packing: what lies on the floor of one section, decided again and again.

A section is a largest set of buffers that live at once; its floor is the lowest offset that is left
for any of them. In a valley of the floors each decision takes one section and says which buffer
lies on its floor, or that none does. `docs/packing.md` has the argument why nothing is missed.

Offsets from the ground up, bounds per section and parts that are packed one by one are MiniMalloc's
(Moffitt, ASPLOS 2023); decisions on valleys, passing over, restarts by blame and memory are not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.solve.allocation.branching_tables import BranchingTables, sections_of, tables_of, work_of
from onchip.solve.run.interruptible import WATCH_EVERY_SECONDS, run_watched
from onchip.solve.run.limits import Run

NODES_PER_BUFFER = 8
LEAST_ROOM = 1 << 10


class Knowledge(Enum):
    """What the search knows of a problem: a packing, that there is none, or neither."""

    PACKED = "packed"
    UNPACKABLE = "unpackable"
    OPEN = "open"


class BranchingSearch:
    """One packing problem with at least one buffer; goes on where it stopped, for ever more nodes at a time."""

    def __init__(self, problem: PackingProblem, run: Run) -> None:
        self.nodes = 0
        self.packing: Packing | None = None
        self._problem = problem
        self._run = run
        self._tables, self._unit_bytes = tables_of(problem)
        self._room = max(LEAST_ROOM, 2 * len(problem.buffers))
        self._work = work_of(self._tables, self._room)
        self._ranks = _ranks(problem, self._tables)
        self._round = 0

    def search(self, nodes: float = float("inf")) -> Knowledge:
        """Go on for so many nodes, or until the run has to stop."""
        limit = self.nodes + nodes

        def stop() -> None:
            self._work.counters[_kernel().STOP] = 1

        return run_watched(lambda: self._rounds(limit), stop, self._run) if _is_compiled(self._run) else Knowledge.OPEN

    @property
    def hardest_step(self) -> int:
        """A step of the section that was most to blame so far."""
        _, steps = sections_of(self._problem.buffers)
        return steps[int(self._work.state.weight.argmax())]

    def _rounds(self, limit: float) -> Knowledge:
        kernel = _kernel()
        while self.nodes < limit and self._run.stop is None:
            work = self._work
            work.tables.rank[:] = next(self._ranks)
            self._round += 1
            nodes = luby(self._round) * NODES_PER_BUFFER * len(self._problem.buffers)
            work.counters[kernel.NODE_LIMIT] = int(min(nodes, limit - self.nodes))
            status = kernel.search(work)
            self.nodes += max(1, int(work.counters[kernel.NODES]))
            if status == kernel.FOUND:
                self.packing = Packing(tuple(low * self._unit_bytes for low in work.state.low.tolist()))
                return Knowledge.PACKED
            if status == kernel.EXHAUSTED:
                return Knowledge.UNPACKABLE
            if status == kernel.FULL:
                self._make_room()
        return Knowledge.OPEN

    def _make_room(self) -> None:
        """Twice as much; what has been learned is kept."""
        self._room *= 2
        known = self._work.state
        self._work = work_of(self._tables, self._room)
        self._work.state.weight[:] = known.weight
        self._work.state.memo[:] = known.memo


def luby(index: int) -> int:
    """Return the term of 1, 1, 2, 1, 1, 2, 4, ...: restarts of all lengths, each length as much in all."""
    while index & index + 1:
        index -= (1 << index.bit_length() - 1) - 1
    return index + 1 >> 1


def _ranks(problem: PackingProblem, tables: BranchingTables) -> Iterator[list[int]]:
    """Yield, in turn, by how many sections, by size, by life: the greatest first."""
    widths = (tables.stop - tables.first).tolist()
    lives = [buffer.stop - buffer.start for buffer in problem.buffers]
    sizes = tables.size.tolist()
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


def _kernel() -> ModuleType:
    """Return the compiled search; numba is imported here, by those who need it."""
    from onchip.solve.allocation import branching_kernel

    return branching_kernel


def _is_compiled(run: Run) -> bool:
    """Wait until the search is compiled (seconds, once per installation) or loaded; False if the run has to stop."""
    thread = _compiling()
    while thread.is_alive() and run.stop is None:
        thread.join(WATCH_EVERY_SECONDS)
    return not thread.is_alive()


@cache
def _compiling() -> threading.Thread:
    """Compile in a thread that may outlive the run: the next one finds the result on disk."""
    tables, _ = tables_of(PackingProblem((Buffer(0, 1, 1),), 1))
    thread = threading.Thread(target=lambda: _kernel().search(work_of(tables, LEAST_ROOM)))
    thread.start()
    return thread
