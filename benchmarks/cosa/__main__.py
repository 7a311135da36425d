"""CoSA's figures and tables, its formulation on its workloads, and `exact` next to it.

    PYTHONPATH=benchmarks python -m cosa formulation|compare|figure3|figure4|figure6|figure7|figure8|figure9|table6 ...
        [--machines M ...] [--workloads W ...] [--objectives O ...] [--methods M ...] [--seconds S] [--step N]
        [--solver S] [--processor] [--results FILE.json]

`formulation`: seconds of the program, and how many of its optima fit under the cost model here. `compare`: geometric
means of the values of other methods divided by those of `exact`; the command ends with 1 if a rival beats a proof
inside the proof's mapspace. `figure3`, `figure4`: one layer each, on the network on a chip; the paper states the
layers, orders and spatial factors, and the temporal factors within a PE fill its buffers here. Others: gains over
random search on every N-th layer, with the paper's figures (`cosa/published.py`).
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import permutations, product
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, geometric_mean
from time import perf_counter
from typing import Final, NamedTuple

from cosa import published
from cosa.network import NetworkTimes
from cosa.reading import cosa_objective
from shared.runner import Row, asked_of, options_of, report

from onchip.answer.layer_mapping import LayerMapping, Loop, MappingError, even
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.memory import Operand
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.formats.own.graph_json import layer_table, layer_tables
from onchip.ir.layer import RELEVANT, Layer
from onchip.mapping.cosa.cosa import VALUE_PER_BIT, solve_as_cosa
from onchip.mapping.methods.registry import METHODS
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Limits, MipSolver, Run
from onchip.verify.mapping import verify_mapping

ALL_WORKLOADS: Final = ("resnet50", "resnext50", "resnext50-cosa", "deepbench", *published.WORKLOADS[2:])
MACHINES: Final = ("simba-cosa", "simba", "simba-64-pes", "simba-large-buffers")
EXACT, COSA, RANDOM = "exact", "cosa", "random"
RIVALS: Final = (COSA, "hybrid", RANDOM)
LATENCY, ENERGY = MappingObjective.LATENCY, MappingObjective.ENERGY
FIGURES: Final = {
    "figure6": ((published.BASELINE,), LATENCY),
    "figure7": ((published.BASELINE,), ENERGY),
    "figure9": (("simba-64-pes", "simba-large-buffers"), LATENCY),
    "table6": ((published.BASELINE,), LATENCY),
}
"""Machines and objective of each figure of gains over random search."""
ONE_LAYER: Final = "_outputs_input.138"
"""3_7_512_512_1 of ResNet-50, the layer of figure 8."""
OPTIMA: Final = Path(__file__).parents[2] / "tests" / "data" / "cosa" / "optima.json"
ROUNDING: Final = 1 + 1e-9
ROUNDS, ELEMENTS = 4096, 16
"""Rounds simulated, and processing elements, of figures 3 and 4."""


class Found(NamedTuple):
    """The mapping of one layer by one method; `value` is infinite without a mapping that the cost model accepts."""

    value: float
    seconds: float
    is_proven: bool
    is_even: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """The results of each method by layer, for one workload or all of them."""

    name: str
    layers: Mapping[str, Mapping[str, Found]]

    def ratio(self, rival: str, method: str) -> float | None:
        """Return the geometric mean of rival / method over layers with mappings by both; None if there are none."""
        both = [(one[rival].value, one[method].value) for one in self.layers.values()]
        ratios = [theirs / ours for theirs, ours in both if isfinite(theirs) and isfinite(ours)]
        return geometric_mean(ratios) if ratios else None

    def seconds(self, method: str) -> float:
        """Return the mean seconds of a method per layer."""
        return fmean(found[method].seconds for found in self.layers.values())

    def contradictions(self) -> list[str]:
        """Return the layers for which a rival has a better even mapping than a proof of `exact`."""
        return [
            f"{rival} {name}"
            for name, found in self.layers.items()
            for rival, one in found.items()
            if found[EXACT].is_proven and one.is_even and one.value * ROUNDING < found[EXACT].value
        ]


def workloads(asked: Namespace, machine: str, objective: MappingObjective) -> list[Workload]:
    """Return the results on each workload, and on all of them together."""
    found = []
    for workload in asked.workloads:
        layers = list(layer_table(workload).items())[:: asked.step]
        methods = (EXACT, *asked.methods)
        by_layer = {
            name: {method: _found(method, layer, machine, objective, asked.seconds) for method in methods}
            for name, layer in layers
        }
        found.append(Workload(workload, by_layer))
    every = {f"{one.name} {name}": each for one in found for name, each in one.layers.items()}
    return [*found, Workload("all", every)]


def _found(method: str, layer: Layer, machine: str, objective: MappingObjective, seconds: float) -> Found:
    problem, started = LayerProblem(layer, load_accelerator(machine)), perf_counter()
    result = METHODS[method].solve(problem, objective, Run(Limits(time_limit_seconds=seconds)))
    took, value = perf_counter() - started, inf
    if result.answer is None:
        return Found(value, took, is_proven=False, is_even=True)
    try:
        cost = layer_cost(problem, result.answer)
        value = objective.of(cost.energy_pj, cost.cycles)
    except InputError:  # the cost model counts halos and partial sums, CoSA does not
        pass
    is_proven = method == EXACT and result.status is Status.OPTIMAL
    return Found(value, took, is_proven, _is_even(layer, result.answer))


def _is_even(layer: Layer, mapping: LayerMapping) -> bool:
    """Return True if every memory cuts its operands at the same loops, apart from irrelevant loops right above."""
    kept = [(one, operand) for operand in layer.operands for one in mapping.kept(operand)]
    for one, operand in kept:
        least = min(other.loops for other, _ in kept if other.memory == one.memory)
        if any(loop.size > 1 and loop.dimension in RELEVANT[operand] for loop in mapping.nest[least : one.loops]):
            return False
    return True


def compare(asked: Namespace) -> Iterator[Row]:
    """Yield the ratios of each workload on each machine by each objective."""
    for machine in asked.machines:
        for objective in asked.objectives:
            for one in workloads(asked, machine, objective):
                ratios = {f"{rival}/{EXACT}": one.ratio(rival, EXACT) for rival in asked.methods}
                if COSA in asked.methods:
                    others = [rival for rival in asked.methods if rival != COSA]
                    ratios |= {f"{rival}/{COSA}": one.ratio(rival, COSA) for rival in others}
                proven = sum(found[EXACT].is_proven for found in one.layers.values())
                counts = {"layers": len(one.layers), "proven": proven, "contradictions": one.contradictions()}
                seconds = {f"{method} seconds": one.seconds(method) for method in (EXACT, *asked.methods)}
                yield (
                    {"machine": machine, "objective": str(objective), "workload": one.name} | ratios | counts | seconds
                )


def figure(name: str, asked: Namespace) -> Iterator[Row]:
    """Yield the gain of each method over random search by workload, and its seconds a layer."""
    machines, objective = FIGURES[name]
    for machine in machines:
        for one in workloads(asked, machine, objective):
            for method in (COSA, "hybrid", EXACT, RANDOM):
                times = one.ratio(RANDOM, method)
                counts = {"layers": len(one.layers), "mean_seconds": one.seconds(method)}
                yield {"machine": machine, "workload": one.name, "method": method, "times": times} | counts


def figure_eight(asked: Namespace) -> Iterator[Row]:
    """Yield CoSA's objective of one layer by its terms in bits, for the mapping of each method."""
    problem = LayerProblem(layer_table("resnet50")[ONE_LAYER], load_accelerator(published.BASELINE))
    for method in (COSA, "hybrid", RANDOM, EXACT):
        started = perf_counter()
        mapping = METHODS[method](problem, LATENCY, Run(Limits(time_limit_seconds=asked.seconds))).answer
        if mapping is None:
            continue
        seconds, cost = perf_counter() - started, layer_cost(problem, mapping)
        try:
            terms = asdict(cosa_objective(problem.layer, problem.accelerator, mapping, must_fit=False))
        except MappingError as error:
            terms = {"why_not": str(error)}
        yield {"method": method, "cycles": cost.cycles, "energy_pj": cost.energy_pj, "seconds": seconds, "terms": terms}


def formulation(asked: Namespace) -> Iterator[Row]:
    """Yield the seconds of CoSA's program on each machine and workload, and how many of its mappings fit here.

    `above_reference` is the range of differences from the reference optima.
    """
    optima = {name: one["objective"] for name, one in json.loads(OPTIMA.read_text())["optima"].items()}
    solve_as_cosa(LayerProblem(Layer(k=2), load_accelerator("simba-cosa")), Run(Limits(solver=asked.solver)))
    for machine, workload in product(MACHINES, ALL_WORKLOADS):
        reference = optima if (machine, workload) == ("simba-cosa", "resnet50") else {}
        seconds, differences, optimal, fit = list[float](), list[float](), 0, 0
        for name, layer in layer_table(workload).items():
            problem, started = LayerProblem(layer, load_accelerator(machine)), perf_counter()
            result = solve_as_cosa(problem, Run(Limits(solver=asked.solver, time_limit_seconds=60)))
            seconds.append(perf_counter() - started)
            optimal += result.status is Status.OPTIMAL
            if name in reference and result.objective_value is not None:
                differences.append(result.objective_value / VALUE_PER_BIT - reference[name])
            fit += result.answer is not None and not list(verify_mapping(problem, result.answer))
        counts = {"layers": len(seconds), "optimal": optimal, "fit": fit}
        times = {"mean_seconds": fmean(seconds), "most_seconds": max(seconds)}
        above = (min(differences), max(differences)) if differences else None
        yield {"machine": machine, "workload": workload} | counts | times | {"above_reference": above}


def orders(_: Namespace) -> list[Row]:
    """Return the cycles of six orders of the loops of P, C and K at the global buffer, named from the outermost."""
    outer = {"P": 4, "C": 4, "K": 2}
    own = [Loop(*one) for one in (("P", 2), ("Q", 8), ("R", 3), ("S", 3), ("K", 2))]
    layer = Layer(k=1024, c=32, p=8, q=8, r=3, s=3)
    cycles = {}
    for order in permutations("PCK"):
        at_buffer = [Loop("K", 16, "pe"), *(Loop(loop, outer[loop]) for loop in reversed(order))]
        cycles["".join(order)] = _cycles(layer, own, at_buffer, [Loop("K", 2)])
    return _slowest_first(cycles)


def elements(_: Namespace) -> list[Row]:
    """Return the cycles of the spatial splits of P, C and K of 4 each over 16 elements; the rest runs in sequence."""
    own = [Loop(*one) for one in (("P", 4), ("Q", 16), ("C", 8), ("K", 4))]
    cycles = {}
    for beside in product((1, 2, 4), repeat=3):
        sizes = dict(zip("PCK", beside, strict=True))
        if sizes["P"] * sizes["C"] * sizes["K"] == ELEMENTS:
            left = {loop: 4 // size for loop, size in sizes.items()}
            at_buffer = [Loop(loop, size, "pe") for loop, size in sizes.items()]
            outside = [*(Loop(loop, left[loop]) for loop in "CPK"), Loop("K", 8)]
            name = f"s:{_text(sizes)}, t:{_text(left)}"
            cycles[name] = _cycles(Layer(k=1024, c=256, p=16, q=16), own, at_buffer, outside)
    return _slowest_first(cycles)


def _slowest_first(cycles: Mapping[str, float]) -> list[Row]:
    return [{"name": name, "cycles": cycles[name]} for name in sorted(cycles, key=lambda one: -cycles[one])]


def _text(sizes: Mapping[str, int]) -> str:
    return "".join(f"{loop}{size}" for loop, size in sizes.items() if size > 1)


def _cycles(layer: Layer, own: list[Loop], at_buffer: list[Loop], outside: list[Loop]) -> float:
    """Return the cycles by the authors' count; raises ValueError for a mapping that does not fit.

    Channels fill an element's lanes; all of its loops but the last add up sums that stay.
    """
    problem = LayerProblem(layer, load_accelerator("simba"))
    names = [level.memory.name for level in problem.levels]
    holders = {str(one): [level.memory.name for level in problem.keepers(one)] for one in Operand}
    parts: dict[str, list[Loop]] = {name: [] for name in names}
    parts["accumulation_buffer"] = [Loop("K", 8, "vector"), Loop("C", 8, "lane"), *own[:-1]]
    parts["weight_buffer"], parts["global_buffer"] = own[-1:], at_buffer
    mapping = even([(name, parts[name]) for name in names], holders, outside)
    if wrong := list(verify_mapping(problem, mapping)):
        raise ValueError(f"{mapping}: {wrong[0]}")
    return NetworkTimes(problem, ROUNDS, has_refills=False).cycles(mapping)


TABLES: Final[Mapping[str, Callable[[Namespace], Iterator[Row] | Sequence[Row]]]] = {
    "formulation": formulation,
    "compare": compare,
    "figure3": orders,
    "figure4": elements,
    "figure8": figure_eight,
    **{name: partial(figure, name) for name in FIGURES},
}


def main() -> int:
    """Print the tables; return 1 if a mapping contradicts a proof."""
    parser = options_of(__doc__)
    parser.add_argument("tables", nargs="+", choices=TABLES, metavar="TABLE")
    objectives = tuple(MappingObjective)
    others = [name for name in METHODS if name != EXACT]
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=tuple(published.LATENCY))
    parser.add_argument("--workloads", nargs="+", choices=layer_tables(), default=published.WORKLOADS)
    parser.add_argument("--objectives", nargs="+", type=MappingObjective, choices=objectives, default=objectives)
    parser.add_argument("--methods", nargs="+", choices=others, default=RIVALS)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each layer and method")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="use every N-th layer of a workload")
    parser.add_argument("--solver", type=MipSolver, choices=list(MipSolver), default=MipSolver.CP_SAT)
    asked = asked_of(parser)
    for method in (EXACT, *asked.methods):
        METHODS[method](LayerProblem(Layer(k=4, c=4, p=2), load_accelerator("simba")), MappingObjective.EDP, Run())
    found = report(asked, {table: partial(TABLES[table], asked) for table in asked.tables})
    return int(any(row["contradictions"] for row in found.get("compare", ())))


if __name__ == "__main__":
    raise SystemExit(main())
