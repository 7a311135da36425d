"""The rows of COSMA's tables and figures, by section."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cosma.published import HUMAN_DESIGNED, NAS, TABLE_II
from cosma.rows import Case, PeakRow, RivalRow, Row, peak_row, problem_at, rival_rows, row_of, row_of_problem
from cosma.sizes import SOLVER, SizeRow, size_row
from generated import hard_random, nas_like

from onchip.answer.document import Granularity
from onchip.answer.problem import Count, Order
from onchip.api.budgets import CapacityBudget
from onchip.search.budget.limits import Limits

GENERATED_NETWORKS, HARD_GRAPHS = 50, 20
SECONDS_HUMAN_DESIGNED, SECONDS_GIVEN_ORDER = 1.0, 0.5
SECONDS_FREE_ORDER, SECONDS_PNASNET_AT_M_R = 30.0, 120.0
SECONDS_ANYTIME, SECONDS_GENERATED, SECONDS_HARD, SECONDS_SOLVER = 10.0, 30.0, 60.0, 10.0

AnyRow = Row | RivalRow | PeakRow | SizeRow


@dataclass(frozen=True, slots=True)
class Asked:
    """The selected networks, and a time limit that replaces each section's own."""

    networks: tuple[str, ...]
    time_limit_seconds: float | None
    seeds: int | None

    def limits(self, seconds: float) -> Limits:
        """Return the limits of one row."""
        return Limits(time_limit_seconds=self.time_limit_seconds or seconds)

    def of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the names that are selected."""
        return tuple(name for name in names if name in self.networks)


def human_designed(asked: Asked) -> Iterator[Row]:
    """Ten networks at every budget, counting activations or all, raw and fused: time to the proof (V-B1)."""
    for network in asked.of(HUMAN_DESIGNED):
        for granularity in Granularity:
            for count in Count:
                for budget in CapacityBudget:
                    case = Case(network, granularity, count, budget)
                    row = row_of(case, Order.FREE, "exact", asked.limits(60), SECONDS_HUMAN_DESIGNED)
                    if row is not None:
                        yield row


def table_two(asked: Asked) -> Iterator[Row]:
    """Table II: the order given, an order of least peak, divide and conquer; raw networks too."""
    columns = ((Order.GIVEN, "exact", "given"), (Order.MIN_PEAK, "exact", "min-peak"), (Order.FREE, "divide", "divide"))
    for network in asked.of(NAS):
        for granularity in Granularity:
            for order, method, column in columns:
                for budget, cosma in zip(CapacityBudget, TABLE_II[column][network], strict=True):
                    case = Case(network, granularity, Count.ACTIVATIONS, budget)
                    allowed = SECONDS_GIVEN_ORDER if order is Order.GIVEN else None
                    row = row_of(case, order, method, asked.limits(60), allowed, cosma)
                    if row is not None:
                        yield row


def nas_free_order(asked: Asked) -> Iterator[Row]:
    """Four networks in any order: what COSMA could not prove in 24 hours."""
    for case in _nas_cases(asked):
        is_hardest = (case.network, case.budget) == ("pnasnet5large", CapacityBudget.M_R)
        seconds = SECONDS_PNASNET_AT_M_R if is_hardest else SECONDS_FREE_ORDER
        row = row_of(case, Order.FREE, "exact", asked.limits(seconds), seconds)
        if row is not None:
            yield row


def nas_anytime(asked: Asked) -> Iterator[Row]:
    """Yield the rows of architecture search with a limit of 10 seconds."""
    for case in _nas_cases(asked):
        row = row_of(case, Order.FREE, "exact", Limits(time_limit_seconds=SECONDS_ANYTIME))
        if row is not None:
            yield row


def _nas_cases(asked: Asked) -> Iterator[Case]:
    for network in asked.of(NAS):
        for granularity in Granularity:
            for budget in CapacityBudget:
                yield Case(network, granularity, Count.ACTIVATIONS, budget)


def generated_networks(asked: Asked) -> Iterator[Row]:
    """Seeded networks of randomly wired cells, at M_R and M_H."""
    for seed in range(asked.seeds or GENERATED_NETWORKS):
        graph, parameters = nas_like(seed)
        print(f"{parameters}, {len(graph.operators)} operators", file=sys.stderr)
        for budget in (CapacityBudget.M_R, CapacityBudget.M_H):
            problem = problem_at(graph, Count.ACTIVATIONS, budget, Order.FREE)
            if problem is not None:
                yield row_of_problem(problem, budget, "exact", asked.limits(SECONDS_GENERATED))


def hard_graphs(asked: Asked) -> Iterator[Row]:
    """100 operators that read up to 3 of the 10 most recent tensors, half way between M_R and M_P."""
    for seed in range(asked.seeds or HARD_GRAPHS):
        problem = problem_at(hard_random(seed), Count.ACTIVATIONS, CapacityBudget.M_H, Order.FREE)
        if problem is not None:
            yield row_of_problem(problem, CapacityBudget.M_H, "exact", asked.limits(SECONDS_HARD))


def least_peaks(asked: Asked) -> Iterator[PeakRow]:
    """M_P of all fourteen."""
    for network in asked.of((*HUMAN_DESIGNED, *NAS)):
        for granularity in Granularity:
            yield peak_row(network, granularity)


def figure_three(asked: Asked) -> Iterator[RivalRow]:
    """Yield the four rivals on the ten networks (Figure 3)."""
    for network in asked.of(HUMAN_DESIGNED):
        for granularity in Granularity:
            for count in Count:
                for budget in CapacityBudget:
                    yield from rival_rows(Case(network, granularity, count, budget), asked.limits(60))


def figure_four(asked: Asked) -> Iterator[RivalRow]:
    """Yield the four rivals on the four networks of architecture search (Figure 4)."""
    for case in _nas_cases(asked):
        yield from rival_rows(case, asked.limits(SECONDS_PNASNET_AT_M_R))


def sizes(asked: Asked) -> Iterator[SizeRow]:
    """Yield the paper's program for each network at M_R, in free and given order, with an open solver's result."""
    limits = Limits(time_limit_seconds=asked.time_limit_seconds or SECONDS_SOLVER, solver=SOLVER)
    for network in asked.of((*HUMAN_DESIGNED, *NAS)):
        for count in Count if network in HUMAN_DESIGNED else (Count.ACTIVATIONS,):
            for order in (Order.FREE, Order.GIVEN):
                row = size_row(Case(network, Granularity.FUSED, count, CapacityBudget.M_R), order, limits)
                if row is not None:
                    yield row


SECTIONS: Mapping[str, Callable[[Asked], Iterator[AnyRow]]] = {
    "human": human_designed,
    "table2": table_two,
    "nas": nas_free_order,
    "anytime": nas_anytime,
    "generated": generated_networks,
    "hard": hard_graphs,
    "peaks": least_peaks,
    "sizes": sizes,
    "figure3": figure_three,
    "figure4": figure_four,
}
