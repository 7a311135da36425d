"""CoSA's figures 6 to 9 and table VI, ours beside them: speed-ups, energy, its objective, time to solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from cosa import published
from cosa.against import COSA, EXACT, Compared, Row, row_of, row_of_all
from cosa.reading import cosa_objective

from onchip.answer.layer_mapping import MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table
from onchip.mapping.cosa.model import CosaObjective
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.clock import Stopwatch
from onchip.search.budget.limits import Limits, Run

RANDOM, HYBRID = "random", "hybrid"
METHODS_TOLD: Final = (COSA, HYBRID, EXACT)
RIVALS: Final = (COSA, HYBRID, RANDOM)
LATENCY, ENERGY = MappingObjective.LATENCY, MappingObjective.ENERGY
ONE_LAYER: Final = "_outputs_input.138"
"""3_7_512_512_1 of ResNet-50."""

FIGURES: Final = {
    "figure6": ("speed-up over random", (published.BASELINE,), LATENCY),
    "figure7": ("energy of random over it", (published.BASELINE,), ENERGY),
    "figure9": ("speed-up over random", ("simba-64-pes", "simba-large-buffers"), LATENCY),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A method's geometric mean over a workload's layers, relative to random; None where no layer has both."""

    machine: str
    workload: str
    method: str
    times: float | None
    layers: int
    mean_seconds: float


def figure(name: str, workloads: Sequence[str], seconds: float, step: int) -> list[Bar]:
    """Print the bars of a figure and the paper's means next to them."""
    title, machines, objective = FIGURES[name]
    bars = []
    for machine in machines:
        accelerator = load_accelerator(machine)
        asked = Compared((machine,), workloads, (objective,), RIVALS, seconds, step)
        rows = [row_of(workload, accelerator, objective, asked) for workload in workloads]
        print(f"\n{name}, {machine}: {title}, geometric means; at most {seconds:.0f} s a layer and method")
        print(
            f"{'':27} {'layers':>6}" + "".join(f"{method:>9} {'s':>7}" for method in METHODS_TOLD) + f"{'random s':>10}"
        )
        for row in (*rows, row_of_all(rows)):
            own = _bars(machine, row)
            bars += own
            print(_line(own, row), flush=True)
        print(_paper(name, machine))
    return bars


def _bars(machine: str, row: Row) -> list[Bar]:
    return [
        Bar(machine, row.name, method, row.ratio(RANDOM, method), len(row.layers), _seconds(row, method))
        for method in (*METHODS_TOLD, RANDOM)
    ]


def _seconds(row: Row, method: str) -> float:
    return fmean(found[method].seconds for found in row.layers.values())


def _line(bars: Sequence[Bar], row: Row) -> str:
    told = "".join(
        f"{'-' if one.times is None else f'{one.times:.2f}':>9} {one.mean_seconds:7.2f}" for one in bars[:-1]
    )
    return f"{row.name:27} {len(row.layers):6}{told}{bars[-1].mean_seconds:10.2f}"


def _paper(name: str, machine: str) -> str:
    if name == "figure7":
        return f"the paper, all four: hybrid's energy is {published.ENERGY_OVER_HYBRID} times CoSA's; others drawn"
    over_random, over_hybrid = published.LATENCY[machine]
    drawn = f"hybrid {over_random / over_hybrid:.2f}"
    return f"the paper, all four: cosa {over_random}, {drawn}; CoSA over hybrid {over_hybrid}"


def table_six(workloads: Sequence[str], seconds: float, step: int) -> list[Bar]:
    """Print seconds of a layer, by method, on the baseline machine."""
    accelerator = load_accelerator(published.BASELINE)
    asked = Compared((published.BASELINE,), workloads, (LATENCY,), RIVALS, seconds, step)
    rows = [row_of(workload, accelerator, LATENCY, asked) for workload in workloads]
    every = row_of_all(rows)
    print(f"\ntable VI, seconds a layer, at most {seconds:.0f}; {len(every.layers)} layers; the paper's beside ours")
    for method in (COSA, RANDOM, HYBRID, EXACT):
        print(f"  {method:7} {_seconds(every, method):8.3f}   {published.SECONDS.get(method, '')}")
    return _bars(published.BASELINE, every)


@dataclass(frozen=True, slots=True)
class Terms:
    """CoSA's objective of a mapping, and what the cost model says of it; terms are None where CoSA has none."""

    method: str
    terms: CosaObjective | None
    why_not: str
    cycles: float
    energy_pj: float
    seconds: float


def figure_eight(seconds: float) -> list[Terms]:
    """Print CoSA's objective of 3_7_512_512_1 by its terms: how large each is, in bits, for each method's mapping."""
    problem = LayerProblem(layer_table("resnet50")[ONE_LAYER], load_accelerator(published.BASELINE))
    found = list(_terms(problem, seconds))
    print(f"\nfigure 8, 3_7_512_512_1 on {published.BASELINE}: CoSA's terms in bits, their weighted sum, what it costs")
    print(f"{'':8} {'utilisation':>12} {'compute':>9} {'traffic':>9} {'total':>9} {'cycles':>12} {'uJ':>9} {'s':>7}")
    for one in found:
        each = one.terms
        told = f"{'-':>12} {'-':>9} {'-':>9} {'-':>9}"
        if each is not None:
            told = f"{each.utilisation:12.2f} {each.compute:9.2f} {each.traffic:9.2f} {each.total:9.2f}"
        print(f"{one.method:8} {told} {one.cycles:12,.0f} {one.energy_pj / 1e6:9.1f} {one.seconds:7.2f}  {one.why_not}")
    by_method = {one.method: one for one in found}
    if {COSA, HYBRID, RANDOM} <= by_method.keys():
        over = [by_method[other].cycles / by_method[COSA].cycles for other in (RANDOM, HYBRID)]
        paper = published.LATENCY_OF_ONE_LAYER
        print(f"CoSA over random {over[0]:.2f}, over hybrid {over[1]:.2f} (the paper: {paper:.0f} over both)")
    return found


def _terms(problem: LayerProblem, seconds: float) -> Iterator[Terms]:
    for method in (COSA, HYBRID, RANDOM, EXACT):
        watch = Stopwatch()
        mapping = METHODS[method](problem, LATENCY, Run(Limits(time_limit_seconds=seconds))).answer
        took = watch.seconds
        if mapping is None:
            continue
        cost = layer_cost(problem, mapping)
        terms, why_not = None, ""
        try:
            terms = cosa_objective(problem.layer, problem.accelerator, mapping, must_fit=False)
        except MappingError as error:
            why_not = str(error)
        yield Terms(method, terms, why_not, cost.cycles, cost.energy_pj, took)
