"""CPU seconds of each phase of planning one network in its given order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from onchip.answer.problem import Count, Order, Problem
from onchip.api.budgets import roomy_problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import read_graph, write_graph
from onchip.ir.graph import Graph
from onchip.memory.allocate.residencies import LayoutPlacer
from onchip.memory.baselines.belady import belady_moves
from onchip.memory.decisions import compose, schedule_of_moves
from onchip.memory.retention.gap_windows import GapWindows
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.search.budget.limits import Run
from onchip.verify.verifier import verify

T = TypeVar("T")
WIDTH = 16


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """CPU seconds by phase; `stays` decides residency state by state, `beam` searches 16 layouts."""

    operators: int
    read: float
    index: float
    farthest: float
    stays: float
    beam: float
    compose: float
    verify: float


def phases_of(graph: Graph) -> PhaseRow:
    """Go through the phases once."""
    seconds: list[float] = []

    def timed(work: Callable[[], T]) -> T:
        began = time.process_time()
        done = work()
        seconds.append(round(time.process_time() - began, 2))
        return done

    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.json"
        write_graph(graph, path)
        read = timed(lambda: read_graph(path))
    need = greatest_need(roomy_problem(read, Count.ACTIVATIONS)).need_bytes
    problem = Problem(read, (Memory("sram", need),), order=Order.GIVEN)
    indexed = timed(lambda: IndexedProblem.of(problem))
    order = range(indexed.operator_count)
    timed(lambda: schedule_of_moves(indexed, belady_moves(indexed, order)))
    stays = timed(lambda: GapWindows(indexed, order, len(order)).solve(Run()))
    placed = timed(lambda: LayoutPlacer(indexed, stays).place(WIDTH, Run()))
    if placed is None:
        raise RuntimeError("a run without a limit was stopped")
    plan = timed(lambda: compose(indexed, *placed))
    timed(lambda: verify(problem, plan))
    return PhaseRow(len(order), *seconds)
