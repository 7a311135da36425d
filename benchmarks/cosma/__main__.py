"""COSMA's figures and tables, and what it could not prove, next to the paper's own figures.

    PYTHONPATH=benchmarks python -m cosma [--section NAME ...] [--network NAME ...] [--time-limit S] [--seeds N]
                                          [--processor] [--results FILE.json]

Networks have one byte per element and batch 1. Every plan is verified. Figures 3 and 4 are bars without numbers; the
paper states their mean reductions, 84 % and 85 %. MiniMalloc's instances are in `packing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Final

from cosma.published import HUMAN_DESIGNED, NAS, TABLE_II
from cosma.rows import RIVALS, Case, peak_row, problem_at, rival_rows, row_of, row_of_problem, size_row
from generated import hard_random, nas_like
from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import Granularity
from onchip.answer.problem import Count, Order
from onchip.api.target import CapacityBudget
from onchip.search.budget.limits import Limits, MipSolver

GENERATED_NETWORKS, HARD_GRAPHS = 50, 20
SECONDS_FREE_ORDER, SECONDS_PNASNET_AT_M_R = 30.0, 120.0
SECONDS_ANYTIME, SECONDS_GENERATED, SECONDS_HARD, SECONDS_SOLVER = 10.0, 30.0, 60.0, 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The selected networks, and a time limit that replaces each section's own."""

    networks: tuple[str, ...] = (*HUMAN_DESIGNED, *NAS)
    time_limit_seconds: float | None = None
    seeds: int | None = None

    def limits(self, seconds: float) -> Limits:
        """Return the limits of one row."""
        return Limits(time_limit_seconds=self.time_limit_seconds or seconds)

    def of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the selected names."""
        return tuple(name for name in names if name in self.networks)

    def cases(self, names: tuple[str, ...], counts: tuple[Count, ...] = (Count.ACTIVATIONS,)) -> Iterator[Case]:
        """Yield each selected network, fused and raw, with each count, at each budget."""
        for network in self.of(names):
            for granularity in Granularity:
                for count in counts:
                    for budget in CapacityBudget:
                        yield Case(network, granularity, count, budget)


def human_designed(asked: Asked) -> Iterator[Row]:
    """Ten networks at every budget, counting activations or all, raw and fused: time to the proof (V-B1)."""
    for case in asked.cases(HUMAN_DESIGNED, tuple(Count)):
        yield row_of(case, Order.FREE, "exact", asked.limits(60))


def table_two(asked: Asked) -> Iterator[Row]:
    """Table II: the order given, an order of least peak, divide and conquer; raw networks too."""
    columns = ((Order.GIVEN, "exact", "given"), (Order.MIN_PEAK, "exact", "min-peak"), (Order.FREE, "divide", "divide"))
    for network in asked.of(NAS):
        for granularity in Granularity:
            for order, method, column in columns:
                for budget, cosma in zip(CapacityBudget, TABLE_II[column][network], strict=True):
                    case = Case(network, granularity, Count.ACTIVATIONS, budget)
                    yield row_of(case, order, method, asked.limits(60), cosma)


def nas_free_order(asked: Asked) -> Iterator[Row]:
    """Four networks in any order: what COSMA could not prove in 24 hours."""
    for case in asked.cases(NAS):
        is_hardest = (case.network, case.budget) == ("pnasnet5large", CapacityBudget.M_R)
        seconds = SECONDS_PNASNET_AT_M_R if is_hardest else SECONDS_FREE_ORDER
        yield row_of(case, Order.FREE, "exact", asked.limits(seconds))


def nas_anytime(asked: Asked) -> Iterator[Row]:
    """The networks of architecture search with a limit of 10 seconds."""
    for case in asked.cases(NAS):
        yield row_of(case, Order.FREE, "exact", Limits(time_limit_seconds=SECONDS_ANYTIME))


def generated_networks(asked: Asked) -> Iterator[Row]:
    """Seeded networks of randomly wired cells, at M_R and M_H."""
    for seed in range(asked.seeds or GENERATED_NETWORKS):
        graph, _ = nas_like(seed)
        for budget in (CapacityBudget.M_R, CapacityBudget.M_H):
            problem = problem_at(graph, Count.ACTIVATIONS, budget, Order.FREE)
            if problem is not None:
                limits = asked.limits(SECONDS_GENERATED)
                yield {"network": graph.name, "budget": budget} | row_of_problem(problem, "exact", limits)


def hard_graphs(asked: Asked) -> Iterator[Row]:
    """100 operators that read up to 3 of the 10 most recent tensors, half way between M_R and M_P."""
    for seed in range(asked.seeds or HARD_GRAPHS):
        graph = hard_random(seed)
        problem = problem_at(graph, Count.ACTIVATIONS, CapacityBudget.M_H, Order.FREE)
        if problem is not None:
            yield {"network": graph.name} | row_of_problem(problem, "exact", asked.limits(SECONDS_HARD))


def least_peaks(asked: Asked) -> Iterator[Row]:
    """M_P of all fourteen."""
    for network in asked.of((*HUMAN_DESIGNED, *NAS)):
        for granularity in Granularity:
            yield peak_row(network, granularity)


def figure_three(asked: Asked) -> Iterator[Row]:
    """The four rivals on the ten networks (Figure 3)."""
    for case in asked.cases(HUMAN_DESIGNED, tuple(Count)):
        yield from rival_rows(case, asked.limits(60))


def figure_four(asked: Asked) -> Iterator[Row]:
    """The four rivals on the four networks of architecture search (Figure 4)."""
    for case in asked.cases(NAS):
        yield from rival_rows(case, asked.limits(SECONDS_PNASNET_AT_M_R))


def sizes(asked: Asked) -> Iterator[Row]:
    """The paper's program for each network at M_R, in free and given order, with an open solver's result (III-F)."""
    limits = Limits(time_limit_seconds=asked.time_limit_seconds or SECONDS_SOLVER, solver=MipSolver.HIGHS)
    for network in asked.of((*HUMAN_DESIGNED, *NAS)):
        for count in Count if network in HUMAN_DESIGNED else (Count.ACTIVATIONS,):
            for order in (Order.FREE, Order.GIVEN):
                yield size_row(Case(network, Granularity.FUSED, count, CapacityBudget.M_R), order, limits)


SECTIONS: Final[Mapping[str, Callable[[Asked], Iterator[Row]]]] = {
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


def means(rows: list[Row]) -> Iterator[str]:
    """Yield the totals of a section: proofs, seconds and gaps, or the mean reductions of each rival."""
    if any("rival" in row for row in rows):
        for collapse in (False, True):
            for policy, order in (*RIVALS, (None, None)):
                own = [row for row in rows if row["budgets_collapse"] is collapse]
                own = [row for row in own if policy in (None, row["rival"]) and order in (None, row["order"])]
                told = [row["reduction"] for row in own if row["reduction"] is not None]
                of = f"{policy or 'all'}, {order or 'any'} order, M_R {'=' if collapse else '<'} M_P"
                yield f"{of}: {fmean(told or [0]):.1%} less in the mean of {len(told)} of {len(own)}"
        for words, own in (
            ("all budgets", rows),
            ("M_R", [row for row in rows if row["budget"] == CapacityBudget.M_R]),
        ):
            told = [row["published_reduction"] for row in own if row["published_reduction"] is not None]
            yield f"as published, {words}: {fmean(told or [0]):.1%} less in the mean of {len(told)} of {len(own)}"
        return
    seconds, gaps = [row["seconds"] for row in rows], [row["gap"] for row in rows if row.get("gap") is not None]
    proven = sum(row.get("status") == "OPTIMAL" for row in rows)
    yield f"{proven} of {len(rows)} OPTIMAL; seconds mean {fmean(seconds):.3f}, greatest {max(seconds):.3f}"
    if gaps:
        yield f"gap median {median(gaps):.1%}, greatest {max(gaps):.1%}"


def main() -> None:
    """Print each section and its totals."""
    parser = options_of(__doc__)
    every = (*HUMAN_DESIGNED, *NAS)
    parser.add_argument("--section", nargs="+", choices=tuple(SECTIONS), default=tuple(SECTIONS), metavar="NAME")
    parser.add_argument("--network", nargs="+", choices=every, default=every, metavar="NAME")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds per row, instead of each section's own")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of generated networks and hard graphs")
    arguments = asked_of(parser)
    asked = Asked(tuple(arguments.network), arguments.time_limit, arguments.seeds)
    for name, rows in report(arguments, {name: partial(SECTIONS[name], asked) for name in arguments.section}).items():
        print(f"\n{name}: {'; '.join(means(rows))}")


if __name__ == "__main__":
    main()
